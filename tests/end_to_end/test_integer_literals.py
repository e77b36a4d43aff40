"""Arithmetic of integer literals is exact, and that of small numbers in 64 bits does not overflow in the emitted language."""

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.op import LiteralRange
from andiron.dsl.errors.text import NumberTooLarge
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
    "a reduction": ("i64", "K[i] + (max(j: 4) 65536) * 65536", K + 2**32),
    "a sum": ("i64", "K[i] + (sum(j: 4) 1073741824)", K + 2**32),
    "a sum of a choice": ("i64", "(sum(j: 4) where(X[i] > 0, 65536, 1)) * 65536", np.where(X > 0, 1 << 34, 1 << 18)),
    "the least": ("i64", "min(K[i], 7) + -9223372036854775808 + 9223372036854775807", K - 1),
    "the least, of a choice": ("i64", "where(K[i] > 0, - 9223372036854775808, K[i])", np.where(K > 0, -(2**63), K)),
}  # fmt: skip


def check_equal(text, target, given, expected):
    """The results of the kernel and of the reference, bit for bit."""
    for found in (andiron.compile(text, target=target)(*given), andiron.reference(loads(text).ops["f"])(*given)):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


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
        ("K[i] - 9223372036854775808", "`9223372036854775808` does not fit 64 bits"),
        ("K[i] * --9223372036854775808", "`9223372036854775808` does not fit i64"),
        ("K[i - 9223372036854775808 else 0]", "`9223372036854775808` does not fit 64 bits"),
        ("K[i] + -9223372036854775808 * 2", "`-18446744073709551616` does not fit i64"),
        ("K[i] + 4294967296 * 4294967296", "`18446744073709551616` does not fit i64"),
    ],
)
def test_a_literal_that_fits_no_type_is_refused(text, said):
    with pytest.raises(LiteralRange, match=said) as refused:
        loads(f"op f[N](K: i64[N]) -> (Y: i64[N]):\n    Y[i] = {text}\n")
    assert refused.value.help


@pytest.mark.parametrize("text", ["9223372036854775808", "-(9223372036854775808)", "-9223372036854775809"])
def test_the_least_integer_alone_needs_its_sign(text):
    with pytest.raises(NumberTooLarge, match="is too large"):
        loads(f"op f[N](K: i64[N]) -> (Y: i64[N]):\n    Y[i] = K[i] + {text}\n")


# ---------------------------------------------------------------- reductions: docs/numbers.md, "Literals"


@pytest.mark.parametrize("target", TARGETS[1:3])
def test_a_reduction_of_literals_has_64_bits(target):
    """As sizes and indices have; as an output of a narrower type it has that, also where it is empty."""
    text = (
        "op f[N](X: f32[N]) -> (Y: i64[N], Z: i32[N], E: i32[], W: f32[N]):\n"
        "    z = sum(j: 4) 65536\n    Y[i] = z * z\n    Z[i] = sum(j: 4) 1073741824\n    E = max(i: N - 5) 7\n"
        "    W[i] = X[i] * (sum(j: 4) 1073741824)\n"
    )
    assert str(loads(text).ops["f"].tensor("z").dtype) == "i64"
    check_equal(text, target, (X,), (np.full(5, 1 << 36), np.zeros(5), np.int32(-(2**31)), X * 2.0**32))


# ---------------------------------------------------------------- the `else` value of a read


@pytest.mark.parametrize("target", TARGETS[1:3])
def test_what_an_else_value_chooses_is_of_the_tensors_type(target):
    """1.00048828125091 is 1.0 if it is rounded to f32 before."""
    text = (
        "op f[N](H: f16[N], B: i8[N]) -> (Y: f32[N], Z: i32[N]):\n"
        "    Y[i] = H[i - 5 else where(i > 2, 1.00048828125091, min(0.1, 7.0))]\n"
        "    Z[i] = B[i - 5 else where(i > 2, -128, 127)]\n"
    )
    expected = np.where(I > 2, 1.0009765625, np.float16(0.1)), np.where(I > 2, -128, 127)
    check_equal(text, target, (X.astype(np.float16), K.astype(np.int8)), expected)


@pytest.mark.parametrize(
    ("dtype", "chosen", "said"),
    [
        ("i8", "where(i > 2, 300, 4)", "`300` does not fit i8"),
        ("i8", "where(i > 2, 4, where(i > 1, 5, -129))", "`-129` does not fit i8"),
        ("u8", "max(where(i > 2, 4, 256), 1)", "`256` does not fit u8"),
        ("f16", "where(i > 2, 0.1, 1.0e6)", "`1e+06` is too large for f16"),
    ],
)
def test_what_it_chooses_fits_that_type(dtype, chosen, said):
    with pytest.raises(LiteralRange) as refused:
        loads(f"op f[N](X: {dtype}[N]) -> (Y: {dtype}[N]):\n    Y[i] = X[i - 1 else {chosen}]\n")
    assert said in refused.value.message
    assert refused.value.help
