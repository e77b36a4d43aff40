"""The hull of a subscript over a tile, against all the values that it takes."""

from __future__ import annotations

import random

import pytest
from andiron.dsl.index.expr import Expr, Var, as_expr, maximum, minimum
from andiron.dsl.index.hull import hull

I, J, K = Var("i"), Var("j"), Var("k", None, None)  # i and j run over a tile, k stands for the rest


def _values(e: Expr, tile: dict[str, tuple[Expr, int]], k: int) -> list[int]:
    (bi, si), (bj, sj) = tile["i"], tile["j"]
    at = {"k": k}
    return [
        e.evaluate({"i": bi.evaluate(at) + x, "j": bj.evaluate(at) + y, "k": k}) for x in range(si + 1) for y in range(sj + 1)
    ]


def _random(rng: random.Random, depth: int = 2) -> Expr:
    e = as_expr(rng.randint(-5, 5))
    for v in (I, J, K):
        e = e + rng.choice((-2, -1, 0, 1, 1, 2, 3)) * v
    if depth:
        inner, d = _random(rng, depth - 1), rng.choice((2, 3, 4, 8))
        other = (inner // d, inner % d, minimum(inner, rng.randint(0, 20)), maximum(inner, rng.randint(-9, 9)))
        e = rng.choice((e + rng.choice((-2, 1, 3)) * rng.choice(other), rng.choice(other)))
    return e


def test_the_hull_holds_every_value():
    rng = random.Random(1)
    known = 0
    for _ in range(400):
        tile = {n: (rng.choice((1, 4, 16)) * K + rng.randint(0, 4), rng.randint(0, 20)) for n in "ij"}
        e = _random(rng)
        found = hull(e, tile)
        if found is None:
            continue
        known += 1
        for k in range(-3, 9):
            values = _values(e, tile, k)
            least = found[0].evaluate({"k": k})
            assert least <= min(values), (str(e), tile, k)
            assert max(values) <= least + found[1], (str(e), tile, k)
    assert known > 300


@pytest.mark.parametrize(
    ("begin", "tile", "d", "span"), [(16, 16, 32, 0), (32, 32, 32, 0), (16, 32, 32, 1), (1, 16, 32, 1), (64, 128, 32, 3)]
)
def test_where_a_tile_begins_within_a_step_is_known(begin, tile, d, span):
    found = hull(I // d, {"i": (begin * K, tile - 1)})
    assert found is not None
    assert found[1] == span
    values = {(begin * k + t) // d - (begin * k) // d for k in range(d) for t in range(tile)}
    assert max(values) == span


def test_a_remainder_within_one_step_is_a_tile_of_its_own():
    assert hull(I % 32, {"i": (16 * K, 15)}) == ((16 * K) % 32, 15)
    assert hull(I % 32, {"i": (K + 0, 15)}) == (as_expr(0), 31)


def test_what_no_constant_bounds():
    n = Var("n")
    assert hull(I * n, {"i": (as_expr(0), 7)}) is None
    assert hull(I // n, {"i": (as_expr(0), 7)}) is None
    assert hull(n // 2, {"i": (as_expr(0), 7)}) == (n // 2, 0)
