"""Two bounds of a number are one comparison without a sign, exactly where they say the same."""

from __future__ import annotations

import random

from andiron.codegen.emit.c.range_tests import range_test, with_range_tests
from andiron.dsl.index.expr import Expr, Var, as_expr, minimum

H, h, k = Var("H"), Var("h", -3, 40), Var("k", 0, 35)


def test_a_number_from_zero_up_to_a_size():
    (both,) = with_range_tests([as_expr(h), H - h - 1])
    assert range_test(both) == (as_expr(h), as_expr(H))
    (both,) = with_range_tests([h - 1, 13 - h])
    assert range_test(both) == (h - 1, as_expr(13))


def test_bounds_pair_as_they_were_before_they_were_simplified():
    """A lower bound of a quotient is simplest without it, and has nothing in common with the upper bound then."""
    x = (k + 3) // 12 + h - 1
    (both,) = with_range_tests([x, 13 - x])
    assert range_test(both) == (x, as_expr(14))


def test_two_pairs_and_what_has_no_pair():
    w, n = Var("w", -3, 40), Var("n")
    found = with_range_tests([as_expr(h), 13 - h, as_expr(w), n - 5, H - w - 1])
    assert [range_test(c) for c in found] == [(as_expr(h), as_expr(14)), (as_expr(w), as_expr(H)), None]


def test_nothing_changes_without_a_pair():
    for conds in ([as_expr(h)], [h - 1, k - 2], [as_expr(h), k - 2 * h], [H - h - 1, k - 2]):
        assert with_range_tests(conds) == conds
    assert with_range_tests([as_expr(k), H - k - 1]) == [H - k - 1]  # k is never negative
    assert with_range_tests([as_expr(h), 50 - h]) == [as_expr(h)]
    assert with_range_tests([h - 5, 3 - h]) == [h - 5, 3 - h]  # no number is below -1


def test_a_size_that_may_be_negative_has_no_unsigned_form():
    size = Var("size", -4, 9)
    assert [range_test(c) for c in with_range_tests([as_expr(h), size - 1 - h])] == [None, None]
    assert range_test(minimum(h, size - 1 - h)) is None
    assert range_test(minimum(h, k)) is None
    assert range_test(as_expr(h)) is None


def test_they_hold_where_both_bounds_do():
    rng = random.Random(11)
    size, a, b = Var("size", 0, 6), Var("a", -9, 9), Var("b", 0, 5)
    seen = 0
    for _ in range(400):
        x = sum((rng.choice([-2, -1, 0, 1, 3]) * as_expr(v) for v in (a, b, (a + 9) // 4)), as_expr(rng.randint(-4, 4)))
        end = rng.choice([as_expr(size), as_expr(rng.randint(0, 7)), size + 2])
        other = rng.choice([[], [a + b], [size - 1]])
        conds: list[Expr] = [x, end - 1 - x, *other]
        rng.shuffle(conds)
        found = with_range_tests(conds)
        for at in ({"size": s, "a": rng.randint(-9, 9), "b": rng.randint(0, 5)} for s in (0, 0, 1, 1, 2, 3, 5, 6)):
            holds = True
            for c in found:
                if (inside := range_test(c)) is None:
                    holds &= c.evaluate(at) >= 0
                    continue
                seen += 1
                number, most = (e.evaluate(at) for e in inside)
                assert most >= 0
                holds &= number % (1 << 32) < most  # as C compares
            assert holds == all(c.evaluate(at) >= 0 for c in conds), (conds, found, at)
    assert seen > 500
