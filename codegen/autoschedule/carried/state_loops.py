"""Prefix reductions with a state on devices of blocks: linear attention, whose tiles hand on an element for each channel.

    tile h: 1, e: 4 -> block
    tile t: 4 carry
    move Q -> shared
    move K -> shared
    tile e: 1 -> warp
    move V -> register
    tile d: 2 -> thread

LANES_HAVE_CHANNELS  the state of a column lies in the registers of a warp. Rows add up what lanes have, twice: the terms that
                     the tiles before have, and those of the tile.
STAGED               what has channels is read by all warps of a block. What else a tile reads of its terms is loaded at once.
NO_CORRECTION        only a factor of the row leaves the sum. What is corrected is computed apart, as without a state.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ...lower.lowering_context import LoweringContext
from ...lower.tiling.prefixes import prefix_along
from ..access_model import AccessModel, AccessProblem
from ..constraints import Named, Slot, lines_of_slots
from ..gpu.cost import ResourceUse, TileTraffic
from ..gpu.elementwise import SETUP
from ..line_builders import modifier
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, crossed, useful_share, volume
from .block_loops import GROUPS, MEETING, OF_A_TILE

ROWS = (1, 2, 4, 8)  # rows: of a tile [tried; test_states_are_carried]
MOST_CHANNELS = 8  # elements: of the state in a lane [estimate; test_states_are_carried]


@dataclass(frozen=True)
class StateLoop:
    """Candidates in which prefixes go along `row`; the total has elements along `channel`, and lanes have these. `staged` and
    `loaded`: what is read through shared memory, and at once (STAGED)."""

    ctx: LoweringContext
    machine: MachineModel
    problem: AccessProblem
    row: str
    index: str
    channel: str
    staged: tuple[AccessModel, ...]
    loaded: tuple[AccessModel, ...]

    name = "state"

    def __str__(self) -> str:
        return f"goes along {self.row}, lanes along {self.channel}"

    @cached_property
    def _others(self) -> tuple[str, ...]:
        return tuple(i for i in self.problem.free if i != self.row)

    @property
    def across(self) -> str:
        """The index of the warps; "" for none."""
        return self._others[-1] if self._others else ""

    @cached_property
    def _each(self) -> int:
        """Elements of the state in a lane."""
        return -(-max(1, self.problem.extents[self.channel].constant or 1) // self.machine.lanes)

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        many = max(s.get(self.across, 1) for s in sizes)
        groups = [g for g in GROUPS if g == 1 or g < 2 * many] if self.across else [1]
        t = crossed({"bt": np.array(ROWS)}, {"groups": np.array(groups)})
        return t | {"ba": t["groups"], "v": np.full_like(t["bt"], self._each)}

    def least(self, sizes: Dict[str, int]) -> float:
        return self.machine.launch

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        machine, p, bt, each = self.machine, self.problem, t["bt"], t["v"]
        turns = ceil_div(sizes[self.row], bt)
        blocks = volume(sizes[x] for x in self._others if x != self.across) * ceil_div(sizes.get(self.across, 1), t["ba"])
        inner = volume(sizes[x] for x in p.reduced if x not in (self.index, self.channel))
        # terms of rows and of the total, and what the state has for each row; then lanes add up both parts of a row
        shuffles = 2 * bt * log2(machine.lanes)
        ops = each * inner * ((bt * (bt + 1) / 2 + bt) * p.operations + bt) + shuffles
        loads = each * inner * len(self.staged) * bt + (len(p.inner) - len(self.staged) + 1) * bt
        per_cycle = machine.operations(p.computation.value.dtype.compute) / machine.schedulers
        latency, far, flight = machine.latency * machine.clock, 0.0, 0.0
        for a in (*p.reads, *p.writes):
            far = far + a.footprint(sizes) * a.dtype.bytes
            tile = {self.index: bt, self.row: bt, self.across: t["ba"], self.channel: sizes[self.channel]}
            flight = flight + a.footprint(tile) * a.dtype.bytes
        rows = [a for a in self.staged if self.across not in a.axes]
        near = far + sum(a.footprint(sizes) * a.dtype.bytes for a in rows) * (ceil_div(sizes.get(self.across, 1), t["ba"]) - 1)
        lane = each * bt * sum(a.dtype.bytes for a in self.staged) + shuffles * machine.register_bytes
        return ResourceUse(
            blocks=blocks,
            groups=t["groups"],
            registers=np.ceil(machine.reserved + each * (2 + 2 * bt) + 2 * bt),
            staged=bt * sizes[self.channel] * sum(a.dtype.bytes for a in self.staged),
            pipe=turns * ops * machine.lanes / per_cycle,
            issue=SETUP + turns * (ops + shuffles + 2 * loads + OF_A_TILE),
            staging=turns * lane * t["groups"] * machine.lanes,
            l2_bytes=near,
            dram_bytes=far,
            bytes_in_flight=flight,
            rounds=2,
            launches=1,
            stall=turns * latency,
            exposed=turns * (latency + 2 * MEETING),
            run=t["ba"],
        )

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        least = sum(a.footprint(sizes) * a.dtype.bytes for a in (*self.problem.reads, *self.problem.writes))
        share = useful_share(sizes[self.row], t["bt"]) * useful_share(sizes.get(self.across, 1), t["ba"])
        return TileTraffic(least, demand.l2_bytes, demand.staging * demand.blocks, 1 - share)

    @property
    def slots(self) -> tuple[Slot, ...]:
        machine, across = self.machine, self.across
        outer, group, lane = (x.name for x in (machine.outer, machine.group, machine.lane))
        out: list[Slot] = []
        if self._others:
            axes = tuple((x, "ba" if x == across else "") for x in self._others)
            out.append(Slot("outer", syntax.Tile, outer, axes, needed=True))
        out.append(Slot("carry", syntax.Tile, None, ((self.row, "bt"),), needed=True))
        out += [Slot(f"stage {a.tensor}", syntax.Move, machine.staging.name, about=(a.tensor,)) for a in self.staged]
        out += [Slot("group", syntax.Tile, group, ((across, ""),))] if across else []
        out += [Slot(f"load {a.tensor}", syntax.Move, machine.register.name, about=(a.tensor,)) for a in self.loaded]
        return (*out, Slot("lane", syntax.Tile, lane, ((self.channel, "v"),), needed=True), Slot("leaf", syntax.Compute))

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        absent = {"group"} if at["groups"] == 1 else set[str]()
        return lines_of_slots(self.slots, at, absent, {"carry": modifier("carry")}, {})


def state_loops(ctx: LoweringContext, machine: MachineModel, problem: AccessProblem) -> list[StateLoop]:
    """The nest of a prefix reduction with a state of a known number of channels; none for others."""
    w = problem.computation
    found = prefix_along(w)
    decay = found[1].decay if found is not None else None
    if found is None or decay is None or decay.correction is not None or len(decay.state) != 1 or w.fused or not w.outputs:
        return []
    channel = decay.state[0]
    count = problem.extents[channel].constant
    if count is None or not 0 < count <= MOST_CHANNELS * machine.lanes:
        return []
    row, index = found[0], found[1].index
    read = [a.tensor for a in problem.reads]
    movable = [a for a in problem.inner if a.tensor in ctx.shapes and a.can_be_staged and not a.view]
    movable = [a for a in movable if read.count(a.tensor) == 1]
    staged = tuple(a for a in movable if a.plain(channel))
    loaded = tuple(a for a in movable if channel not in a.axes and a.plain(index))
    return [StateLoop(ctx, machine, problem, row, index, channel, staged, loaded)] if staged else []
