"""Integers wrap on GPUs too, whose compilers take it that signed ones do not overflow. The fake GPU is compiled like that."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ...support.gpu import fake_gpu
from ...support.gpu.fake_gpu import on

pytestmark = pytest.mark.skipif(fake_gpu.CXX is None, reason="no g++")

VALUES = {
    "where({a} + 1 > {a}, 1, 0)": lambda a, one: np.where(a + one > a, 1, 0),
    "where({a} - 1 < {a}, 1, 0)": lambda a, one: np.where(a - one < a, 1, 0),
    "{a} * 2 / 2": lambda a, one: (a * (one + one)) // (one + one),
    "where(-{a} <= 0, 1, where({a} >= 0, 2, 3))": lambda a, one: np.where(-a <= 0, 1, np.where(a >= 0, 2, 3)),
    "where(abs({a}) >= 0, 1, 0)": lambda a, one: np.where(np.abs(a) >= 0, 1, 0),
    "{a} / -1": lambda a, one: -a,
}


@pytest.mark.every_second
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_arithmetic(gpu, dtype: type[np.signedinteger], value: str) -> None:
    name = f"i{np.dtype(dtype).itemsize * 8}"
    text = f"op f[M](A: {name}[M]) -> (Y: {name}[M]):\n    Y[m] = {value.format(a='A[m]')}\n"
    end = np.iinfo(dtype)
    a = np.array([5, end.max, end.min, -1, 0, end.max // 2 + 1, end.min + 1], dtype)
    with np.errstate(over="ignore"):
        want = VALUES[value](a, dtype(1)).astype(dtype)
    (x,) = on(a)
    np.testing.assert_array_equal(andiron.compile(text, target="cuda:sm_80")(x).host, want)


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_reductions_over_lanes(gpu, kind: str) -> None:
    text = f"op f[M, N](A: i32[M, N]) -> (Y: i32[M]):\n    Y[m] = {kind}(n) A[m, n]\n"
    text += "schedule s for f:\n    tile m: 1 -> block\n    keep Y in register by shuffle\n    tile n: 32\n"
    text += "    tile n: 1 -> thread\n    compute\n"
    a = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 70)).astype(np.int32)
    (x,) = on(a)
    kernel = andiron.compile(text, schedule="s", target="cuda:sm_80")
    assert f"m_{'add' if kind == 'sum' else 'mul'}(" in kernel.source
    np.testing.assert_array_equal(kernel(x).host, getattr(a, kind)(1, dtype=np.int32))


def test_a_literal_is_as_wide_as_what_it_is_added_to(gpu) -> None:
    """Where both widths are added in one text, the functions are overloads."""
    text = "op f[M](A: i64[M], B: i32[M]) -> (Y: i64[M], Z: i32[M]):\n"
    text += "    Y[m] = A[m] * 65536 + 1\n    Z[m] = B[m] * 3 - 7\n"
    a, b = np.array([2**40, -5, 2**62], np.int64), np.array([2**30, -5, 7], np.int32)
    y, z = andiron.compile(text, target="cuda:sm_80")(*on(a, b))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y.host, a * 65536 + 1)
        np.testing.assert_array_equal(z.host, b * np.int32(3) - np.int32(7))
