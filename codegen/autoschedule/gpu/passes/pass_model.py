"""What the ways to compute one pass have in common: its rows, keys and features, and the bytes that it moves.

SPLIT    where rows are too few for the units of a device, blocks have parts of the keys, and a second launch combines them:
         `tile t: 512 -> block online by workspace`, below the tile of the rows.
HEADS    blocks of one head read the same keys, so they belong into one slice of the cache. Where later rows have more keys, as
         by a causal domain, a slice gets whole heads only: else the longest rows would be those of one slice.
ONE_COPY a tensor that several products read is staged once, in one layout: a name means one copy.
ROWS     where several indices of rows read the same keys, one that stands for all of them may be the row (`fused_rows`).
SUMS     scores may be of several products, each over features of its own, that are combined element by element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from .....dsl import syntax
from .....dsl.support.cached import cached_property
from .....dsl.types import DType
from ....lower.lowering_context import LoweringContext
from ....lower.tiling.delinearize import longer_later
from ....plan.computations import Computation
from ....schedule.build_tree import constant_size
from ....schedule.build_tree import modifier as modifier_of
from ...access_model import AccessModel, AccessProblem, operations
from ...block_order.waves import within_slices
from ...constraints import Slot
from ...line_builders import modifier, tile_text
from ...machine_model import MachineModel
from ...one_pass.combined_parts import AT_ONCE
from ...one_pass.find_pass import OnePass, name_of
from ...one_pass.visited_tiles import visited_tiles
from ...tile_space import Tiles, ceil_div, useful_share
from ..cost import ResourceUse, TileTraffic, resident_blocks
from ..operand_layouts import StagedOperand
from ..split_reductions import with_splits

RUNNING = 7  # registers: for a row, of a pass: both statistics as results and before, the correction [estimate; test_registers]
SPARE = 8  # registers: for addresses; results and running values are not alive together [measured: online; test_registers]
# buffers: of copies in a loop; copies through registers load ahead [tried; test_sizes_tried_for_a_pass]
STAGES = (1, 2)
# keys: of a part, where an open number of rows is small [estimate; test_few_rows_have_parts]
OPEN_PART = 512
MANY_KEYS = 1 << 16  # keys: of a tile that has all of them, where their number is open [limit]
PARTS = (64, 128, 256, 512, 1024, 2048, 4096)  # keys: of a part [tried; test_sizes_tried_for_parts]


class Turns(NamedTuple):
    """Blocks of all parts, and the iterations of each; `parts`: bytes that they store for a second launch, and `rounds` how
    often that waits for them; 0 without one."""

    blocks: Any
    each: Any
    parts: Any
    rounds: Any


def copies(staged: Iterable[StagedOperand]) -> tuple[StagedOperand, ...]:
    """ONE_COPY: of the operands that are one tensor the first."""
    first: dict[str, StagedOperand] = {}
    for s in staged:
        first.setdefault(s.access.tensor, s)
    return tuple(first.values())


@dataclass(frozen=True, eq=False)
class PassModel:
    """A pass of one product around others (`OnePass`), on a machine with blocks.

    slots   one for all lines: an author writes none of a pass, or all of them
    """

    ctx: LoweringContext
    machine: MachineModel
    found: OnePass

    name = "one pass"
    slots = (Slot("pass", syntax.Tile),)
    loops = ("bt",)  # what candidates call the keys of each loop over them, outer ones first

    @property
    def problem(self) -> AccessProblem:
        return AccessProblem.of(self.product, self.ctx.dtypes)

    @property
    def scores(self) -> tuple[Computation, ...]:
        """SUMS: the last one combines them."""
        return self.found.scores

    @property
    def score_type(self) -> DType:
        return self.scores[-1].value.dtype

    @property
    def product(self) -> Computation:
        return self.found.products[0]

    @property
    def row(self) -> str:
        return self.found.rows[-1]

    @cached_property
    def fuses(self) -> tuple[syntax.Fuse, ...]:
        """ROWS: the line that makes the row of several indices."""
        return tuple(syntax.Fuse(tuple(i for i, _, _ in parts), name) for name, parts in self.product.fused)

    @property
    def last_row(self) -> str:
        """The last of the op's indices in the row."""
        return self.fuses[-1].indices[-1] if self.fuses else self.row

    @cached_property
    def feature(self) -> str:
        return self.found.features(self.product)[0]

    def features_of(self, w: Computation) -> str:
        """The index of the features of a product: those that scores reduce, or those of the result."""
        return self.feature if w is self.product else w.reduced[0]

    @cached_property
    def most(self) -> dict[str, float]:
        """The largest extents: infinite where they have no bound."""
        return {i: inf if (n := e.interval[1]) is None else n for i, e in self.found.extents.items()}

    @cached_property
    def width(self) -> int:
        """The features of the result, which have a bound."""
        return int(self.most[self.feature])

    def widths(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """The extents of all features."""
        return {i: sizes[i] for i in self.found.all_features}

    def least_rows(self, count: int) -> int | None:
        """The count, where an open number of rows may be as small."""
        rows = self.found.extents[self.last_row]
        return count if rows.constant is None and (rows.interval[0] or 0) <= count else None

    def least_of_block(self) -> int:
        """Rows that are too few for a block, at most."""
        raise NotImplementedError

    @property
    def few_rows(self) -> int | None:
        """As many, where an open number of rows may be as small."""
        return self.least_rows(self.least_of_block())

    @property
    def are_few(self) -> bool:
        """Is an open number of rows as small as that?"""
        return self.few_rows is not None and self.most[self.last_row] <= self.least_of_block()

    def copied_for(self, first: Computation, s: StagedOperand, w: Computation, a: AccessModel) -> str | None:
        """ONE_COPY: the axis with neighbours, by the name that a product has for it, in the copy that the first one reads,
        where that is the copy of what the product reads; None where their subscripts differ."""
        names = {self.features_of(first): self.features_of(w)}
        dims = tuple(tuple((names.get(i, i), c) for i, c in d) for d in s.access.dims)
        return names.get(s.inner, s.inner) if dims == a.dims else None

    def is_made(self, a: AccessModel) -> bool:
        """Does the pass compute what is read?"""
        return any(a.tensor in w.targets for w in (*self.found.values, *self.found.scores))

    def least(self, sizes: dict[str, int]) -> float:
        return self.machine.launch

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
        """What candidates ask for those extents, and values of the op's sizes."""
        raise NotImplementedError

    # ------------------------------------------------------------ an author's sizes

    def with_sizes_of(self, lines: Sequence[syntax.Line], tile: Mapping[str, int]) -> dict[str, int]:
        """A candidate's tile with the sizes that lines have: its own, some with an author's numbers."""
        out, loops = dict(tile), list(self.loops)
        levels = {self.machine.outer.name: {self.row: "bi", self.found.key: "part"}, self.machine.group.name: {self.row: "wi"}}
        for x in lines:
            if not isinstance(x, syntax.Tile):
                continue
            names = levels.get(x.level or "", {})
            if x.level is None and modifier_of(x, "online") is not None and loops:
                names = {self.found.key: loops.pop(0)}
                pipeline = modifier_of(x, "pipeline")
                if names[self.found.key] == self.loops[0]:
                    out["stages"] = (constant_size(pipeline.values[0]) or 1) if pipeline is not None and pipeline.values else 1
            out |= {names[a.index]: n for a in x.axes if a.index in names and (n := constant_size(a.size))}
        whole = int(min(self.most[self.found.key], MANY_KEYS))
        for inner in loops:  # one loop is for both, and none has all keys
            out[inner] = out[self.loops[0]] if len(loops) < len(self.loops) else whole
        return out

    def fit(self, tiles: Sequence[Mapping[str, int]], sizes: Mapping[str, int]) -> np.ndarray:
        """Which of the tiles the machine has room for, as the model has it."""
        t = {name: np.array([x[name] for x in tiles], float) for name in tiles[0]}
        t["bi"] = np.ceil(t["bi"] / t["wi"]) * t["wi"]
        demand = self.demand(t, sizes)
        return resident_blocks(self.machine, demand.groups, demand.registers, demand.staged) > 0

    @cached_property
    def score_operations(self) -> int:
        """Operations on scalars for a score, beside those of both products."""
        own = self.ctx.device.computes
        out = sum(operations(w.value, w, own) for w in (*self.found.values, *self.found.statistics, *self.found.sums))
        return out + 2 + sum(AccessProblem.of(w, self.ctx.dtypes, own).finishing for w in self.scores)

    def with_parts(self, t: Tiles, keys: str, sizes: list[dict[str, int]]) -> Tiles:
        """SPLIT: the tiles, and those that leave units without a block with each size of a part."""
        t = {**t, "part": np.zeros(len(t["bi"]), np.int64)}
        if not self.found.statistics:
            return t  # results of the first product are no parts of a sum
        if self.are_few and self.most[self.found.key] > OPEN_PART:
            return {**t, "part": np.full(len(t["bi"]), OPEN_PART)}
        known = all(self.found.extents[i].constant is not None for i in self.found.rows)
        if not known or not sizes:
            return t
        longest = max(s[self.found.key] for s in sizes)
        few = self._whole_blocks(t, sizes[0]) < self.machine.units
        out = with_splits(t, few, "part", [p for p in PARTS if 2 * p <= longest])
        whole = (out["part"] == 0) | (out["part"] % out[keys] == 0)
        return {name: column[whole] for name, column in out.items()}

    def _whole_blocks(self, t: Tiles, sizes: Mapping[str, Any]) -> Any:
        return prod(sizes[i] for i in self.found.rows[:-1]) * ceil_div(sizes[self.row], t["bi"])

    def turns(self, t: Tiles, keys: str, sizes: Mapping[str, Any]) -> Turns:
        """With so many keys in an iteration (the candidates' name of them)."""
        blocks, each, split = self._whole_blocks(t, sizes), self.iterations(t, keys, sizes), t["part"] > 0
        if not split.any():
            return Turns(blocks, each, 0, 0)
        count = np.where(split, ceil_div(sizes[self.found.key], np.maximum(1, t["part"])), 1)
        every = self.found.over_keys
        stored = sum(prod(sizes[i] for i in w.indices) * w.value.dtype.bytes for w in every)
        rounds = np.where(split, ceil_div(count, AT_ONCE) * len(every), 0)
        return Turns(blocks * count, np.ceil(each / count), np.where(split, count * stored, 0), rounds)

    def iterations(self, t: Tiles, keys: str, sizes: Mapping[str, Any]) -> Any:
        """Tiles of so many keys (by the candidates' name of it) that a block visits, on average: those that a domain leaves."""
        domain = self.product.domain if all(w.domain for w in self.found.over_keys) else ()
        if not domain:
            return ceil_div(sizes[self.found.key], t[keys])
        named = sorted({v.name for c in domain for v in c.variables()} & sizes.keys() - {self.row, self.found.key})
        columns = [np.asarray(x) for x in (t["bi"], t[keys], *(sizes[x] for x in (self.row, self.found.key, *named)))]
        turns = np.empty(np.broadcast_shapes(*(x.shape for x in columns)))
        for at, x in zip(
            np.ndindex(turns.shape), zip(*(c.ravel() for c in np.broadcast_arrays(*columns)), strict=True), strict=True
        ):
            bi, bt, high, wide, *values = map(int, x)
            known = dict(zip(named, values, strict=True))
            turns[at] = visited_tiles(domain, (self.row, high), (self.found.key, wide), bi, bt, known)
        return turns

    @cached_property
    def _inputs(self) -> tuple[AccessModel, ...]:
        found = {
            a.tensor: a for w in (*self.found.operands, *self.found.every) for a in AccessProblem.of(w, self.ctx.dtypes).reads
        }
        buffers = {b.name for b in self.ctx.buffers}
        return tuple(a for name, a in found.items() if name in buffers)

    def traffic(self, t: Tiles, sizes: Mapping[str, Any], demand: ResourceUse) -> TileTraffic:
        waste = 1 - useful_share(sizes[self.row], t["bi"])
        return TileTraffic(demand.dram_bytes, demand.l2_bytes, demand.staging * demand.blocks, waste)

    def lines_above(
        self, at: Mapping[str, int], keys: int, staged: Sequence[tuple[StagedOperand, syntax.Line]]
    ) -> list[syntax.Line]:
        """The lines down to the copies of an iteration, which has so many keys. `staged`: the line of each copy."""
        found = self.found
        online = modifier("online") if found.statistics else ()
        stages = modifier("pipeline", at["stages"]) if at["stages"] > 1 else ()
        combined = (*online, *modifier("by", words=("workspace",)))
        part = [tile_text((found.key, at["part"]), level=self.machine.outer.name, modifiers=combined)] if at.get("part") else []
        dealt = ((i, at["bi"] if i == self.row else 1) for i in found.rows)
        return [
            *self.fuses,
            tile_text(*dealt, level=self.machine.outer.name, modifiers=self._block_order),
            *part,
            syntax.Keep(tuple(name_of(w, found) for w in found.over_keys), self.machine.register.name),
            *(line for s, line in staged if self.row in s.access.axes),
            tile_text((found.key, keys), modifiers=(*online, *stages)),
            *(line for s, line in staged if self.row not in s.access.axes),
        ]

    @cached_property
    def _block_order(self) -> tuple[syntax.Modifier, ...]:
        """HEADS"""
        found = self.found
        heads = prod((found.extents[i].constant or 0 for i in found.rows[:-1]), start=1)
        even = not longer_later(found.every, self.row) or (heads > 0 and heads % self.machine.slices == 0)
        return within_slices(self.machine) if even and len(found.rows) > 1 else ()

    def written(self, n: Mapping[str, Any]) -> Any:
        """Bytes of the results."""
        buffers = {b.name for b in self.ctx.buffers}
        written = {a.tensor: a for w in self.found.over_keys for a in AccessProblem.of(w, self.ctx.dtypes).writes}
        return sum(a.dtype.bytes * a.footprint(n) for name, a in written.items() if name in buffers)

    def moved(self, n: Mapping[str, Any]) -> Any:
        """Bytes that must be moved to and from the outermost memory."""
        return sum(a.dtype.bytes * a.footprint(n) for a in self._inputs) + self.written(n)
