"""Nests for reductions whose operands are read many times: tiles in registers, staged tiles in shared memory, blocks.

    tile m, n -> outer;  [tile k -> outer by workspace];  keep [move result -> staging];  tile k;  move operands -> staging;
    tile m, n -> group;  leaf

REGISTERS_FIRST   a warp's tile grows until registers are full: every element that is read serves a row or a column of it.
ONE_FILE          where not all instructions name all registers, results leave room for one more fragment in one of the files:
                  where they fill it, compilers move parts to the other one and back between instructions, and spill.
THEN_STAGED       a block's tile grows by whole warps until its memory is full.
SPLIT             with fewer tiles than SMs or CUs the reduction is split, and a second launch adds the parts.
AHEAD             a compiler hoists the loads of unrolled iterations, so of many few are unrolled if each loads much.
FRAGMENTS         operands that are moved to registers may have two sets of them: the next iteration's are loaded while this
                  one's are multiplied, across staged tiles too, so that nothing waits for them after a barrier.
STRIDED           each lane takes chunks of contiguous elements at a stride, so that the lanes' simultaneous reads are
                  contiguous.

Sizes of a candidate by name: `bm bn bk` of a block's tile, `wm wn` of a warp's, `gm gn` warps, `tm tn` of a lane's with `lm`
lanes along m, `stages` of the pipeline, `sets` of the registers of operands, `split` of the reduction (0: not split).
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ....dsl.values import Load
from ...ir.limits import LOADED, MOST_GROUPS, UNROLLED, WIDEST_ACCESS
from ...lower.footprint import read_extent
from ...lower.leaves.match_instr import fragment_map
from ...lower.lower_schedule import Lowering
from ...lower.lowering_context import LoweringContext
from ...lower.spec import Focus
from ...schedule.build_tree import schedule_tree
from ..access_model import AccessModel, AccessProblem
from ..block_order.waves import block_order, raster_rows, wave_of
from ..constraints import Named, Slot, lines_of_slots
from ..instr_mappings import InstrMapping
from ..line_builders import modifier, tiled
from ..machine_model import MachineModel
from ..tile_space import Tiles, crossed, round_up, scale_up, select_tiles, tile_multiples, volume
from .computed_operands import Made, computing_line
from .contraction_resources import (
    contraction_lower_bound,
    contraction_resources,
    contraction_traffic,
    result_room,
)
from .cost import ResourceUse, TileTraffic
from .operand_layouts import Orders, StagedOperand, best_staging
from .register_sets import can_run_through, tile_registers
from .split_reductions import with_splits
from .staged_result import StagedResult, staged_result

DEPTHS = (32, 64, 128)  # bytes: of a row of a staged tile along k, whole transactions [tried; test_sizes_tried]
STAGES = (1, 2)  # buffers: of a copy through registers [tried; test_sizes_tried]
ASYNCHRONOUS = (2, 3, 4)  # buffers: of an asynchronous copy [tried; test_sizes_tried]
SETS = (1, 2)  # sets: of the registers of operands [tried; test_sizes_tried]
SPLITS = (2, 4, 8, 16, 32, 64, 128)  # parts: of a split reduction [tried; test_sizes_tried]
OPEN_PART = 1024  # elements: the least of a part of a reduction whose extent is open [estimate; test_sizes_tried]
GROUPS = (2, 3, 4, 8)  # warps: of a block along one axis, besides one [tried; test_sizes_tried]
# multiples: of the least tile, where a full range would give too many candidates [tried; test_sizes_tried]
POWERS = (2, 4, 8, 16)


@dataclass(frozen=True)
class ContractionTemplate:
    """Candidates of one mapping. `original_problem`: as the author wrote it, for the bytes that must be moved.

    `materialised`: tensors that are computed where they are staged, by all units, before they are read. `results`: how many
    lie side by side, of which one is stored.
    """

    ctx: LoweringContext
    machine: MachineModel
    mapping: InstrMapping
    original_problem: AccessProblem
    materialised: Made = ()
    results: int = 1

    name = "contraction"

    def __str__(self) -> str:
        return str(self.mapping)

    @property
    def problem(self) -> AccessProblem:
        return self._problem

    @cached_property
    def _problem(self) -> AccessProblem:
        return AccessProblem.of(self.mapping.computation, self.ctx.dtypes, self.ctx.device.computes)

    @property
    def by_group(self) -> bool:
        """Whether the leaf is an instruction of a whole warp."""
        return self.mapping.instr is not None and self.mapping.instr.level != self.machine.lane.name

    @cached_property
    def inputs(self) -> tuple[AccessModel, ...]:
        """The operands of the reduction."""
        return tuple(a for a in self.problem.reads if a.axes & set(self.problem.reduced))

    def staged(self, depth: int) -> tuple[StagedOperand, ...]:
        """How operands are staged in tiles that deep."""
        if depth not in self._staged:
            made = dict(self.materialised)
            found = (
                best_staging(self.ctx, self.machine, self.mapping, a, depth, self._orders, made.get(a.tensor))
                for a in self.inputs
            )
            self._staged[depth] = tuple(s for s in found if s is not None)
        return self._staged[depth]

    @cached_property
    def result(self) -> StagedResult | None:
        """How the result goes through staging memory, where there is room; None: it does not."""
        return staged_result(self)

    @property
    def materialises_all(self) -> bool:
        """Whether all materialised tensors are staged."""
        return not self.materialised or dict(self.materialised).keys() <= {
            s.access.tensor for s in self.staged(self.mapping.leaf[2])
        }

    def read_for(self, a: AccessModel) -> int:
        """Bytes of the outermost memory that are read for an element of an operand."""
        made = dict(self.materialised).get(a.tensor)
        return a.dtype.bytes if made is None else made.read

    @cached_property
    def _orders(self) -> Orders:
        return {}

    @cached_property
    def _staged(self) -> dict[int, tuple[StagedOperand, ...]]:
        return {}

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        """All tiles worth costing, for the largest of the sizes; `fixed`: sizes that the author wrote."""
        mp = self.mapping
        m, n, k = (max((s.get(x, 1) for s in sizes), default=1) for x in (mp.m, mp.n, mp.k))
        m, n = fixed.get("bm", m), fixed.get("bn", n)
        groups = self._groups(m, n, fixed)
        if not len(groups["wm"]):
            return groups  # no tile of a group has the sizes that were written
        size, leaf = max(a.dtype.bytes for a in self.inputs), mp.leaf[2]
        depths = sorted({round_up(max(1, d // size), leaf) for d in DEPTHS})
        depths = [d for d in depths if d < 2 * k or d == depths[0]]
        depths = [fixed["bk"]] if "bk" in fixed else depths
        stages, sets = self._buffers(depths[0], fixed)
        pairs, inside = self._units(groups, m, n, fixed)
        # in the order of tiles of a group, depths, numbers of groups; those outside are not made
        of, deep, count = np.nonzero(np.broadcast_to(inside[:, None, :], (len(inside), len(depths), inside.shape[1])))
        pair = of * inside.shape[1] + count
        t = {name: v[of] for name, v in groups.items()}
        t |= {"bk": np.array(depths)[deep], "stages": stages, "sets": sets}
        t |= {name: pairs[name][pair] for name in ("gm", "gn", "bm", "bn")}
        t["split"] = np.full(len(t["bk"]), fixed.get("split", 0), np.int64)
        t["inner"] = np.full(len(t["bk"]), fixed.get("inner", leaf), np.int64)
        return t if "split" in fixed else self._split(t, sizes, k, depths[-1])

    def _buffers(self, depth: int, fixed: Dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """FRAGMENTS: numbers of stages and of sets that go with every tile. What runs on into the next staged tile needs a
        second stage."""
        staged = self.staged(depth)
        stages = ASYNCHRONOUS if any(s.asynchronous for s in staged) else STAGES
        stages = (fixed["stages"],) if "stages" in fixed else stages
        sets = SETS if can_run_through(self, self._loads(staged, max(SETS))) else SETS[:1]
        sets = (fixed["sets"],) if "sets" in fixed else sets
        pairs = [(n, r) for r in sets for n in stages if r == 1 or n > 1 or "sets" in fixed]
        both = np.array(pairs, np.int64).T[..., None]
        return both[0], both[1]

    def _units(self, t: Tiles, m: int, n: int, fixed: Dict[str, int]) -> tuple[Tiles, np.ndarray]:
        """THEN_STAGED: every tile of a group with every number of groups, and which of these to try: [tiles, numbers]."""
        most = min(self.machine.max_groups, MOST_GROUPS)
        least_m, least_n = int(t["wm"].min()), int(t["wn"].min())
        count = scale_up(
            {"gm": tile_multiples(1, -(-m // least_m), 8, GROUPS), "gn": tile_multiples(1, -(-n // least_n), 8, GROUPS)},
            lambda t: 1 / t["gm"] + 1 / t["gn"],
            lambda t: t["gm"] + t["gn"],
            lambda t: t["gm"] * t["gn"] <= most,
        )
        for b, g, w in (("bm", "gm", "wm"), ("bn", "gn", "wn")):
            if b in fixed:  # as many groups as it takes
                count = {x: v[count[g] == 1] for x, v in count.items()}
                t = t | {"need" + g: -(-fixed[b] // t[w])}
        t = crossed(t, count)
        for b, g, w in (("bm", "gm", "wm"), ("bn", "gn", "wn")):
            if b in fixed:
                t[g] = t.pop("need" + g)
            t[b] = np.full_like(t[g], fixed[b]) if b in fixed else t[w] * t[g]
        # a warp beyond all extents has nothing to do
        inside = ((t["gm"] == 1) | (t["bm"] - t["wm"] < m)) & ((t["gn"] == 1) | (t["bn"] - t["wn"] < n))
        fits = inside & (t["gm"] * t["gn"] <= self.machine.max_groups)
        return t, fits.reshape(-1, len(count["gm"]))

    def _split(self, t: Tiles, sizes: list[dict[str, int]], k: int, depth: int) -> Tiles:
        """SPLIT: parts of the reduction, where some size leaves units without a tile."""
        mp = self.mapping
        if not self.problem.computation.outputs or mp.loops or any(x.reduced for _, x in self.materialised):
            return t
        parts = sorted({round_up(-(-k // s), depth) for s in SPLITS if k // s >= 2 * depth}, reverse=True)
        if self.problem.extents[mp.k].constant is None:
            parts = [p for p in parts if p >= OPEN_PART][-1:]
        if not parts:
            return t
        few = np.zeros(len(t["bk"]), bool)
        for s in sizes:
            blocks = volume(s[x] for x in mp.batch) * -(-s[mp.m] // t["bm"]) * -(-s[mp.n] // t["bn"])
            few |= blocks < self.machine.units
        return with_splits(t, few, "split", parts, ("stages", "sets"))

    def _groups(self, m: int, n: int, fixed: Dict[str, int]) -> Tiles:
        """REGISTERS_FIRST"""
        rows, columns, _ = self.mapping.leaf
        room = self.machine.max_registers - self.machine.reserved

        def grown(a: str, b: str, most: tuple[int, int]) -> Tiles:
            ladders = {a: tile_multiples(rows, m, most[0], POWERS), b: tile_multiples(columns, n, most[1], POWERS)}
            return scale_up(
                {x: (fixed[x],) if x in fixed else steps for x, steps in ladders.items()},
                lambda t: 1 / t[a] + 1 / t[b],
                lambda t: tile_registers(self, t),
                lambda t: tile_registers(self, t) <= room,
            )

        if self.by_group:
            return grown("wm", "wn", (128, 128))
        lanes = self.machine.lanes
        t = crossed(grown("tm", "tn", (16, 16)), {"lm": np.array([1 << e for e in range(lanes.bit_length())])})
        t["wm"], t["wn"] = t["tm"] * t["lm"], t["tn"] * (lanes // t["lm"])
        if "wm" in fixed or "wn" in fixed:
            exact = np.ones(len(t["wm"]), bool)
            for w in ("wm", "wn"):
                exact &= t[w] == fixed.get(w, t[w])
            return select_tiles(t, exact)
        square = (t["wm"] <= 4 * t["wn"]) & (t["wn"] <= 4 * t["wm"])
        inside = (t["wm"] < 2 * m) & (t["wn"] < 2 * n)
        fills = ((t["wm"] < 2 * m) | (t["lm"] == 1)) & ((t["wn"] < 2 * n) | (t["lm"] == lanes))
        some = fills & (square | (min(m, n) <= 64)) if inside.any() else fills
        return select_tiles(t, some if some.any() else np.ones_like(some))

    @cached_property
    def result_registers(self) -> int:
        """Registers of a lane for one fragment of the result."""
        mp = self.mapping
        assert mp.match is not None
        assert mp.instr is not None
        target = mp.instr.statement.target
        dtype = mp.instr.operand(target).dtype
        return max(1, fragment_map(mp.match, target).registers * dtype.bytes // self.machine.register_bytes)

    @cached_property
    def fragment_registers(self) -> tuple[int, int]:
        """Registers of a lane for one fragment of the operand along m, and of that along n."""
        count = {"m": 1, "n": 1}
        assert self.mapping.match is not None
        assert self.mapping.instr is not None
        for name, _ in self.mapping.match.operands:
            f = fragment_map(self.mapping.match, name)
            words = max(1, f.registers * self.mapping.instr.operand(name).dtype.bytes // self.machine.register_bytes)
            count["m" if f.of(self.mapping.m) else "n"] = words
        return count["m"], count["n"]

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        return contraction_resources(self, t, sizes)

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        return contraction_traffic(self, t, sizes)

    def least(self, sizes: Dict[str, int]) -> float:
        return contraction_lower_bound(self, sizes)

    # ------------------------------------------------------------ lines

    @property
    def slots(self) -> tuple[Slot, ...]:
        mp, machine = self.mapping, self.machine
        outer, group, lane = (x.name for x in (machine.outer, machine.group, machine.lane))
        staged = self.staged(round_up(DEPTHS[0] // max(a.dtype.bytes for a in self.inputs), mp.leaf[2]))
        axes = (*((x, "") for x in mp.batch), (mp.m, "bm"), (mp.n, "bn"))
        out = [Slot("fuse", syntax.Fuse, needed=bool(mp.fuses)), Slot("outer", syntax.Tile, outer, axes, needed=True)]
        if self.problem.computation.outputs:
            out.append(Slot("split", syntax.Tile, outer, ((mp.k, "split"),)))
        out.append(Slot("keep", syntax.Keep, machine.register.name, about=mp.computation.names))
        if mp.loops:
            out.append(Slot("loops", syntax.Tile, None, tuple((x, "") for x in mp.loops)))
        out.append(Slot("k", syntax.Tile, None, ((mp.k, "bk"),), needed=True))
        out += [Slot("stage " + s.access.tensor, syntax.Move, machine.staging.name, about=(s.access.tensor,)) for s in staged]
        alone = (("gm", 1), ("gn", 1))
        out.append(Slot("group", syntax.Tile, group, ((mp.m, "wm"), (mp.n, "wn")), absent=alone))
        if not self.by_group:
            out.append(Slot("lane", syntax.Tile, lane, ((mp.m, "tm"), (mp.n, "tn")), needed=True))
        inner = Slot("inner", syntax.Tile, None, ((mp.k, "inner"),), absent=(("sets", 1),), pipeline=("sets", 1))
        out.append(inner)
        out += [Slot("load " + s.access.tensor, syntax.Move, machine.register.name, about=(s.access.tensor,)) for s in staged]
        return (*out, Slot("leaf", syntax.Compute, about=(mp.instr.name,) if mp.instr else ()))

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        """The schedule lines of a candidate."""
        machine, mp, staged = self.machine, self.mapping, self.staged(at["bk"])
        tiles_m, tiles_n = (-(-sizes.get(x, 1) // at[b]) for x, b in ((mp.m, "bm"), (mp.n, "bn")))
        rows = int(raster_rows(at, tiles_m, tiles_n, wave_of(machine)))
        blocks = volume(sizes.get(x, 1) for x in mp.batch) * tiles_m * tiles_n
        loads = self._loads(staged, at["sets"])
        modifiers = {
            "outer": block_order(machine, mp.computation, rows, int(blocks)),
            "split": modifier("by", words=("workspace",)),
            "k": modifier("pipeline", at["stages"]) if at["stages"] > 1 else (),
            "inner": self._inner_modifiers(at),
        } | {"load " + x: words for x, words in loads.items()}
        absent = {"fuse": not mp.fuses, "split": not at["split"], "inner": self.by_group and at["bk"] <= mp.leaf[2]}
        absent |= {"group": at["gm"] * at["gn"] == 1 and not self.by_group}
        absent |= {"load " + s.access.tensor: s.access.tensor not in loads for s in staged}
        without = {x for x, off in absent.items() if off}
        given: dict[str, tuple[syntax.Line, ...]] = {"fuse": mp.fuses}
        given |= {} if self.by_group else {"lane": (self._lane_line(at),)}
        if self.result is not None and (room := result_room(self, at)):
            block = self.result.lines(machine, at, room)
            given["keep"] = (syntax.Keep(mp.computation.names[:1], machine.register.name, block=block),)
        at = at | {"inner": mp.leaf[2]}
        names = [x.name for x in self.slots]
        below = names[names.index("k") + 1 + len(staged) :]
        plain = lines_of_slots(self.slots, at, without, modifiers, given)
        inside = tuple(x for name in below for x in plain.get(name, ()))
        computed, tiles_of = dict(self.materialised), {mp.m: at["bm"], mp.n: at["bn"], mp.k: at["bk"]}
        for s in staged:
            line = s.line(machine.staging.name, self._reach(s.inner, tiles_of[s.inner], inside))
            axes = ((s.free, 1) if s.inner == mp.k else (mp.k, 1), (s.inner, s.stored))
            given["stage " + s.access.tensor] = (computing_line(line, computed.get(s.access.tensor), machine, axes),)
        return lines_of_slots(self.slots, at, without, modifiers, given)

    def _loads(self, staged: tuple[StagedOperand, ...], sets: int) -> dict[str, tuple[syntax.Modifier, ...]]:
        """Operands that lines load to registers, with the modifiers of these lines."""
        match = self.mapping.match
        direct = {v.tensor for _, v in match.operands if isinstance(v, Load)} if match else None
        # an instruction converts its other operands itself, and reads them as its fragments
        out = {s.access.tensor: () for s in staged if direct is None or s.access.tensor in direct}
        if not self.by_group:
            return out
        loaders = {s.access.tensor: modifier("with", words=(s.load,)) for s in staged if s.load is not None}
        return out | loaders if sets > 1 else loaders

    def _reach(self, axis: str, size: int, below: tuple[syntax.Line, ...]) -> int:
        """How far the lines below read along an axis of a staged tile."""
        computation, top = self.mapping.computation, self.machine.outer.name
        extent = self.problem.extents[axis].constant
        focus = Focus((computation,), {}, top, top, {})
        return read_extent(
            Lowering(self.ctx, (computation,)),
            focus,
            axis,
            size if extent is None else max(1, min(size, extent)),
            schedule_tree(below),
        )

    def _lane_line(self, at: dict[str, int]) -> syntax.Tile:
        """STRIDED"""
        machine, mp = self.machine, self.mapping
        axes = []
        for x, size, lanes, leaf in (
            (mp.m, at["tm"], at["lm"], mp.leaf[0]),
            (mp.n, at["tn"], machine.lanes // at["lm"], mp.leaf[1]),
        ):
            wide = max(leaf, WIDEST_ACCESS // max(a.dtype.bytes for a in self.inputs))
            axes.append((x, size, None) if size <= wide or lanes == 1 else (x, wide, wide * lanes))
        return tiled(axes, level=machine.lane.name)

    def _inner_modifiers(self, at: dict[str, int]) -> tuple[syntax.Modifier, ...]:
        if at["sets"] > 1:
            return modifier("pipeline", at["sets"], ("through",))
        return () if self.by_group else self._unrolled(at)

    def _unrolled(self, at: dict[str, int]) -> tuple[syntax.Modifier, ...]:
        ahead = int(self.overlapped_iterations(at))
        return modifier("unroll", ahead) if ahead < at["bk"] // self.mapping.leaf[2] else modifier("unroll")

    def most_unrolled(self, t: Any) -> Any:
        """AHEAD"""
        return np.exp2(np.floor(np.log2(np.maximum(1, np.floor(LOADED / (t["tm"] + t["tn"]))))))

    def overlapped_iterations(self, t: Any) -> Any:
        """Iterations of the inner loop that a compiler overlaps, so that loads of the next hide behind one."""
        if self.by_group:
            return 1
        turns, most = np.floor(t["bk"] / self.mapping.leaf[2]), self.most_unrolled(t)
        return np.maximum(1, np.where((turns > UNROLLED) & (most >= 4) & (most < turns), most, turns))
