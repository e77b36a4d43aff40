"""How the blocks of a contraction go over the problem: their tiles, their steps along k, and the bytes of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...lower.tiling.padded_trip_counts import MOST
from ..gpu.split_reductions import parts_of
from ..tile_space import Tiles, ceil_div, volume

if TYPE_CHECKING:
    from ..gpu.contraction import ContractionTemplate


@dataclass(frozen=True)
class BlockWalk:
    """The iteration of blocks over the problem: tiles along m and n, the `part` of the reduction of a block, its `steps` along
    k and `iterations` over the leaf's k, in all iterations of the outer `loops` and in `each`. A compiler overlaps
    `overlapped_iterations` of these; `share` is the part of a tile that is live, by axis.

    Bytes of all blocks: stores (`out`), reads for each result (`epilogue`), and the parts of a split reduction, which are
    written and then read by the launch that adds them (`parts`).
    """

    tiles_m: Any
    tiles_n: Any
    blocks: Any
    part: Any
    steps: Any
    loops: Any
    each: Any
    iterations: Any
    overlapped_iterations: Any
    share: Mapping[str, Any]
    out: Any
    epilogue: Any
    parts: Any


def block_walk(nest: ContractionTemplate, t: Tiles, sizes: Mapping[str, Any]) -> BlockWalk:
    """For each of the candidates' tiles."""
    mp, p = nest.mapping, nest.problem
    m, n, k = (sizes.get(x, 1) for x in (mp.m, mp.n, mp.k))
    batch, loops = volume(sizes[x] for x in mp.batch), volume(sizes[x] for x in mp.loops)
    tiles_m, tiles_n = ceil_div(m, t["bm"]), ceil_div(n, t["bn"])
    result = batch * m * n
    part, splits, parts = parts_of(t["split"], k, result * p.computation.value.dtype.bytes)
    deep = ceil_div(part, t["bk"])
    share = {mp.m: m / (tiles_m * t["bm"]), mp.n: n / (tiles_n * t["bn"]), mp.k: part / (deep * t["bk"])}
    ahead = nest.overlapped_iterations(t)
    each = _iterations(nest, t, part, ahead)
    return BlockWalk(
        tiles_m,
        tiles_n,
        blocks=batch * tiles_m * tiles_n * splits,
        part=part,
        steps=deep * loops,
        loops=loops,
        each=each,
        iterations=each * loops,
        overlapped_iterations=ahead,
        share=share,
        out=sum(a.dtype.bytes for a in p.writes) * result / nest.results,
        epilogue=sum(a.dtype.bytes for a in p.reads if a not in nest.inputs) * result / nest.results,
        parts=parts,
    )


def _iterations(nest: ContractionTemplate, t: Tiles, part: Any, ahead: Any) -> Any:
    """Iterations of the leaf's k in all steps: the last step runs to the end of the tile, or of the unrolled iterations, if all
    operands are staged (`lower.tiling.padded_trip_counts`)."""
    inner = nest.mapping.leaf[2]
    deep = np.minimum(t["bk"], ceil_div(part, inner) * inner)  # a tile is no larger than its range
    full = np.floor(part / deep) * deep
    unit: Any = inner
    if len(nest.staged(int(t["bk"][0]))) == len(nest.inputs):
        unit = np.where(t["bk"] <= MOST, deep if nest.by_group else ahead * inner, inner)
    return (full + np.minimum(ceil_div(deep, inner) * inner, ceil_div(part - full, unit) * unit)) / inner
