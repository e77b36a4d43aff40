"""Looks for two units that meet in an element: a conflict seen needs no proof, and where there is one a proof fails slowly.

A few values are drawn for sizes and for the variables that both accesses share, many for those of each: half of them low, where
tiles and loops begin and what is near each other meets. Accesses of `a` and `b` that are allowed (all conditions hold) and meet
in an element, made by different units, are a witness. Nothing found means nothing. The draws are the same every time.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...dsl.index import Expr, Var

if TYPE_CHECKING:
    from .access import Access

_ROUNDS = 48  # values of the common variables; most fail a condition at once
_TRIES = 3  # of those that do not
_DRAWS = 256  # values of each access's own variables
_LOW = 4  # values of a variable that are low
_UNBOUNDED = (1, 2, 64, 1000, 8192)  # loops start low, sizes are large
_BITS = 56  # of the product of all sizes: volumes must not overflow
_FAR = 16  # own variables without an upper bound: loops over tiles


def seen(a: Access, b: Access) -> bool:
    """Whether a pair of units was found that access one element, `a` by one, `b` by the other.

    The own variables of the two have different names.
    """
    rng = np.random.default_rng(0)
    mine, theirs = _variables(a), _variables(b)
    names = {v for v in mine | theirs if v.hi is None or (v in mine and v in theirs)} - a.varying - b.varying
    common = sorted(names, key=lambda v: v.name)
    drawn = {v.name: _common(v, rng) for v in common}
    conds = [c for c in dict.fromkeys((*a.conds, *b.conds)) if c.variables() <= names]
    allowed = np.ones(_ROUNDS, np.bool_)
    with np.errstate(divide="ignore", over="ignore"):
        _agree(conds, drawn)
        for c in conds:
            allowed &= np.asarray(c.evaluate(drawn)) >= 0
    size = sum((np.log2(1 + drawn[v.name]) for v in common if v.hi is None), np.zeros(_ROUNDS))
    allowed &= size < _BITS
    for n in sorted(np.flatnonzero(allowed).tolist(), key=lambda n: -size[n])[:_TRIES]:  # in large tensors all meet
        shared = {name: int(values[n]) for name, values in drawn.items()}
        try:
            with np.errstate(divide="raise"):  # a size of 0 that divides: no such program runs
                if _meet(_draw(a, shared, names, rng), _draw(b, shared, names, rng)):
                    return True
        except ArithmeticError:
            continue
    return False


def _variables(a: Access) -> frozenset[Var]:
    return frozenset().union(*(e.variables() for e in a.exprs()))


def _common(v: Var, rng: np.random.Generator) -> np.ndarray:
    low = v.lo or 0
    if v.hi is not None:
        return rng.integers(low, v.hi + 1, _ROUNDS)
    return np.maximum(low, rng.choice(_UNBOUNDED, _ROUNDS))


def _agree(conds: list[Expr], drawn: dict[str, np.ndarray]) -> None:
    """Changes values so that more of the conditions hold: sizes that follow from others (`P = H - R + 1`, in two conditions)
    follow, and what is too large (a loop over a small size) becomes smaller."""
    there, fixed = set(conds), set()
    for c in conds:
        v = next((v for v, k in c.terms if isinstance(v, Var) and abs(k) == 1 and v.hi is None and v not in fixed), None)
        if v is not None and -c in there:
            rest = -c.coefficient(v) * (c - c.coefficient(v) * v)
            if v not in rest.variables():
                drawn[v.name] = np.maximum(v.lo or 0, np.broadcast_to(rest.evaluate(drawn), (_ROUNDS,)))
            fixed |= c.variables()
    for c in conds:
        for v, k in c.terms:
            if k < 0 and isinstance(v, Var) and v not in fixed:
                most = np.asarray((c - k * v).evaluate(drawn)) // -k
                drawn[v.name] = np.maximum(v.lo or 0, np.minimum(drawn[v.name], most))
                break


def _draw(a: Access, shared: dict[str, int], common: set[Var], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Elements and units of allowed accesses, one a row."""
    env: dict[str, object] = dict(shared)
    for v in sorted(_variables(a) - common, key=lambda v: v.name):
        low = v.lo or 0
        top = low + _FAR if v.hi is None else v.hi
        near = rng.integers(low, min(low + _LOW, top + 1), _DRAWS // 2)
        env[v.name] = np.concatenate([near, rng.integers(low, top + 1, _DRAWS - len(near))])
    allowed = np.ones(_DRAWS, np.bool_)
    for c in a.conds:
        if not c.variables() <= common:
            allowed &= np.asarray(c.evaluate(env)) >= 0

    def column(e: Expr) -> np.ndarray:
        return np.broadcast_to(e.evaluate(env), (_DRAWS,))[allowed]

    count = int(allowed.sum())
    elements = np.stack([*map(column, a.coords), np.zeros(count, np.int64)], 1)
    return elements, np.stack([column(unit) for unit, _ in a.owners], 1)


def _meet(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether an element of `one` occurs in `other` with another unit. Each is (elements, units), a row an access."""
    n = len(one[0])
    if not n or not len(other[0]):
        return False
    element, unit = _numbered(one[0], other[0]), _numbered(one[1], other[1])
    low, high = np.full(len(element), len(unit)), np.full(len(element), -1)  # units that access an element, by its number
    np.minimum.at(low, element[:n], unit[:n])
    np.maximum.at(high, element[:n], unit[:n])
    e, u = element[n:], unit[n:]
    return bool(((high[e] >= 0) & ((low[e] != u) | (high[e] != u))).any())


def _numbered(some: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Equal rows of the two get equal numbers, from 0 on."""
    rows = np.concatenate([some, more])
    low = rows.min(axis=0)
    extents = (rows.max(axis=0) - low + 1).tolist()
    if prod(extents) >= 1 << 62:
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    key = np.zeros(len(rows), np.int64)
    for column, least, extent in zip(rows.T, low, extents, strict=True):
        key = key * extent + (column - least)
    return np.unique(key, return_inverse=True)[1].reshape(-1)
