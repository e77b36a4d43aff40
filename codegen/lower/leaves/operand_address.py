"""The address that a unit passes for an operand in memory, and when an instruction can access it there.

WHOLE_OR_NOT, ALIGNED, WHERE_IT_READS, TOGETHER: see `instr_leaf`.
"""

from __future__ import annotations

import numpy as np

from ....dsl.device import Operand
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ...analysis.divisibility import KnownMultiples, divisor, required_divisors
from ...analysis.loop_nest import linear_address
from ...analysis.register_buffers import is_register
from ...ir.tile_ir import Buffer
from ...plan.derived_names import tensor_of
from ..addressing import coordinates, edge_conds, unfilled_edge_conds
from ..lowering_context import LoweringContext
from ..spec import Focus, RangeStep, View
from .match_instr import FragmentMap
from .scalar_leaf import lanes_below

_UNKNOWN = KnownMultiples(frozenset(), {}, {})


def for_all(ctx: LoweringContext, focus: Focus, guards: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """TOGETHER: conditions, the same for all units that execute the instruction, under which the guards hold for each of them;
    None where there are no simple ones."""
    units = {ctx.unit_var(x): ctx.units[x].constant for x in ctx.below(focus.level, ctx.innermost) if x in ctx.units}
    if not any(not v.isdisjoint(units) for v in (c.variables() for c in guards)):
        return guards

    if None in units.values():
        return None
    at = np.indices(tuple(n or 1 for n in units.values()), sparse=True)
    env = {v.name: x for v, x in zip(units, at, strict=True)}
    out = []
    for c in guards:
        own = [(a, k) for a, k in c.terms if not Expr(((a, 1),)).variables().isdisjoint(units)]
        mine = Expr(tuple(own))
        if not mine.variables() <= set(units):
            return None
        out.append(c - mine + int(np.min(mine.evaluate(env))))
    return tuple(dict.fromkeys(c for c in out if c.interval[0] is None or c.interval[0] < 0))


def operand_address(ctx: LoweringContext, focus: Focus, f: FragmentMap, op: Operand, tensor: str, indices, inside, halo: bool):
    """The address this unit passes, what must hold for the whole operand to be inside, and why no call can access it.

    The reason is empty where a call can.

    `halo`: the tensor may be read outside of its shape, where something `else` counts.
    """
    lane, _ = ctx.number(lanes_below(ctx, focus.level, f.lanes))
    view = focus.views[tensor]
    buffer = buffer_of(ctx, view)
    guards: list = []

    def of(register: Expr) -> Focus:
        ranges = dict(focus.ranges)
        for i, extent, e in f.maps:
            subs = {v: lane if v.name == "lane" else register for v in e.variables()}
            ranges[i] = focus.ranges[i].split(1, RangeStep(e.subs(subs), as_expr(extent), "fragment"))
        return replace(focus, ranges=ranges)

    def address(at: Focus) -> Expr:
        return linear_address(buffer, coordinates(ctx, at, tensor, indices))

    alias = focus.aliases
    visited = (alias.get(v.name, v.name) for e in indices for v in sorted(e.variables(), key=str))
    all_indices = dict.fromkeys((*(i for i, _, _ in f.maps), *(i for i in visited if i in focus.ranges)))
    ends = {n: of(as_expr(n)) for n in sorted({0, f.registers - 1})}
    for at in ends.values():
        # a staged tile is as large as what is read of it, so edges need guards in arguments, and in what is computed unfilled
        mine = [i for i, _, _ in f.maps]
        unfilled = view.form == "global" or not view.zero_padded
        guards += edge_conds(at, all_indices) if unfilled else unfilled_edge_conds(at, view, mine)
        within = list(inside)
        if halo and (view.form == "global" or view.computed):
            within += [c for e, n in zip(indices, ctx.shapes[tensor], strict=True) for c in (e, n - e - 1)]
        guards += [c for c in (x.subs(at.binding) for x in within) if c.interval[0] is None or c.interval[0] < 0]
    coords = coordinates(ctx, ends[0], tensor, indices)
    first, r = linear_address(buffer, coords), Var("$r", 0, f.registers - 1)
    straight = f.registers == 1 or first + r == address(of(as_expr(r)))
    straight = straight or all((address(of(as_expr(n))) - first).constant == n for n in range(1, f.registers))
    why = "" if straight else f"the {f.registers} elements of `{op.name}` are not adjacent in `{tensor_of(tensor)}`"
    aligned = divisor(first * buffer.dtype.bytes, _UNKNOWN) % max(op.alignment, 1) == 0
    if view.form != "global" and not aligned and buffer.size.constant != 0:  # ALIGNED; no address is in what has no elements
        why = f"it wants addresses that are multiples of {op.alignment}, and the copy of `{tensor_of(tensor)}` has others"
    if (there := other_memory(ctx, buffer, op)) is not None:  # WHERE_IT_READS
        why = f"`{op.name}` lies in `{op.memory}`, and `{tensor_of(tensor)}` in {there}"
    return coords, tuple(dict.fromkeys(guards)), why


def is_never_aligned(ctx: LoweringContext, view: View, op: Operand, coords: tuple[Expr, ...]) -> bool:
    """ALIGNED: whether the address is misaligned whatever the sizes are. Copies of one unit are made narrower later."""
    buffer = buffer_of(ctx, view)
    sizes = {v for shape in ctx.shapes.values() for e in shape for v in e.variables()} | dict(ctx.derived).keys()
    known = KnownMultiples(frozenset(sizes), dict(ctx.derived), {})
    return required_divisors(linear_address(buffer, coords), max(1, op.alignment // buffer.dtype.bytes), known) is None


def buffer_of(ctx: LoweringContext, view: View) -> Buffer:
    return next(b for b in ctx.buffers if b.name == view.buffer)


def other_memory(ctx: LoweringContext, buffer: Buffer, op: Operand) -> str | None:
    """Where a buffer lies, if an operand in memory cannot be there; addresses are of the memory behind a cache."""
    there, wanted = (ctx.device.memory(m).backing or m for m in (buffer.memory, op.memory))
    if there == wanted and not ctx.register(wanted) and is_register(buffer, ctx.device):
        return f"registers, as one `{buffer.level}` has it to itself"
    return f"`{there}`" if there != wanted else None
