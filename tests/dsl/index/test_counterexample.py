"""Points at which all constraints hold: what is found is real, and what guards and barriers ask about is found."""

from __future__ import annotations

import pytest
from andiron.dsl.index.counterexample import feasible_point
from andiron.dsl.index.expr import Var, as_expr, ceildiv, minimum, xor
from hypothesis import given, settings
from hypothesis import strategies as st

from ...support.count_calls import calls
from ...support.index_exprs import BOX, VARS, expression, linear

M, N, k, block = (Var(n, 0) for n in ("M", "N", "k", "block"))
i, thread, other = Var("i", 0, 127), Var("thread", 0, 31), Var("thread'", 0, 31)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.one_of(linear(), expression()), min_size=1, max_size=4))
def test_what_is_found_is_real(constraints):
    found = feasible_point(constraints)
    if found is not None:
        assert all(c.evaluate(found) >= 0 for c in constraints)
        assert all(BOX[name][0] <= x <= BOX[name][1] for name, x in found.items())
        assert found == feasible_point(constraints)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(linear(), expression()), min_size=1, max_size=4),
    st.fixed_dictionaries({name: st.integers(-20, 20) for name in BOX}),
)
def test_what_is_found_near_a_point_is_real(constraints, near):
    found = feasible_point(constraints, near)
    if found is not None:
        assert all(c.evaluate(found) >= 0 for c in constraints)
        assert all(BOX[name][0] <= x <= BOX[name][1] for name, x in found.items())
    inside = {name: max(lo, min(hi, near[name])) for name, (lo, hi) in BOX.items()}
    # the search begins factors of products at 1 where they may be 0
    if 0 not in inside.values() and all(c.evaluate(inside) >= 0 for c in constraints):
        assert found is not None
        assert found == {name: inside[name] for name in found}


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(1, 200), st.integers(0, 300), st.sampled_from([1, 4, 32]))
def test_a_guard_of_a_tile_may_fail(tile, more, lanes):
    guard = M - tile * k - lanes * (i // lanes) - more
    assert feasible_point([guard, M - tile * k - 1]) is not None
    assert (feasible_point([-guard - 1, M - tile * k - 1]) is not None) == (more + 127 // lanes * lanes > 1)


@pytest.mark.parametrize(
    "constraints",
    [
        [k - 3 * (k // 3) - 2, k - 1000],  # a stage that rotates
        [M * N - 1000 * (block + 1), ceildiv(M, 64) * ceildiv(N, 32) - 1 - block],
        [thread - other - 1, xor(thread // 8, thread % 8) - xor(other // 8, other % 8)],
        [M - 384 * k - 8 * ((minimum(384, M - 384 * k) + 7) // 8) - 8],
        [block % ceildiv(N, 16) - 4, 80 - as_expr(N)],
        [thread - other - 1, thread % 4 - other % 4, other % 4 - thread % 4],
    ],
)
def test_found(constraints):
    found = feasible_point(constraints)
    assert found is not None
    assert all(c.evaluate(found) >= 0 for c in constraints)


def test_two_units_that_meet_in_a_swizzled_stage_are_found():
    """A copy into one of four stages before the loop, and a read of tile k: random draws missed them (k was always 3 mod 4)."""
    B, H, stage, warp, warp2 = Var("B", 0), Var("H", 0), Var("stage~", 0, 2), Var("warp", 0, 5), Var("warp'", 0, 5)
    sx, r, r2, step = Var("sx~", 0, 1), Var("r", 0, 7), Var("r'", 0, 7), Var("step", 0, 3)
    conds = [
        ceildiv(B, 32) * ceildiv(H, 12) - 1 - block,
        B - 32 * (block // ceildiv(H, 12)) - 24 * sx - 4 * warp - thread // 8 - 1,
        31 - 24 * sx - 4 * warp - thread // 8,
        H - 64 * stage - 8 * (thread % 8) - 8,
        H - 64 * k - 1,
    ]
    written = (as_expr(stage), 24 * sx + 4 * warp + thread // 8, r + 8 * xor(thread // 8 + 4 * (warp % 2), thread % 8))
    read = (k % 4, 16 * (warp2 // 3) + other % 16, r2 + 8 * xor(2 * step + other // 16, other % 8))
    same = [d for x, y in zip(written, read, strict=True) for d in (x - y, y - x)]
    found = feasible_point([*conds, *same, warp - warp2 - 1])
    assert found is not None
    assert [e.evaluate(found) for e in written] == [e.evaluate(found) for e in read]
    assert found["warp"] != found["warp'"]
    assert all(c.evaluate(found) >= 0 for c in conds)


def test_divisors_are_positive():
    x = M // N - 1 + VARS["a"] // (N - 3)
    found = feasible_point([x])
    assert found is not None
    assert found["N"] > 3
    assert feasible_point([M // (3 - N) - 1, N - 3]) is None


def test_a_search_in_vain_takes_as_long_as_its_question_is_large():
    """Bounds of nested tiles: each is the least of many, and all of them are computed anew for every change that is tried."""

    def asked(n: int) -> int:
        tiles = [Var(f"t{k}", 0) for k in range(n)]
        within = [minimum(*(M - 3 * a - 5 * b for b in tiles)) // 2 for a in tiles]
        never = sum(within[1:], within[0])
        return calls(lambda: feasible_point([never - 9, 3 - never, *within]))

    few, many = asked(6), asked(24)
    assert many < 20 * few
