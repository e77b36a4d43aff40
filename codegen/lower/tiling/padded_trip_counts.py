"""TO_THE_END: a loop over a reduced index inside a staged tile has the same trip count at an edge as elsewhere.

    for (k2 = 0; k2 < min(32, K - 32*k1); ...)     -->     for (k2 = 0; k2 < 32; ...)

Staged elements beyond the end are zero. If every factor of a sum's term is such a zero, one more iteration adds nothing. Then
compilers know the trip count: they unroll the loop, and loads of one iteration are in flight during another. The last tile
wastes its missing elements. Every copy must have written all elements that are read: others may be NaN, and 0 * NaN is not 0.

Not in caches: a tile there is large, and its missing elements would be filled and computed for no gain. Not with other
reductions: zero is neutral only for sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.values import Load, loads
from ...ir.schedule_tree import Keep, Move, Node, Tile
from ...plan.computations import Computation
from ..addressing import zero_is_neutral
from ..lowering_context import LoweringContext
from ..spec import Focus

if TYPE_CHECKING:
    from ..lower_schedule import Lowering

# elements: of a tile that always runs to its end; it wastes at most one less [estimate;
# test_long_tiles_end_where_the_tensor_does]
MOST = 128


def may_run_padded(focus: Focus, index: str) -> bool:
    """May loops over what the focus has left of `index` run to its capacity, whatever of it is live?"""
    r = focus.ranges[index]
    if not _is_short(focus, index) or not _adds_zero(focus, index, focus.computations):
        return False
    return all(focus.views[ld.tensor].is_written_beyond(index, r) for ld in _factors(focus.computations, index))


def is_filled_padded(low: Lowering, focus: Focus, index: str, tensor: str, memory: str, below: Node) -> bool:
    """Must a copy of `tensor` into `memory` be filled along `index`, for loops of the tiles below that run to its end?"""
    ctx = low.ctx
    if not is_scratch_memory(ctx, memory) or not _is_short(focus, index):
        return False
    nodes = list(below.path())
    if any(x.peel and any(a.index == index for a in x.axes) for x in nodes if isinstance(x, Tile)):
        return False
    staging = [x for x in nodes if isinstance(x, Move) or (isinstance(x, Keep) and x.block is not None)]
    staged_below = {t for x in staging if x.memory is not None and is_scratch_memory(ctx, x.memory) for t in x.tensors}
    # the others are made by nodes below, each by itself
    computations = tuple(w for w in focus.computations if staged_below.isdisjoint(w.targets))

    def staged(load: Load) -> bool:
        return load.tensor in staged_below or load.tensor == tensor or index in focus.views[load.tensor].fully_written

    return _adds_zero(focus, index, computations) and all(map(staged, _factors(computations, index)))


def is_scratch_memory(ctx: LoweringContext, memory: str) -> bool:
    """Is this a memory for tiles: no cache, not where the tensors are, no unit's own registers?"""
    m = ctx.device.memory(memory)
    return not ctx.register(memory) and m.backing is None and m != ctx.device.memories[0]


def _is_short(focus: Focus, index: str) -> bool:
    r = focus.ranges[index]
    return r.size.constant is not None and r.size.constant <= MOST and not r.strided_runs


def _factors(computations: tuple[Computation, ...], index: str) -> list[Load]:
    """What is read of sums over the index."""
    return [ld for w in computations if index in w.reduced for ld in loads(w.value)]


def _adds_zero(focus: Focus, index: str, computations: tuple[Computation, ...]) -> bool:
    """Is `index` summed over by all that has it, and is a term zero where what it loads is?"""
    having = [w for w in computations if index in w.all_indices]
    return bool(having) and all(
        w.reduction is not None
        and w.reduction.kind == "sum"
        and index in w.reduced
        and zero_is_neutral(w.value, (index,), focus)
        for w in having
    )
