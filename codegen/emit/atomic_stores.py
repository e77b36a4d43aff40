"""Atomic stores: each lane adds its value to an element in memory."""

from __future__ import annotations

from ..ir.tile_ir import Store
from .addressing import address, lane_pointer
from .c.c_expr import CExpr, storage
from .c.c_tree import Declaration, ExprStatement
from .emission_context import EmissionContext
from .load_store import splat


def store_atomic(ctx: EmissionContext, s: Store, kind: str, value: CExpr) -> None:
    """Prints the store to memory of a value in the type that it computes in. `kind`: how it is combined with the element."""
    buffer = ctx.buffers[s.buffer]
    ctx.need(f"atomic_{kind}", storage(buffer.dtype))
    e = address(ctx, buffer, s.coords)
    if ctx.in_lane or ctx.lanes.var is None or not (value.vector or ctx.varies(e)):
        # a uniform value at a uniform address: every lane adds its value
        times = 1 if ctx.in_lane or ctx.lanes.var is None else ctx.width
        for _ in range(times if kind == "sum" else 1):
            ctx.text.add(ExprStatement(f"atomic_{kind}({lane_pointer(ctx, buffer, e)}, {value.text})", brief=True))
        return
    t = ctx.text.temp()
    text = value.text if value.vector else splat(ctx, storage(buffer.dtype), value)
    ctx.text.add(Declaration(ctx.element(storage(buffer.dtype), True), t, text, const=True))
    for i in range(ctx.width):
        where = lane_pointer(ctx, buffer, ctx.at_lane(e, i))
        ctx.text.add(ExprStatement(f"atomic_{kind}({where}, {t}[{i}])", brief=True))
