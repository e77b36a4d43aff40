"""Proofs about index expressions: never wrong, and strong enough for the questions that lowering asks."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from andiron.dsl.index import prove
from andiron.dsl.index.expr import Var, as_expr, ceildiv, maximum, minimum
from andiron.dsl.index.prove import Assumptions, always, conjuncts, equal, feasible
from hypothesis import given, settings
from hypothesis import strategies as st

from ...support.count_calls import calls
from ...support.index_exprs import BOX, VARS, expression, linear

GRID = dict(zip(BOX, np.meshgrid(*(np.arange(lo, hi + 1) for lo, hi in BOX.values()), indexing="ij"), strict=True))
M, N, K = Var("M", 0), Var("N", 0), Var("K", 0)
i, j, k = Var("i", 0, 127), Var("j", 0, 31), Var("k", 0)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(expression(), st.lists(expression(), max_size=2))
def test_against_enumeration(cond, context):
    shape = GRID["a"].shape
    held = np.ones(shape, bool)
    for c in context:
        held &= np.broadcast_to(c.evaluate(GRID), shape) >= 0
    true = not (held & (np.broadcast_to(cond.evaluate(GRID), shape) < 0)).any()
    exact = all(kind not in str([cond, *context]) for kind in ("xor", "% d", "b*d"))
    proven = always(cond, context)
    assert proven <= true
    if exact:
        assert proven == true
        assert feasible([cond, *context]) == bool((held & (np.broadcast_to(cond.evaluate(GRID), shape) >= 0)).any())


@pytest.mark.parametrize(
    ("cond", "context"),
    [
        (M - 1 - i - 128 * k, [M - 128 * k - 128]),  # a full tile needs no guard
        (M - 1 - 128 * k, [ceildiv(M, 128) - 1 - k]),  # the tile number is inside the grid
        (M // 128 - 1 - k, [M - 128 * k - 128]),
        (127 - M % 128, []),
        (M - 128 * (M // 128), []),
        (minimum(128, M - 128 * k) - 1 - i, [M - 128 * k - 1 - i]),
        (N - 1 - M % N, []),
        (M - M % (N + 1), []),
        (M * N + 5, []),
        (M * (N + 1) - M, []),
    ],
)
def test_proven(cond, context):
    assert always(cond, context)


@pytest.mark.parametrize(
    ("cond", "context"),
    [
        (M - 1 - i - 128 * k, [M - 128 * k - 1]),
        (M - 1 - 128 * k, [ceildiv(M, 128) - k]),
        (as_expr(-1), []),
        (M - N, []),
        (M // 128 - 1 - k, [M - 128 * k - 127]),
    ],
)
def test_not_proven(cond, context):
    assert not always(cond, context)


def test_contradictory_context_proves_all():
    assert always(as_expr(-1), [M - 5, 3 - M])
    assert not feasible([M - 5, 3 - M])
    assert feasible([M - 3, 5 - M])
    assert not feasible([2 * M - 5, 5 - 2 * M])  # no integer


W, S, Q, s = (Var(n, 0) for n in "WSQs")


def test_sums_of_conditions_prove_without_isl(monkeypatch):
    """A window inside its tensor; a lane inside its tile; an empty loop over a size that is not."""
    monkeypatch.setattr("andiron.dsl.index.prove.is_empty", lambda text: pytest.fail(text))
    window = [S + Q - W - 1, W - S - Q + 1, S - 1 - s]
    assert always(W - 1 - s - i % Q, window)
    assert not always(W - 2 - s - i % Q, window)
    lane, n = Var("lane", 0, 31), Var("n", 0, 1 << 30)
    assert always(n - 128 * k - 4 * lane - 4, [n - 128 * k - 128])
    assert not feasible([128 * k + 4 * lane + 3 - n, n - 128 * k - 128])
    assert always(M - 1, [M - Q, 3 * Q - 32 * (i % N) - 1])


def test_answers_are_of_the_intervals_asked_for():
    cond = [as_expr(Var("x", 0, high)) + M - 9 for high in (8, 9)]
    assert [feasible([c, -as_expr(M)]) for c in cond] == [False, True]
    assert [always(-c - 1, [-as_expr(M)]) for c in cond] == [True, False]


def test_intervals_belong_to_the_question():
    assert always(7 - Var("x", 0, 7) % 9 * 1)
    assert not always(7 - as_expr(Var("x", 0, 8)))
    assert always(9 - as_expr(Var("x", 0, 8)))


def test_where_it_failed_before_is_looked_at_first(monkeypatch):
    """SEEN, but only where all that is asked now holds there as well."""
    x, size = Var("x", 0, 99), Var("size", 0)
    cond = size - x - 1
    assert not always(cond, [x - 3])
    monkeypatch.setattr("andiron.dsl.index.prove.feasible_point", lambda constraints: None)
    monkeypatch.setattr("andiron.dsl.index.prove.is_empty", lambda text: pytest.fail(text))
    assert not always(cond, [x - 3, 90 - x])
    assert always(cond, [size - 64, 63 - x])


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(linear(), min_size=1, max_size=2), st.lists(expression(), min_size=2, max_size=4))
def test_answers_do_not_depend_on_what_was_asked_before(around, asked):
    """NEAR: a search that starts near an earlier point finds nothing that is not there."""
    facts = Assumptions(lambda: around)
    for c in asked:
        answer = always(c, facts)
        prove._always.cache_clear()
        prove._SEEN.clear()
        assert always(c, tuple(around)) == answer


def test_a_question_that_is_remembered_lets_go_of_its_statement():
    class Statement:
        def known(self):
            return (i - j,)

    statement = Statement()
    alive = weakref.ref(statement)
    facts = Assumptions().where(statement.known)
    assert not always(j - i, facts)
    del statement
    assert alive() is None
    assert facts.conds == (i - j,)


def test_divisors_are_positive_where_it_failed_before():
    x, by = Var("x", 0, 9), Var("by", 0)
    assert not always(x - 1, [by - x])
    assert not always(x - 1, [20 % by - x])


def test_equal():
    assert equal((4 * M + 3 - j % 4) // 4, as_expr(M))
    assert not equal((4 * M + 4 - j % 4) // 4, as_expr(M))
    assert equal(as_expr(M), as_expr(N), [M - N, N - M])


def test_odd_names():
    x = Var("Y.sum1 and", 0, 3)
    assert always(2 - x // 2 + M - 1)
    x0, x1, x2 = (Var(f"x{n}", 1, 7) for n in range(3))
    assert always(x0 * x1 - x1)
    assert not always(x2 * x1 - x0)
    assert always(x2 - 1 - x1 % x2)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(expression(), st.integers(1, 4), st.sampled_from([-6, -2, -1, 1, 2, 6]))
def test_conjuncts_are_the_condition(x, by, scale):
    """Taken apart or not, a condition holds at the same points; what could be taken apart is gone."""
    shape = GRID["a"].shape
    cond = VARS["a"] - VARS["c"] + scale * (x // by)
    parts = conjuncts(cond)
    held = np.logical_and.reduce([np.broadcast_to(p.evaluate(GRID), shape) >= 0 for p in parts])
    assert (held == (np.broadcast_to(cond.evaluate(GRID), shape) >= 0)).all()


@pytest.mark.parametrize(
    ("cond", "parts"),
    [
        ((minimum(4, M - 4 * i) + 3) // 4 - 1 - j, [-j, M - 4 * i - 4 * j - 1]),
        (j - maximum(M, N), [j - M, j - N]),
        (i - (M + 3) // 4, [4 * i - M]),
        (i - 4 * (M // 4), [i - 4 * (M // 4)]),  # less than it seems: i may lie behind the last whole four
        (8 * j - 4 * (M // 4), [8 * j + 3 - M]),
        (maximum(M, N) - j, [maximum(M, N) - j]),
        (N - 1 - i // M // K, [M * N * K - 1 - i]),  # a component of a fused index is inside where the index is
        (i // K - j, [i - K * j]),
    ],
)
def test_conjuncts(cond, parts):
    assert set(conjuncts(cond)) == {as_expr(p) for p in parts}


def test_quotients_of_what_is_bounded():
    """x < M*N*K  =>  x/K < M*N and x/K/N < M, inside sums too."""
    x = as_expr(Var("x", 0))
    inside = [M * N * K - 1 - x]
    assert always(M - 1 - x // K // N, inside)
    assert always(M + j - x // K // N - 1, inside)
    assert always(M - 1 + x % 3 - x // K // N, inside)
    assert not always(M - 2 - x // K // N, inside)
    assert not always(N - 1 - x // K // N, inside)


def test_facts_are_those_around_and_the_own():
    x, y = Var("x", None), Var("y", None)
    outer = Assumptions(lambda: (x - 3,))
    inner = outer.also(y - x).where(lambda: (10 - y,))
    assert inner.conds == (x - 3, y - x, 10 - y)
    assert always(y - 3, inner)
    assert always(10 - x, inner)
    assert not always(y - 3, outer)
    assert feasible((x - 10,), inner)
    assert not feasible((x - 11,), inner)
    assert inner == Assumptions(lambda: inner.conds) != outer
    wider = Assumptions(lambda: (as_expr(Var("x", 3)),))
    assert wider != Assumptions(lambda: (as_expr(x),)), "the same text, of which something else is known"


def test_a_long_row_of_facts():
    x = Var("x", None)
    facts = Assumptions(lambda: (x - 3,))
    for n in range(5000):
        facts = facts.where(lambda n=n: (Var(f"v{n}") + 1,))
    assert len(facts.conds) == 5001
    assert always(x - 3, facts)


def test_sums_of_many_constraints_are_not_all_tried(monkeypatch):
    monkeypatch.setattr(prove, "_MOST_SUMS", 50)
    x = [Var(f"x{i}", 0) for i in range(12)]
    others = [a - b for a in x for b in x if a is not b]
    assert calls(lambda: prove._contradicts(as_expr(x[0]), others)) < 50 * 10 * len(others)
    assert prove._contradicts(x[0] - x[1], [x[1] - x[2], x[2] - x[0] - 1, *others])
