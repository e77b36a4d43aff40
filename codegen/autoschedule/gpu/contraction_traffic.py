"""The bytes that the lanes of a contraction request from each memory, counted as the emulator counts them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from ..access_model import AccessModel
from ..tile_space import Tiles
from .contraction_resources import block_walk
from .traffic import TileTraffic

if TYPE_CHECKING:
    from .contraction import ContractionTemplate


def contraction_traffic(nest: ContractionTemplate, t: Tiles, sizes: Mapping[str, Any]) -> TileTraffic:
    mp = nest.mapping
    staged = [s.access for s in nest.staged(int(t["bk"][0]))]
    w = block_walk(nest, t, sizes)
    extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    groups = t["gm"] * t["gn"]
    asked: Any = 0.0  # of the outermost memory, for a step
    put: Any = 0.0  # stored in the memory of a unit, for a step
    get: Any = 0.0  # and read there by a group, for one turn of the leaf's k
    for a in nest.inputs:
        mine = _lanes_get(nest, a, t)
        if a in staged:
            spans = a.footprint(extents)
            asked = asked + spans * prod(w.share[x] for x in w.share if x in a.axes) * nest.read_for(a)
            put, get = put + spans * a.dtype.bytes, get + mine
        else:
            asked = asked + mine * groups * t["bk"] / mp.leaf[2] * w.share[mp.k]
    return TileTraffic(
        least=w.out + sum(a.dtype.bytes * a.footprint(sizes) for a in nest.original_problem.reads),
        requested=asked * w.steps * w.blocks + w.out + 2 * w.parts + w.epilogue,
        served=(put * w.steps + get * w.iterations * groups) * w.blocks,
        waste=1 - w.share[mp.m] * w.share[mp.n] * w.part / (w.each * mp.leaf[2]),
    )


def _lanes_get(nest: ContractionTemplate, a: AccessModel, t: Tiles) -> Any:
    """Bytes of an operand that the lanes of a warp read for one iteration of the leaf's k, each lane counted."""
    mp = nest.mapping
    along = "m" if mp.m in a.axes else "n"
    if nest.by_group:
        words = nest.fragment_registers[0 if along == "m" else 1]
        return t["w" + along] / mp.leaf[0 if along == "m" else 1] * words * nest.machine.register_bytes * nest.machine.lanes
    return nest.machine.lanes * t["t" + along] * a.dtype.bytes * mp.leaf[2]
