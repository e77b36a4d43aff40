"""Equal coordinates taken apart: what is derived holds at every point where the equalities do."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.transforms.barriers.mixed_radix_equality import Contradiction, MixedRadixEquality, never_equal
from andiron.dsl.index.expr import Expr, Var, as_expr, xor
from hypothesis import given, settings
from hypothesis import strategies as st

BOX = {"a": 5, "b": 3, "c": 2, "d": 4}  # each from 0 up to this
ONE = {n: Var(n, 0, hi) for n, hi in BOX.items()}
TWO = {n: Var(n + "'", 0, hi) for n, hi in BOX.items()}
AXES = np.meshgrid(*(np.arange(v.hi + 1) for v in (*ONE.values(), *TWO.values())), indexing="ij", sparse=True)
GRID = {v.name: axis for v, axis in zip((*ONE.values(), *TWO.values()), AXES, strict=True)}
S = Var("S", 1)  # a symbolic divisor


def forms():
    """Functions of one side's variables: the same for both sides."""
    names = st.sampled_from(list(BOX))
    small = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
    term = st.one_of(
        st.builds(lambda n, c: lambda v: c * v[n], names, small),
        st.builds(lambda n, m, c, k: lambda v: c * ((v[n] + 6 * v[m]) // k), names, names, small, small),
        st.builds(lambda n, m, c, k: lambda v: c * ((v[n] + 6 * v[m]) % k), names, names, small, small),
        st.builds(lambda n, m, c: lambda v: c * xor(v[n], v[m] % 4), names, names, small),
        st.builds(lambda n, m, c, d: lambda v: xor(v[n], (v[m] + 6 * v[n]) // d % c), names, names, small, small),
    )
    return st.builds(lambda ts: lambda v: sum((t(v) for t in ts), as_expr(0)), st.lists(term, min_size=1, max_size=4))


def bounds():
    return st.tuples(forms(), st.integers(0, 9))


def satisfied(facts, equalities) -> np.ndarray:
    out = np.ones((1,) * len(GRID), bool)
    for f in facts:
        out = out & (f.evaluate(GRID) >= 0)
    for x, y in equalities:
        out = out & (x.evaluate(GRID) == y.evaluate(GRID))
    return out


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(forms(), min_size=1, max_size=3), st.lists(bounds(), max_size=2), st.integers(-2, 2))
def test_against_enumeration(coords, bounds, shift):
    equalities = [(f(ONE) + (shift if n == 0 else 0), f(TWO)) for n, f in enumerate(coords)]
    facts = [top - f(side) for f, top in bounds for side in (ONE, TWO)]
    where = satisfied(facts, equalities)
    try:
        digits = MixedRadixEquality(facts)
        digits.derive(equalities)
    except Contradiction:
        assert not where.any()
        return
    for atom, value in digits.equal.items():
        difference = Expr(((atom, 1),)) - value
        assert not (where & (difference.evaluate(GRID) != 0)).any(), f"{atom} = {value}"


def same(pairs, x, y, facts=()) -> bool:
    digits = MixedRadixEquality(facts)
    digits.derive(pairs)
    return digits.same(as_expr(x), as_expr(y))


m, i, m2, i2 = Var("m", 0, 9), Var("i", 0, 7), Var("m'", 0, 9), Var("i'", 0, 7)
t, t2 = Var("t", 0), Var("t'", 0)


def test_digits():
    assert same([(8 * m + i, 8 * m2 + i2)], m, m2)
    assert same([(8 * m + i, 8 * m2 + i2)], i, i2)
    assert not same([(7 * m + i, 7 * m2 + i2)], m, m2)
    assert same([(7 * m + i, 7 * m2 + i2)], m, m2, [6 - as_expr(i), 6 - as_expr(i2)])  # what a guard leaves


def test_quotient_and_remainder():
    assert same([(t // S, t2 // S), (t % S, t2 % S)], t, t2)
    assert same([(t // 12, t2 // 12), (t // 4 % 3, t2 // 4 % 3), (t % 4, t2 % 4)], t, t2)
    assert not same([(t // S, t2 // S)], t, t2)
    assert same([(t // 4, t2 // 4), (xor(t % 4, t // 8 % 4), xor(t2 % 4, t2 // 8 % 4))], t, t2)


def test_digits_of_a_remainder():
    """What is left of a division by 6, with its halves swizzled: the digits 3 and 2; of one the other variables are gone."""
    g, g2, lane, lane2 = Var("g", 0, 2), Var("g'", 0, 2), Var("l", 0, 31), Var("l'", 0, 31)
    x, y = 128 * g + lane, 128 * g2 + lane2
    digits = [(x // 6, y // 6), (x // 2 % 3, y // 2 % 3)]
    assert same([*digits, (xor(x % 2, x // 24 % 2), xor(y % 2, y // 24 % 2))], x, y)
    assert not same(digits, x, y)


def test_swizzle():
    row, row2, column, column2 = t // 8, t2 // 8, t % 8, t2 % 8
    assert same([(row, row2), (xor(column, row % 8), xor(column2, row2 % 8))], t, t2)
    assert not same([(xor(column, row % 8), xor(column2, row2 % 8))], t, t2)


def test_a_swizzle_by_a_digit_in_the_middle():
    """The row of a lane is equal, and with it the digit of it that permutes the columns."""
    lane, lane2 = Var("l", 0, 31), Var("l'", 0, 31)
    columns = [(x // 8 % 2 + 2 * xor(x // 16, x // 2 % 2)) for x in (lane, lane2)]
    assert same([(lane % 8, lane2 % 8), tuple(columns)], lane, lane2)
    assert not same([(lane % 2, lane2 % 2), tuple(columns)], lane, lane2)


def test_a_swizzle_by_the_low_half_of_a_row():
    """64 lanes copy rows of a half each: equal rows are equal modulo 16, and the columns are permuted by rows modulo 8."""
    lane, lane2 = Var("l", 0, 63), Var("l'", 0, 63)
    assert same([(lane % 16, lane2 % 16), (xor(lane // 16, lane % 8), xor(lane2 // 16, lane2 % 8))], lane, lane2)
    assert not same([(lane % 4, lane2 % 4), (xor(lane // 16, lane % 8), xor(lane2 // 16, lane2 % 8))], lane, lane2)


def test_one_value_left():
    assert same([(t % S, t2 % S)], t, t2, [-(t // S), -(t2 // S)])


def test_a_quotient_that_is_known_gives_the_remainder():
    h, h2, w, w2 = Var("h", 0, 5), Var("h'", 0, 5), Var("w", 0, 5), Var("w'", 0, 5)
    x, y = 6 * h + w, 6 * h2 + w2
    assert same([(x // 8, y // 8), (t % 4 + 4 * (x % 8), t2 % 4 + 4 * (y % 8))], w, w2, [7 - x, 7 - y])


def test_rotating_stages():
    with pytest.raises(Contradiction):
        same([(t % 3, (t + 2) % 3)], t, t2)


def test_contradiction():
    for x, y in ((2 * t, 2 * t2 + 1), (as_expr(m), m2 + 10), (as_expr(3), as_expr(4))):
        with pytest.raises(Contradiction):
            same([(x, y)], t, t2)


def test_stages_that_are_never_equal():
    i, n = Var("i"), Var("n", 1)
    assert never_equal((i + 2) % 3, i % 3)
    assert never_equal(as_expr(0), as_expr(1))
    assert never_equal(i + 1, as_expr(i))
    assert not never_equal((i + 3) % 6, (i - 3) % 6)
    assert not never_equal(i % 3, i % 6)
    assert not never_equal((i + 1) % n, i % n), "n may be 1"
    assert not never_equal(i % 3, as_expr(1))


def test_no_coordinate_is_looked_at_after_enough_is_known():
    m, m2, n, n2 = Var("m"), Var("m'"), Var("n"), Var("n'")
    known = MixedRadixEquality(())
    assert known.derive([(as_expr(m), as_expr(m2)), (as_expr(n), as_expr(n2))], lambda: known.same(as_expr(m), as_expr(m2)))
    assert not known.same(as_expr(n), as_expr(n2))


def test_facts_alone_may_be_enough():
    u = Var("u", 0, 3)
    known = MixedRadixEquality([as_expr(-u)])
    assert known.derive([(as_expr(3), as_expr(3))], lambda: known.same(as_expr(u), as_expr(0)))
