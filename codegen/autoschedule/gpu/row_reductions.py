"""Nests for reductions along the contiguous axis, and for chains of them with their readers, row by row (softmax).

    tile rows -> outer;  [tile f -> outer by workspace];  [tile row -> group];  keep ..;  tile f;  tile f -> lanes
    tile rows -> outer;  [tile row -> group];  move inputs -> registers;  keep ..;  tile f every .. -> lanes

NEIGHBOURS   lanes take parts of a row, several contiguous elements each, and combine their results: in a warp through
             registers, between warps through shared memory.
A_ROW        a short row has one warp, and a block several rows; a long row has a whole block; few rows are split over blocks.
ONE_PASS     rows that several computations read stay in registers, if they have a bound and fit; what is expensive stays there
             too. Otherwise each computation reads the row again: from the cache if the rows of all resident blocks fit it.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ...ir.limits import WIDEST_ACCESS
from ...lower.lowering_context import LoweringContext
from ...lower.reductions.argreduce_index import accumulator_types
from ...plan.computations import Computation
from ...plan.derived_names import CombiningAccumulator, result_of
from ..access_model import AccessModel, AccessProblem
from ..constraints import Named, Slot, lines_of_slots
from ..line_builders import modifier, tiled
from ..machine_model import MachineModel
from ..one_pass.combined_parts import AT_ONCE
from ..tile_space import Tiles, ceil_div, crossed, select_tiles, useful_share, volume
from .cost import ResourceUse, TileTraffic, resident_blocks
from .elementwise import SETUP
from .resident_rows import CACHE_SHARE, GROUPS, MOST_REGISTERS, OTHERS, bytes_of_place, fits_registers, repeated_inputs
from .split_reductions import PARTS, has_parts, parts_of, with_splits

# instructions: for the partial sum of each warp of a row, a load and an addition, in every lane [measured: triton-2026-11;
# test_partial_sums_of_warps_are_two_instructions_each]
PARTIAL_SUM = 2
TURNS = 4  # vectors: of a lane in one iteration of the loop over a row, at most [tried; test_first_candidates]


@dataclass(frozen=True)
class RowTemplate:
    """Candidates for computations that share `rows`; `fast` is reduced, or read row by row, by each of them.

    one_pass  rows stay in registers (ONE_PASS), those of the `resident` inputs too
    """

    ctx: LoweringContext
    machine: MachineModel
    problems: tuple[AccessProblem, ...]
    rows: tuple[str, ...]
    fast: str
    kept_intermediates: tuple[str, ...]
    one_pass: bool = False
    resident: tuple[str, ...] = ()

    name = "rows"
    parts = PARTS

    def __str__(self) -> str:
        return f"lanes along {self.fast}" + (", rows in registers" if self.one_pass else "")

    @property
    def problem(self) -> AccessProblem:
        return self._problem

    @cached_property
    def _problem(self) -> AccessProblem:
        return max(self.problems, key=lambda p: len(p.axes))

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        machine = self.machine
        n = max(s[self.fast] for s in sizes)
        m = fixed.get("rows", max(volume(s[x] for x in self.rows) for s in sizes))
        size = min(a.dtype.bytes for p in self.problems for a in p.reads if self.fast in a.axes)
        v = [x for x in (1, 2, 4, 8) if x == 1 or (x * size <= WIDEST_ACCESS and x * machine.lanes // 2 < n)]
        groups = [g for g in (GROUPS if self.one_pass else (*GROUPS, 16, 32)) if g == 1 or g * machine.lanes < 2 * n]
        t = crossed(
            {"v": np.array(v)},
            {"gr": np.array(groups)},
            {"rows": np.array([fixed["rows"]] if "rows" in fixed else [1, 2, 4, 8])},
            {"turns": np.array([1] if self.one_pass else [1, 2, TURNS])},
        )
        t = select_tiles(t, self._turns(t) * t["v"] <= MOST_REGISTERS) if self.one_pass else t
        t = select_tiles(
            t, (t["rows"] * t["gr"] <= machine.max_groups) & ((t["gr"] == 1) | (t["rows"] == 1)) & (t["rows"] < 2 * m)
        )
        span = t["v"] * t["gr"] * machine.lanes * t["turns"]
        t = select_tiles(t, ((t["turns"] == 1) | (span < 2 * n)) & ((t["gr"] == 1) | (span // 2 < n)))  # none has nothing to do
        t["turn"] = t["v"] * t["gr"] * machine.lanes
        t["span"] = t["turn"] * t["turns"]
        t["part"] = np.full_like(t["v"], fixed.get("part", 0))
        longest = max(s[self.split_axis] for s in sizes)
        parts = [p for p in self.parts if 2 * p <= longest] if "part" not in fixed and self._splits() else []
        return with_splits(t, self._blocks(t, sizes[0]) < machine.units, "part", parts)

    @cached_property
    def split_axis(self) -> str:
        """The slowest of the reduced axes, so that parts are long runs."""
        return next((x for x in self.problem.reduced if x != self.fast), self.fast)

    def _splits(self) -> bool:
        w = self.problem.computation
        return len(self.problems) == 1 and bool(w.outputs) and has_parts(w)

    @property
    def longest(self) -> int | None:
        """The most elements of a row, if they have a bound."""
        return next(p.extents[self.fast].interval[1] for p in self.problems if self.fast in p.extents)

    def _turns(self, t: Tiles) -> Any:
        """Vectors of a lane in a row that stays in registers."""
        return ceil_div(max(1, self.longest or 1), t["v"] * t["gr"] * self.machine.lanes)

    def _registers(self, t: Tiles) -> Any:
        rows = np.ceil(self._turns(t) * t["v"] * self._bytes_of_place / self.machine.register_bytes)
        return rows + (OTHERS if self.one_pass else self.machine.reserved + t["v"] * t["turns"])

    def _missed(self, t: Tiles, sizes: Dict[str, Any]) -> Any:
        """Whether rows have left the cache when they are read again: all that resident blocks read and write is larger."""
        machine = self.machine
        rows = {a.tensor: a.footprint(sizes) * a.dtype.bytes for p in self.problems for a in self._moved(p) if self._is_row(a)}
        blocks = resident_blocks(machine, t["rows"] * t["gr"], self._registers(t), self._staged(t)) * machine.units
        share = np.minimum(1, blocks / self._blocks(t, sizes))
        return sum(rows.values()) * share > CACHE_SHARE * (machine.cache.capacity or 0 if machine.cache else 0)

    def _is_row(self, a: AccessModel) -> bool:
        """Has each row its own elements?"""
        return a.axes >= {*self.rows, self.fast}

    @cached_property
    def _bytes_of_place(self) -> int:
        return bytes_of_place(self.problems, self.fast, {*self.kept_intermediates, *self.resident})

    def _blocks(self, t: Tiles, sizes: Dict[str, Any]) -> Any:
        last = sizes[self.rows[-1]] if self.rows else 1
        return volume(sizes[x] for x in self.rows[:-1]) * ceil_div(last, t["rows"])

    # ------------------------------------------------------------ what they ask

    def least(self, sizes: Dict[str, int]) -> float:
        return self.machine.launch

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        machine, lanes = self.machine, self.machine.lanes
        result = volume(sizes[x] for x in self.rows) * self.problem.computation.value.dtype.bytes
        part, splits, parts = parts_of(t["part"], sizes[self.split_axis], result)
        blocks = self._blocks(t, sizes) * splits
        groups = t["rows"] * t["gr"]
        n, turns = (part, 1.0) if self.split_axis == self.fast else (sizes[self.fast], part)
        turns = turns * volume(sizes[x] for x in self.problem.reduced if x not in (self.fast, self.split_axis))
        # vectors of a lane; those in registers are all visited
        chunks = self._turns(t) if self.one_pass else ceil_div(n, t["v"] * t["gr"] * lanes) * turns
        unrolled = chunks if self.one_pass else np.minimum(t["turns"], chunks)
        missed = self._missed(t, sizes)
        per_cycle = machine.operations(self.problem.computation.value.dtype.compute) / machine.schedulers
        ops, loads, near, far, path, flight, combining = (0.0 for _ in range(7))
        seen: set[str] = set()
        for p in self.problems:
            ops = ops + (chunks * t["v"] * p.operations if self.fast in p.axes else p.operations)
            for a in self._moved(p):
                moved = span = a.footprint(sizes) * a.dtype.bytes
                # each row reads it: those of a unit find it close by, if it is small those of later units on the same place too
                again = volume(sizes[x] for x in self.rows if x not in a.axes)
                if np.any(again > 1):
                    close = span <= (machine.staging.capacity or 0) / 2
                    shared = t["rows"] if self.rows[-1] not in a.axes else 1
                    span = span * np.minimum(ceil_div(again, shared), np.where(close, 1 + blocks / machine.units, again))
                ineff = self._transactions(a, t, sizes)
                near = near + span * ineff
                far = far + moved * ineff * (np.where(missed, self._is_row(a), 0) if a.tensor in seen else 1)
                seen.add(a.tensor)
                if self.fast in a.axes:
                    wide = np.minimum(t["v"], WIDEST_ACCESS // a.dtype.bytes) if a.stride(self.fast) == 1 else 1
                    loads = loads + chunks * t["v"] / wide
                    path = path + chunks * t["v"] * groups * lanes * a.path(self.fast, machine.home.transaction or 32)
                    flight = np.maximum(flight, groups * lanes * wide * a.dtype.bytes * ineff * unrolled)
            if p.reduced:
                combining = combining + 2 * log2(lanes) + np.where(t["gr"] > 1, 8 + PARTIAL_SUM * t["gr"], 0)
        staged = self._staged(t)
        meetings = np.where(t["gr"] > 1, 2 * sum(bool(p.reduced) for p in self.problems), 0)
        return ResourceUse(
            blocks=blocks,
            groups=groups,
            registers=self._registers(t),
            staged=staged,
            pipe=ops * lanes / per_cycle,
            issue=SETUP + ops + 2 * loads + 4 * chunks / unrolled + combining,
            staging=path + staged * (1 + t["gr"]),
            l2_bytes=near + parts,
            dram_bytes=np.minimum(near, far) + parts,
            bytes_in_flight=flight,
            rounds=1 + (1 if self.one_pass else len(self.problems)) + 0.1 * meetings + self._combining(t, splits),
            launches=1 + (t["part"] > 0),
            second_launch_bytes=parts + np.where(t["part"] > 0, result, 0),
        )

    def _combining(self, t: Tiles, parts: Any) -> Any:
        """Round trips of a second launch that combines so many parts of each row, which are no neighbours."""
        return np.where((t["part"] > 0) & bool(self.rows), 2 + ceil_div(parts, AT_ONCE * self.machine.lanes), 0)

    def _moved(self, p: AccessProblem) -> list[AccessModel]:
        """Bytes read and written in the outermost memory: some results of several computations stay in registers."""
        local = {*self.kept_intermediates} if len(self.problems) > 1 else set()
        local |= {x for x in self.resident if x in self._first and self._first[x] is not p}
        return [a for a in (*p.reads, *p.writes) if result_of(a.tensor) not in local]

    @cached_property
    def _first(self) -> dict[str, AccessProblem]:
        """The computation that reads a tensor first."""
        return {a.tensor: p for p in reversed(self.problems) for a in p.reads}

    def _staged(self, t: Tiles) -> Any:
        """Bytes of the memory of a unit: parts of results that groups pass on."""
        held = sum(x.bytes for p in self.problems if p.reduced for x in accumulator_types(p.computation))
        return np.where(t["gr"] > 1, t["rows"] * t["gr"] * self.machine.lanes * held, 0)

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        lanes = self.machine.lanes
        rows = volume(sizes[x] for x in self.rows)
        part, _, parts = parts_of(t["part"], sizes[self.split_axis], rows * self.problem.computation.value.dtype.bytes)
        asked: Any = 2 * parts
        bytes_of: dict[str, Any] = {}
        for p in self.problems:
            for a in self._moved(p):
                each = volume(sizes[x] for x in p.axes if x not in self.rows) if self.fast in a.axes else 1
                if self.fast in p.axes and self.fast not in a.axes and a in p.reads:
                    each = t["gr"] * lanes  # all lanes of a row
                asked = asked + a.dtype.bytes * rows * each
                bytes_of.setdefault(a.tensor, a.footprint(sizes) * a.dtype.bytes)
        n = part if self.split_axis == self.fast else sizes[self.fast]
        return TileTraffic(
            least=sum(bytes_of.values()),
            requested=asked,
            served=self._staged(t) * (1 + t["gr"]) * demand.blocks,
            waste=1 - useful_share(n, t["v"] * t["gr"] * lanes),
        )

    def _transactions(self, a: AccessModel, t: Tiles, sizes: Dict[str, Any]) -> Any:
        """Bytes moved for a byte requested."""
        whole = self.machine.home.transaction or 32
        if self.fast not in a.axes or a.stride(self.fast) is not None or a.fast is None:
            return 1.0
        return a.coalesced(self.fast, t["rows"] if self.rows and a.fast == self.rows[-1] else 1, whole)

    # ------------------------------------------------------------ lines

    @property
    def slots(self) -> tuple[Slot, ...]:
        machine = self.machine
        outer, group, lane = (x.name for x in (machine.outer, machine.group, machine.lane))
        out: list[Slot] = []
        if self.rows:
            axes = (*((x, "") for x in self.rows[:-1]), (self.rows[-1], "rows"))
            out.append(Slot("outer", syntax.Tile, outer, axes, needed=True))
        if self._splits():
            out.append(Slot("split", syntax.Tile, outer, ((self.split_axis, "part"),)))
        keep = [Slot("keep " + x, syntax.Keep, machine.register.name, about=(x,)) for x in self.kept_intermediates]
        row = [Slot("row", syntax.Tile, group, ((self.rows[-1], ""),))] if self.rows else []
        if self.one_pass:
            moves = (Slot("move " + x, syntax.Move, machine.register.name, about=(x,), needed=True) for x in self.resident)
            lanes = Slot("lane", syntax.Tile, lane, ((self.fast, "v"),), needed=True)
            return (*out, *row, *moves, *keep, lanes, Slot("leaf", syntax.Compute))
        out += [*keep, *row, *keep, *(Slot("loop " + x, syntax.Tile, None, ((x, ""),)) for x in self._loops)]
        out += [Slot(x, syntax.Tile, None, ((self.fast, x),)) for x in ("span", "turn")]
        return (*out, Slot("lane", syntax.Tile, lane, ((self.fast, "v"),), needed=True), Slot("leaf", syntax.Compute))

    @property
    def _loops(self) -> tuple[str, ...]:
        return tuple(x for x in self.problem.axes if x not in self.rows and x != self.fast)

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        absent = {"split": not at["part"], "row": at["rows"] == 1, "turn": at["turns"] == 1}
        modifiers = {"split": modifier("by", words=("workspace",)), "turn": modifier("unroll")}
        strided = tiled([(self.fast, at["v"], at["turn"])], level=self.machine.lane.name)
        given: dict[str, tuple[syntax.Line, ...]] = {"lane": (strided,)} if self.one_pass else {}
        return lines_of_slots(self.slots, at, {x for x, off in absent.items() if off}, modifiers, given)


def row_templates(
    ctx: LoweringContext, machine: MachineModel, computations: tuple[Computation, ...], problems: tuple[AccessProblem, ...]
) -> list[RowTemplate]:
    """The nest of rows, if the computations are reductions of rows along one axis, and their readers row by row."""
    shared = min((w.indices for w in computations), key=len)
    main = max(problems, key=lambda p: len(p.axes))
    along = [a.fast for p in problems for a in p.reads if a.fast is not None and a.fast not in shared]
    if not along and isinstance(main.computation.name, CombiningAccumulator):
        along = list(main.reduced)  # parts of few rows are few, and found in a cache
    if not any(p.reduced for p in problems) or not along:
        return []
    if len(computations) == 1:
        candidates = [x for x in dict.fromkeys(along) if x in main.reduced]
        kept: tuple[str, ...] = (computations[0].result,)
    else:
        candidates = [x for x in dict.fromkeys(along) if all(x in p.axes or not p.reduced for p in problems)]
        read = {name for w in computations for name in w.reads}
        kept = tuple(name for w in computations for name in w.targets if name in read)
    out = []
    for x in candidates[:1]:
        plain = RowTemplate(ctx, machine, problems, shared, x, kept)
        again = repeated_inputs(problems, shared, x)
        size = bytes_of_place(problems, x, {*kept, *again})
        nothing_else = all({*p.axes} <= {*shared, x} for p in problems)
        if nothing_else and size and fits_registers(machine, plain.longest, size, GROUPS[-1]):
            out.append(replace(plain, one_pass=True, resident=again))
        out.append(plain)
    return out
