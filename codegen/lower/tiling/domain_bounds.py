"""The bounds of a loop over an index that a domain restricts: tiles without a term that counts are skipped.

    tile i: 32 -> core                          for t in 0 .. T/64
    tile t: 64            t <= i        -->     for t in 0 .. min(T/64, (i + 31) / 64 + 1)

UNION       bounds are those of all rows that the loop visits, and of all computations in it.
UNIFORM     units that may wait for each other have the same bounds: those of all of their rows.
SKIPPABLE   what else is in the loop is computed for the reductions in it alone.
LINEAR      bounds follow from conditions on sums of indices and of their quotients by numbers. Others are left to the elements'
            guards.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ....dsl.index.eliminate import linear_in, without
from ....dsl.index.expr import Expr, Fn, Var, as_expr, ceildiv, maximum, minimum
from ...plan.computations import Computation
from ..lowering_context import LoweringContext
from ..spec import ZERO, Focus, Range

Bound = Expr | None


@dataclass(frozen=True)
class Bounds:
    """Of the elements of a range in which terms count, from its base on: `start <= x < stop`; None: no bound."""

    start: Bound = None
    stop: Bound = None

    def tiles(self, size: int, trips: Expr) -> tuple[Expr, Expr]:
        """The first of `trips` tiles with an element, and the first after the last of them."""
        start = ZERO if self.start is None else maximum(self.start // size, 0)
        return start, trips if self.stop is None else minimum(ceildiv(self.stop, size), trips)


UNBOUNDED = Bounds()


def domain_bounds(ctx: LoweringContext, focus: Focus, index: str) -> Bounds:
    """Of a loop over what the focus has left of an index. Whoever asks sees that the rest of the loop is SKIPPABLE."""
    r = focus.ranges[index]
    reductions = [w for w in focus.computations if index in w.reduced]
    if not reductions or r.strided_runs or not all(w.domain for w in reductions):
        return UNBOUNDED
    found = [_of_computation(ctx, focus, w, index) for w in reductions]
    starts, stops = [b.start for b in found], [b.stop for b in found]
    return Bounds(_joined(minimum, starts), _joined(maximum, stops))


def _joined(choose, bounds: list[Bound]) -> Bound:
    """UNION"""
    known = [b for b in bounds if b is not None]
    return choose(*known) if len(known) == len(bounds) else None


def _of_computation(ctx: LoweringContext, focus: Focus, w: Computation, index: str) -> Bounds:
    starts: list[Expr] = []
    stops: list[Expr] = []
    ends = _ends(ctx, focus.ranges[index])
    if ends is None:
        return UNBOUNDED
    least, most = ends
    for c in w.domain:
        linear = linear_in(c, index)
        if linear is None:
            continue
        k, rest = linear
        greatest = _greatest(ctx, focus, rest)
        if greatest is None:
            continue
        if k < 0:
            stops.append((greatest + least * k) // -k + 1)
        else:
            starts.append(-((greatest + most * k) // k))
    return Bounds(maximum(*starts) if starts else None, minimum(*stops) if stops else None)


def _ends(ctx: LoweringContext, r: Range) -> tuple[Expr, Expr] | None:
    """UNIFORM: the least and the greatest base of the range among units that may wait for each other; None: not known."""
    base, beyond = r.base, ZERO
    for step in r.steps:
        if step.unit is None or (step.unit != "fragment" and _never_wait(ctx, step.unit)):
            continue
        if step.extent.constant is None:
            return None
        base, beyond = base - step.expr * step.stride, beyond + step.stride * (step.extent.constant - 1)
    return base, base + beyond


def _never_wait(ctx: LoweringContext, level: str) -> bool:
    """Whether units of the level wait for each other nowhere in a tile; finite ones have one tile after the other."""
    found = ctx.device.level(level)
    return found.siblings == "nothing" or found.units == "finite"


def _greatest(ctx: LoweringContext, focus: Focus, e: Expr) -> Expr | None:
    """No less than the expression is for any element in focus; None: not known (LINEAR)."""
    indices = {i for w in focus.computations for i, _ in w.extents}
    out = as_expr(e.const)
    for atom, c in e.terms:
        part = Expr(((atom, c),))
        if not indices.isdisjoint(v.name for v in part.variables()):
            end = _end_of_index(ctx, focus, atom, c > 0) if isinstance(atom, Var) else _end_of_quotient(ctx, focus, atom, c > 0)
            if end is None:
                return None
            part = end * c
        out = out + part
    return out


def _end_of_index(ctx: LoweringContext, focus: Focus, index: Var, most: bool) -> Expr | None:
    """The greatest value of an index in focus, or the least."""
    r = focus.ranges.get(index.name)
    ends = _ends(ctx, r) if r is not None and not r.strided_runs else None
    if r is None or ends is None:
        return None
    return ends[1] + r.size - 1 if most else ends[0]


def _end_of_quotient(ctx: LoweringContext, focus: Focus, f: Fn, most: bool) -> Expr | None:
    """The same of a quotient by a number; None also of other functions."""
    if f.kind != "div" or f.args[1].constant is None or f.args[1].const < 1:
        return None
    of, by = f.args
    end = _greatest(ctx, focus, of if most else -of)
    return None if end is None else (end if most else -end) // by


def has_terms(w: Computation, domain: tuple[Expr, ...], over: Collection[str]) -> tuple[Expr, ...] | None:
    """What is at least 0 where a reduction has terms in a domain, for some values of the indices `over`; None: not known."""
    extents = dict(w.extents)
    reduced = [i for i, _ in w.extents if w.alias.get(i, i) in over]
    conds = [*domain, *(e for i in reduced for e in (as_expr(Var(i)), extents[i] - 1 - as_expr(Var(i))))]
    for i in reduced:
        found = without(conds, i)
        if found is None:
            return None
        conds = list(found)
    return tuple(conds)
