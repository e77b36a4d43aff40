"""How far the nodes below a focus reach along an index, and how many of its elements a leaf reads at once.

A leaf may run past its tile, up to padding: `tile k: 24` under an instruction of 16 reads 32. Buffers have that size, and
copies fill it.

OWN_NEST   a reduction that the block of a `keep` computes has the leaf of that block, not the one below it. Each reads an
           index as its own instruction does, and a buffer serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dsl.index.expr import as_expr
from ...dsl.support.fast_replace import replace
from ..ir.schedule_tree import CopyLeaf, FragmentLeaf, Fuse, Keep, Leaf, Materialise, Move, Node, Tile
from ..plan.computations import Computation
from ..plan.derived_names import RimIndex
from .copies.pipeline_depth import is_unrolled
from .intermediates.rims import in_own_names
from .leaves.match_instr import InstrMatch
from .lowering_context import LoweringContext
from .reductions.split_reduction import tile_splits_reduction
from .spec import ZERO, Focus, Range

if TYPE_CHECKING:
    from .lower_schedule import Lowering


def _instr(low: Lowering, focus: Focus, node: Node) -> tuple[InstrMatch, Computation] | None:
    if isinstance(node, Leaf) and node.instr is not None:
        for w in focus.computations:
            m = low.find_instr(node.instr, w, node.span, must=False)
            if m is not None:
                return m, w
    return None


def _own_nest(focus: Focus, node: Node) -> tuple[Focus, Focus, Node, Node] | None:
    """OWN_NEST: the focus of the node's block and of what is below, and both; None where the block computes no reduction.

    The lines of the block name the indices of a rim as the op does.
    """
    if not isinstance(node, Materialise) or node.block is None:
        return None
    read = {t for w in focus.computations for t in w.reads}.intersection(node.tensors)
    made = tuple(w for w in focus.computations if w.reduction is not None and not read.isdisjoint(w.names))
    others = tuple(w for w in focus.computations if w not in made)
    if not made:
        return None
    made = tuple(in_own_names(w, focus.ranges)[0] for w in made)
    return replace(focus, computations=made), replace(focus, computations=others), node.block, node.below


def _in_block(index: str) -> str:
    return index.of if isinstance(index, RimIndex) else index


def _read_into_registers(low: Lowering, keep: Keep) -> bool:
    """Does the block of a write-back move other tensors, which it reads, to registers? These are whole tiles."""
    moved = (x for x in keep.block.path() if isinstance(x, Move)) if keep.block is not None else ()
    return any(low.ctx.in_registers(x) and x.tensor not in keep.names for x in moved)


def read_extent(low: Lowering, focus: Focus, index: str, capacity: int, node: Node) -> int:
    """The extent, padding included, that the node and those below read of a range of this capacity."""
    if capacity <= 0:  # an axis without elements
        return 0
    for x in node.path():
        if (own := _own_nest(focus, x)) is not None:
            made, others, block, below = own
            mine = read_extent(low, made, _in_block(index), capacity, block)
            return max(mine, read_extent(low, others, index, capacity, below))
        if isinstance(x, Tile):
            for a in x.axes:
                if a.index != index:
                    continue
                size = max(1, min(a.size, capacity))
                inner = read_extent(low, focus, index, size, x.below)
                if a.every is not None:
                    runs, chunks = -(-capacity // a.every), -(-min(a.every, capacity) // size)
                    return (runs - 1) * a.every + (chunks - 1) * size + inner
                return (-(-capacity // size) - 1) * size + inner
        if isinstance(x, Fuse) and index in x.indices and index != x.name:
            return capacity  # what is read past the end of the fused one has no elements here
        found = _instr(low, focus, x)
        if found is not None:
            n = found[0].extent(index)
            return -(-capacity // n) * n
        if isinstance(x, FragmentLeaf | CopyLeaf) and x.fragment is not None:
            part = x.fragment.of(index)
            return -(-capacity // part[0]) * part[0] if part else capacity
    return capacity


def counts_by_capacity(ctx: LoweringContext, tile: Tile) -> bool:
    """Are these tiles counted by capacity in a loop, since units are launched for them or parts stored of each?"""
    return tile.level is not None and (ctx.device.level(tile.level).units == "open" or tile_splits_reduction(ctx.device, tile))


def read_grain(
    low: Lowering,
    focus: Focus,
    index: str,
    capacity: int,
    node: Node,
    held: bool = False,
    entered: frozenset[str] = frozenset(),
) -> int:
    """The largest extent that is read whole, whatever of it is live.

    `held`: the index numbers registers from here on. `entered`: levels that tiles above were dealt to; more of them onto
    one of these count by capacity, and so do tiles whose number is known before the loop (`counts_by_capacity`).
    """
    entered = entered | {focus.level}
    free = any(index in w.indices and w.reduction is not None for w in focus.computations)
    held = held or any(v.form == "path" and index in v.axes for v in focus.views.values())
    for x in node.path():
        if (own := _own_nest(focus, x)) is not None:
            made, others, block, below = own
            here = isinstance(x, Materialise) and low.ctx.in_registers(x)
            held = held or (here and any(_in_block(index) in w.indices for w in made.computations))
            grains = (
                read_grain(low, made, _in_block(index), capacity, block, held, entered),
                read_grain(low, others, index, capacity, below, held, entered),
            )
            fine, coarse = sorted(grains)
            return coarse if coarse % fine == 0 else read_extent(low, focus, index, capacity, x)
        match x:
            case Keep() if free or any(index in w.indices for w in focus.computations):
                held = held or low.ctx.in_registers(x) or _read_into_registers(low, x)
            case Move() if low.ctx.in_registers(x):
                held = True
            case Tile():
                # a reduction's accumulator opens above its first tile, in registers, where no `keep` says otherwise
                held = held or (free and any(a.index in w.reduced for w in focus.computations for a in x.axes))
                for a in x.axes:
                    if a.index != index:
                        continue
                    shaped = x.level is not None and low.ctx.device.level(x.level).units == "shaped"
                    size = max(1, min(a.size, capacity))
                    ahead = x.level is None and is_unrolled(low, x, Range(ZERO, as_expr(capacity)), size)
                    whole = read_extent(low, focus, index, capacity, x)
                    by_capacity = x.level in entered or a.every is not None or counts_by_capacity(low.ctx, x)
                    if held or ahead or shaped or by_capacity:
                        return whole
                    inner = read_grain(low, focus, index, size, x.below, held, entered | {x.level or focus.level})
                    return inner if size % inner == 0 else whole
                entered = entered | {x.level or focus.level}
        found = _instr(low, focus, x)
        if found is not None:
            return read_extent(low, focus, index, capacity, x) if held or free else found[0].extent(index)
    return capacity if held or free else 1
