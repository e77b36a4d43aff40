"""Index expressions: simplification never changes a value; the forms that lowering relies on come out."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from andiron.dsl.index.expr import Expr, Fn, Var, as_expr, ceildiv, maximum, minimum, xor
from hypothesis import given, settings
from hypothesis import strategies as st

i, j, k = Var("i", 0, 7), Var("j", 0, 3), Var("k")
M, N = Var("M", 1), Var("N", 1)

BOX = {"a": (-5, 6), "b": (0, 7), "c": (0, 15), "d": (1, 4)}
VARS = {n: Var(n, lo, hi) for n, (lo, hi) in BOX.items()}
GRID = dict(zip(BOX, np.meshgrid(*(np.arange(lo, hi + 1) for lo, hi in BOX.values()), indexing="ij"), strict=True))


def tree(depth: int):
    """A strategy of (expression, its values over the whole box by plain NumPy)."""
    leaf = st.one_of(
        st.sampled_from(sorted(BOX)).map(lambda n: (as_expr(VARS[n]), GRID[n])),
        st.integers(-20, 20).map(lambda n: (as_expr(n), np.full(GRID["a"].shape, n))),
    )
    if depth == 0:
        return leaf
    sub = tree(depth - 1)
    divisor = st.sampled_from([1, 2, 3, 4, 6, 8, 16, -4])

    def binary(op, x, y):
        return {
            "+": lambda: (x[0] + y[0], x[1] + y[1]),
            "-": lambda: (x[0] - y[0], x[1] - y[1]),
            "min": lambda: (minimum(x[0], y[0]), np.minimum(x[1], y[1])),
            "max": lambda: (maximum(x[0], y[0]), np.maximum(x[1], y[1])),
            "xor": lambda: (xor(x[0], y[0]), x[1] ^ y[1]),
            "mul": lambda: (x[0] * y[0], x[1] * y[1]),
            "symdiv": lambda: (x[0] // VARS["d"], x[1] // GRID["d"]),
            "symmod": lambda: (x[0] % (VARS["d"] + 2), x[1] % (GRID["d"] + 2)),
        }[op]()

    return st.one_of(
        st.builds(binary, st.sampled_from(["+", "-", "+", "min", "max", "xor", "mul", "symdiv", "symmod"]), sub, sub),
        st.builds(lambda x, c: (x[0] // c, x[1] // c), sub, divisor),
        st.builds(lambda x, c: (x[0] % c, x[1] % c), sub, divisor),
        st.builds(lambda x, c: (x[0] * c, x[1] * c), sub, st.integers(-16, 16)),
        # the shapes lowering makes: digits put together again
        st.builds(lambda x, y, c: (x[0] // c * c + y[0] % c, x[1] // c * c + y[1] % c), sub, sub, divisor),
        st.builds(lambda x, c: (x[0] - x[0] // c * c, x[1] - x[1] // c * c), sub, divisor),
        st.builds(lambda x, y, f: tuple(map(_digits, x, y, f, (VARS["d"], GRID["d"]), (D2, D2_AT))), sub, sub, sub),
    )


D2, D2_AT = VARS["c"] % 3 + 1, GRID["c"] % 3 + 1


def _digits(x, y, f, d, e):
    """Three digits whose divisors are no numbers, times f, and something else."""
    return y + f * d * e * (x // (d * e)) + f * d * (x // d % e) + f * (x % d)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(tree(4))
def test_value_and_interval(pair):
    e, expected = pair
    assert np.array_equal(np.broadcast_to(e.evaluate(GRID), expected.shape), expected)
    lo, hi = e.interval
    assert lo is None or lo <= expected.min()
    assert hi is None or hi >= expected.max()
    assert [t for t in e.terms if not t[1]] == []
    assert sorted(e.terms, key=lambda t: t[0]._key) == list(e.terms)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(tree(3), tree(1), st.sampled_from(sorted(BOX)))
def test_substitution(pair, by, name):
    e, _ = pair
    new, values = by
    if name == "d" and values.min() < 1:
        return  # a divisor stays positive
    fixed = e.subs({VARS[name]: new})
    expected = e.evaluate({**GRID, name: values})
    assert np.array_equal(np.broadcast_to(fixed.evaluate(GRID), values.shape), np.broadcast_to(expected, values.shape))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (4 * i + k % 8 - 1, "4*i + k % 8 - 1"),
        ((8 * k + i) // 8, "k"),
        ((8 * k + i) % 8, "i"),
        ((8 * k + i + 3) // 8, "k + (i + 3)/8"),
        ((k // 4) // 2, "k/8"),
        ((k % 32) // 4, "(k/4) % 8"),
        ((k % 32) % 8, "k % 8"),
        (k // 8 * 8 + k % 8, "k"),
        (3 * (k // 8) * 8 + 3 * (k % 8), "3*k"),
        (k - k // 8 * 8, "k % 8"),
        (4 * (k // 4 % 8) + k % 4, "k % 32"),
        (16 * (k // 16) + 4 * (k // 4 % 4) + k % 4, "k"),
        ((8 * k + 1) // 7 * 7 + (8 * k + 1) % 7, "8*k + 1"),
        (56 * ((104 * k + 2 * j) // 7) + 8 * ((104 * k + 2 * j) % 7), "16*j + 832*k"),
        ((64 * k + 9) // 56 * 60 + (64 * k + 9) % 56, "60*((8*k + 1)/7) + 8*((k + 1) % 7) + 1"),
        ((4 * i + j) // 16, "i/4"),
        ((4 * i + j) % 16, "j + 4*(i % 4)"),
        ((4 * k + j) % 16, "j + 4*(k % 4)"),
        ((9 * k) % 8, "k % 8"),
        (i // 8, "0"),
        (i % 8, "i"),
        ((M * k + N) // M, "k + N/M"),
        ((M * k) % M, "0"),
        ((M * N * k) // (M * N), "k"),
        (M // M, "1"),
        (M * (k // M) + k % M, "k"),
        (3 * N * (k % M) + 3 * M * N * (k // M) + i, "i + 3*N*k"),
        ((M + 2) * (k // (M + 2)) + k % (M + 2), "k"),
        (M * N * (k // (M * N)) + M * (k // M % N) + k % M, "k"),
        (M * N * (k // M // N) + M * (k // M % N) + k % M, "k"),
        (M * (k // M % N) + k % M, "k % (M*N)"),
        (M * (k // N) + k % M, "k % M + M*(k/N)"),
        (M * (i // M) + 2 * (k % M), "2*(k % M) + M*(i/M)"),
        ((M + 1) * (k - 1), "-M + k + M*k - 1"),
        ((M + 1) * (k - 1) - M * k, "-M + k - 1"),
        (minimum(k, k + 1, M), "min(M, k)"),
        (minimum(i, 9), "i"),
        (maximum(i - 8, 0), "0"),
        (xor(i, 0), "i"),
        (xor(k, k), "0"),
        (ceildiv(M, 128), "(M + 127)/128"),
        (-k // 4, "(-k)/4"),
        (2 * (k // 3), "2*(k/3)"),
        (as_expr(0), "0"),
        (as_expr(-3), "-3"),
    ],
)
def test_simplified_form(expr: Expr, text: str):
    assert str(expr) == text


@settings(derandomize=True, max_examples=300, deadline=None)
@given(tree(3))
def test_renaming(pair):
    """Other names change the order of terms, and nothing else."""
    e, _ = pair
    names = {VARS[old]: Var(new, *BOX[old]) for old, new in zip("abc", "zyx", strict=True)}  # in another order than before
    back = {new: old for old, new in names.items()}
    r = e.renamed(names)
    assert r.variables() == {names.get(v, v) for v in e.variables()}
    assert r.interval == e.interval
    assert r.renamed(back) == e
    env = {names[VARS[n]].name if VARS[n] in names else n: values for n, values in GRID.items()}
    assert np.array_equal(np.broadcast_to(r.evaluate(env), GRID["a"].shape), np.broadcast_to(e.evaluate(GRID), GRID["a"].shape))


def test_an_interval_is_part_of_a_variable():
    narrow, wide = Var("x", 0, 7), Var("x", 0, 100)
    assert narrow != wide
    assert (narrow - wide).variables() == {narrow, wide}
    assert narrow - wide == -(wide - narrow)
    assert (wide // 8).constant is None
    assert (narrow // 8).constant == 0
    assert (wide // 8).subs({wide: narrow}).constant == 0
    assert as_expr(narrow).interval == (0, 7)
    assert as_expr(wide).interval == (0, 100)


def test_queries():
    e = 4 * i + (k + j) // 5 + 2
    assert e.coefficient(i) == 4
    assert e.coefficient(k) == 0
    assert e.variables() == {i, j, k}
    assert e.constant is None
    assert as_expr(5).constant == 5
    assert e.interval == (2, None)
    assert e.evaluate({"i": 1, "j": 2, "k": 3}) == 7
    assert e.subs({k: 3, j: 2, i: k}) == 4 * k + 3
    assert (1 - as_expr(i)).interval == (-6, 1)
    assert (M // N).interval == (0, None)
    assert (k % N).interval == (0, None)
    assert xor(i, j).interval == (0, 7)
    assert (i * j).interval == (0, 21)


def test_atoms_of_a_product_are_binary():
    ((atom, _),) = (M * N * k).terms
    assert isinstance(atom, Fn)
    assert atom.kind == "mul"
    assert len(atom.args) == 2


def test_equal_polynomials_are_equal():
    for x, y, z in itertools.permutations([M, N, as_expr(k)]):
        assert x * y * z == M * N * k
        assert x * (y + z) == x * y + x * z


def test_pickle():
    e = (M + k) // 4 + xor(i, k)
    assert pickle.loads(pickle.dumps(e)) == e
    with pytest.raises(ZeroDivisionError):
        e // 0
