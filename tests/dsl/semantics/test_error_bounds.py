"""Bounds near what is infinite or no number, of integers computed of floats, and of what overflows; never NaN."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference

INF = np.inf


def bounds(body: str, *arrays: np.ndarray, heads: str = "X: f32[M, K], W: f32[K, N]", out: str = "f32[M, N]"):
    text = f"op f[M, N, K]({heads}) -> (Y: {out}):\n" + "".join(f"    {x}\n" for x in body.split("\n"))
    return reference(loads(text).ops["f"], exact=True)(*arrays)


def f32(*rows) -> np.ndarray:
    return np.array(rows, np.float32)


PRODUCT = "Y[i, j] = sum(k) X[i, k] * W[k, j]"


def test_infinite_terms_are_determined() -> None:
    value, bound = bounds(PRODUCT, f32([INF, 1], [INF, -INF], [0, 2]), f32([1], [3]))
    assert np.array_equal(value[:, 0], [INF, np.nan, 6], equal_nan=True)
    assert (bound[:2] == 0).all()
    assert 0 < bound[2, 0] < 1e-5


def test_an_infinite_term_of_a_factor_that_may_be_0_is_not() -> None:
    """The product is infinite or NaN: the factor is a difference of roundings."""
    x, w = f32([1.1, 1], [9, 1]), f32([INF], [3])
    value, bound = bounds("s[i, k] = X[i, k] * 0.3 - 0.33\nY[i, j] = sum(k) s[i, k] * W[k, j]", x, w)
    assert bound[0, 0] == INF
    assert value[1, 0] == INF
    assert bound[1, 0] == 0


def test_what_reads_infinite_sums_has_a_bound() -> None:
    body = "s[i, k] = sum(j) X[i, j] * W[j, k]\nm[i] = min(k) s[i, k]\nY[i, k] = exp(m[i] - s[i, k])"
    heads, x = "X: f32[M, N], W: f32[N, K]", f32([1, 1], [1, 2])
    value, bound = bounds(body, x, f32([INF, 1, 2], [1, 1, 3]), heads=heads, out="f32[M, K]")
    assert not np.isnan(bound).any()
    assert (value[:, 0] == 0).all()
    assert (bound[:, 1:] < 1e-5).all()


@pytest.mark.parametrize(
    ("value", "x", "undetermined"),
    [
        ("sum(k) X[i, k]", 2e38, True),  # partial sums overflow
        ("sum(k) X[i, k]", 1e38, False),
        ("prod(k) X[i, k]", 1e30, True),
        ("1 / (1 + exp(X[i, 0]))", 90, True),  # 0, where f32 has no exponential of it
        ("1 / (1 + exp(X[i, 0]))", 88, False),
        ("f32(f16(X[i, 0] * 1.1))", 65520 / 1.1, True),  # the largest f16, or infinite
        ("f32(f16(X[i, 0] * 1.1))", 59500, False),
        ("f32(f8e4m3(X[i, 0] * 1.1))", 1e6, False),  # it saturates
        ("f32(i8(i32(round(X[i, 0] * 0.1))))", 1275, True),  # 127, or 128, which wraps
        ("f32(i8(i32(round(X[i, 0] * 0.1))))", 1255, False),
        ("f32(i32(round(X[i, 0] * 0.1)) % 100)", 15, False),
    ],
)
def test_what_may_overflow(value: str, x: float, undetermined: bool) -> None:
    op = loads(f"op f[N](X: f32[N, 2]) -> (Y: f32[N]):\n    Y[i] = {value}\n").ops["f"]
    _, bound = reference(op, exact=True)(f32([x, -x]))
    assert np.isinf(bound).all() == undetermined


@pytest.mark.parametrize(
    ("value", "others"),  # the other results that a tie allows
    [
        ("sum(k) q[i, k] * (k + 3)", (11, 13)),
        ("prod(k) q[i, k] * (k + 3)", (24, 36)),
        ("q[i, 0] % 5", (1, 2)),
        ("q[i, 0] / 2", (0, 1)),
        ("i8(q[i, 0] * 3)", (3, 6)),
        ("max(k) q[i, k] * (k + 1)", (4,)),
    ],
)
def test_integers_that_are_computed_of_roundings_have_bounds(value: str, others: tuple[int, ...]) -> None:
    """1.5 is rounded to 1 or to 2, as its last place is; 1.6 is not."""
    text = f"op f[N](X: f32[N, 2]) -> (Y: i64[N]):\n    q[i, k] = i32(round(X[i, k] * 0.1))\n    Y[i] = {value}\n"
    of = reference(loads(text).ops["f"], exact=True)
    got, bound = of(f32([15, 20]))
    assert all(abs(got.item() - x) <= bound.item() < 30 for x in others)
    assert of(f32([16, 20]))[1].item() == 0
