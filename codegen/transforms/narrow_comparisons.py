"""Comparisons of an index with an integer that a tensor holds, in 32 bits where the index provably fits.

    narrow_comparisons(program) -> program        i64(L[m]) == v  -->  L[m] == i32(v), where 0 <= v < 2**31

Indices are numbers of 64 bits. A vector has half as many of these, and one in a launch halves the vectors of all of it.
"""

from __future__ import annotations

from ...dsl.support.fast_replace import replace
from ...dsl.types import TYPES
from ...dsl.values import COMPARISONS, Apply, Cast, IndexValue, Load, Value, transform
from ..ir.program import Program
from ..ir.tile_ir import Stmt, Store
from ..ir.tile_visitors import map_bodies, mapped

WIDE, NARROW = TYPES["i64"], TYPES["i32"]
MOST = 1 << 31  # numbers: below zero, and from it on, of the narrow type [fact: i32]


def narrow_comparisons(program: Program) -> Program:
    return replace(program, launches=tuple(replace(x, body=_body(x.body)) for x in program.launches))


def _body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    def one(s: Stmt) -> Stmt:
        return replace(s, value=transform(s.value, _compared)) if isinstance(s, Store) else map_bodies(s, _body)

    return mapped(body, one)


def _compared(v: Value) -> Value | None:
    if not isinstance(v, Apply) or v.fn not in COMPARISONS:
        return None
    args = tuple(map(_narrow, v.args))
    held = [a for a in args if isinstance(a, Load)]
    return None if None in args or len(held) != 1 else replace(v, args=args)


def _narrow(v: Value) -> Value | None:
    """The same number with 32 bits; None: it may have more."""
    if isinstance(v, Cast) and v.dtype == WIDE and isinstance(v.arg, Load) and _fits(v.arg):
        return v.arg
    if not isinstance(v, IndexValue) or v.dtype != WIDE:
        return None
    low, high = v.expr.interval
    return replace(v, dtype=NARROW) if low is not None and high is not None and low >= -MOST and high < MOST else None


def _fits(v: Load) -> bool:
    return v.dtype.kind == "int" and v.dtype.bits == NARROW.bits
