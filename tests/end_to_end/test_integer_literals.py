"""Arithmetic of integer literals is exact, and that of small numbers in 64 bits does not overflow in the emitted language."""

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.op import LiteralRange
from andiron.dsl.module import loads

TARGETS = ("cpu:generic", "cpu:avx2", "emulate:sm_80", "emulate:gfx942")
X, K = np.arange(-2, 3).astype(np.float32), np.arange(5) - 2
I = np.arange(5)
OPS = {
    "a product": ("f32", "X[i] * (65536 * 65536)", X * 2.0**32),
    "a divisor": ("f32", "X[i] / (1024 * 1024 * 4096)", X / 2.0**32),
    "with a sign": ("f32", "X[i] + (0 - 2147483647 - 2)", X - 2147483649.0),
    "beside a size": ("f32", "X[i] + (65536 * 65536 + N)", X + 2.0**32 + 5),
    "beside an index": ("f32", "X[i] + i * (65536 * 65536)", X + I * 2.0**32),
    "beside a real": ("f32", "X[i] + 65536 * 65536 * 0.5", X + 2.0**31),
    "in a function": ("f32", "X[i] + sqrt(65536 * 65536)", X + 65536),
    "a remainder": ("f32", "X[i] + (65536 * 65536) % 7 + min(65536 * 65536, 5000000000) / -3", X + 4 - 1431655766.0),
    "divided by zero": ("f32", "X[i] + 5 / 0 + 5 % 0 + abs(0 - 2147483648)", X + 2.0**31),
    "in 64 bits": ("i64", "K[i] * (60 * 60 * 24 * 1000 * 1000) + (2147483647 * -4 - N)", K * 86400000000 - 8589934593),
    "converted": ("i64", "K[i] + i64(65536 * 65536) - i64(f64(65536 * 65536))", K),
    "a remainder beside one of 32 bits": ("i64", "K[i] * 0 + i64(i32(K[i]) % 3) * (N % 65536)", K % 3 * 5),
    "compared": ("i64", "where(65536 * 65536 > 5, K[i], 0)", K),
    "chosen": ("f32", "X[i] * (where(X[i] > 0, 65536, 3) * 65536)", X * np.where(X > 0, 2.0**32, 3 * 65536)),
    "chosen, then converted": ("i64", "i64(where(X[i] > 0, 65536, 1) * 65536)", np.where(X > 0, 1 << 32, 1 << 16)),
    "chosen, then compared": ("f32", "where(where(X[i] > 0, 65536, 1) * 65536 == 0, 1, 2)", np.full(5, 2.0)),
    "two that are chosen": (
        "i64",
        "K[i] + where(i > 1, 65536, -3) * (where(i < 3, 65536, 1) - 7)",
        K + np.where(I > 1, 65536, -3) * (np.where(I < 3, 65536, 1) - 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_right(target):
    outputs = ", ".join(f"y{n}: {dtype}[N]" for n, (dtype, _, _) in enumerate(OPS.values()))
    lines = "".join(f"    y{n}[i] = {text}\n" for n, (_, text, _) in enumerate(OPS.values()))
    kernel = andiron.compile(loads(f"op f[N](X: f32[N], K: i64[N]) -> ({outputs}):\n{lines}"), target=target, tune=0)
    for name, found, (_, _, expected) in zip(OPS, kernel(X, K), OPS.values(), strict=True):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("i32(K[i]) + 65536 * 65536", "`4294967296` does not fit i32"),
        ("K[i] + 4294967296 * 4294967296", "`18446744073709551616` does not fit i64"),
    ],
)
def test_a_literal_that_fits_no_type_is_refused(text, said):
    with pytest.raises(LiteralRange, match=said) as refused:
        loads(f"op f[N](K: i64[N]) -> (Y: i64[N]):\n    Y[i] = {text}\n")
    assert refused.value.help
