"""Arguments that are no arrays: numbers of Python's as scalars."""

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentType


@pytest.mark.parametrize(
    ("dtype", "held", "refused"),
    [
        ("f32", [1, 1.5, float("inf"), float("nan"), 2**24 + 1, True], [1e300, -1e39, 10**400]),
        ("f16", [65519.9], [65520]),
        ("i32", [-(2**31), 2.0], [2**31, 1.5, float("nan"), float("inf")]),
        ("u8", [255], [256, -1]),
        ("bool", [True, 0, 1.0], [5, 0.5]),
    ],
)
def test_numbers_of_python_that_a_scalar_cannot_hold_are_refused(dtype, held, refused, recwarn):
    value = "a and X[i]" if dtype == "bool" else "a * X[i]"
    k = andiron.compile(f"op f[N](X: {dtype}[N], a: {dtype}) -> (Y: {dtype}[N]):\n    Y[i] = {value}\n", target="cpu:generic")
    one = np.ones(3, k.op.inputs[0].dtype.numpy)
    for number in held:
        np.testing.assert_array_equal(k(one, number), np.full(3, number).astype(one.dtype))
    for number in refused:
        with pytest.raises(ArgumentType, match=rf"a is .*, which {dtype} cannot hold; expected a: {dtype}\[\]"):
            k(one, number)
    assert not recwarn.list
