"""The schedule of a copy without lines of its author: the distribution of its elements over units (`complete` prints it).

SHARE_OUT   units that synchronise by a barrier share whole rows or panels; lockstep units take neighbouring elements, or runs
            of them if the device moves several at once (`copy_width`).
HONOURED    an instruction that the line names is the leaf, or the line is refused.
SIZE_FIRST  a tile that its memory cannot hold is refused when all tiles are known. Its copy is not planned: that would take
            time with its size.
"""

from __future__ import annotations

from math import prod

from ....dsl import syntax
from ....dsl.device import Instr
from ....dsl.errors import did_you_mean
from ....dsl.errors.schedule import InstrMismatch, UnknownInstr
from ....dsl.index.expr import Var
from ....dsl.layout import Layout
from ....dsl.values import Load, Value
from ...ir.tile_ir import Buffer
from ...plan.computations import Computation
from ..capacity import exceeds_alone
from ..lowering_context import LoweringContext
from ..spec import Focus
from .copy_width import elements_per_unit


def copy_lines(
    ctx: LoweringContext, focus: Focus, axes: list[tuple[str, int]], source: Value, target: Buffer, layout: Layout, line
) -> tuple:
    """Lines for `dst = src`, the work in focus, with the units that the launch has."""
    (work,) = focus.works
    below = [x for x in ctx.device.levels[ctx.device.depth(focus.level) + 1 :] if x.name in ctx.units]
    shaped = [x for x in below if x.units == "shaped"]
    finite = [x for x in below if x.units == "finite"]
    if not axes or exceeds_alone(ctx.device, target):  # SIZE_FIRST
        return (syntax.Compute(),)
    fastest = contiguous_axis(source, [a for a, _ in axes])
    extents = dict(axes)
    wide = _member(ctx, line, work, axes, fastest, layout)
    if wide is not None and shaped:
        level = below[-1].name if wide[0].level == ctx.innermost else wide[0].level
        return _flat(axes, fastest, level, wide[1], wide[0].name)
    if not finite and shaped and not shaped[-1].bytes:
        run = elements_per_unit(ctx, focus, axes, fastest, layout, target.memory)
        return _flat(axes, fastest, below[-1].name, run)
    lines: list[syntax.Line] = []
    outer = layout.digits[0]
    if finite and extents[outer.axis] // max(1, outer.div) > 1:
        lines.append(_tile(outer.axis, max(1, outer.div), finite[-1].name))
    if shaped:
        lines += [_tile(a, 1, None) for a, _ in axes if a != fastest]
        lines.append(_tile(fastest, 1, shaped[-1].name))
    lines.append(syntax.Compute())
    return tuple(lines)


Axes = list[tuple[str, int]]


def _member(
    ctx: LoweringContext, line, work: Computation, axes: Axes, fastest: str, layout: Layout
) -> tuple[Instr, int] | None:
    """The copy instruction that the line names, the widest of a family, and the elements that one call moves.

    Raises UnknownInstr, and InstrMismatch for a copy that no member can make (HONOURED).
    """
    name = with_instr_name(line)
    if name is None:
        return None
    known = ctx.device.instrs_named(name)
    if not known:
        names = {n for i in ctx.device.instrs for n in (i.name, i.family) if n}
        message = f"`{ctx.device.name}` has no instruction `{name}`"
        raise UnknownInstr(message, line.span, help=did_you_mean(name, names))
    dtype = work.value.dtype
    plain = [i for i in known if len(i.statement.ranges) == 1 and not i.accumulate]
    typed = [(i, i.statement.ranges[0][1].constant or 1) for i in plain if all(o.dtype == dtype for o in i.operands)]
    widest = sorted(typed, key=lambda x: -x[1])
    found = next((x for x in widest if not _why_not(ctx, *x, axes, fastest, layout)), None)
    if found is None:
        why = _why_not(ctx, *typed[0], axes, fastest, layout) if typed else f"it is not for {dtype}"
        raise InstrMismatch(
            f"`{name}` cannot copy `{line.tensor}`: {why}",
            line.span,
            help="leave `with` out, or change the tile or its layout",
        )
    return found


def _why_not(ctx: LoweringContext, instr: Instr, n: int, axes: Axes, fastest: str, layout: Layout) -> str:
    """Why the instruction cannot make the copy, n elements a call; empty if it can."""
    import numpy as np

    extents = dict(axes)
    total = prod(extents.values())
    source = next(o for o in instr.operands if o.name != instr.statement.target)
    run = next(((v.hi or 0) + 1 for v in source.coords if v.name == "r"), 1)
    if extents[fastest] % run:
        return f"it takes {run} neighbours at once, and there are {extents[fastest]} of `{fastest}`"
    if total % n:
        return f"it takes {n} elements, and the tile has {total}"
    order = [(a, e) for a, e in axes if a != fastest] + [(fastest, extents[fastest])]
    at = np.unravel_index(np.arange(total), [e for _, e in order])
    values = {a: Var(a, 0, e - 1) for a, e in order}
    address = np.broadcast_to(layout.address(values).evaluate({a: x for (a, _), x in zip(order, at, strict=True)}), total)
    if (np.diff(address.reshape(-1, n), axis=1) != 1).any():
        return f"it writes {n} elements one after another, and the tile's do not lie so"
    if instr.level != ctx.innermost and instr.level not in ctx.units:
        return f"a {instr.level} executes it, and there are none here"
    return ""


def with_instr_name(line) -> str | None:
    """The instruction that `with` names."""
    return next((m.words[0] for m in getattr(line, "modifiers", ()) if m.name == "with" and m.words), None)


def copy_block(line, block: tuple) -> tuple:
    """The block of a copy; what `with` names is its leaf, unless it says otherwise."""
    name = with_instr_name(line)
    if name is None or any(isinstance(x, syntax.Compute) and x.instr is not None for x in block):
        return block
    return (*(x for x in block if not isinstance(x, syntax.Compute)), syntax.Compute(name, span=line.span))


def _flat(axes: Axes, fastest: str, level: str, run: int, instr: str | None = None) -> tuple:
    """All axes as one index, the one with neighbours in memory last, dealt in runs."""
    order = [a for a, _ in axes if a != fastest] + [fastest]
    lines: list[syntax.Line] = []
    name = order[0]
    if len(order) > 1:
        name = "".join(a.replace(".", "") for a in order)
        while name in {a for a, _ in axes}:
            name += "_"
        lines.append(syntax.Fuse(tuple(order), name))
    lines.append(_tile(name, run, level))
    lines.append(syntax.Compute(instr))
    return tuple(lines)


def contiguous_axis(source: Value, axes: list[str]) -> str:
    """The axis along which the source has its neighbours; the last one if that cannot be told."""
    value = getattr(source, "value", source)
    if isinstance(value, Load) and value.indices:
        for a in reversed(axes):
            if value.indices[-1].coefficient(Var(a)) == 1:
                return a
    return axes[-1]


def _tile(index: str, size: int, level: str | None) -> syntax.Tile:
    return syntax.Tile((syntax.TileAxis(index, syntax.Num(size)),), level)
