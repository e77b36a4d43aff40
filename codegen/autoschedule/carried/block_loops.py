"""Prefix reductions on devices of blocks: each lane, or each warp, goes along rows of the prefix, a tile after the other.

    tile .., c -> block                tile .., r -> block                    tile .., r -> block
    tile i: 16 carry                   tile i: 16 carry                       tile i: 32 carry
    keep P in register                 move X -> shared pad 4                 move X -> shared
    tile c: 1 -> thread                keep P in register:                    tile r: 1 -> warp
    move X -> register                     move P -> shared pad 4             tile i: 1 -> thread
                                       tile r: 1 -> thread
                                       move X -> register

LANES_HAVE_COLUMNS  where an index beside the row's is contiguous: lanes have neighbours, and a total each.
LANES_HAVE_ROWS     where the row's index is: tensors go through shared memory, so that rows are read as they lie. There must be
                    many prefixes.
A_WARP_EACH         or lanes have the elements of a tile, each of which adds up its own terms and the total: more work for each
                    element, and as many times the lanes for a few long prefixes.
LOADED_AT_ONCE      a tile is loaded before it is added up: the loads of a tile wait together.
BEGIN_ALIKE         in registers, sums of neighbouring rows begin with the same additions, of which compilers make one: a row
                    costs an addition, and another one what goes on.
IN_ORDER            a prefix is one unit's: the tiles take one after the other, however many units there are.
PLAIN_TOTALS        terms that depend on the row are computed apart: what goes on is lost where it underflows.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ...ir.limits import MOST_GROUPS, WIDEST_ACCESS
from ...lower.lowering_context import LoweringContext
from ...lower.tiling.prefixes import prefix_along
from ..access_model import AccessModel, AccessProblem
from ..constraints import Named, Slot, lines_of_slots
from ..gpu.cost import ResourceUse, TileTraffic
from ..gpu.elementwise import SETUP
from ..line_builders import modifier
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, crossed, select_tiles, useful_share, volume

TILES = (4, 8, 16, 32)  # rows: of a tile that a lane adds up [tried; test_chosen_nests]
GROUPS = (1, 2, 4, 8)  # warps: of a block [tried; test_chosen_nests]
VECTORS = (1, 2, 4)  # columns: of a lane [tried; test_chosen_nests]
# instructions: of a tile besides its elements, the loop's and the edge's [estimate; test_chosen_nests]
OF_A_TILE = 24
# cycles: that a block waits at a barrier, and for what it wrote to shared memory before [estimate; test_chosen_nests]
MEETING = 60
UNSTAGED = 3  # times: the wait of a tile where warps read each term where it lies [estimate; test_chosen_nests]


@dataclass(frozen=True)
class CarriedLoop:
    """Candidates in which prefixes go along `row`, the terms of which have `index`.

    lanes   the index of the lanes: the row's own for A_WARP_EACH
    staged  tensors that go through the staging memory, or that lanes load at once (LANES_HAVE_COLUMNS)
    ahead   terms that the first tile has besides those of its rows
    """

    ctx: LoweringContext
    machine: MachineModel
    problem: AccessProblem
    row: str
    index: str
    lanes: str
    staged: tuple[AccessModel, ...]
    columns: bool
    ahead: int = 0

    name = "prefix"

    def __str__(self) -> str:
        return f"goes along {self.row}, lanes along {self.lanes}"

    @property
    def warp_each(self) -> bool:
        return self.lanes == self.row

    @property
    def across(self) -> str:
        """The index beside the row's of which a block has several; "" for none."""
        return self.lanes if not self.warp_each else self._others[-1] if self._others else ""

    @cached_property
    def _others(self) -> tuple[str, ...]:
        return tuple(i for i in self.problem.free if i != self.row)

    @cached_property
    def _size(self) -> int:
        """Bytes of the widest element."""
        w = self.problem.computation
        return max(w.value.dtype.bytes, *(a.dtype.bytes for a in (*self.problem.reads, *self.problem.writes)))

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        many = max(s.get(self.across, 1) for s in sizes)
        lanes = 1 if self.warp_each else self.machine.lanes
        v = [n for n in VECTORS if self.columns and n * self._size <= WIDEST_ACCESS and n * lanes < 2 * many] or [1]
        groups = [g for g in GROUPS if g == 1 or (g - 1) * lanes < many] if self.across else [1]
        t = crossed(
            {"bt": np.array([self.machine.lanes] if self.warp_each else TILES)},
            {"v": np.array(v)},
            {"groups": np.array(groups)},
        )
        t = select_tiles(t, t["groups"] <= MOST_GROUPS)
        t["ba"] = t["v"] * t["groups"] * lanes
        return t

    def least(self, sizes: Dict[str, int]) -> float:
        return self.machine.launch

    # ------------------------------------------------------------ what they ask

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        machine, p, bt = self.machine, self.problem, t["bt"]
        turns = ceil_div(sizes[self.row], bt)
        blocks = self._blocks(t, sizes)
        inner = volume(sizes[x] for x in p.reduced if x != self.index)  # other reduced indices of each term
        reads, own = len(p.inner), t["v"] * inner
        ops = 2 * own * bt * p.operations  # BEGIN_ALIKE; A_WARP_EACH: the terms of one row, and of the total
        wide = max(1, WIDEST_ACCESS // self._size)
        if self.warp_each:
            moves, path = own * reads * 2 * bt / wide + 4, own * reads * 2 * bt
        else:
            moves, path = own * (reads + 1) * bt * (3 / wide if not self.columns else 1 / t["v"]), 2 * own * (reads + 1) * bt
        per_cycle = machine.operations(p.computation.value.dtype.compute) / machine.schedulers
        near, far, flight = self._bytes(t, sizes, blocks)
        waits = UNSTAGED if any(self.index in a.axes and a not in self.staged for a in p.inner) and self.warp_each else 1
        latency = waits * machine.latency * machine.clock
        return ResourceUse(
            blocks=blocks,
            groups=t["groups"],
            registers=np.ceil(machine.reserved + (0 if self.warp_each else (2 * bt + self.ahead) * t["v"]) + 4),
            staged=self._staged(t),
            pipe=turns * ops * machine.lanes / per_cycle,
            issue=SETUP + turns * (ops + 2 * moves + OF_A_TILE),
            staging=turns * path * t["groups"] * machine.lanes * self._size if not self.columns else 0.0 * bt,
            l2_bytes=near,
            dram_bytes=far,
            bytes_in_flight=flight,
            rounds=2,
            launches=1,
            stall=turns * latency,
            exposed=turns * (latency + 2 * MEETING) if not self.columns else 0.0 * bt,
            run=t["ba"] if self.columns else bt,
        )

    def _blocks(self, t: Tiles, sizes: Dict[str, Any]) -> Any:
        return volume(sizes[x] for x in self._others if x != self.across) * ceil_div(sizes.get(self.across, 1), t["ba"])

    def _bytes(self, t: Tiles, sizes: Dict[str, Any], blocks: Any) -> tuple[Any, Any, Any]:
        """Requested of the cache, of the outermost memory, and in flight at a time."""
        machine, near, far, flight = self.machine, 0.0, 0.0, 0.0
        whole = machine.home.transaction or 32
        for a in (*self.problem.reads, *self.problem.writes):
            size = a.dtype.bytes
            of_block = a.footprint({**sizes, **{x: 1 for x in self._others}, self.across: t["ba"]}) * size
            run = t["ba"] if self.columns and a.fast == self.across else t["bt"] if a.fast in (self.row, self.index) else 1
            waste = np.maximum(1.0, whole / np.maximum(run * size, 1))
            near = near + of_block * blocks * waste
            far = far + a.footprint(sizes) * size
            flight = flight + a.footprint({self.index: t["bt"], self.row: t["bt"], self.across: t["ba"]}) * size
        return near, np.minimum(near, far), flight

    def _staged(self, t: Tiles) -> Any:
        if self.columns:
            return 0.0 * t["bt"]
        pad = 0 if self.warp_each else self._pad
        held = sum(a.dtype.bytes for a in self.staged)
        kept = 0 if self.warp_each else self.problem.computation.value.dtype.bytes
        return t["ba"] * ((t["bt"] + self.ahead + pad) * held + (t["bt"] + pad) * kept)

    @cached_property
    def _pad(self) -> int:
        """Elements after a row of a staged tile: lanes read vectors of rows below each other without conflicts."""
        return max(1, WIDEST_ACCESS // self._size)

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        every = (*self.problem.reads, *self.problem.writes)
        least = sum(a.footprint(sizes) * a.dtype.bytes for a in every)
        share = useful_share(sizes[self.row], t["bt"]) * useful_share(sizes.get(self.across, 1), t["ba"])
        return TileTraffic(least, least, demand.staging * demand.blocks, 1 - share)

    # ------------------------------------------------------------ lines

    @property
    def slots(self) -> tuple[Slot, ...]:
        machine, w = self.machine, self.problem.computation
        outer, group, lane = (x.name for x in (machine.outer, machine.group, machine.lane))
        staging, register = machine.staging.name, machine.register.name
        out: list[Slot] = []
        if self._others:
            axes = tuple((x, "ba" if x == self.across else "") for x in self._others)
            out.append(Slot("outer", syntax.Tile, outer, axes, needed=True))
        out.append(Slot("carry", syntax.Tile, None, ((self.row, "bt"),), needed=True))
        loads = [Slot(f"load {a.tensor}", syntax.Move, register, about=(a.tensor,)) for a in self.staged]
        if not self.columns:
            out += [Slot(f"stage {a.tensor}", syntax.Move, staging, about=(a.tensor,)) for a in self.staged]
        if self.warp_each:
            out += [Slot("group", syntax.Tile, group, ((self.across, ""),))] if self.across else []
            return (*out, Slot("lane", syntax.Tile, lane, ((self.row, ""),), needed=True), Slot("leaf", syntax.Compute))
        out.append(Slot("keep", syntax.Keep, register, about=w.names))
        out.append(Slot("lane", syntax.Tile, lane, ((self.across, "v"),), needed=True))
        return (*out, *loads, Slot("leaf", syntax.Compute))

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        absent = {"group"} if at["groups"] == 1 else set[str]()
        modifiers = {"carry": modifier("carry")}
        given: dict[str, tuple[syntax.Line, ...]] = {}
        if not self.columns and not self.warp_each:
            pad, machine, w = modifier("pad", self._pad), self.machine, self.problem.computation
            modifiers |= {f"stage {a.tensor}": pad for a in self.staged}
            back = tuple(syntax.Move(o.tensor, machine.staging.name, modifiers=pad) for o in w.outputs)
            given["keep"] = (syntax.Keep((w.result,), machine.register.name, block=back),)
        return lines_of_slots(self.slots, at, absent, modifiers, given)


def carried_loops(ctx: LoweringContext, machine: MachineModel, problem: AccessProblem) -> list[CarriedLoop]:
    """The nests of one prefix reduction; none for what else there is (PLAIN_TOTALS)."""
    w = problem.computation
    found = prefix_along(w)
    if found is None or found[1].decay is not None or w.fused or w.value.dtype.name == "bool" or not w.outputs:
        return []
    row, prefix = found
    others = tuple(i for i in problem.free if i != row)
    near = problem.writes[0].fast
    read = [a.tensor for a in problem.reads]
    staged = tuple(
        a
        for a in problem.inner
        if a.tensor in ctx.shapes and a.can_be_staged and a.plain(prefix.index) and not a.view and read.count(a.tensor) == 1
    )

    def loop(lanes: str, staged: tuple[AccessModel, ...], columns: bool) -> CarriedLoop:
        return CarriedLoop(ctx, machine, problem, row, prefix.index, lanes, staged, columns, max(prefix.shift, 0))

    if near != row:
        return [loop(near, tuple(a for a in staged if near in a.axes), True)] if near in others else []
    along = tuple(a for a in staged if a.fast == prefix.index)
    out = [loop(row, along, False)]
    across = [i for i in others if any(a.plain(i) for a in along)]
    if across and across[-1] == others[-1]:
        mine = tuple(a for a in along if a.plain(across[-1]))
        out.append(loop(across[-1], mine, False))
    return out
