"""The nest of a product of a product on devices with blocks: each block makes what its tile reads of the first product in
staging memory, by the instruction of the first, and multiplies it by that of the second.

    tile n: 1, p: 8, q: 16, o: 64 -> outer
    move D -> staging:                                  10 x 18 pixels, zero outside of the image
        move I -> staging                               12 x 20 pixels
        fuse n, p, q as npq;  keep D in register;  tile r, s;  move F -> staging;  tile npq, k -> group;  instruction
    keep Y in register;  tile u, v;  move G -> staging;  tile p, o -> group;  instruction

Each phase is that of a contraction, so the model of contractions says what it takes, but for what is in staging memory whole.

RECOMPUTED  the rim is computed by each block that reads it, and all of D by each block along the columns of the result.
IN_STAGING  D is in staging memory, whole along what the second product reduces: the first stores nothing else, and the second
            copies nothing of it.
BOXES       where the first product reads windows, rows of both are boxes: the pixels of a block are staged once, not for each
            position of the window. An instruction has the last index of a box, and a group rows of pixels.
FUSED       else rows of both are fused alike, as those of a contraction.
WEIGHTS     of boxes stay in staging memory whole, or one position of a window is copied after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..access_model import AccessProblem
from ..constraints import Named, Slot
from ..gpu.contraction import DEPTHS
from ..gpu.cost import ResourceUse, TileTraffic
from ..instr_mappings import InstrMapping, mappings
from ..line_builders import tile_text
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, round_up, volume
from .find_products import ProductPair, product_pair_of
from .product_phases import Phase

ROWS = (64, 128, 256)  # rows: of a block, where they are fused [tried; test_sizes_of_products_tried]
BOXES = ((4, 16), (8, 16), (16, 16), (4, 32), (8, 32))  # rows, columns: of pixels [tried; test_sizes_of_products_tried]
# groups: along rows, along columns [tried; test_sizes_of_products_tried]
GROUPS = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2))
# registers: of a lane for the addresses of a fragment of D's rows, which a box has elsewhere than the row before it [measured:
# several-products-2026-11; test_addresses_of_rows_take_registers]
ROW_ADDRESSES = 16
STAGES = ((1, 1), (2, 2), (3, 2), (3, 3))  # buffers: of both phases [tried; test_sizes_of_products_tried]


@dataclass(frozen=True, eq=False)
class ProductsTemplate:
    """A `NestModel`. Sizes of a candidate: `b0 b1` of a block's tile along the rows that are `cut`, `made` rows of D; those of
    the phases with 1 and 2."""

    pair: ProductPair
    first: Phase
    second: Phase

    name = "products"
    slots = (Slot("products", syntax.Tile),)  # an author writes none of it, or all

    def __str__(self) -> str:
        return f"{self.pair.tensor} in {self.machine.staging.name}: {self.first.plain}, {self.second.plain}"

    @property
    def machine(self) -> MachineModel:
        return self.second.plain.machine

    @property
    def problem(self) -> AccessProblem:
        return self.second.plain.problem

    @property
    def boxed(self) -> bool:
        """BOXES, else FUSED"""
        return self.first.boxed

    def least(self, sizes: dict[str, int]) -> float:
        return self.machine.launch

    # ------------------------------------------------------------ candidates

    @property
    def cut(self) -> tuple[str, ...]:
        """The rows that tiles cut, by name: the last two, or the fused ones."""
        return self.pair.rows[-2:] if self.boxed else (self.second.mapping.m,)

    def candidates(self, sizes: list[dict[str, int]], fixed: Dict[str, int]) -> Tiles:
        (lm1, ln1, _), (lm2, ln2, _) = self.first.mapping.leaf, self.second.mapping.leaf
        wide, rows = self.second.extent(self.second.mapping.n), max(s.get(self.cut[0], 1) for s in sizes)
        boxes = [b for b in BOXES if b[-1] % lm2 == 0] if self.boxed else [(n,) for n in ROWS]
        depths = product(self._depths(self.first), self._depths(self.second), self._stages())
        found = []
        for box, (g1, n1), (g2, n2), (d1, d2, (s1, s2)) in product(boxes, GROUPS, GROUPS, depths):
            made = int(volume(self._made(box).values())) if self.boxed else box[0]
            key = round_up(self.first.extent(self.first.mapping.n), d2)
            if g1 * n1 != g2 * n2 or box[0] % g2 or (not self.boxed and box[0] // g2 % lm2):
                continue
            if lm1 * (g1 - 1) >= made or ln1 * (n1 - 1) >= key or ln2 * (n2 - 1) >= wide or box[0] // g2 * (g2 - 1) >= rows:
                continue  # a group has nothing to do
            w1, k1, w2 = round_up(-(-made // g1), lm1), round_up(-(-key // n1), ln1), round_up(-(-wide // n2), ln2)
            found.append((*box, made, w1, k1, g1, n1, d1, s1, int(volume(box)) // g2, w2, g2, n2, d2, s2))
        names = [f"b{n}" for n in range(len(self.cut))] + ["made"]
        names += [x + phase for phase in "12" for x in ("wm", "wn", "gm", "gn", "bk", "stages")]
        columns = np.array(list(dict.fromkeys(found)), np.int64).reshape(-1, len(names)).T
        return dict(zip(names, columns, strict=True))

    def _made(self, box: tuple[Any, ...]) -> dict[str, Any]:
        """What D has of its rows in a block."""
        return self.pair.made({i: 1 for i in self.pair.rows} | dict(zip(self.cut, box, strict=True)))

    def _depths(self, phase: Phase) -> list[int]:
        leaf, k = phase.mapping.leaf[2], phase.extent(phase.mapping.k)
        if self.boxed:
            return [round_up(k, leaf)]
        size = max(a.dtype.bytes for a in phase.plain.inputs)
        depths = sorted({round_up(max(1, d // size), leaf) for d in DEPTHS})
        return [d for d in depths if d < 2 * k or d == depths[0]]

    def _stages(self) -> list[tuple[int, int]]:
        """WEIGHTS"""
        first, second = self.first.is_whole, self.second.is_whole
        return list(dict.fromkeys((1 if first else a, 1 if second else b) for a, b in STAGES))

    # ------------------------------------------------------------ what they ask

    def _blocks(self, t: Tiles, sizes: Dict[str, Any]) -> Any:
        """Of the outer level, along the rows."""
        cut = {x: t[f"b{n}"] for n, x in enumerate(self.cut)}
        return volume(ceil_div(sizes[x], cut.get(x, 1)) for x in (self.pair.rows if self.boxed else self.cut))

    def _pixels(self, t: Tiles) -> dict[str, Any]:
        """Of D's rows in a block, where they are boxes."""
        return self._made(tuple(t[f"b{n}"] for n in range(len(self.cut)))) if self.boxed else {}

    def _row_bytes(self, t: Tiles) -> Any:
        """Of D, with what the second product reads past its end."""
        s = self.second.operand(self.pair.tensor)
        return (ceil_div(self.first.extent(self.first.mapping.n), t["bk2"]) * t["bk2"] + s.pad) * s.access.dtype.bytes

    def demand(self, t: Tiles, sizes: Dict[str, Any]) -> ResourceUse:
        blocks, pixels = self._blocks(t, sizes), self._pixels(t)
        a, b = self.first.demand(t, "1", sizes, blocks, pixels), self.second.demand(t, "2", sizes, blocks, pixels)
        held = t["made"] * self._row_bytes(t)  # IN_STAGING
        dead = blocks * t["wm2"] * t["gm2"] - volume(sizes[i] for i in self.pair.rows)  # rows, which nobody stores
        unstored = sum(x.dtype.bytes for x in self.problem.writes) * dead * self.second.extent(self.second.mapping.n)
        near = (a.l2_bytes, b.l2_bytes - unstored)
        addresses = ROW_ADDRESSES * t["wm1"] / self.first.mapping.leaf[0] if self.boxed else 0
        return ResourceUse(
            blocks=b.blocks,
            groups=a.groups,
            registers=np.maximum(a.registers + addresses, b.registers),
            staged=np.ceil(a.staged + b.staged + held),
            pipe=a.pipe + b.pipe,
            issue=a.issue + b.issue,
            staging=a.staging + b.staging + held,
            l2_bytes=near[0] + near[1],
            dram_bytes=a.dram_bytes + b.dram_bytes - unstored,
            bytes_in_flight=(near[0] + near[1]) / (near[0] / a.bytes_in_flight + near[1] / b.bytes_in_flight),
            rounds=a.rounds + b.rounds,
            launches=1,
            stall=a.stall + b.stall,
            exposed=a.exposed + b.exposed,
            addressing=a.addressing + b.addressing,
            first_loads=a.first_loads + b.first_loads,
            last_stores=b.last_stores,
            run=b.run,
        )

    def traffic(self, t: Tiles, sizes: Dict[str, Any], demand: ResourceUse) -> TileTraffic:
        blocks, pixels = self._blocks(t, sizes), self._pixels(t)
        a, b = self.first.traffic(t, "1", sizes, blocks, pixels), self.second.traffic(t, "2", sizes, blocks, pixels)
        dtypes, own = self.second.plain.ctx.dtypes, (self.pair.producer, self.pair.reader)
        problems = [AccessProblem.of(w, dtypes) for w in own]
        known = {**sizes} | {i: x.extents[i].constant or 1 for x in problems for i in x.reduced}
        every = [x for p in problems for x in p.reads if x.tensor != self.pair.tensor] + list(problems[1].writes)
        live = volume(sizes[i] for i in self.pair.rows) / (blocks * t["wm2"] * t["gm2"])
        stored = volume(sizes[i] for i in problems[1].free) * sum(x.dtype.bytes for x in self.problem.writes)
        return TileTraffic(
            least=sum(x.footprint(known) * x.dtype.bytes for x in every),
            requested=a.requested + b.requested - stored / live + stored,
            served=a.served + b.served + demand.blocks * t["made"] * self._row_bytes(t),
            waste=1 - live,
        )

    # ------------------------------------------------------------ lines

    def lines(self, at: dict[str, int], sizes: Dict[str, int]) -> Named:
        mine, then = self.first.lines(at, "1", sizes), self.second.lines(at, "2", sizes)
        outer, heads = then.pop("outer"), then.pop("fuse", ())
        del mine["outer"]
        mine["keep"] = (syntax.Keep((self.pair.tensor,), self.machine.register.name),)
        if self.boxed:
            box = {i: at[f"b{self.cut.index(i)}"] if i in self.cut else 1 for i in self.pair.rows}
            outer = (tile_text(*box.items(), (self.second.mapping.n, at["wn2"] * at["gn2"]), level=self.machine.outer.name),)
            heads, then = (), self._rows_of_groups(then, at)
        else:
            mine["fuse"] = tuple(x for x in mine.get("fuse", ()) if x not in heads)
        block = tuple(x for lines in mine.values() for x in lines)
        spread = then.pop("stage " + self.pair.tensor)[0]
        assert isinstance(spread, syntax.Move)
        made = replace(spread, block=block, modifiers=tuple(m for m in spread.modifiers if m.name != "with"))
        return {"products": (*heads, *outer, made, *(x for lines in then.values() for x in lines))}

    def _rows_of_groups(self, then: Named, at: dict[str, int]) -> dict[str, tuple[syntax.Line, ...]]:
        """BOXES: rows of pixels of each group; one after another where lines load them, or where an instruction might take
        those for its own."""
        row, load, share = self.cut[0], "load " + self.pair.tensor, at["b0"] // at["gm2"]
        groups = tile_text((row, share), (self.second.mapping.n, at["wn2"]), level=self.machine.group.name)
        each = (tile_text((row, 1)),) if share > 1 and (load in then or share >= self.second.mapping.leaf[0]) else ()
        above = load if load in then else "leaf"
        return {name: (*each, *lines) if name == above else lines for name, lines in then.items()} | {"group": (groups,)}


