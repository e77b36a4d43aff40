"""Nests without reuse of operands: pointwise computations, windows, and reductions along an axis that is not contiguous.

    tile .., s, f -> outer;  [tile k -> outer by workspace];  [keep];  tile s, f -> group;  tile f -> lanes

COALESCED   lanes go along a contiguous axis, several contiguous elements a lane where there is a vector access for them.
TURNED      a tensor that is contiguous in another axis is read through a staged tile: reads and writes are whole transactions.
BY_LANE     or a lane reads a square of it by vectors and writes its columns by vectors: registers are named, nothing is staged.
TOGETHER    outputs of each element that others of the same element read are in registers from there on (`kept`).
SHARED_OUT  a long reduction with few results is distributed over warps, which combine their partial results, or split over
            blocks.
ADDED_UP    nothing is stored between loads of what one lane adds up, so a compiler moves up those of unrolled iterations
            (`emit/gpu/unroll_limit`). Loads of a map stop at the stores of a row.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ...ir.limits import LOADED, MOST_GROUPS, WIDEST_ACCESS
from ...lower.lowering_context import LoweringContext
from ..access_model import AccessModel, AccessProblem, different_accesses
from ..constraints import Named, Slot, lines_of_slots
from ..line_builders import modifier, tile_text
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, crossed, select_tiles, tile_multiples, useful_share, volume
from .cost import ResourceUse, TileTraffic
from .resident_rows import OTHERS
from .split_reductions import PARTS, has_parts, parts_of, with_splits

SETUP = 40  # instructions: of a lane before its first element [estimate; test_first_candidates]
VECTORS = (1, 2, 4, 8)  # elements: of one access of a lane [tried; test_first_candidates]
DEEP = 8  # iterations: of a reduction that a warp takes at once [estimate; test_first_candidates]
TURN = (32, 64)  # elements: a side of a square that is transposed in staging memory [tried; test_first_candidates]
SQUARE = (4, 8)  # lanes: of a warp along the fast axis, each with a square [tried; test_first_candidates]
AHEAD = 4  # loads: of a lane that are in flight together [estimate; test_first_candidates]


def row_tiles(
    machine: MachineModel, size: int, f: int, r: int, fixed: Dict[str, int], rows: tuple[int, ...], parts: tuple[int, ...]
) -> Tiles:
    """Tiles of `gs` groups of lanes one below the other, with some `rows` each, and `gf` beside each other, of `v` elements a
    lane. `gk` groups have parts of a reduction.

    size   bytes of the widest element that is accessed by vectors      f, r   extents of the two axes
    """
    lanes = machine.lanes
    v = [n for n in VECTORS if n == 1 or (n * size <= WIDEST_ACCESS and n * lanes // 2 < f)]
    t = crossed(
        {"v": np.array(v)},
        {"gf": np.array(tile_multiples(1, -(-f // lanes), MOST_GROUPS, VECTORS))},
        {"gs": np.array([g for g in VECTORS if g == 1 or g < 2 * r])},
        {"rows": np.array([n for n in rows if n == 1 or n < 2 * r])},
        {"gk": np.array(parts)},
    )
    if "bf" in fixed:
        t["gf"] = -(-fixed["bf"] // (t["v"] * lanes))
    if "bs" in fixed:
        t["rows"] = -(-fixed["bs"] // t["gs"])
    t["bf"] = np.full_like(t["v"], fixed["bf"]) if "bf" in fixed else t["v"] * lanes * t["gf"]
    t["bs"] = np.full_like(t["v"], fixed["bs"]) if "bs" in fixed else t["gs"] * t["rows"]
    t["groups"] = t["gf"] * t["gs"] * t["gk"]
    most = machine.max_groups if "bf" in fixed else MOST_GROUPS
    fits = (t["groups"] <= most) & ((t["gk"] == 1) | (t["gs"] == 1))
    return select_tiles(t, fits & ((t["bs"] < 2 * r) | (t["bs"] == 1)))


@dataclass(frozen=True)
class ElementwiseTemplate:
    """Candidates with lanes along `fast`; `slow`: the other axis that a unit has several of ("" for none).

    side  BY_LANE: elements of a side of a lane's square; 0 for none
    kept  TOGETHER
    """

    ctx: LoweringContext
    machine: MachineModel
    problem: AccessProblem
    fast: str
    slow: str
    turned: tuple[AccessModel, ...] = ()
    side: int = 0
    kept: tuple[str, ...] = ()

    name = "map"

    def __str__(self) -> str:
        turned = f", {', '.join(a.tensor for a in self.turned)} turned" if self.turned else ""
        return f"lanes along {self.fast}" + turned + (" in registers" if self.side else "")

    @property
    def split_axis(self) -> str:
        """The reduced axis that may be split: the one with most iterations."""
        return self.problem.reduced[0] if self.problem.reduced else ""

    @cached_property
    def _moved(self) -> tuple[AccessModel, ...]:
        """The accesses that move bytes from or to the outermost memory: of a stencil's reads one."""
        return different_accesses((*self.problem.reads, *self.problem.writes))

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        f = fixed.get("bf", max(s.get(self.fast, 1) for s in sizes))
        r = fixed.get("bs", max((s.get(self.slow, 1) for s in sizes), default=1))
        k = max((s.get(self.split_axis, 1) for s in sizes), default=1)
        make = self._by_lane if self.side else self._turned if self.turned else self._straight
        t = make(f, r, fixed)
        t = select_tiles(t, (t["gk"] - 1) * DEEP < k)  # each warp has iterations of the reduction
        t["part"] = np.full_like(t["bf"], fixed.get("part", 0))
        alone = t["gk"] == 1
        t["wf"] = np.where(alone, -(-t["bf"] // t["gf"]), 0)
        t["ws"] = np.where(alone, -(-t["bs"] // t["gs"]), 0)
        t["kk"], t["kg"] = t["gk"] * DEEP * ~alone, DEEP * ~alone
        w = self.problem.computation
        parts = [p for p in PARTS if 2 * p <= k] if "part" not in fixed and has_parts(w) and w.outputs else []
        return with_splits(t, self._blocks(t, sizes[0]) < self.machine.units, "part", parts)

    def _turned(self, f: int, r: int, fixed: Dict[str, int]) -> Tiles:
        square = np.array([n for n in TURN if n < 2 * max(f, r)] or TURN[:1])
        t = crossed({"bf": square}, {"gs": np.array([4, 8])})
        one = np.ones_like(t["bf"])
        t["bs"] = one * fixed["bs"] if "bs" in fixed else t["bf"]
        t["bf"] = one * fixed["bf"] if "bf" in fixed else t["bf"]
        return t | {"groups": t["gs"], "gf": one, "gk": one, "v": one}

    def _by_lane(self, f: int, r: int, fixed: Dict[str, int]) -> Tiles:
        lanes, v = self.machine.lanes, self.side
        t = crossed({"lf": np.array(SQUARE)}, {"gf": np.array(VECTORS)}, {"gs": np.array(VECTORS)})
        t["v"] = np.full_like(t["lf"], v)
        for tile, groups, side in (("bf", "gf", v * t["lf"]), ("bs", "gs", v * lanes // t["lf"])):
            if tile in fixed:
                t[groups] = -(-fixed[tile] // side)
            t[tile] = np.full_like(side, fixed[tile]) if tile in fixed else side * t[groups]
        t["groups"], t["gk"] = t["gf"] * t["gs"], np.ones_like(t["v"])
        inside = (t["bf"] < 2 * f) & (t["bs"] < 2 * r)
        return select_tiles(t, inside & (t["groups"] <= MOST_GROUPS))

    def _straight(self, f: int, r: int, fixed: Dict[str, int]) -> Tiles:
        size = max(a.dtype.bytes for a in (*self.problem.reads, *self.problem.writes))
        return row_tiles(self.machine, size, f, r, fixed, VECTORS, VECTORS if has_parts(self.problem.computation) else (1,))

    def _blocks(self, t: Tiles, sizes: Dict[str, Any]) -> Any:
        others = volume(sizes[x] for x in self.problem.free if x not in (self.fast, self.slow))
        return others * ceil_div(sizes.get(self.slow, 1), t["bs"]) * ceil_div(sizes.get(self.fast, 1), t["bf"])

    # ------------------------------------------------------------ what they ask

    def least(self, sizes: Dict[str, int]) -> float:
        return self.machine.launch

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        machine, p = self.machine, self.problem
        k = volume(sizes[x] for x in p.reduced)
        whole = sizes.get(self.split_axis, 1)
        result = volume(sizes[x] for x in p.free) * p.computation.value.dtype.bytes
        part, splits, parts = parts_of(t["part"], whole, result)
        blocks = self._blocks(t, sizes) * splits
        deep = k / whole * part  # iterations of the reduction in a block
        each = self._each(t)
        points = each * ceil_div(deep, t["gk"])
        near, far, stored, loads, flight, path = (0.0 for _ in range(6))
        tile_of = {self.fast: t["bf"], self.slow: t["bs"], self.split_axis: part}
        tile_of |= {x: sizes[x] for x in p.reduced if x != self.split_axis}
        for a in (*p.reads, *p.writes):
            size = a.dtype.bytes
            written = a in p.writes
            spans = a.footprint({x: np.minimum(n, sizes.get(x, 1)) for x, n in tile_of.items() if x}) * size
            transaction = machine.home.transaction or 32
            ineff = self._transactions(a, t, sizes)
            apart = not (written or a in self.turned) or a.stride(self.fast) is not None
            asked = spans * blocks * (ineff if apart or not written else transaction / size)
            near, stored = near + asked, stored + asked * written
            # of whole rows the next one finds what is left of a transaction
            once = np.where(t["bf"] >= sizes.get(self.fast, 1), 1, ineff) if a.fast == self.fast else ineff
            if any(a is x for x in self._moved):
                far = far + np.minimum(a.footprint(sizes) * size * once, spans * blocks * ineff)
            count = each if written else points
            loads = loads + count / self._wide(a, t) * (1 if a not in self.turned or self.side else 2)
            path = path + count * t["groups"] * machine.lanes * (size if a in self.turned else a.path(self.fast, transaction))
            if not written:
                ahead = np.minimum(count, self._ahead(a, t))
                flight = flight + t["groups"] * machine.lanes * ahead * size * ineff
        ops = points * p.operations
        per_cycle = machine.operations(p.computation.value.dtype.compute) / machine.schedulers
        combine = np.where(t["gk"] > 1, 3 * each, 0)
        stage, passed = self._staged(t)
        staged = stage + passed
        return ResourceUse(
            blocks=blocks,
            groups=t["groups"],
            registers=np.ceil(self._registers(t)),
            staged=np.ceil(staged),
            pipe=ops * machine.lanes / per_cycle,
            issue=SETUP + ops + 2 * loads + combine,
            staging=path + stage + staged,
            l2_bytes=near + parts,
            dram_bytes=far + parts,
            bytes_in_flight=flight,
            rounds=2 + np.where(t["gk"] > 1, 0.2, 0),
            launches=1 + (t["part"] > 0),
            second_launch_bytes=parts + np.where(t["part"] > 0, result, 0),
            run=t["bf"],
            stored=stored + parts,
        )

    def _each(self, t: Tiles) -> Any:
        """Results of a lane."""
        if self.side:
            return np.full(len(t["bf"]), float(self.side**2))
        return ceil_div(t["bs"], t["gs"]) * t["v"] * ceil_div(t["bf"], t["v"] * self.machine.lanes * t["gf"])

    def _row(self, t: Tiles) -> Any:
        """Results of a lane in one row."""
        return self._each(t) / ceil_div(t["bs"], t["gs"])

    def _wide(self, a: AccessModel, t: Tiles) -> Any:
        """Elements of one access."""
        straight = a.stride(self.fast) in (0, 1) and a.fast in (None, self.fast)
        return t["v"] if straight or (self.side and a in self.turned) else np.ones(len(t["bf"]))

    def _ahead(self, a: AccessModel, t: Tiles) -> Any:
        """Elements of an operand that a lane has in flight if it needs as many. A square is loaded whole before it is turned.

        ADDED_UP is not counted where warps share a reduction (SHARED_OUT), nor of tensors with edges: branches stop loads.
        """
        p, wide = self.problem, self._wide(a, t)
        if self.side and a in self.turned:
            return self._each(t)
        few = np.maximum(wide, AHEAD)
        if not p.reduced or a not in p.inner or a.tensor in p.guarded or self.fast not in a.axes:
            return few
        most = LOADED * self.machine.register_bytes // a.dtype.bytes // len(p.inner)
        unrolled = np.minimum(self._row(t) * self._known_turns(t), most)
        return np.where(t["gk"] > 1, few, np.maximum(wide * AHEAD, unrolled))

    def _known_turns(self, t: Tiles) -> Any:
        """Iterations of the reduction in a lane, where their number does not depend on a size; of other loops 1."""
        known = {x: self.problem.extents[x].constant or 1 for x in self.problem.reduced}
        return np.where(t["part"] > 0, t["part"], known.pop(self.split_axis, 1)) * volume(known.values())

    def _registers(self, t: Tiles) -> Any:
        """Of a lane. It stores what it has loaded before it loads more, but for what is turned or added up."""
        each, machine, p = self._each(t), self.machine, self.problem
        free = min(OTHERS, machine.reserved)
        if p.reduced:
            ahead = sum(np.minimum(self._ahead(a, t), each * self._known_turns(t)) * a.dtype.bytes for a in p.reads)
            alone = free + self._row(t) + ahead / machine.register_bytes
            return np.where(t["gk"] > 1, machine.reserved + 2 * each, alone)
        held = each if self.turned else np.minimum(each, np.maximum(t["v"], AHEAD))
        words = sum(max(1, a.dtype.bytes / machine.register_bytes) for a in (*p.reads, *p.writes))
        return free + held * (words + len(self.kept))

    def _staged(self, t: Tiles) -> tuple[Any, Any]:
        """Bytes of shared memory: for transposes, and for parts of results that warps exchange."""
        stage = 0 if self.side else sum((t["bf"] + 1) * t["bs"] * a.dtype.bytes for a in self.turned)
        each = self.problem.computation.value.dtype.bytes * self._each(t)
        return stage, np.where(t["gk"] > 1, t["groups"] * self.machine.lanes * each, 0)

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        p = self.problem
        free, turns = (volume(sizes[x] for x in axes) for axes in (p.free, p.reduced))
        *_, parts = parts_of(t["part"], sizes.get(self.split_axis, 1), free * p.computation.value.dtype.bytes)
        # each turn of the reduction reads what stands in it
        asked = sum(free * (turns if a in p.inner and a not in p.writes else 1) * a.dtype.bytes for a in (*p.reads, *p.writes))
        stage, passed = self._staged(t)
        share = useful_share(sizes.get(self.fast, 1), t["bf"]) * useful_share(sizes.get(self.slow, 1), t["bs"])
        return TileTraffic(
            least=sum(a.footprint(sizes) * a.dtype.bytes for a in self._moved),
            requested=asked + 2 * parts,
            served=(2 * stage * t["bf"] / (t["bf"] + 1) + passed * (1 + t["gk"])) * demand.blocks,
            waste=1 - share,
        )

    def _transactions(self, a: AccessModel, t: Tiles, sizes: Dict[str, Any]) -> Any:
        """Bytes moved for a byte requested."""
        whole = self.machine.home.transaction or 32
        if a in self.turned or a.fast is None:
            return np.ones(len(t["bf"]))
        if self.fast not in a.axes:  # all lanes read the same
            return np.ones(len(t["bf"]))
        near = self.fast if a.stride(self.fast) is not None else a.fast
        inner = sizes.get(near, 1) if near in self.problem.reduced else 1
        extent = {self.fast: t["bf"], self.slow: t["bs"]}.get(near, np.asarray(inner))
        return a.coalesced(self.fast, np.minimum(extent, sizes.get(near, 1)), whole)

    # ------------------------------------------------------------ lines

    @property
    def slots(self) -> tuple[Slot, ...]:
        p, machine = self.problem, self.machine
        size = {self.slow: "bs", self.fast: "bf"}
        outer, group, lane = (x.name for x in (machine.outer, machine.group, machine.lane))
        out = [Slot("outer", syntax.Tile, outer, tuple((x, size.get(x, "")) for x in p.free), needed=bool(p.free))]
        if has_parts(p.computation) and p.computation.outputs:
            out.append(Slot("split", syntax.Tile, outer, ((self.split_axis, "part"),)))
        turned = [] if self.side else self.turned
        out += [Slot("stage " + a.tensor, syntax.Move, machine.staging.name, about=(a.tensor,)) for a in turned]
        keep = [Slot("keep", syntax.Keep, machine.register.name, about=p.computation.names)]
        keep = keep if p.computation.reduction is not None else []
        axes = tuple((x, n) for x, n in ((self.slow, "ws"), (self.fast, "wf")) if x)
        if self.side:
            squares = tuple((x, "v") for x in (self.slow, self.fast))
            out += [Slot("group", syntax.Tile, group, axes), Slot("lane", syntax.Tile, lane, squares, needed=True)]
            out += [Slot("load " + a.tensor, syntax.Move, machine.register.name, about=(a.tensor,)) for a in self.turned]
            return (*out, Slot("leaf", syntax.Compute))
        out += [*keep, Slot("group", syntax.Tile, group, axes), Slot("row", syntax.Tile, None, ((self.slow, ""),)), *keep]
        if has_parts(p.computation):
            out.append(Slot("turn", syntax.Tile, None, ((self.split_axis, "kk"),)))
            out.append(Slot("share", syntax.Tile, group, ((self.split_axis, "kg"),)))
        out.append(Slot("lane", syntax.Tile, lane, ((self.fast, "v"),), needed=True))
        out += [Slot("loop " + x, syntax.Tile, None, ((x, ""),)) for x in p.reduced]
        out += [Slot("keep " + x, syntax.Keep, machine.register.name, about=(x,), needed=True) for x in self.kept]
        return (*out, Slot("leaf", syntax.Compute))

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        shared = at["gk"] > 1  # SHARED_OUT: runs of the reduction are distributed over warps
        narrow = [a for a, n in (((self.slow, at["ws"]), at["gs"]), ((self.fast, at["wf"]), at["gf"])) if n > 1]
        absent = {"split": not at["part"], "turn": not shared, "share": not shared, "group": shared or not narrow}
        absent["row"] = shared or not self.slow or at["ws"] <= 1
        modifiers = {"split": modifier("by", words=("workspace",))} | {
            "stage " + a.tensor: modifier("pad", 1) for a in self.turned
        }
        group = tile_text(*narrow, level=self.machine.group.name)
        return lines_of_slots(self.slots, at, {x for x, off in absent.items() if off}, modifiers, {"group": (group,)})


def elementwise_templates(ctx: LoweringContext, machine: MachineModel, problem: AccessProblem) -> list[ElementwiseTemplate]:
    """Nests of one computation, by the axis of the lanes."""
    votes: dict[str, float] = {}
    for a in (*problem.writes, *problem.reads):
        if a.fast in problem.free:
            votes[a.fast] = max(votes.get(a.fast, 0), len(a.dims))
    axes = sorted(votes, key=lambda x: (votes[x], problem.free.index(x)), reverse=True) or list(problem.free[-1:])
    out = []
    for fast in axes[:2]:
        others = [x for x in problem.free if x != fast]
        slow = others[-1] if others else ""
        out.append(ElementwiseTemplate(ctx, machine, problem, fast, slow))
        turned = tuple(a for a in problem.reads if a.can_be_staged and fast in a.axes and a.fast in others and _plain(a))
        if turned and problem.computation.reduction is None and len({a.fast for a in turned}) == 1:
            across = turned[0].fast or ""
            out.append(ElementwiseTemplate(ctx, machine, problem, fast, across, turned))
            if side := _side(machine, problem, fast, across):
                out.append(ElementwiseTemplate(ctx, machine, problem, fast, across, turned, side))
    return out


def together_templates(
    ctx: LoweringContext, machine: MachineModel, problems: tuple[AccessProblem, ...]
) -> list[ElementwiseTemplate]:
    """TOGETHER. Nothing where the computations of the launch are something else."""
    last = problems[-1]
    if any(p.reduced or p.free != last.free or p.computation.indices != last.computation.indices for p in problems):
        return []
    made = {t for p in problems for t in p.computation.targets}
    kept = tuple(t for p in problems for t in p.computation.targets if any(t in q.computation.reads for q in problems))
    every = tuple(a for p in problems for a in p.reads if a.tensor not in made)
    whole = replace(last, reads=tuple(dict.fromkeys(every)), writes=tuple(a for p in problems for a in p.writes))
    return [replace(x, kept=kept) for x in elementwise_templates(ctx, machine, whole) if not x.turned]


def _side(machine: MachineModel, problem: AccessProblem, fast: str, across: str) -> int:
    """BY_LANE: elements of the widest access, each a register or more, where rows of both axes are known to begin at a multiple
    of it; or 0."""
    size = max(a.dtype.bytes for a in (*problem.reads, *problem.writes))
    whole = all(a.dtype.bytes == max(size, machine.register_bytes) for a in (*problem.reads, *problem.writes))
    side = WIDEST_ACCESS // size
    rows = [problem.extents[x].constant for x in (fast, across)]
    return side if whole and side > 1 and all(n and n % side == 0 for n in rows) else 0


def _plain(a: AccessModel) -> bool:
    """Whether each axis goes with an index of its own: of a diagonal there is no tile with sides."""
    return all(len(d) == 1 and d[0][1] == 1 for d in a.dims) and len({d[0][0] for d in a.dims}) == len(a.dims)
