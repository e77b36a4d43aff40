"""Accesses of the first lanes only, as one call: `load_part`, `store_part`, which take all lanes, some or none.

At the edges of tiles, a condition that counts lanes, and others that hold for all lanes or for none, become

    load_part_f32x8(p, row < M ? N - col : 0)

These helpers take any count: below 0 is none, above the width all. If the first lanes are masked out as well, as at the left
edge of an image, `load_between` takes a range of lanes. Lanes at a stride are gathered, also when only some take part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ....dsl.index.expr import Expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Const, Load, Masked, Value, loads, walk
from ...ir.tile_ir import Alloc, If, Stmt, Store
from ..addressing import address
from ..c.c_expr import I64, SUM, TERNARY, CExpr
from ..emission_context import EmissionContext
from ..load_store import has_masked_form, lane_step
from ..partial_lanes import FirstLanes


def is_zero(v: Value) -> bool:
    """Whether a value is all bits zero."""
    return isinstance(v, Const) and not v.value and math.copysign(1, v.value) > 0


def first_lane_count(ctx: EmissionContext, v: Masked, conds: Sequence[Expr]) -> CExpr | None:
    """The number of lanes that load, which are the first ones; None if it is not a load at a constant stride that is a constant
    elsewhere."""
    load = v.value
    if not isinstance(load, Load) or not isinstance(v.otherwise, Const) or load.dtype.kind == "bool" or not _free(ctx):
        return None
    if load.tensor in ctx.lanes.registers:
        return None
    step = lane_step(ctx, address(ctx, ctx.buffers[load.tensor], load.indices))
    return None if step is None or step.constant == 0 else _count(ctx, conds)


def masked_load_step(ctx: EmissionContext, v: Masked) -> Expr | None:
    """By how many elements the lanes of a load from memory that is a constant elsewhere are apart; None if it is not that."""
    load = v.value
    if not isinstance(load, Load) or not isinstance(v.otherwise, Const) or load.dtype.kind == "bool" or ctx.in_lane:
        return None
    if load.tensor in ctx.lanes.registers or (ctx.sub_vectors > 1 and ctx.sub_vector is None):
        return None
    return lane_step(ctx, address(ctx, ctx.buffers[load.tensor], load.indices))


def lane_bounds(ctx: EmissionContext, v: Masked, conds: Sequence[Expr]) -> str | None:
    """From which lane to which it loads, as two arguments; None if it is not a load of what lies evenly apart, and a constant
    elsewhere. Lanes that take no part (`EmissionContext.mask`) are none of them: what they would load may lie outside."""
    step = masked_load_step(ctx, v)
    lanes = ctx.lane_interval([e for e in conds if ctx.varies(e)]) if step is not None and step.constant != 0 else None
    if lanes is None:
        return None
    first, stop = map(ctx.text.index.text, lanes)
    part = ctx.first_lanes
    if part is not None and stop != part.text:
        ctx.need("imin")
        stop = f"imin({stop}, {part.text})"
    same = [e for e in conds if not ctx.varies(e)]
    return f"{first}, {f'{ctx.condition(same)} ? {stop} : 0' if same else stop}"


def loads_each_lane(ctx: EmissionContext, v: Value) -> bool:
    """Whether it is a load of another element for each lane, from memory: a part of it has zeros in the other lanes."""
    if not isinstance(v, Load) or v.tensor in ctx.lanes.registers:
        return False
    return any(ctx.varies(ctx.substitute(e)) for e in v.indices)


def loads_one_element(ctx: EmissionContext, v: Value) -> bool:
    """Whether all lanes load one element from memory, somewhere in a value."""
    stored = [n for n in loads(v) if n.tensor not in ctx.lanes.registers]
    return any(not ctx.varies(address(ctx, ctx.buffers[n.tensor], n.indices)) for n in stored)


def store_first_lanes(ctx: EmissionContext, s: If, conds: Sequence[Expr], show: Callable[[Store], None]) -> bool:
    """Prints an If around one store of registers to contiguous elements; False for any other If."""
    if s.orelse or len(s.body) != 1 or not _free(ctx):
        return False
    store = s.body[0]
    if not isinstance(store, Store) or store.atomic or not has_masked_form(ctx, store.buffer, store.coords, written=True):
        return False
    reads_memory = any(isinstance(n, Load) and n.tensor not in ctx.lanes.registers for n in walk(store.value))
    if reads_memory or not all(has_masked_form(ctx, n.tensor, n.indices) for n in walk(store.value) if isinstance(n, Load)):
        return False
    if any(isinstance(n, Masked) for n in walk(store.value)):
        return False
    count = _count(ctx, conds)
    if count is None:
        return False
    with ctx.masked(FirstLanes(count)):
        show(store)
    return True


def can_be_masked(
    ctx: EmissionContext, value: Callable[[Value], bool], stmts: Sequence[Stmt], own: frozenset[str] = frozenset()
) -> bool:
    """Whether statements can be done for a part of the lanes: stores to memory of what lies side by side, and to registers,
    which the other lanes leave as they are, or which nothing outside reads (`own`); `value` tells it of values."""
    for s in stmts:
        match s:
            case Alloc() if (register := ctx.lanes.registers.get(s.buffer.name)) is not None and register.named:
                if not can_be_masked(ctx, value, s.body, own | {s.buffer.name}):
                    return False
            case Store():
                register = ctx.lanes.registers.get(s.buffer)
                apart = register is not None and register.named and not register.uniform
                dtype = register.buffer.dtype if register is not None and apart else None
                fits = s.buffer in own or (dtype is not None and dtype.kind != "bool" and dtype.compute == dtype)
                if s.atomic or not (fits or has_masked_form(ctx, s.buffer, s.coords, written=True)) or not value(s.value):
                    return False
            case If():
                if any(ctx.varies(ctx.substitute(e)) for e in s.conds) or not can_be_masked(
                    ctx, value, (*s.body, *s.orelse), own
                ):
                    return False
            case _:
                return False
    return True


def _free(ctx: EmissionContext) -> bool:
    """Whether one vector of lanes is being printed, all of it."""
    return ctx.mask is None and not ctx.in_lane and (ctx.sub_vectors == 1 or ctx.sub_vector is not None)


def lane_count(ctx: EmissionContext, count: Expr) -> CExpr:
    """A number of lanes that take part: a sum, or an expression that binds more strongly."""
    return CExpr(ctx.text.index.text(count), I64, precedence=SUM)


def _count(ctx: EmissionContext, conds: Sequence[Expr]) -> CExpr | None:
    """The number of lanes that take part."""
    same = [e for e in conds if not ctx.varies(e)]
    parting = [e for e in conds if ctx.varies(e)]
    count = ctx.prefix(parting)
    if count is None or count.constant == 1 or not ctx.in_all_lanes(parting):
        return None
    first = lane_count(ctx, count)
    return CExpr(f"{ctx.condition(same)} ? {first.text} : 0", I64, precedence=TERNARY) if same else first


def merge_conditions(v: Masked) -> Masked:
    """Nested conditions with the same constant elsewhere, as one choice: in order, because the first ones may protect the
    evaluation of the others."""
    inner = v.value
    if not isinstance(inner, Masked) or not isinstance(v.otherwise, Const) or inner.otherwise != v.otherwise:
        return v
    return merge_conditions(replace(inner, conds=(*v.conds, *inner.conds)))
