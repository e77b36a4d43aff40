"""Nests for reductions whose operands are read many times: tiles in registers, staged tiles in the memory of a unit, units.

    tile m, n -> outer;  [tile k -> outer by workspace];  keep;  tile k;  move operands -> staging;  tile m, n -> group;  leaf

REGISTERS_FIRST   a group's tile grows until registers are full: every element read serves a row or a column of it.
THEN_STAGED       tiles of a unit grow by whole groups until its memory is full.
SPLIT             with too few tiles for the units the reduction is split, and a second launch adds the parts.
STRIDED           lanes take chunks of neighbours apart from each other, so that what they read together lies together.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...dsl import syntax
from ...dsl.values import Load
from ..lower.context import Context
from ..lower.match import fragment
from .cost import Demand
from .lines import modifier, tile, tiled
from .machine import RESERVED, Machine
from .match import Mapping
from .problem import Access, Problem
from .staging import CHUNK, Staged, stagings
from .tiles import Tiles, crossed, ladder, padded, scale_up, taken, up

DEPTHS = (32, 64, 128)  # bytes of a row of a staged tile, along k: whole transactions
STAGES = (1, 2)  # buffers of a copy through registers
ASYNCHRONOUS = (2, 3, 4)  # and of one that is not waited for
SPLITS = (2, 4, 8, 16, 32, 64, 128)
GROUPS = (1, 2, 3, 4, 8)  # of one unit, along an axis
POWERS = (1, 2, 4, 8, 16)
OPEN_PART = 1024  # of a reduction whose extent is open, at least
SYNC = 20  # cycles that groups lose where they meet


@dataclass(frozen=True)
class Contraction:
    """Candidates of one mapping. `whole`: the problem as it is written, for what must be moved at least."""

    ctx: Context
    machine: Machine
    mapping: Mapping
    whole: Problem

    name = "contraction"

    @property
    def problem(self) -> Problem:
        return self._problem

    @cached_property
    def _problem(self) -> Problem:
        return Problem.of(self.mapping.work, self.ctx.dtypes)

    @property
    def by_group(self) -> bool:
        """Is the leaf an instruction of a whole group?"""
        return self.mapping.instr is not None and self.mapping.instr.level != self.machine.lane.name

    @cached_property
    def inputs(self) -> tuple[Access, ...]:
        """What the reduction reads."""
        return tuple(a for a in self.problem.reads if self.mapping.k in a.axes or a.axes & set(self.problem.reduced))

    def staged(self, depth: int) -> tuple[Staged, ...]:
        """How operands are staged in tiles that deep."""
        if depth not in self._staged:
            self._staged[depth] = self._stage(depth)
        return self._staged[depth]

    @cached_property
    def _staged(self) -> dict[int, tuple[Staged, ...]]:
        return {}

    def _stage(self, depth: int) -> tuple[Staged, ...]:
        found = (stagings(self.ctx, self.machine, self.mapping, a, depth) for a in self.inputs)
        return tuple(s for s in found if s is not None)

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]]) -> Tiles:
        """All tiles worth costing, for the largest of the sizes; what does not fit registers is left out."""
        mp, machine = self.mapping, self.machine
        m, n, k = (max((s.get(x, 1) for s in sizes), default=1) for x in (mp.m, mp.n, mp.k))
        groups = self._groups(m, n)
        least_m, least_n = int(groups["wm"].min()), int(groups["wn"].min())
        units = {"gm": ladder(1, -(-m // least_m), 8, GROUPS), "gn": ladder(1, -(-n // least_n), 8, GROUPS)}
        most = min(machine.most_groups, 8)
        count = scale_up(
            units,
            lambda t: 1 / t["gm"] + 1 / t["gn"],
            lambda t: t["gm"] + t["gn"],
            lambda t: t["gm"] * t["gn"] <= most,
        )
        size, leaf = max(a.dtype.bytes for a in self.inputs), mp.leaf[2]
        depths = sorted({up(max(1, d // size), leaf) for d in DEPTHS})
        depths = [d for d in depths if d < 2 * k or d == depths[0]]
        stages = ASYNCHRONOUS if any(s.asynchronous for s in self.staged(depths[0])) else STAGES
        t = crossed(groups, count, {"bk": np.array(depths)}, {"stages": np.array(stages)})
        t["bm"], t["bn"] = t["wm"] * t["gm"], t["wn"] * t["gn"]
        # a tile much larger than the whole wastes what covers nothing
        t = taken(t, ((t["gm"] == 1) | (t["bm"] < 2 * m)) & ((t["gn"] == 1) | (t["bn"] < 2 * n)))
        t["split"] = np.zeros(len(t["bk"]), np.int64)
        return self._split(t, sizes, k, depths[-1])

    def _split(self, t: Tiles, sizes: list[dict[str, int]], k: int, depth: int) -> Tiles:
        """SPLIT: parts of the reduction, where some size leaves units without a tile."""
        mp = self.mapping
        if not self.problem.work.outputs or mp.loops:
            return t
        few = np.zeros(len(t["bk"]), bool)
        for s in sizes:
            blocks = prod(s[x] for x in mp.batch) * -(-s[mp.m] // t["bm"]) * -(-s[mp.n] // t["bn"])
            few |= blocks < self.machine.units
        parts = sorted({up(-(-k // s), depth) for s in SPLITS if k // s >= 2 * depth}, reverse=True)
        if self.problem.extents[mp.k].constant is None:
            parts = [p for p in parts if p >= OPEN_PART][-1:]
        if not few.any() or not parts:
            return t
        some = crossed({name: v[few] for name, v in t.items() if name != "split"}, {"split": np.array(parts)})
        return {name: np.concatenate([v, some[name]]) for name, v in t.items()}

    def _groups(self, m: int, n: int) -> Tiles:
        """Tiles of one group: REGISTERS_FIRST. Of a scalar body: `tm`, `tn` of one lane, `lm` lanes along m."""
        rows, columns, _ = self.mapping.leaf
        room = self.machine.most_registers - RESERVED

        def grown(a: str, b: str, most: tuple[int, int]) -> Tiles:
            return scale_up(
                {a: ladder(rows, m, most[0], POWERS), b: ladder(columns, n, most[1], POWERS)},
                lambda t: 1 / t[a] + 1 / t[b],
                self._held,
                lambda t: self._held(t) <= room,
            )

        if self.by_group:
            return grown("wm", "wn", (128, 128))
        lanes = self.machine.lanes
        t = crossed(grown("tm", "tn", (16, 16)), {"lm": np.array([1 << e for e in range(lanes.bit_length())])})
        t["wm"], t["wn"] = t["tm"] * t["lm"], t["tn"] * (lanes // t["lm"])
        square = (t["wm"] <= 4 * t["wn"]) & (t["wn"] <= 4 * t["wm"])
        inside = (t["wm"] < 2 * m) & (t["wn"] < 2 * n)
        fills = ((t["wm"] < 2 * m) | (t["lm"] == 1)) & ((t["wn"] < 2 * n) | (t["lm"] == lanes))
        some = fills & (square | (min(m, n) <= 64)) if inside.any() else fills
        return taken(t, some if some.any() else np.ones_like(some))

    def _held(self, t: Tiles) -> Any:
        """Registers of a lane for the tile: accumulators, and a row and a column of operands."""
        word = self.machine.register_bytes
        out = max(1, self.problem.work.value.dtype.bytes // word)
        if not self.by_group:
            k = self.mapping.leaf[2]
            each = [max(1, a.dtype.bytes * k // word) for a in self.inputs[:2]] or [1]
            return t["tm"] * t["tn"] * out + t["tm"] * each[0] + t["tn"] * each[-1]
        left, right = self._fragments()
        lm, ln, _ = self.mapping.leaf
        return t["wm"] * t["wn"] * out // self.machine.lanes + t["wm"] // lm * left + t["wn"] // ln * right

    def _fragments(self) -> tuple[int, int]:
        """Registers of a lane for one fragment of the operand along m, and of that along n."""
        found = {"m": 1, "n": 1}
        assert self.mapping.match is not None
        assert self.mapping.instr is not None
        for name, _ in self.mapping.match.operands:
            f = fragment(self.mapping.match, name)
            words = max(1, f.registers * self.mapping.instr.operand(name).dtype.bytes // self.machine.register_bytes)
            found["m" if f.of(self.mapping.m) else "n"] = words
        return found["m"], found["n"]

    # ------------------------------------------------------------ what they ask

    def demand(self, t: Tiles, sizes: Dict[str, int]) -> Demand:
        machine, mp = self.machine, self.mapping
        m, n, k = (sizes.get(x, 1) for x in (mp.m, mp.n, mp.k))
        batch, loops = prod(sizes[x] for x in mp.batch), prod(sizes[x] for x in mp.loops)
        tiles_m, tiles_n = -(-m // t["bm"]), -(-n // t["bn"])
        part = np.where(t["split"] > 0, np.minimum(t["split"], k), k)
        splits = -(-k // part)
        blocks = batch * tiles_m * tiles_n * splits
        steps = -(-part // t["bk"]) * loops
        groups = t["gm"] * t["gn"]
        lanes = groups * machine.lanes
        kept = {int(d): self.staged(int(d)) for d in np.unique(t["bk"])}
        extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
        share = {mp.m: padded(m, t["bm"]), mp.n: padded(n, t["bn"]), mp.k: padded(part, t["bk"])}

        # operands, step by step
        stage, near, written, read, fetch, copies = (np.zeros(len(t["bk"])) for _ in range(6))
        prefetch = np.zeros(len(t["bk"]))
        for a in self.inputs:
            spans = self._footprint(a, extents)
            live = spans * prod((share[x] for x in a.axes if x in share), start=np.ones(1))
            near = near + live * a.dtype.bytes * steps * blocks * self._transactions(a, extents)
            per_step, rate, instrs, copied = (np.zeros(len(t["bk"])) for _ in range(4))
            for depth, found in kept.items():
                here = t["bk"] == depth
                s = next((s for s in found if s.access is a), None)
                if s is None:
                    instrs[here] = self._unstaged(a, t)[here]
                    continue
                rows = spans / np.where(s.inner == mp.k, t["bk"], extents[s.free])
                per_step[here] = ((spans + rows * s.pad) * a.dtype.bytes)[here]
                written[here] += (spans * a.dtype.bytes * (1 if s.vector > 1 else 2))[here]
                rate[here], instrs[here] = (x[here] for x in self._reading(s, t))
                copied[here] = (spans / lanes / s.vector * (3 + s.calc))[here]
                if not s.asynchronous:
                    prefetch[here] += (spans * a.dtype.bytes / lanes / machine.register_bytes)[here]
            stage, read, fetch, copies = stage + per_step, read + rate, fetch + instrs, copies + copied
        done = self._leaf(t)
        turns = up(part, mp.leaf[2]) / mp.leaf[2] * loops
        pipe = done * self._leaf_cycles() * turns + SYNC * steps * np.where(t["stages"] > 2, 1, 2)
        issue = (done * self._leaf_issue() + fetch) * turns + (copies + 16) * steps + 4 * t["wm"] * t["wn"] / machine.lanes
        staging = (read * turns * groups) + written * steps
        out = sum(a.dtype.bytes for a in self.problem.writes) * batch * m * n
        parts = np.where(t["split"] > 0, 2 * splits * batch * m * n * self.problem.work.value.dtype.bytes, 0)
        least = out + sum(a.dtype.bytes * a.footprint(sizes) for a in self.whole.reads)
        held = np.where(t["stages"] > 1, prefetch, 0)
        registers = np.ceil(self._held(t) + held + RESERVED).astype(np.int64)
        resident = machine.units * 2
        far = (
            self._far(t, sizes, np.minimum(blocks, resident), tiles_m, tiles_n, raster(t, tiles_m, tiles_n, resident))
            + out
            + parts
        )
        return Demand(
            blocks=blocks,
            groups=groups,
            registers=registers,
            staged=np.ceil(stage * t["stages"]).astype(np.int64),
            pipe=pipe,
            issue=issue,
            staging=staging,
            near=near + out + parts,
            far=far,
            least=least,
            flight=(stage + 1) * np.maximum(1, t["stages"] - 1),
            rounds=2 + np.where(t["stages"] == 1, steps / 2, 0),
            launches=1 + (t["split"] > 0),
            waste=1 - share[mp.m] * share[mp.n] * part / up(part, mp.leaf[2]),
        )

    def _footprint(self, a: Access, extents: Dict[str, Any]) -> Any:
        fused = {name for name, _ in self.mapping.work.fused}
        if a.axes & fused:  # a view over the indices
            return prod((extents[x] for x in a.axes if x in extents), start=np.ones(1))
        return a.footprint(extents) * np.ones(1)

    def _transactions(self, a: Access, extents: Dict[str, Any]) -> Any:
        """Bytes moved for a byte asked for: runs of memory come in whole transactions."""
        fused = {name for name, _ in self.mapping.work.fused}
        whole = self.machine.home.transaction or 32
        run = extents.get(a.fast or "", 8 if a.fast in fused else 1) * a.dtype.bytes
        return up(run, whole) / run

    def _reading(self, s: Staged, t: Tiles) -> tuple[Any, Any]:
        """Bytes' worth of staging memory cycles, and instructions, of a group for one turn of the leaf's k."""
        machine, mp = self.machine, self.mapping
        along = "m" if s.free == mp.m else "n"
        if self.by_group:
            count = t["w" + along] / mp.leaf[0 if along == "m" else 1]
            return count * s.cycles * machine.bank_bytes, count * s.reads
        size = s.access.dtype.bytes
        mine = t["t" + along]
        wide = np.ceil(mine * s.reads) if s.reads < 1 else mine * s.reads
        # lanes that read one element together are served as if each read its own, but for single words
        asked = np.where(mine * s.reads >= 1, machine.lanes * mine * size, t["w" + along] * size)
        return asked * mp.leaf[2], wide * (mp.leaf[2] if s.inner != mp.k else 1)

    def _unstaged(self, a: Access, t: Tiles) -> Any:
        """Instructions of a group to read it where it is, for one turn of the leaf's k."""
        mp = self.mapping
        if self.by_group:
            left, right = self._fragments()
            return 4.0 * np.where(mp.m in a.axes, t["wm"] / mp.leaf[0] * left, 0) + np.where(
                mp.n in a.axes, t["wn"] / mp.leaf[1] * right, 0
            )
        return 3.0 * mp.leaf[2] * np.where(mp.m in a.axes, t["tm"], 1) * np.where(mp.n in a.axes, t["tn"], 1)

    def _leaf(self, t: Tiles) -> Any:
        """Executions of the leaf by a group for one turn of its k."""
        lm, ln, _ = self.mapping.leaf
        return t["wm"] // lm * (t["wn"] // ln) if self.by_group else t["tm"] // lm * (t["tn"] // ln)

    def _leaf_cycles(self) -> float:
        machine, instr = self.machine, self.mapping.instr
        if instr is not None:
            return machine.instr_cycles(instr)
        per_cycle = machine.operations(self.problem.work.value.dtype.compute) / machine.schedulers
        return max(1.0, self.problem.operations - 1) * machine.lanes / per_cycle

    def _leaf_issue(self) -> float:
        return 1.0 if self.mapping.instr is not None else max(1.0, self.problem.operations - 1)

    def _far(self, t: Tiles, sizes: Dict[str, int], wave: Any, tiles_m: Any, tiles_n: Any, rows: Any) -> Any:
        """Bytes of operands that reach the outermost memory: a wave of tiles reads rows and columns of them together."""
        cache = self.machine.cache.capacity if self.machine.cache else 0
        high = np.where(rows > 1, np.minimum(tiles_m, rows), np.maximum(1, wave // np.maximum(1, tiles_n)))
        wide = np.minimum(tiles_n, np.maximum(1, wave // high))
        total = {a.tensor: float(a.dtype.bytes * a.footprint(sizes)) for a in self.whole.reads}
        fit = sum(total.values()) <= 0.75 * (cache or 0)
        far = np.zeros(len(t["bk"]))
        for a in self.inputs:
            again = np.ones(len(t["bk"]))
            if not fit and total[a.tensor] > 0.5 * (cache or 0):
                if self.mapping.n not in a.axes:
                    again = tiles_n / wide
                elif self.mapping.m not in a.axes:
                    again = np.maximum(1, tiles_m / high)
            far = far + total[a.tensor] * again
        return far

    # ------------------------------------------------------------ lines

    def lines(self, t: Tiles, i: int, sizes: Dict[str, int]) -> tuple[syntax.Line, ...]:
        """The schedule lines of candidate i."""
        machine, mp = self.machine, self.mapping
        at = {name: int(v[i]) for name, v in t.items()}
        tiles_m, tiles_n = -(-sizes.get(mp.m, 1) // at["bm"]), -(-sizes.get(mp.n, 1) // at["bn"])
        rows = int(
            raster({k: v[i : i + 1] for k, v in t.items()}, np.array([tiles_m]), np.array([tiles_n]), machine.units * 2)[0]
        )
        outer = [(x, 1) for x in mp.batch] + [(mp.m, at["bm"]), (mp.n, at["bn"])]
        lines: list[syntax.Line] = [*mp.fuses]
        lines.append(
            tile(*outer, level=machine.outer.name, modifiers=modifier("raster", rows) if rows > 1 and not mp.batch else ())
        )
        if at["split"]:
            lines.append(tile((mp.k, at["split"]), level=machine.outer.name, modifiers=modifier("by", words=("workspace",))))
        lines.append(syntax.Keep((mp.work.name.rstrip("@"),), machine.register.name))
        if mp.loops:
            lines.append(tile(*((x, 1) for x in mp.loops)))
        lines.append(tile((mp.k, at["bk"]), modifiers=modifier("pipeline", at["stages"]) if at["stages"] > 1 else ()))
        kept = self.staged(at["bk"])
        lines += [s.line(machine.staging.name) for s in kept]
        if at["gm"] * at["gn"] > 1 or self.by_group:
            lines.append(tile((mp.m, at["wm"]), (mp.n, at["wn"]), level=machine.group.name))
        if self.by_group:
            lines += self._group_leaf(at, kept)
        else:
            lines += self._lane_leaf(at, kept)
        return tuple(lines)

    def _group_leaf(self, at: dict[str, int], kept: tuple[Staged, ...]) -> list[syntax.Line]:
        mp, memory = self.mapping, self.machine.register.name
        assert mp.instr is not None
        lines: list[syntax.Line] = []
        if at["bk"] > mp.leaf[2]:
            lines.append(tile((mp.k, mp.leaf[2])))
        for s in kept:
            if s.load is not None:
                lines.append(syntax.Move(s.access.tensor, memory, modifiers=modifier("with", words=(s.load,))))
        return [*lines, syntax.Compute(mp.instr.name)]

    def _lane_leaf(self, at: dict[str, int], kept: tuple[Staged, ...]) -> list[syntax.Line]:
        """STRIDED"""
        machine, mp = self.machine, self.mapping
        axes = []
        for x, mine, lanes, leaf in (
            (mp.m, at["tm"], at["lm"], mp.leaf[0]),
            (mp.n, at["tn"], machine.lanes // at["lm"], mp.leaf[1]),
        ):
            wide = max(leaf, CHUNK // max(a.dtype.bytes for a in self.inputs))
            axes.append((x, mine, None) if mine <= wide or lanes == 1 else (x, wide, wide * lanes))
        lines: list[syntax.Line] = [tiled(axes, level=machine.lane.name)]
        lines.append(tile((mp.k, mp.leaf[2]), modifiers=modifier("unroll")))
        direct = {v.tensor for _, v in mp.match.operands if isinstance(v, Load)} if mp.match else None
        # what an instruction gets converted is read as its fragment says, so it is not held otherwise
        mine = (s.access.tensor for s in kept if direct is None or s.access.tensor in direct)
        lines += [syntax.Move(t, machine.register.name) for t in mine]
        return [*lines, syntax.Compute(mp.instr.name if mp.instr else None)]


def raster(t: Tiles, tiles_m: Any, tiles_n: Any, wave: int) -> np.ndarray:
    """Rows of tiles that are walked together, so that a wave of them is about square in what it reads; 1: no need."""
    rows = np.sqrt(np.maximum(1, wave * t["bn"] / t["bm"]))
    rows = np.exp2(np.round(np.log2(rows))).astype(np.int64)
    flat = tiles_n * t["bn"] * 2 > wave / np.maximum(1, tiles_n) * t["bm"]
    return np.where(flat & (tiles_m * tiles_n > wave), np.clip(rows, 1, tiles_m), 1)
