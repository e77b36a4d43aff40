"""Domains: what a reduction goes over, and what an access with `else` is outside."""

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference

X, W = np.arange(1.0, 6, dtype=np.float32), np.arange(1.0, 5, dtype=np.float32)
I, J = np.ogrid[:4, :5]
BAND = (J <= I) & (J > I - 2)
PAIRS = W[:, None] * X[None, :]
A = "a[i, j] where j <= i, j > i - 2 = W[i] * X[j]"
CASES = {
    "a reduction of what has a domain": ([A, "Y[i] = sum(j) a[i, j]"], np.where(BAND, PAIRS, 0).sum(1)),
    "of what is computed of it": ([A, "b[i, j] = a[i, j] + 1", "Y[i] = sum(j) b[i, j]"], np.where(BAND, PAIRS + 1, 0).sum(1)),
    "of two of them": ([A, "c[i, j] where j >= i = X[j]", "Y[i] = sum(j) a[i, j] * c[i, j]"],
        np.where(BAND & (J >= I), PAIRS * X, 0).sum(1)),
    "of a part of it": ([A, "Y[i] = max(j where j < 2) a[i, j]"], np.where(BAND & (J < 2), PAIRS, -np.inf).max(1)),
    "of its elements in another order": ([A, "Y[i] = sum(j) a[i, N - 1 - j] * X[j]"],
        np.where(BAND[:, ::-1], PAIRS[:, ::-1] * X, 0).sum(1)),
    "by a condition that is the same for all values of an index": ([A, "Y[i] = sum(j where 2*j % 2 <= 0) a[i, j]"],
        np.where(BAND, PAIRS, 0).sum(1)),
    "with a value outside": ([A, "Y[i] = sum(j) a[i, j else -1]"], np.where(BAND, PAIRS, -1).sum(1)),
}  # fmt: skip


def run(statements, x=X, w=W):
    lines = "".join(f"    {s}\n" for s in statements)
    op = loads(f"op f[M, N](X: f32[N], W: f32[M]) -> (Y: f32[M]):\n{lines}").ops["f"]
    return reference(op)(x, w), reference(op, exact=True)(x, w)


@pytest.mark.parametrize("name", CASES)
def test_meaning(name):
    got, (exact, bound) = run(CASES[name][0])
    np.testing.assert_array_equal(got, CASES[name][1].astype(np.float32))
    assert (np.abs(exact[np.isfinite(exact)] - got[np.isfinite(exact)]) <= bound[np.isfinite(exact)]).all()


def test_what_is_outside_is_no_term():
    """Whatever it would be; a factor that is zero is one."""
    x = X.copy()
    x[4] = np.nan
    inside, _ = run(["Y[i] = W[i] * (sum(j where j <= i) X[j])"], x)
    np.testing.assert_array_equal(inside, W * np.cumsum(X)[:4])
    product, _ = run(["Y[i] = sum(j) where(j <= i, W[i], 0) * X[j]"], x)
    assert np.isnan(product).all()


def test_nothing_inside_is_the_neutral_value():
    got, _ = run(["Y[i] = max(j where j > i + 100) W[i] * X[j]"])
    assert (got == -np.inf).all()
