"""The partial results of a reduction that units hold become one, where its accumulator closes.

Units in lockstep exchange registers first, then level by level units pass their values through a memory that they share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Node
from ...ir.tile_ir import Stmt
from ...ir.tile_visitors import with_buffers
from ...plan.computations import Computation
from ..spec import Focus
from .accumulator_computations import CombinePartials, ExchangeBuffers, as_kind
from .cross_unit_reduction import exchange_buffer

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def combine_partials(low: Lowering, focus: Focus, w: Computation, owner: Node) -> list[Stmt]:
    """Every unit gets the whole result. `owner`: the tree by which registers are visited."""
    ctx = low.ctx
    at = low.opened[w.name].span if w.name in low.opened else None
    out = low.lower(replace(focus, computations=(as_kind(CombinePartials, w),)), owner)
    for level, stride, count in ctx.units_to_combine(w.name):
        if ctx.device.level(level).exchanges_registers:
            continue
        cells = {n: ctx.cells.get(focus.views[n].buffer, ()) for n in w.accumulators}
        made = [exchange_buffer(ctx, n, ctx.dtypes[n], level, c, at) for n, c in cells.items()]
        ctx.buffers += made
        how = ExchangeBuffers(tuple(b.name for b in made), level, stride, count, True)
        stored = low.lower(replace(focus, computations=(replace(as_kind(CombinePartials, w), how=how),)), owner)
        read = low.lower(
            replace(focus, computations=(replace(as_kind(CombinePartials, w), how=replace(how, storing=False)),)), owner
        )
        out += with_buffers(made, (*stored, *read))
    return out
