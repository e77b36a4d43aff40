"""Siblings: reductions over the same index that share its loop, where the write-back of one reads results of others.

    g[m, h] = sum(k) X[m, k] * Wg[k, h]         for k:  g@ += X * Wg;  u@ += X * Wu
    u[m, h] = sum(k) X[m, k] * Wu[k, h]    -->  g = g@
    H[m, h] = silu(g[m, h]) * u[m, h]           H = silu(g) * u@

FINISHED_FIRST   what a write-back reads of a sibling is finished before: siblings close in the order of their statements. So
                 they open in the opposite order.
SAME_LOOP        both write-backs come after the loop, or both in its last iteration. A write-back in the loop cannot read what
                 is finished after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....dsl.values import loads
from ...ir.schedule_tree import Tile
from ...plan.computations import Computation
from ..reductions.split_reduction import tile_splits_reduction
from ..spec import Focus

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def finished_when_read(low: Lowering, focus: Focus, tile: Tile, first: Computation, second: Computation) -> frozenset[str]:
    """The indices of the tile over which the first reduction is finished where the write-back of the second reads it
    (SAME_LOOP): no tile of these has to be done with before."""
    both = frozenset(a.index for a in tile.axes if a.index in first.reduced and a.index in second.reduced)
    if not both or tile_splits_reduction(low.ctx.device, tile):
        return frozenset()
    return both if low.closes_after(focus, second, tile) or not low.closes_after(focus, first, tile) else frozenset()


def joins_earlier(focus: Focus, indices: Sequence[str]) -> Callable[[Computation, Computation], bool]:
    """Whether a reduction over these indices may share the loops of an earlier one, before what stands between: its operands
    do not depend on that, and where its write-back does, its accumulator is open above both. Nor does that read or set the
    accumulator, as what keeps a running value of before an iteration does."""

    def before(w: Computation, other: Computation) -> bool:
        if w.reduction is None or set(w.reduced).isdisjoint(indices):
            return False
        if _sets_or_reads(other, w):
            return False
        values = [w.value] if w.name in focus.open_accumulators else [w.value, *(o.value for o in w.outputs)]
        return all(ld.tensor not in other.targets for v in values for ld in loads(v))

    return before


def _sets_or_reads(w: Computation, reduction: Computation) -> bool:
    """Whether it does that to the accumulator of the reduction."""
    return reduction.name in (*w.reads, *w.targets)


def opening_order(computations: Sequence[Computation]) -> Sequence[Computation]:
    """FINISHED_FIRST: the order in which accumulators open that none of the computations has open yet."""
    results = {t for w in computations if w.reduction is not None for t in w.targets}
    read = {ld.tensor for w in computations for o in w.outputs for ld in loads(o.value)} & results
    return computations if not read else tuple(reversed(computations))
