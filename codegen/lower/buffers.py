"""Buffers for tiles in addressable memories: the level that owns one, and its layout.

HELD_BY_ONE   each unit of the level that owns a buffer has an instance. If lines below distribute elements over these units,
              each instance has the elements of its unit, and no unit reads those of another.
"""

from __future__ import annotations

from math import prod

from ...dsl import syntax
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import BadLayout, CannotMeet, MoveDistributed, UnboundedTile
from ...dsl.index.expr import Var, as_expr
from ...dsl.layout import Layout
from ...dsl.ops.index_syntax import index_term
from ...dsl.types import DType
from ..ir.schedule_tree import Fuse, Materialise, Node, Tile
from ..ir.tile_ir import Buffer
from ..plan.derived_names import buffer_name, tensor_of
from ..schedule.synthetic_spans import is_filled_in
from .lowering_context import LoweringContext
from .spec import Focus, or_state_bound


def memory_buffer(
    ctx: LoweringContext, focus: Focus, tensor: str, dtype: DType, memory: str, axes, node: Materialise | None
) -> tuple[Buffer, Layout]:
    """A buffer for a tile in an addressable memory: owned by the deeper of the memory's level and the focus's."""
    m, at = ctx.device.memory(memory), node.span if node is not None else None
    if ctx.device.depth(m.level) > ctx.device.depth(focus.level):
        raise MoveDistributed(
            f"each {m.level} has its own `{memory}`, and the focus is a {focus.level}",
            at,
            help=f"`tile ... -> {m.level}` first",
        )
    sharers = ctx.device.levels[ctx.device.depth(m.level) + 1 :][:1]
    below = [x.name for x in ctx.device.memories if ctx.device.depth(x.level) > ctx.device.depth(m.level)]
    inside = [ctx.device.level(x) for x in ctx.below(focus.level, ctx.innermost) if x in ctx.units]
    if m.backing is not None and sharers and sharers[0].siblings == "nothing":
        alone = sharers[0]
    else:
        alone = next((x for x in inside if x.siblings == "nothing" and x.units == "finite"), None)
    if alone is not None:
        raise CannotMeet(
            f"every {alone.name} sees one `{memory}`, and none waits for another: nothing can be staged there",
            at,
            help=f"stage it in {' or '.join(f'`{x}`' for x in below)}; a cache needs no `move`",
        )
    if m.backing is None and sharers and sharers[0].units == "open":
        raise CannotMeet(
            f"arguments live in `{memory}`: it has no separate part for each {sharers[0].name}",
            at,
            help=f"{' or '.join(f'`{x}`' for x in below)}; `keep T in {memory}:` with `auto` below it is a launch for T alone",
        )
    layout = tile_layout([(a, as_expr(n)) for a, n in axes], node, dtype)
    if node is not None:
        _note_idle_layout(ctx, tensor, layout, node)
    shape, strides, size = layout.shape, layout.strides, layout.size
    if size.constant is None:
        raise UnboundedTile(
            f"the tile of `{tensor}` has no constant extent here",
            at,
            help=f"tile its indices above this line{or_state_bound(size)}",
        )
    name = ctx.fresh(buffer_name(tensor, memory))
    return Buffer(name, dtype, "local", memory, focus.level, shape, strides, size, at), layout


def _note_idle_layout(ctx: LoweringContext, tensor: str, layout: Layout, node: Materialise) -> None:
    """A note where a tile is too small for what the author says of its rows."""
    if is_filled_in(node.span):
        return
    name, rows, swizzle = tensor_of(tensor), layout.rows, layout.swizzle
    if layout.pad and rows == 1:
        ctx.note(f"`pad` of `{name}`: its tile is one row, and pads stand between rows")
    if node.swizzle is None:
        return
    if swizzle is None:
        ctx.note(f"`swizzle` of `{name}`: a row of its tile has no two chunks to permute")
    elif rows == 1:
        ctx.note(f"`swizzle` of `{name}`: its tile is one row, and chunks of the first row stay")
    elif rows is not None and rows <= swizzle.rows:
        ctx.note(f"`swizzle` of `{name}`: {swizzle.rows} adjacent rows are permuted alike, and its tile has {rows}: none moves")


def check_one_owner(buffer: Buffer, tensor: str, axes, filling: Node, node: Materialise) -> None:
    """HELD_BY_ONE. Raises MoveDistributed where `filling`, which fills the buffer of `node`, distributes it over its owners."""
    extents = dict(axes)
    for x in filling.path():
        if isinstance(x, Fuse) and not extents.keys().isdisjoint(x.indices):
            extents[x.name] = prod(extents.get(i, 1) for i in x.indices)
        if not isinstance(x, Tile) or x.level != buffer.level:
            continue
        dealt = next((a.index for a in x.axes if extents.get(a.index, 1) > a.size), None)
        if dealt is not None:
            labels = [Label(x.span, f"`{dealt}` is distributed here")] if x.span else []
            raise MoveDistributed(
                f"each {x.level} has its own `{tensor_of(tensor)}` here, and would read elements that other units hold",
                node.span,
                labels=labels,
                help=f"write this line above all tiles `-> {x.level}`",
            )


def tile_layout(axes, node: Materialise | None, dtype: DType) -> Layout:
    """The layout that the line's modifiers ask for; row-major without any."""
    m, pad, swizzle = (node.layout, node.pad, node.swizzle) if node is not None else (None, None, None)
    names = [a for a, _ in axes]
    way_out = f"the axes here are {', '.join(f'`{n}`' for n in names)}" if names else "leave it out: the tile is one element"

    def no_axis(name: syntax.Name) -> BadLayout:
        numbered = next((n for n in names if "." in n), None)  # quotients of such a name cannot be written
        help = way_out if numbered is None else f"{way_out}; `layout panels({numbered}: 4)`, say, names it"
        return BadLayout(f"the tile has no axis `{name.id}`", name.span, help=help)

    try:
        if m is None:
            layout = Layout.row_major(axes)
        elif m.words and m.words[0] == "panels":
            layout = Layout.panels(axes, {name: int(e.value) for name, e in m.maps})  # type: ignore[union-attr]
        elif all(isinstance(v, syntax.Name) for v in m.values):
            order = [v.id for v in m.values if isinstance(v, syntax.Name)]
            layout = Layout.permuted(axes, order)
        else:
            table = {n: as_expr(Var(n)) for n in names}
            layout = Layout.written(axes, [index_term(v, table, unknown=no_axis) for v in m.values])  # type: ignore[arg-type]
        if pad is not None:
            layout = layout.padded(int(pad.values[0].value))  # type: ignore[union-attr]
        if swizzle is not None:
            sizes = [int(v.value) for v in swizzle.values]  # type: ignore[union-attr]
            if len(sizes) > 2:
                raise ValueError("a swizzle has a number of bits and the elements of a chunk, no more")
            layout = layout.swizzled(dtype.bytes, *sizes)
    except ValueError as e:
        raise BadLayout(str(e), node.span if node is not None else None, help=way_out) from None
    return layout