def products_templates(
    ctx: LoweringContext, machine: MachineModel, computations: tuple[Computation, ...]
) -> Iterator[ProductsTemplate]:
    """The nests of a pair of products, where the computations are one and instructions of groups compute both."""
    pair = product_pair_of(computations)
    if pair is None:
        return
    producer, made = pair.producer, tuple(a.index for a in pair.axes)
    firsts = list(_usable(ctx, machine, producer, made, pair.key))
    for m, first in product(_usable(ctx, machine, pair.reader, pair.rows, "", pair.key), firsts):
        boxed = bool(first.loops) and len(first.fuses) == 1 and len(pair.rows) > 1
        for whole in (True, False) if boxed and pair.windows else (True,):
            one, two = Phase(ctx, machine, producer, first, True), Phase(ctx, machine, pair.reader, m, False)
            if boxed:
                one, two = one.in_boxes(whole), two.in_boxes(whole, pair.tensor)
            elif pair.has_rim or first.m != m.m:
                continue
            else:
                two = replace(two, resident=(pair.tensor,), made=pair.tensor)
            if one.stages_all and two.stages_all:
                yield ProductsTemplate(pair, one, two)


def _usable(
    ctx: LoweringContext, machine: MachineModel, w: Computation, rows: tuple[str, ...], n: str, k: str = ""
) -> Iterator[InstrMapping]:
    """Of instructions that do the same the fastest, with all rows along m, and these indices, where they are told."""
    kept: dict[tuple, InstrMapping] = {}
    for m in mappings(ctx, w):
        if m.refused or m.instr is None or m.instr.level != machine.group.name or m.batch:
            continue
        fused = next((f.indices for f in m.fuses if f.name == m.m), (m.m,))
        if set(fused) != set(rows) or (n and m.n != n) or (k and m.k != k):
            continue
        key = (m.m, m.n, m.k, m.loops)
        if key not in kept or machine.instr_speed(m.instr) > machine.instr_speed(kept[key].instr):
            kept[key] = m
    yield from kept.values()
