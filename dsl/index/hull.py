"""The hull of a subscript: the least interval that is known to contain its values while some indices run over a tile.

MONOTONE   `div` by a constant d is monotone, so the least argument gives the least value. Its span depends on the offset at
           which the argument begins within a step of d. The greatest g that divides both d and the argument's beginning bounds
           the offset: it is at most d - g (k/32 for k = 16*i .. 16*i + 15 is one value).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from .expr import Atom, Expr, Var, as_expr, maximum, minimum


def hull(e: Expr, tile: Mapping[str, tuple[Expr, int]]) -> tuple[Expr, int] | None:
    """Where the values of `e` begin, and by how much the greatest may exceed that; None if no constant bounds it.

    tile    index -> (where it begins, the last value less the first, >= 0); other variables stay as they are
    """
    origin, span = as_expr(e.const), 0
    for atom, c in e.terms:
        part = _atom(atom, tile)
        if part is None:
            return None
        least, width = part
        origin = origin + (least if c > 0 else least + width) * c
        span += abs(c) * width
    return origin, span


def _atom(atom: Atom, tile: Mapping[str, tuple[Expr, int]]) -> tuple[Expr, int] | None:
    whole = as_expr(atom) if isinstance(atom, Var) else Expr(((atom, 1),))
    if isinstance(atom, Var):
        return tile.get(atom.name, (whole, 0))
    if not any(v.name in tile for v in whole.variables()):
        return whole, 0
    parts = [hull(a, tile) for a in atom.args]
    if any(p is None for p in parts):
        return None
    known = [p for p in parts if p is not None]
    if atom.kind in ("min", "max"):
        combine = minimum if atom.kind == "min" else maximum
        return combine(*(least for least, _ in known)), max(width for _, width in known)
    if atom.kind not in ("div", "mod"):
        return None
    (least, width), d = known[0], atom.args[1].constant
    if d is None:
        return None
    late = d - gcd(d, least.const, *(c for _, c in least.terms))  # the argument begins at most this far into a step
    if atom.kind == "div":
        return least // d, (late + width) // d
    return (least % d, width) if late + width < d else (as_expr(0), d - 1)
