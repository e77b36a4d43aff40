"""Statistics of few long rows in one pass: blocks have parts of a row, and a second launch combines them (`split_chain`).

    tile i: 1 -> block
    tile j: 8192 -> block online by workspace
    keep top, total in register
    tile j: 2048 online                        a lane corrects its sums once for so many elements
    move X -> register
    tile j: 4 every 1024 -> thread
    compute

KNOWN_ROWS  The number of rows is known, and leaves units without a block, or an author's lines are some of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..access_model import AccessProblem
from ..constraints import Named, Slot, lines_of_slots
from ..gpu.cost import ResourceUse
from ..gpu.passes.lane_pass import CORRECTION
from ..gpu.passes.pass_model import RUNNING
from ..gpu.resident_rows import repeated_inputs
from ..gpu.row_reductions import RowTemplate
from ..line_builders import modifier, tiled
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, select_tiles, volume
from .find_chain import row_chain

PARTS = (1024, 2048, 4096, 8192, 16384, 32768)  # elements: of a row, that a block has [tried; test_sizes_tried]


@dataclass(frozen=True)
class RowPass(RowTemplate):
    """Candidates for reductions of rows that follow each other (a `NestModel`). `resident` inputs are read once for all of
    them. `results`: the accumulators.
    """

    results: tuple[str, ...] = ()

    name = "row pass"
    parts = PARTS

    def __str__(self) -> str:
        return f"parts of {self.fast}"

    @property
    def slots(self) -> tuple[Slot, ...]:
        machine, fast, register = self.machine, self.fast, self.machine.register.name
        rows = [Slot("outer", syntax.Tile, machine.outer.name, tuple((x, "") for x in self.rows), needed=True)]
        return (
            *(rows if self.rows else ()),
            Slot("part", syntax.Tile, machine.outer.name, ((fast, "part"),), needed=True, online=True),
            Slot("keep", syntax.Keep, register, about=self.results, needed=True),
            Slot("span", syntax.Tile, None, ((fast, "span"),), needed=True, online=True),
            *(Slot("move " + x, syntax.Move, register, about=(x,), needed=True) for x in self.resident),
            Slot("lane", syntax.Tile, machine.lane.name, ((fast, "v"),), needed=True, strided=(fast,)),
            Slot("leaf", syntax.Compute),
        )

    def _splits(self) -> bool:
        return True

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles:
        t = super().candidates(sizes, fixed)
        t = select_tiles(t, (t["part"] > 0) & (t["rows"] == 1))
        if "span" in fixed:  # an author's: each lane has what there is for it
            t = select_tiles(t, (t["turns"] == 1) & (t["turn"] <= fixed["span"]))
            t = {**t, "span": np.full_like(t["span"], fixed["span"]), "turns": ceil_div(fixed["span"], t["turn"])}
        return t if "span" in fixed or "part" in fixed else select_tiles(t, t["part"] % t["span"] == 0)

    def _registers(self, t: Tiles) -> Any:
        each = np.ceil(t["v"] * t["turns"] * self._bytes_of_place / self.machine.register_bytes)
        return each + self.machine.reserved + RUNNING * (len(self.results) - 1)

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
        whole, machine = super().demand(t, sizes), self.machine
        followers = len(self.results) - 1
        corrections = ceil_div(t["part"], t["span"]) * followers * CORRECTION
        cycles = machine.lanes * machine.schedulers / machine.operations(self.problem.computation.value.dtype.compute)
        count = ceil_div(sizes[self.fast], t["part"])
        more = followers * count * volume(sizes[x] for x in self.rows) * self.problem.computation.value.dtype.bytes
        return replace(
            whole,
            pipe=whole.pipe + corrections * cycles,
            issue=whole.issue + corrections,
            l2_bytes=whole.l2_bytes + more,
            dram_bytes=whole.dram_bytes + more,
            rounds=whole.rounds - len(self.problems) + 1,
            second_launch_bytes=whole.second_launch_bytes + more,
        )

    def _combining(self, t: Tiles, parts: Any) -> Any:
        """Of each result, without a loop over lanes' own parts (`combined_parts`)."""
        return ceil_div(parts, self.machine.lanes) * len(self.results)

    def lines(self, at: dict[str, int], sizes: Mapping[str, int]) -> Named:
        parts = (*modifier("online"), *modifier("by", words=("workspace",)))
        given: Named = {
            "keep": (syntax.Keep(self.results, self.machine.register.name),),
            "lane": (tiled([(self.fast, at["v"], at["turn"])], level=self.machine.lane.name),),
        }
        return lines_of_slots(self.slots, at, (), {"part": parts, "span": modifier("online")}, given)


def row_passes(
    ctx: LoweringContext,
    machine: MachineModel,
    computations: tuple[Computation, ...],
    problems: tuple[AccessProblem, ...],
    written: bool,
) -> Iterator[RowPass]:
    """None where the computations are something else, or rows are many and nothing is written (KNOWN_ROWS); else one."""
    found = row_chain(computations)
    if found is None:
        return
    if not written and (not 0 < (found.row_count or 0) < machine.units or (found.length or 0) < 2 * PARTS[0]):
        return
    mine = tuple(p for p in problems if p.reduced)
    resident = repeated_inputs(mine, found.rows, found.fast)
    yield RowPass(ctx, machine, mine, found.rows, found.fast, found.results, False, resident, found.results)
