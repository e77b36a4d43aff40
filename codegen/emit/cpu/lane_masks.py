"""Masks of lanes for arbitrary conditions, computed for all lanes at once.

At the edges of an image a vector may cover parts of several lines, so the lanes inside are no range:

    const i32x16 t1 = (((i32x16){0, 1, 2, ..} + splat(16 * pq)) / 7 >= splat(1 - r)) & ..        load_where_f32x16(p, t1)
"""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl.index.expr import Expr, Fn, as_expr, maximum, minimum
from ....dsl.types import TYPES
from ....dsl.values import COMPARISONS, Apply, IndexValue, Masked
from ..c.c_expr import BOOL, I32, PRODUCT, CExpr
from ..c.c_tree import Declaration
from ..emission_context import EmissionContext
from ..load_store import lane_step, splat
from .masked_access import is_zero, masked_load_step

MOST = 1 << 28  # elements: the most of a term that lanes compute in 32 bits, so that a sum of eight fits [limit]


def is_maskable(ctx: EmissionContext, v: Masked, conds: Sequence[Expr]) -> bool:
    """Whether it is a load of contiguous elements that is zero elsewhere, and 32 bits suffice for the comparisons."""
    step = masked_load_step(ctx, v) if is_zero(v.otherwise) else None
    return step is not None and step.constant == 1 and all(_fits(ctx, e) for e in conds if ctx.varies(e))


def lane_mask(ctx: EmissionContext, conds: Sequence[Expr]) -> str:
    """The mask of the lanes in which the conditions hold. Prints the statements for it."""
    name, vector = ctx.text.temp(), ctx.element("i32", True)
    holds = " & ".join(_holds(ctx, e) for e in conds if ctx.varies(e))
    ctx.text.add(Declaration(vector, name, holds, const=True))
    same = [e for e in conds if not ctx.varies(e)]
    return f"{ctx.condition(same)} ? {name} : ({vector}){{}}" if same else name


def compare_lanes(ctx: EmissionContext, v: Apply) -> CExpr | None:
    """`t <= i + d` along the lanes of t  -->  {0, 1, 2, ..} <= (int32_t) i + d - t, cut where no lane or every lane is meant.

    None where all lanes have the same, or where it does not grow evenly from one to the next.
    """
    a, b = (ctx.substitute(x.expr) for x in v.args if isinstance(x, IndexValue))
    e = a - b
    step = lane_step(ctx, e)
    by = step.constant if step is not None else None
    if not by or abs(by) * ctx.width > MOST:
        return None
    steps = [by * i for i in range(ctx.width)]
    bound = maximum(minimum(-ctx.at_lane(e, 0), max(steps) + 1), min(steps) - 1)
    counted = f"({ctx.element('i32', True)}){{{', '.join(map(str, steps))}}}"
    other = splat(ctx, "i32", CExpr(f"(int32_t)({ctx.text.index.text(bound)})", I32))
    return CExpr(f"({counted} {COMPARISONS[v.fn]} {other})", BOOL, True, 32)


def compare_with_zero(ctx: EmissionContext, conds: Sequence[Expr]) -> CExpr | None:
    """The mask of the lanes in which conditions hold that grow evenly from one lane to the next; None for others."""
    masks: list[str] = []
    for e in (e for e in conds if ctx.live((e,))):
        if not ctx.varies(ctx.substitute(e)):
            return None
        mask = compare_lanes(
            ctx, Apply("ge", (IndexValue(e, TYPES["i64"]), IndexValue(as_expr(0), TYPES["i64"])), TYPES["bool"])
        )
        if mask is None:
            return None
        masks.append(mask.text)
    return CExpr(" & ".join(masks) if len(masks) == 1 else f"({' & '.join(masks)})", BOOL, True, 32)


def _fits(ctx: EmissionContext, e: Expr) -> bool:
    """Whether all terms are small, and the terms that differ between lanes are the lane, or its quotients by numbers."""
    for a, c in e.terms:
        low, high = Expr(((a, c),), 0).interval
        if low is None or high is None or max(-low, high) > MOST:
            return False
        if isinstance(a, Fn) and ctx.lane in a.variables():
            if a.kind not in ("div", "mod") or (by := a.args[1].constant) is None or by > MOST:
                return False
            if not _fits(ctx, a.args[0]):
                return False
    return abs(e.const) <= MOST


def _holds(ctx: EmissionContext, e: Expr) -> str:
    """e >= 0, as a comparison of terms that differ between lanes with the other terms."""
    same = Expr(tuple(t for t in e.terms if not ctx.varies(Expr((t,), 0))), e.const)
    parting = e - same
    if all(c < 0 for _, c in parting.terms):
        return f"({_vector(ctx, -parting)} <= {_vector(ctx, same)})"
    return f"({_vector(ctx, parting)} >= {_vector(ctx, -same)})"


def _vector(ctx: EmissionContext, e: Expr) -> str:
    """An index expression in all lanes."""
    pieces: list[str] = []
    same = as_expr(e.const)
    for a, c in e.terms:
        if a == ctx.lane:
            pieces.append(f"({ctx.element('i32', True)}){{{', '.join(str(c * i) for i in range(ctx.width))}}}")
        elif isinstance(a, Fn) and ctx.lane in a.variables():
            of, by = a.args[0], a.args[1].const
            turns = -min(0, (of.interval[0] or 0) // by)  # C's quotients are floor's where nothing is negative
            same = same - c * turns if a.kind == "div" else same
            quotient = f"({_vector(ctx, of + by * turns)} {'/' if a.kind == 'div' else '%'} {by})"
            pieces.append(quotient if c == 1 else f"{quotient} * {splat(ctx, 'i32', CExpr(str(c), I32))}")
        else:
            same = same + Expr(((a, c),), 0)
    if same.terms or same.const or not pieces:
        start = ctx.text.index.text(same, PRODUCT + 1)
        pieces.append(splat(ctx, "i32", CExpr(start if same.constant is not None else f"(int32_t){start}", I32)))
    return pieces[0] if len(pieces) == 1 else f"({' + '.join(pieces)})"
