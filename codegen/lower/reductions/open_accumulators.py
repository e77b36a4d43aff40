"""Where the accumulator of a reduction without `keep` opens: above the first tile of a reduced index, or at the leaf.

Above, it is in registers during the reduction, and has an element for all free indices that the lines below visit. At the leaf
it has few elements, and partial sums go through memory for each tile above.
"""

from __future__ import annotations

from math import prod

from ....dsl.errors.schedule import SplitReduction
from ...ir.schedule_tree import Fuse, Leaf, Node, Tile
from ...plan.computations import Computation
from ..lowering_context import LoweringContext
from ..spec import Focus, clamped
from ..tiling.tile_ranges import ranges_along

# elements: of one unit's accumulator that opens at a leaf, at most [estimate;
# test_a_small_tile_at_the_leaf_has_all_its_accumulators]
REGISTER_CELLS = 64


def accumulates_at_leaf(ctx: LoweringContext, focus: Focus, w: Computation, node: Node) -> bool:
    """No `keep` was written, and what the accumulator would span above is not known, dealt out below in numbers that are not
    known, or more than the registers of a unit."""
    tiles = ((x, x.level) for x in node.path() if isinstance(x, Tile) and x.level is not None)
    dealt = {a.index for x, level in tiles if ctx.device.level(level).units == "finite" for a in x.axes}
    if any(focus.ranges[i].capacity is None or i in dealt for i in w.indices):
        return True
    m = ctx.device.memories[-1]
    cells = _least_cells(focus, w, node)
    return cells > REGISTER_CELLS and m.capacity is not None and cells * w.value.dtype.bytes > m.capacity


def check_open_results(focus: Focus, w: Computation, tile: Tile) -> None:
    """The tile distributes parts of `w`, and the results are visited one after another above it. Raises SplitReduction where a
    tile above counts tiles of the results with its own: the units would each do all of them again."""
    if focus.current_tile is None or tile.key not in focus.current_tile[1]:
        return
    level, counted = tile.level, focus.current_tile[1]
    for x in (x for x in tile.path() if isinstance(x, Tile) and x.level == level and x.key in counted):
        twice = next((a.index for a in x.axes if a.index in w.indices), None)
        if twice is not None:
            raise SplitReduction(
                f"tiles of `{twice}` are distributed together with those of the line above, and parts of"
                f" `{w.result}` with them",
                tile.span,
                help=f"tile `{twice}` onto {level} above all tiles of reduced indices",
            )


def _least_cells(focus: Focus, w: Computation, node: Node) -> int:
    """No fewer elements than these are each unit's: all that loops visit, were there units for all tiles that are dealt out.

    1 where that takes more to know: an instruction spreads its results over units, and `fuse` gives other indices.
    """
    if any(isinstance(x, Fuse) or (isinstance(x, Leaf) and x.instr is not None) for x in node.path()):
        return 1
    shares = {i: focus.ranges[i].whole_capacity or 1 for i in w.indices}
    for x, ranges in ranges_along(focus.ranges, node):
        if isinstance(x, Tile) and x.level is not None:
            for a in (a for a in x.axes if a.index in shares):
                r = ranges[a.index]
                tiles = -(-(r.whole_capacity or 1) // clamped(r, a.size))
                shares[a.index] = -(-shares[a.index] // tiles)
    return prod(shares.values())
