"""The nest of a pair on devices with blocks: each block makes what its tile reads of the producer, then the results.

    tile .., s, f -> outer
    keep T in staging:                      all lanes of the block share the elements, those at the rim too
        tile .., s, f -> lanes
    tile s, f -> group;  tile f -> lanes

RECOMPUTED   the rim costs arithmetic, and reads of what the producer reads. Larger tiles have less of it, and fewer blocks.
ROUND_TRIP   T is stored and read in staging memory, after a barrier.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dsl import syntax
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..access_model import AccessModel, AccessProblem, different_accesses
from ..constraints import Named, Slot, lines_of_slots
from ..gpu.cost import ResourceUse, TileTraffic
from ..gpu.elementwise import AHEAD, SETUP, row_tiles
from ..line_builders import tile_text
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, useful_share, volume
from .find_pairs import MadePair, pair_of

ROWS = (1, 2, 4, 8, 16)  # rows: of a warp, one after another [tried; test_larger_tiles_make_less_of_a_rim]
# instructions: for the place of one element of the rim, whose extents are no powers of two [estimate;
# test_it_is_made_where_memory_is_the_bound]
PLACE = 6


@dataclass(frozen=True)
class PairTemplate:
    """Candidates with lanes along `fast`, the reader's axis of contiguous results; `slow`: the other one that tiles cut."""

    ctx: LoweringContext
    machine: MachineModel
    pair: MadePair
    producer: AccessProblem
    problem: AccessProblem
    fast: str
    slow: str

    name = "pair"

    def __str__(self) -> str:
        return f"{self.pair.tensor} made in each tile, lanes along {self.fast}"

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        f = fixed.get("bf", max(s.get(self.fast, 1) for s in sizes))
        r = fixed.get("bs", max((s.get(self.slow, 1) for s in sizes), default=1))
        size = max(a.dtype.bytes for a in self.problem.writes)
        t = row_tiles(self.machine, size, f, r, fixed, ROWS, (1,))
        return t | {"wf": -(-t["bf"] // t["gf"]), "ws": -(-t["bs"] // t["gs"])}

    def _tile(self, t: Tiles, sizes: Dict[str, Any]) -> dict[str, Any]:
        """The extents of the reader's axes in a block."""
        cut = {x: np.minimum(t[name], sizes.get(x, 1)) for x, name in ((self.fast, "bf"), (self.slow, "bs")) if x}
        return cut | {x: sizes[x] for x in self.problem.reduced}

    def _made(self, t: Tiles, sizes: Dict[str, Any]) -> dict[str, Any]:
        """RECOMPUTED: the extents of the producer's axes in a block."""
        tile = self._tile(t, sizes)
        return self.pair.made({x: tile.get(x, 1) for x in self.problem.free}) | {x: sizes[x] for x in self.producer.reduced}

    def _elements(self, t: Tiles) -> Any:
        """Of T, in the staging memory of a block."""
        whole = self.pair.made({self.fast: t["bf"], self.slow: t["bs"]})
        return volume(whole.values())

    def _blocks(self, t: Tiles, sizes: Dict[str, Any]) -> Any:
        others = volume(sizes[x] for x in self.problem.free if x not in (self.fast, self.slow))
        return others * ceil_div(sizes.get(self.slow, 1), t["bs"]) * ceil_div(sizes.get(self.fast, 1), t["bf"])

    # ------------------------------------------------------------ what they ask

    def least(self, sizes: Dict[str, int]) -> float:
        return self.machine.launch

    def _outer_reads(self) -> list[AccessModel]:
        return [a for a in self.problem.reads if a.tensor != self.pair.tensor]

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        machine, first, then = self.machine, self.producer, self.problem
        lanes = t["groups"] * machine.lanes
        blocks = self._blocks(t, sizes)
        made, tile = self._made(t, sizes), self._tile(t, sizes)
        shares = ceil_div(self._elements(t), lanes)  # elements of T that a lane makes
        each = self._each(t)
        before, after = (volume(sizes[x] for x in p.reduced) for p in (first, then))
        transaction = machine.home.transaction or 32
        near, far, loads, path = (0.0 for _ in range(4))
        sides = (
            (first.reads, made, first, self.pair.axes[-1].index, shares * before),
            (self._outer_reads(), tile, then, self.fast, each * after),
            (then.writes, tile, then, self.fast, each),
        )
        for accesses, extents, p, fast, count in sides:
            own = {x: sizes.get(x, 1) for x in p.axes}
            moved = different_accesses(accesses)
            for a in accesses:
                spans = a.footprint({x: n for x, n in extents.items() if x in p.axes}) * a.dtype.bytes
                ineff = a.coalesced(fast, extents.get(fast, 1), transaction) if fast in a.axes else 1.0
                near = near + spans * blocks * ineff
                if any(a is x for x in moved):
                    far = far + np.minimum(a.footprint(own) * a.dtype.bytes, spans * blocks * ineff)
                loads = loads + count / (t["v"] if accesses is then.writes else 1)
                path = path + count * lanes * a.path(fast, transaction)
        size = self.ctx.dtypes[self.pair.tensor].bytes
        taken = each * after * sum(a.tensor == self.pair.tensor for a in then.inner)
        ops = shares * (before * first.operations + PLACE) + each * after * then.operations
        per_cycle = machine.operations(then.computation.value.dtype.compute) / machine.schedulers
        return ResourceUse(
            blocks=blocks,
            groups=t["groups"],
            registers=np.ceil(machine.reserved + 2 * each),
            staged=np.ceil(self._elements(t) * size),
            pipe=ops * machine.lanes / per_cycle,
            issue=SETUP + ops + 2 * loads + shares + taken,
            staging=path + (shares + taken) * lanes * size,
            l2_bytes=near,
            dram_bytes=far,
            bytes_in_flight=lanes * np.minimum(shares * before * len(first.inner), AHEAD) * size,
            rounds=3,  # ROUND_TRIP
            launches=1,
            run=t["bf"],
        )

    def _each(self, t: Tiles) -> Any:
        """Results of a lane."""
        return ceil_div(t["bs"], t["gs"]) * t["v"] * ceil_div(t["bf"], t["v"] * self.machine.lanes * t["gf"])

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        first, then = self.producer, self.problem
        made, results = volume(self._made(t, sizes).values()), volume(sizes[x] for x in then.free)
        turns = volume(sizes[x] for x in then.reduced)
        asked = sum(demand.blocks * made * a.dtype.bytes for a in first.reads)
        asked = asked + sum(results * (turns if a in then.inner else 1) * a.dtype.bytes for a in self._outer_reads())
        asked = asked + sum(results * a.dtype.bytes for a in then.writes)
        size = self.ctx.dtypes[self.pair.tensor].bytes
        taken = results * turns * sum(a.tensor == self.pair.tensor for a in then.inner)
        share = useful_share(sizes.get(self.fast, 1), t["bf"]) * useful_share(sizes.get(self.slow, 1), t["bs"])
        every = {(a.tensor, a.dims): a.footprint(sizes) * a.dtype.bytes for a in (*self._outer_reads(), *then.writes)}
        own = self.pair.made({x: sizes[x] for x in then.free}) | {x: sizes[x] for x in first.reduced}
        every |= {(a.tensor, a.dims): a.footprint(own) * a.dtype.bytes for a in first.reads}
        return TileTraffic(
            least=sum(every.values()),
            requested=asked,
            served=(taken + demand.blocks * self._elements(t)) * size,
            waste=1 - share,
        )

    # ------------------------------------------------------------ lines

    @property
    def slots(self) -> tuple[Slot, ...]:
        p, machine = self.problem, self.machine
        size = {self.slow: "bs", self.fast: "bf"}
        outer, group, lane = (x.name for x in (machine.outer, machine.group, machine.lane))
        axes = tuple((x, n) for x, n in ((self.slow, "ws"), (self.fast, "wf")) if x)
        keep = [Slot("keep", syntax.Keep, machine.register.name, about=p.computation.names)]
        keep = keep if p.computation.reduction is not None else []
        return (
            Slot("outer", syntax.Tile, outer, tuple((x, size.get(x, "")) for x in p.free), needed=True),
            Slot("make", syntax.Keep, machine.staging.name, about=(self.pair.tensor,), needed=True),
            Slot("group", syntax.Tile, group, axes),
            Slot("row", syntax.Tile, None, ((self.slow, ""),)),
            *keep,
            Slot("lane", syntax.Tile, lane, ((self.fast, "v"),), needed=True),
            *(Slot("loop " + x, syntax.Tile, None, ((x, ""),)) for x in p.reduced),
            Slot("leaf", syntax.Compute),
        )

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        narrow = [a for a, n in (((self.slow, at["ws"]), at["gs"]), ((self.fast, at["wf"]), at["gf"])) if n > 1]
        absent = {"group": not narrow, "row": not self.slow or at["ws"] <= 1}
        make = syntax.Keep((self.pair.tensor,), self.machine.staging.name, block=self._block(self.pair.producer))
        group = tile_text(*narrow, level=self.machine.group.name)
        return lines_of_slots(self.slots, at, {x for x, off in absent.items() if off}, {}, {"group": (group,), "make": (make,)})

    def _block(self, w: Computation) -> tuple[syntax.Line, ...]:
        lines: list[syntax.Line] = [tile_text(*((a.index, 1) for a in self.pair.axes), level=self.machine.lane.name)]
        if w.reduction is not None:
            lines.append(syntax.Keep(w.targets, self.machine.register.name))
            lines += [tile_text((x, 1)) for x in w.reduced]
        return (*lines, syntax.Compute())


def pair_templates(
    ctx: LoweringContext, machine: MachineModel, computations: tuple[Computation, ...], problems: tuple[AccessProblem, ...]
) -> list[PairTemplate]:
    """The nest of a pair, where the computations are one: lanes along the axis in which results are contiguous, and of the
    others the last one along which a tile reads more than itself is cut."""
    pair = pair_of(computations)
    if pair is None:
        return []
    producer, reader = problems
    fast = reader.writes[0].fast or reader.free[-1]
    others = [x for x in reader.free if x != fast]
    beyond = [x for x in others if any(x in a.steps and (a.beyond or a.steps[x] > 1) for a in pair.axes)]
    return [PairTemplate(ctx, machine, pair, producer, reader, fast, (beyond or others or [""])[-1])]
