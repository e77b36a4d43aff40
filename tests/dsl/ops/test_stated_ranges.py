"""Ranges on the left side: what they mean, what they must agree with, and what they may be made of."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics.reference import reference

HEAD = "op f[N, H](X: f32[N, H], step: int = 2) -> (Y: f32[N, H]):\n"
READ = "Y[n, q] = X[n, q] + D[n, q + 1 else 0]"
SHIFTED = "X[n, p + 1 else 0]"


def op(*statements: str, head: str = HEAD):
    return loads(head + "".join(f"    {s}\n" for s in statements)).ops["f"]


def refused(*statements: str) -> UserError:
    with pytest.raises(UserError) as caught:
        op(*statements)
    return caught.value


def marked(error: UserError) -> str:
    """What the caret is under."""
    assert error.span is not None
    return error.span.text


CONV = """op f[C, H, W, O, P](X: f32[C, H, W], A: f32[O, C, 3, 3], B: f32[P, O, 3, 3]) -> (Y: f32[P, H, W]):
"""


def conv(x: np.ndarray, f: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    out = np.zeros((f.shape[0], *x.shape[1:]))
    for r, s in np.ndindex(3, 3):
        out += np.einsum("chw,oc->ohw", padded[:, r : r + x.shape[1], s : s + x.shape[2]], f[:, :, r, s])
    return out


@pytest.mark.parametrize("sizes", [(3, 5, 7, 2, 4), (1, 1, 1, 1, 1), (2, 0, 3, 2, 1), (2, 3, 1, 0, 3), (0, 3, 4, 2, 1)])
def test_two_convolutions(sizes):
    c, h, w, o, p = sizes
    f = op(
        "D[o, p: H, q: W] = sum(c, r, s) X[c, p + r - 1, q + s - 1 else 0] * A[o, c, r, s]",
        "Y[o, p, q] = sum(c, r, s) D[c, p + r - 1, q + s - 1 else 0] * B[o, c, r, s]",
        head=CONV,
    )
    assert [str(e) for e in f.tensor("D").shape] == ["O", "H", "W"]
    rng = np.random.default_rng(1)
    x, a, b = (rng.normal(size=s).astype(np.float32) for s in ((c, h, w), (o, c, 3, 3), (p, o, 3, 3)))
    expected = conv(conv(x.astype(float), a), b)
    np.testing.assert_allclose(reference(f)(x, a, b), expected, rtol=1e-5, atol=1e-5)
    exact, bound = reference(f, exact=True)(x, a, b)
    assert (np.abs(exact - expected) <= bound).all()


@pytest.mark.parametrize(
    ("written", "shape", "numbers"),
    [
        ("H", "H", 5),
        ("H + 3", "H + 3", 8),
        ("2*H - 1,", "2*H - 1", 9),
        ("(H + 2 - 3) / step + 1", "(H - 1)/step + 1", 3),
        ("min(H, 3)", "min(3, H)", 3),
        ("4", "4", 4),
        ("0", "0", 0),
    ],
)
def test_a_range_is_made_of_sizes(written, shape, numbers):
    f = op(f"D[n, p: {written}] = {SHIFTED}", READ)
    assert str(f.tensor("D").shape[1]) == shape
    assert str(loads(f"{f}\n").ops["f"]) == str(f)  # it prints as what it is
    assert loads(f"{f}\n").ops["f"] == f
    assert specialise(bind_params(f), {"N": 2, "H": 5}).tensor("D").shape[1].constant == numbers
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    d = np.zeros((2, 20), np.float32)
    d[:, : min(numbers, 4)] = x[:, 1 : min(numbers, 4) + 1]
    expected = x.copy()
    expected += np.where(np.arange(1, 6) < numbers, d[:, 1:6], 0)
    np.testing.assert_array_equal(reference(f)(x), expected)


def test_a_range_beside_a_domain():
    f = op("D[n, p: H] where p <= n = X[n, p + 1 else 0]", "Y[n, q] = D[n, q - 1 else -1]")
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(reference(f)(x), [[-1, 1, -1, -1, -1], [-1, 6, 7, -1, -1]])


def test_a_range_may_be_written_though_it_is_known():
    assert op(f"D[n: N, p: H] = {SHIFTED}", READ).tensor("D").shape == op(f"D[n, p: H] = {SHIFTED}", READ).tensor("D").shape
    op(f"Y[n: N, p: H] = {SHIFTED}")
    op("E[p: H] = 1.5", "Y[n, p] = X[n, p] * E[p]")


@pytest.mark.parametrize(
    ("statement", "id", "at"),
    [
        (f"D[n, p: G] = {SHIFTED}", "unknown-name", "G"),
        (f"D[n, p: n] = {SHIFTED}", "unknown-name", "n"),
        (f"D[n, p: p] = {SHIFTED}", "unknown-name", "p"),
        (f"D[n, p: 1 - 4] = {SHIFTED}", "bad-size", "1 - 4"),
        (f"D[n, p: -H - 1] = {SHIFTED}", "bad-size", "-H - 1"),
        (f"D[n, p: 2.5] = {SHIFTED}", "float-subscript", "2.5"),
        (f"D[n, p: H / 0] = {SHIFTED}", "not-affine", "0"),
        (f"D[n, p: H: H] = {SHIFTED}", "misplaced-range", ":"),
        (f"D[n, 0: H] = {SHIFTED}", "misplaced-range", ":"),
        (f"D[n, p in H] = {SHIFTED}", "range-by-in", "in"),
        (f"D[n, p:] = {SHIFTED}", "missing-value", "]"),
        ("D[n, p: N] = X[n, p]", "inconsistent-range", "p"),
        ("D[n, p: H + 1] = X[n, p]", "inconsistent-range", "p"),
        ("D[n: N, p: H, n: N] = X[n, p]", "duplicate-index", "n"),
        ("D[n, p] = X[n: N, p]", "misplaced-range", ":"),
        ("D[n, p] = sum(h: p) X[n, h]", "unknown-name", "p"),
        ("D[n, p: H else 0] = X[n, p]", "target-subscript", "0"),
        (f"D[n, p] = {SHIFTED}", "ambiguous-range", "p"),
    ],
)
def test_refused(statement, id, at):
    error = refused(statement, "Y[n, q] = D[n, q + 1 else 0]")
    errors = error.errors if isinstance(error, UserErrors) else (error,)
    assert (errors[0].id, marked(errors[0])) == (id, at)


def test_an_output_has_its_declared_range():
    error = refused(f"Y[n, p: H - 1] = {SHIFTED}")
    assert (error.id, marked(error)) == ("inconsistent-range", "H - 1")
    assert [label.span.text for label in error.labels] == ["Y: f32[N, H]"]


def test_a_range_that_sizes_make_negative_is_refused_at_the_call():
    f = op(f"D[n, p: H - 3] = {SHIFTED}", READ)
    with pytest.raises(UserError, match="the range of `p` in `D`") as caught:
        specialise(bind_params(f), {"N": 2, "H": 2})
    assert caught.value.id == "condition-failed"
    with pytest.raises(UserError) as caught:
        reference(f)(np.zeros((2, 2), np.float32))
    assert caught.value.id == "condition-failed"
    reference(f)(np.zeros((2, 3), np.float32))


def test_all_mistakes_of_a_statement_are_told():
    error = refused("D[n, p: G, q: -1] = X[n, p + q else 0]", "Y[n, q] = D[n, q + 1, 0 else 0]")
    assert isinstance(error, UserErrors)
    assert [e.id for e in error.errors] == ["unknown-name", "bad-size"]


@pytest.mark.parametrize("otherwise", ["i", "N - i", "max(i, 3000000000)", "-N"])
def test_an_index_fits_where_indices_were_stored(otherwise):
    f = op("z[k: N] = k", f"a[i] = z[i - 2 else {otherwise}]", head="op f[N](X: f32[N]) -> (a: i64[N]):\n")
    got = reference(f)(np.zeros(5, np.float32))
    outside = [eval(otherwise, {"i": i, "N": 5, "max": max}) for i in (0, 1)]
    np.testing.assert_array_equal(got, [*outside, 0, 1, 2])
