"""`pipeline`: the loop over which the buffers of a `move` rotate, and their number.

PAIR        it belongs to a (move, loop) pair: the innermost loop of tiles over an index of the footprint.
DIRECTLY    written on a `tile`, it holds for each move between this line's loops and the next ones, unless the move has its
            own.
IN_CACHE    hardware fills a cache: a buffer in it has no copies in flight, which is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....dsl.errors.schedule import ModifierArgument
from ....dsl.values import Load
from ...ir.limits import UNROLLED
from ...ir.schedule_tree import Move, Node, Tile, all_nodes
from ...ir.tile_ir import Staging
from ..spec import Focus, Range

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def copy_staging(low: Lowering, focus: Focus, move: Move, found: list[Load], memory: str, copy: int) -> Staging:
    """How the copy, whose statements are the first `copy`, runs ahead. Raises ModifierArgument."""
    alias = focus.aliases
    names = {alias.get(x.name, x.name) for ld in found for e in ld.indices for x in e.variables()}
    loop = next((t for t in reversed(focus.tile_loops) if not names.isdisjoint((t.index, *t.also))), None)
    own = move.pipeline
    if own is not None and loop is None:
        raise ModifierArgument(
            f"no loop above changes what is moved of `{move.tensor}`", own.span or move.span, help="leave `pipeline` out"
        )
    if loop is None:
        return Staging(copy)
    directly = loop.tile is focus.tile_loops[-1].tile
    if directly:
        low.ctx.paired_tiles.add(loop.tile.key)
    depth = depth_of(move, depth_of(loop.tile, 1) if directly else 1)  # PAIR, DIRECTLY
    if depth < 2 or loop.var is None:
        return Staging(copy)
    if low.ctx.device.memory(memory).backing is not None:  # IN_CACHE
        low.ctx.note(f"`pipeline {depth}` of `{move.tensor}`: `{memory}` is a cache, which is filled as it is read; one buffer")
        return Staging(copy)
    pipeline = own or loop.tile.pipeline
    through = pipeline is not None and pipeline.through
    outer = [t for t in focus.tile_loops[: focus.tile_loops.index(loop)] if t.var is not None]
    if through and not outer:
        low.ctx.note(f"`through` of `{move.tensor}`: no loop is around the one over `{loop.index}`")
    return Staging(copy, depth, loop.var, through)


def is_unrolled(low: Lowering, tile: Tile, r: Range, size: int, filled: bool = True) -> bool:
    """Whether the line's loop within a tile has the same turns everywhere: it says `unroll`, and what it reads of turns that
    are not live is zero (`filled`); or moves into registers directly below it run ahead over it, and fill that. Its turns come
    from capacity then."""
    whole = r.size.constant
    if whole is None or r.strided_runs or -(-whole // size) > UNROLLED:
        return False
    if filled and tile.unroll is not None and tile.unroll.count is None:
        return True
    first = next((x for x in moves_below(tile) if low.ctx.in_registers(x)), None)
    return first is not None and depth_of(first, depth_of(tile, 1)) > 1


def moves_below(tile: Tile) -> Iterator[Move]:
    """The moves between a tile's loops and the next ones."""
    for x in tile.below.path():
        if isinstance(x, Tile) and x.level is None:
            return
        if isinstance(x, Move):
            yield x


def depth_of(node: Move | Tile, default: int) -> int:
    """The depth of the node's pipeline."""
    return node.pipeline.depth if node.pipeline is not None else default


def idle_pipelines(low: Lowering, tree: Node) -> None:
    """Notes on tiles whose `pipeline` is no move's."""
    for x in all_nodes(tree):
        if isinstance(x, Tile) and depth_of(x, 1) > 1 and x.key not in low.ctx.paired_tiles:
            names = ", ".join(f"`{a.index}`" for a in x.axes)
            low.ctx.note(f"`pipeline` of the tiles of {names}: what is moved directly below does not depend on them")
