"""Partial results of units that synchronise at barriers: each is stored in a memory that they share, then all units read all.

EXCHANGE   a barrier (placed like any other) stands between the stores and the reads. Every unit combines the values in the same
           order, so all get the same bits.
"""

from __future__ import annotations

from ....dsl.errors.schedule import CannotMeet
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.types import DType
from ....dsl.values import Load, neutral_value
from ...ir.tile_ir import Buffer, Contribution, For, If, Stmt, Store
from ...plan.derived_names import buffer_name, result_of, tensor_of
from ..lowering_context import LoweringContext
from ..spec import ONE, ZERO
from .accumulator_computations import CombinePartials, ExchangeBuffers
from .argreduce_index import no_index
from .contributions import with_value
from .reduction_step import argreduce_step, combine_step

MOST_UNITS = 256  # units: of a finite level whose number is known only at the call [limit]


def exchange_buffer(
    ctx: LoweringContext, name: str, dtype: DType, level: str, cells: tuple[int, ...], at: Span | None
) -> Buffer:
    """Room for every unit's registers: [unit of `level`, lockstep units below, register...] in a memory above `level`."""
    above = [x.name for x in reversed(ctx.device.levels[: ctx.device.depth(level)])]
    outer = above[0]
    memory = next(m for x in above for m in ctx.device.memories if m.level == x and m.backing is None)
    between = ctx.device.levels[ctx.device.depth(memory.level) + 1 : ctx.device.depth(level)]
    if memory == ctx.device.memories[0] and any(x.units == "open" for x in between):
        raise CannotMeet(
            f"units of `{level}` pass their parts of `{result_of(tensor_of(name))}` through a memory that they share, and"
            f" `{ctx.device.name}` has none of `{outer}`",
            at,
            help=f"give the device one, as `memory shared of {outer}: 48 KiB`, or go over the reduced index in a loop",
        )
    shape = (exchange_unit_count(ctx, level), _lanes(ctx, level)[1], *cells)
    named = ctx.fresh(buffer_name(name, memory.name) + "_parts")
    return Buffer.row_major(named, dtype, "local", memory.name, outer, shape, at)


def exchange_unit_count(ctx: LoweringContext, level: str) -> int:
    n = ctx.units[level].constant
    return MOST_UNITS if n is None else n


def _lanes(ctx: LoweringContext, level: str) -> tuple[Expr, int]:
    below = ctx.device.levels[ctx.device.depth(level) + 1 :]
    number, total = ctx.number(tuple(x.name for x in below))
    return number, total or 1


def _coords(ctx: LoweringContext, how: ExchangeBuffers, unit: Expr, cell: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return (unit, _lanes(ctx, how.level)[0], *cell)


def store_partials(ctx: LoweringContext, computation: CombinePartials, cells) -> list[Stmt]:
    how = computation.how
    assert how is not None
    me = as_expr(ctx.unit_var(how.level))
    part = Contribution(computation.result, "part")
    return [
        Store(buffer, _coords(ctx, how, me, cell), Load(register, cell, ctx.dtypes[n]), None, computation.span, None, part)
        for n, buffer, (register, cell) in zip(computation.accumulators, how.buffers, cells, strict=True)
    ]


def load_partials(ctx: LoweringContext, computation: CombinePartials, cells) -> list[Stmt]:
    how = computation.how
    assert how is not None
    assert computation.reduction is not None
    kind = computation.reduction.kind
    me = as_expr(ctx.unit_var(how.level))
    count = as_expr(how.count) if how.count else as_expr(ctx.finite_count(how.level))
    var = ctx.var("part", count)
    group = me - me // how.stride % how.count * how.stride if how.count else ZERO
    other = group + as_expr(var) * how.stride
    (register, cell), dtype = cells[0], ctx.dtypes[computation.name]
    again = Contribution(computation.result, "restart", indexed=len(cells) > 1)
    gather = replace(again, role="gather", level=how.level, stride=how.stride, count=how.count)
    start = [Store(register, cell, neutral_value(kind, dtype), span=computation.span)]
    now = Load(register, cell, dtype)
    theirs = Load(how.buffers[0], _coords(ctx, how, other, cell), dtype)
    if kind in ("argmax", "argmin"):
        place, where = cells[1]
        whole = ctx.dtypes[computation.accumulators[1]]
        start.append(Store(place, where, no_index(whole), span=computation.span))
        index = Load(how.buffers[1], _coords(ctx, how, other, where), whole)
        steps = argreduce_step(kind, (register, cell, now), (place, where, Load(place, where, whole)), theirs, index)
    else:
        steps = [Store(register, cell, combine_step(kind, now, theirs, dtype), span=computation.span)]
    body: list[Stmt] = [*with_value(steps, gather)]
    if how.count and exchange_unit_count(ctx, how.level) % (how.stride * how.count):  # the last group has fewer units
        body = [If((exchange_unit_count(ctx, how.level) - 1 - other,), tuple(body))]
    return [*with_value(start[::-1], again)[::-1], For(Var(var.name, var.lo, var.hi), ZERO, count, ONE, tuple(body))]
