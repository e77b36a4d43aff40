"""The schedule of a copy without lines of its author: the distribution of its elements over units (`complete` prints it).

SHARE_OUT   units that synchronise by a barrier share whole rows or panels; lockstep units take neighbouring elements, or runs
            of them if the device moves several at once (`copy_width`).
HONOURED    an instruction that the line names is the leaf, or the line is refused; a note says where no units share the copy.
TURNED      where source and copy have their neighbours along different axes, units turn rectangles (`turned_copy`).
SIZE_FIRST  a tile that its memory cannot hold is refused when all tiles are known. Its copy is not planned: that would take
            time with its size.
"""

from __future__ import annotations

from ....dsl import syntax
from ....dsl.device import Instr
from ....dsl.index.expr import Var
from ....dsl.layout import Layout
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Value
from ...ir.free_names import underscored_name
from ...ir.schedule_tree import Leaf, Move, Node, with_leaf
from ...ir.tile_ir import Buffer
from ...plan.computations import Computation, fused_name, plain_index
from ..capacity import exceeds_alone
from ..lowering_context import LoweringContext
from ..spec import Focus
from .copy_width import Axes, copy_instr, elements_per_unit
from .turned_copy import Rectangle, rectangle


def copy_lines(
    ctx: LoweringContext,
    focus: Focus,
    axes: list[tuple[str, int]],
    source: Value,
    target: Buffer,
    layout: Layout,
    move: Move | None = None,
) -> tuple[syntax.Line, ...]:
    """Lines for `dst = src`, the work in focus, with the units that the launch has, by the instruction that `move` names."""
    (computation,) = focus.computations
    below = [x for x in ctx.device.levels[ctx.device.depth(focus.level) + 1 :] if x.name in ctx.units]
    shaped = [x for x in below if x.units == "shaped"]
    finite = [x for x in below if x.units == "finite"]
    if not axes or exceeds_alone(ctx.device, target):  # SIZE_FIRST
        return (syntax.Compute(),)
    fastest = contiguous_axis(source, [a for a, _ in axes], computation)
    extents = dict(axes)
    wide = copy_instr(ctx, move, computation, axes, fastest, layout) if move is not None else None
    if wide is not None and shaped:
        level = below[-1].name if wide[0].level == ctx.innermost else wide[0].level
        shared = any(x.name == level for x in below)  # else one unit of the level is in focus, and has all of the copy
        return _flat(axes, fastest, level if shared else None, wide[1], wide[0].name)
    if not finite and shaped and not shaped[-1].bytes:
        turned = rectangle(ctx, focus, axes, fastest, layout, move) if move is not None else None
        if move is not None and turned is not None:
            return _turned(ctx, axes, turned, fastest, below[-1].name, move.tensor)
        run = elements_per_unit(ctx, focus, axes, fastest, layout, target.memory)
        return _flat(axes, fastest, below[-1].name, run)
    lines: list[syntax.Line] = []
    outer = layout.digits[0]
    if finite and extents[outer.axis] // max(1, outer.div) > 1:
        lines.append(_tile(outer.axis, max(1, outer.div), finite[-1].name))
    if shaped:
        lines += [_tile(a, 1, None) for a, _ in axes if a != fastest]
        lines.append(_tile(fastest, 1, shaped[-1].name))
    # An instruction that several units execute together is for copies that units share.
    lines.append(syntax.Compute(wide[0].name if wide is not None and not _takes_lanes(wide[0]) else None))
    return tuple(lines)


def _takes_lanes(instr: Instr) -> bool:
    return any(v.name == "lane" for o in instr.operands for v in o.coords)


def copy_block(move: Move, block: Node) -> Node:
    """The block of a copy; the instruction that `with` names is its leaf, unless it names another."""
    leaf = block.leaf
    if move.instr is None or (isinstance(leaf, Leaf) and leaf.instr is not None):
        return block
    assert move.line is not None
    return with_leaf(block, Leaf(instr=move.instr, line=syntax.Compute(move.instr, span=move.line.span)))


def _flat(axes: Axes, fastest: str, level: str | None, run: int, instr: str | None = None) -> tuple:
    """All axes as one index, the one with neighbours in memory last, dealt in runs; without a level, one after another."""
    order = [a for a, _ in axes if a != fastest] + [fastest]
    lines: list[syntax.Line] = []
    name = fused_name(order)
    if len(order) > 1:
        name = underscored_name(name, {a for a, _ in axes})
        lines.append(syntax.Fuse(tuple(order), name))
    lines.append(_tile(name, run, level))
    lines.append(syntax.Compute(instr))
    return tuple(lines)


def _turned(
    ctx: LoweringContext, axes: Axes, turned: Rectangle, fastest: str, level: str, tensor: str
) -> tuple[syntax.Line, ...]:
    """A rectangle for each unit, which goes through its registers. It is stored along the copy's neighbours."""
    others = [(a, 1) for a, _ in axes if a not in dict(turned)]
    tile = tuple(syntax.TileAxis(a, syntax.Num(n)) for a, n in (*others, *turned))
    order = syntax.Modifier("order", words=(fastest, *(a for a, _ in turned if a != fastest)))
    return (syntax.Tile(tile, level), syntax.Move(tensor, ctx.device.memories[-1].name), syntax.Compute(None, (order,)))


def with_axes_apart(lines: tuple) -> tuple:
    """Lines that fuse all axes and deal out the one, with the axes apart: each has edges of its own, which a result has."""
    match lines:
        case (syntax.Fuse(indices=(*others, last)), syntax.Tile(axes=(tiled,)) as tile, *rest):
            axes = (*(syntax.TileAxis(i, syntax.Num(1)) for i in others), replace(tiled, index=last))
            return (replace(tile, axes=axes), *rest)
    return lines


def contiguous_axis(source: Value, axes: list[str], computation: Computation) -> str:
    """The axis along which the source has its neighbours, of fused indices those of the last one; the last axis if that cannot
    be told."""
    value = getattr(source, "value", source)
    if isinstance(value, Load) and value.indices:
        for a in reversed(axes):
            if value.indices[-1].coefficient(Var(a)) == 1:
                return a
        last = plain_index(value.indices[-1])
        return next((name for name, parts in computation.fused if name in axes and parts[-1][0] == last), axes[-1])
    return axes[-1]


def _tile(index: str, size: int, level: str | None) -> syntax.Tile:
    return syntax.Tile((syntax.TileAxis(index, syntax.Num(size)),), level)
