"""One pass over the keys for attention and what is like it: both products by instructions, scores in registers.

    tile h: 1, i: 64 -> block
    keep m, l, o in register
    move q -> shared
    tile t: 64 online pipeline 2
    move k -> shared
    move v -> shared
    tile i: 16 -> warp                     a warp has all keys of its rows: scores are in no memory
    keep s in register:
        tile d: 16 unroll
        compute with I
    tile t: 16 unroll
    keep p in register                     the values of one call; where they do not pass, `keep p in shared`
    compute with J                         of other types than I where the products are

CONVERTED        operands may be converted where they are staged, from registers that have loads ahead: no launch writes them
                 before, and each block of rows converts all keys that it reads.
SUMS             scores of several products have a `keep` for each, whose results lie alike.
PASSES           the result of the first is an operand of the second as it lies, or in another order of the keys
                 (`term_order`), and rows of both results lie alike.
CROSSES          where it is not, the values of a call go through the memory that units share: a warp writes and reads its own.
FEWER_ROWS       of instructions that are as fast those of each number of rows are tried: with fewer a block has more warps, if
                 the staging memory has room for few rows, and one query takes less time.
DEPTHS           so are those of each number of terms: with more, a lane reads longer runs, and more is padded and in registers.
HELD             where the staging memory has no room for the rows and keys of two blocks, rows may be in registers from before
                 the loop on: `move q -> register`. Then blocks have more rows, or a unit more blocks.
BOUNDED_FEATURES the features have a bound, and accumulators are as many registers. Heads, rows and keys may be open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import inf, prod
from types import MappingProxyType
from typing import Any

import numpy as np

from .....dsl import syntax
from .....dsl.support.cached import cached_property
from .....dsl.values import Load
from ....lower.leaves.fragment_fit import projected
from ....lower.leaves.match_instr import InstrMatch, fragment_map
from ....lower.lowering_context import LoweringContext
from ....plan.computations import Computation
from ...access_model import AccessProblem
from ...constraints import Named
from ...instr_mappings import InstrMapping
from ...line_builders import modifier, tile_text
from ...machine_model import block_machine
from ...one_pass.find_pass import OnePass, name_of, one_pass_of
from ...one_pass.product_instrs import cycles_of_products, instrs_of_products
from ...tile_space import Tiles, round_up
from ..computed_operands import ElementCost, operand_cost
from ..contraction_resources import STEP
from ..cost import ResourceUse
from ..operand_layouts import StagedOperand, best_staging
from ..register_sets import SYNC
from .pass_model import RUNNING, SPARE, STAGES, PassModel, copies

KEYS = (16, 32, 64, 128)  # keys: of an iteration [tried; test_sizes_tried_for_a_pass]
ROWS = (1, 2)  # fragments: of a warp along the rows [tried; test_sizes_tried_for_a_pass]
GROUPS = (1, 2, 4, 8)  # warps: of a block [tried; test_sizes_tried_for_a_pass]
BLOCKS = 2  # blocks: of a unit, of which one computes while the other waits [estimate; test_rows_are_held_where_room_is_short]
DEPTH = 32  # elements: of a reduced index, in copies whose layout is looked for [estimate; test_lines]


@dataclass(frozen=True, eq=False)
class FragmentPass(PassModel):
    """A pass by instructions (a `NestModel`).

    `firsts`, `second`: how it computes each of the scores, and the product over the keys. `passes`: PASSES, else CROSSES.
    `most_rows`: of FEWER_ROWS the most that an instruction has.
    """

    firsts: tuple[InstrMatch, ...]
    second: InstrMatch
    passes: bool
    most_rows: int

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(m.instr.name for m in (self.first, self.second)))

    @property
    def first(self) -> InstrMatch:
        """Of the last product of the scores, which has them all."""
        return self.firsts[-1]

    @property
    def _whole(self) -> int:
        """Keys of a call of the product, or of several for one of the scores: each of both is visited once."""
        return max(m.extent(self.found.key) for m in (self.first, self.second))

    @property
    def least_keys(self) -> int:
        """Of an iteration."""
        return max(KEYS[0], self.first.extent(self.found.key), self.second.extent(self.found.key))

    @property
    def rows_of_call(self) -> int:
        """Those of an instruction."""
        return self.first.extent(self.row)

    def least_of_block(self) -> int:
        return self.most_rows

    @cached_property
    def _whole_widths(self) -> dict[str, float]:
        """The most of all features, in whole calls: so many are staged."""
        every = (*self.firsts, self.second)
        return {i: round_up(int(n), max(m.extent(i) for m in every)) for i, n in self.widths(self.most).items()}

    @cached_property
    def operands(self) -> tuple[tuple[InstrMatch, tuple[StagedOperand, ...]], ...]:
        """Those of each of the scores, and of the product, that are in memory."""
        before: dict[str, tuple[Computation, StagedOperand]] = {}
        out = []
        for w, m in zip((*self.scores, self.product), (*self.firsts, self.second), strict=True):
            out.append((m, tuple(self._operands(w, m, before))))
            before = {**{s.access.tensor: (w, s) for s in out[-1][1]}, **before}
        return tuple(out)

    def _operands(
        self, w: Computation, m: InstrMatch, before: Mapping[str, tuple[Computation, StagedOperand]]
    ) -> Iterator[StagedOperand]:
        """`before`: of other products, by tensor. What several read has its layout there, ONE_COPY."""
        mapping, (depth,) = _mapping(w, m), w.reduced
        operands = {v.tensor for _, v in m.operands if isinstance(v, Load)}
        for a in AccessProblem.of(w, self.ctx.dtypes).inner:
            if a.tensor in operands and a.tensor in self.ctx.shapes and depth in a.axes and not self.is_made(a):
                other = before.get(a.tensor)
                near = self.copied_for(*other, w, a) if other is not None else None
                deep = int(min(DEPTH, self.most[depth]))
                s = best_staging(self.ctx, self.machine, mapping, a, deep, {}, self.converted.get(a.tensor), inner=near)
                if s is not None and (other is None or near is not None):
                    yield s

    @cached_property
    def converted(self) -> dict[str, ElementCost]:
        """CONVERTED: of the tensors, each element."""
        return {w.name: operand_cost(w, self.ctx.device.computes) for w in self.found.operands}

    @cached_property
    def staged(self) -> tuple[StagedOperand, ...]:
        """`operands`, those with rows first."""
        return tuple(sorted(chain(*(some for _, some in self.operands)), key=lambda s: self.row not in s.access.axes))

    @cached_property
    def crossing(self) -> StagedOperand | None:
        """CROSSES: the values that the product alone reads, as they are staged. Sums of rows read registers."""
        reads = [a for a in AccessProblem.of(self.product, self.ctx.dtypes).inner if self.is_made(a)]
        others = {t for w in self.found.every if w is not self.product for t in w.reads}
        if self.passes or len(reads) != 1 or reads[0].tensor in others:
            return None
        return best_staging(self.ctx, self.machine, _mapping(self.product, self.second), reads[0], self._whole, {})

    @cached_property
    def may_hold_rows(self) -> bool:
        """HELD: not where they are computed, which may be where they are staged, nor where an instruction reads a memory."""
        machine, register = self.machine, self.ctx.register
        tile: dict[str, Any] = {"bi": self.rows_of_call * machine.schedulers, "bt": self.least_keys}
        if not self.found.statistics:
            return False  # of products of products it was not tried
        if BLOCKS * sum(self._staged_bytes(tile, self._whole_widths)) <= (machine.staging.capacity or inf):
            return False
        rows = {s.access.tensor for s in self._of_rows}
        read = [m.instr.operand(n) for m in self.firsts for n, v in m.operands if isinstance(v, Load) and v.tensor in rows]
        given = {b.name for b in self.ctx.buffers if b.kind == "input"}
        return rows <= given and all(register(x.memory) for x in read)

    @cached_property
    def _of_rows(self) -> tuple[StagedOperand, ...]:
        return tuple(s for s in self.staged if self.row in s.access.axes)

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles:
        """Rows of a block and of a warp, keys of an iteration, and stages."""
        high, key, least = self.first.extent(self.row), self.most[self.found.key], self.least_keys
        found = [
            (high * r * g, high * r, max(least, n), s, held)
            for held in ((0, 1) if self.may_hold_rows else (0,))
            for r in ROWS
            for g in GROUPS
            for n in KEYS
            for s in STAGES
            if (g == 1 or high * r * (g - 1) < self.most[self.row]) and (n == KEYS[0] or n < 2 * key)
        ]
        columns = np.array(list(dict.fromkeys(found))).T
        return self.with_parts(dict(zip(("bi", "wi", "bt", "stages", "held"), columns, strict=True)), "bt", sizes)

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
        """What candidates ask for those extents, and values of the op's sizes."""
        machine = self.machine
        widths, wide = self.widths(sizes), sizes[self.feature]
        groups, lanes = t["bi"] // t["wi"], machine.lanes
        blocks, turns, parts, more = self.turns(t, "bt", sizes)
        tile = {self.row: t["wi"], self.found.key: t["bt"]}
        products = zip((*self.scores, self.product), (*self.firsts, self.second), strict=True)
        made = [(m, calls(m, tile | {(i := self.features_of(w)): widths[i]})) for w, m in products]
        each = t["wi"] * t["bt"] / lanes  # scores of a lane in an iteration
        held = t["wi"] * wide / lanes  # registers of the result
        scalars = (
            (self.score_operations * each + held) * lanes * machine.schedulers / machine.operations(self.score_type.compute)
        )
        fetch, read = self._reads(t, widths)
        once, each_turn = self._staged_bytes(t, widths)
        asked_once, asked_each = self._staged_bytes(t, widths, self.converted)
        held_once, held_each = self._staged_bytes(t, self._whole_widths)
        once, held_once = once * (1 - t["held"]), held_once * (1 - t["held"])
        first, each_copy = self._conversions(t, widths)
        issue = turns * (sum(n for _, n in made) + fetch + scalars + each_copy + STEP) + first
        return ResourceUse(
            blocks=blocks,
            groups=groups,
            registers=self._registers(t),
            staged=held_once + t["stages"] * held_each + groups * self._crossing_bytes(t),
            pipe=turns * sum(n * machine.instr_cycles(m.instr) for m, n in made) + SYNC * turns,
            issue=issue,
            staging=turns * (read * groups + each_turn) + once,
            l2_bytes=blocks * (asked_once + turns * asked_each) + parts + self.written(sizes),
            dram_bytes=parts + self.moved(sizes),
            bytes_in_flight=each_turn * np.maximum(1, t["stages"] - 1) + 1,
            rounds=2 + np.where(t["stages"] == 1, turns, 0) + more,
            launches=1 + (t["part"] > 0),
            second_launch_bytes=parts,
            phase=turns * (fetch + scalars + each_copy) + first,  # a warp's own: scores, then exponentials, then the product
            run=wide,
        )

    def _reads(self, t: Tiles, widths: Mapping[str, Any]) -> tuple[Any, Any]:
        """Of a warp and an iteration: instructions that read operands, and store what CROSSES, and bytes of staging memory."""
        own = {**widths, self.row: t["wi"], self.found.key: t["bt"]}
        fetch, read = 0.0, 0.0
        for s, m in ((s, m) for m, some in self.operands for s in some):
            count = prod((np.ceil(own[i] / m.extent(i)) for i in s.access.axes if i in own), start=1.0)
            count = count * (1 - t["held"]) if s in self._of_rows else count
            fetch, read = fetch + count * s.reads, read + count * s.cycles * self.machine.bank_bytes
        if (c := self.crossing) is not None:
            stored = t["wi"] * t["bt"] / self.machine.lanes  # one by one
            count = np.ceil(t["wi"] / self.second.extent(self.row)) * np.ceil(t["bt"] / self.second.extent(self.found.key))
            fetch, read = fetch + stored + count * c.reads, read + (stored + count * c.cycles) * self.machine.bank_bytes
        return fetch, read

    def _crossing_bytes(self, t: Tiles) -> Any:
        """CROSSES, of a warp: bytes of the values of a call."""
        c = self.crossing
        if c is None:
            return 0
        elements = t["wi"] * self._whole
        return (elements + elements / (self._whole if c.inner == self.found.key else t["wi"]) * c.pad) * c.access.dtype.bytes

    def _staged_bytes(
        self, t: Tiles, widths: Mapping[str, Any], converted: Mapping[str, ElementCost] = MappingProxyType({})
    ) -> tuple[Any, Any]:
        """Of a block: bytes that are staged once, and in each iteration; of what is `converted`, those that are read for it."""
        spans = {**widths, self.row: t["bi"], self.found.key: t["bt"]}
        once, each_turn = 0.0, 0.0
        for s in copies(self.staged):
            elements = s.access.footprint(spans)
            size = (elements + elements / spans[s.inner] * s.pad) * s.access.dtype.bytes
            size = elements * converted[s.access.tensor].own if s.access.tensor in converted else size
            once, each_turn = (once + size, each_turn) if self.row in s.access.axes else (once, each_turn + size)
        return once, each_turn

    def _conversions(self, t: Tiles, widths: Mapping[str, Any]) -> tuple[Any, Any]:
        """CONVERTED, of a warp: instructions once, and in each iteration."""
        machine, out = self.machine, {True: 0.0, False: 0.0}
        for s, elements in self._copied_elements(t, widths):
            if s.access.tensor not in self.converted:
                continue
            operations = self.converted[s.access.tensor].operations * machine.lanes * machine.schedulers
            each = (2 + s.calc) / s.vector + 1 / s.stored + operations / machine.operations(self.score_type.compute)
            out[self.row in s.access.axes] += elements * each
        return out[True], out[False]

    def _copied_elements(self, t: Tiles, widths: Mapping[str, Any]) -> Iterator[tuple[StagedOperand, Any]]:
        """Elements that a lane copies."""
        spans = {**widths, self.row: t["bi"], self.found.key: t["bt"]}
        for s in copies(self.staged):
            yield s, s.access.footprint(spans) / (t["bi"] // t["wi"] * self.machine.lanes)

    def _registers(self, t: Tiles) -> np.ndarray:
        """Of a lane: the result, running values, and scores of each product; beside these the sums and operands of one, or
        the values and operands of one call of the product over the keys; and what is loaded for the next iteration."""
        lanes, word = self.machine.lanes, self.machine.register_bytes
        held = round_up(self.width, self.second.extent(self.feature))
        each = projected(fragment_map(self.first, self.first.instr.statement.target), frozenset(self.found.rows))
        running = RUNNING * (1 if each is None else each.registers) * t["wi"] / self.first.extent(self.row)
        running = running if self.found.statistics else 0
        scores, *values = (max(1, w.value.dtype.bytes // word) for w in (self.scores[-1], *self.found.values))
        count, deep = (
            len(self.scores),
            max(m.extent(self.features_of(w)) for w, m in zip(self.scores, self.firsts, strict=True)),
        )
        size = max(a.access.dtype.bytes for a in self.staged) / word * self._copies
        first = (count + 1) * scores * t["wi"] * t["bt"] + (t["wi"] + t["bt"]) * deep * size
        second = t["wi"] * (count * scores * t["bt"] + sum(values) * self._whole) + (t["wi"] + held) * self._whole * size
        rows = t["held"] * size * sum(self._whole_widths[self.features_of(w)] for w in self.scores)
        ahead = sum(
            n * (self.converted[x].own if (x := s.access.tensor) in self.converted else s.access.dtype.bytes)
            for s, n in self._copied_elements(t, self.widths(self.most))
            if self.row not in s.access.axes and not s.asynchronous
        )
        return np.ceil(
            (t["wi"] * (held + rows) + np.maximum(first, second)) / lanes + running + ahead / word * (t["stages"] > 1) + SPARE
        )

    @cached_property
    def _copies(self) -> float:
        """Lanes that have the same element of an operand: two, where both halves of a wave read all of it."""
        fragments = (fragment_map(m, name) for m in (*self.firsts, self.second) for name, _ in m.operands)
        return max(f.registers * f.lanes / prod(n for _, n, _ in f.maps) for f in fragments)

    # ------------------------------------------------------------ lines

    def lines(self, at: dict[str, int], sizes: dict[str, int]) -> Named:
        machine, found, kept = self.machine, self.found, self.machine.register.name
        held = frozenset(s.access.tensor for s in self._of_rows) if at.get("held") else frozenset()
        out = self.lines_above(at, at["bt"], [(s, self._staged_line(s, at, held)) for s in copies(self.staged)])
        out.append(tile_text((self.row, at["wi"]), level=machine.group.name))
        for w, (m, operands) in zip(self.scores, self.operands, strict=False):
            deep = tile_text((self.features_of(w), m.extent(self.features_of(w))), modifiers=modifier("unroll"))
            block = (deep, *self._loads(x for x in operands if x.access.tensor not in held), syntax.Compute(m.instr.name))
            out.append(syntax.Keep((name_of(w, found),), kept, block=block))
        out.append(tile_text((found.key, self._whole), modifiers=modifier("unroll")))
        crossing = self.crossing.access.tensor if self.crossing is not None else None
        if stay := tuple(n for w in found.values if (n := name_of(w, found)) != crossing):
            out.append(syntax.Keep(stay, kept))
        if self.crossing is not None:
            out.append(syntax.Keep((self.crossing.access.tensor,), machine.staging.name, modifiers=self.crossing.modifiers))
        return {"pass": (*out, *self._loads(self.operands[-1][1]), syntax.Compute(self.second.instr.name))}

    def _staged_line(self, s: StagedOperand, at: dict[str, int], held: frozenset[str]) -> syntax.Move:
        if s.access.tensor in held:
            return syntax.Move(s.access.tensor, self.machine.register.name)
        row = self.most[s.inner]
        return s.line(self.machine.staging.name, at["bt"] if row == inf else int(row))

    def _loads(self, operands: Iterable[StagedOperand]) -> Iterator[syntax.Move]:
        for s in operands:
            if s.load is not None:
                yield syntax.Move(s.access.tensor, self.machine.register.name, modifiers=modifier("with", words=(s.load,)))


def _mapping(w: Computation, m: InstrMatch) -> InstrMapping:
    """The match as a mapping, for how operands are staged."""
    index = dict(m.index)
    s = m.instr.statement
    rows, columns = (index[x] for x in s.indices)
    (k,) = (index[x] for x in (s.reduction.indices if s.reduction else ()))
    leaf = (m.extent(rows), m.extent(columns), m.extent(k))
    batch = tuple(i for i in w.indices if i not in (rows, columns))
    return InstrMapping(m.instr, w, m=rows, n=columns, k=k, leaf=leaf, batch=batch, match=m)


def calls(m: InstrMatch, spans: dict) -> Any:
    """Executions of an instruction for a tile."""
    return prod((np.ceil(n / m.extent(i)) for i, n in spans.items()), start=np.float64(m.calls))


def fragment_passes(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[FragmentPass, ...]:
    """The passes of attention and the like by instructions."""
    found = one_pass_of(computations)
    return product_passes(ctx, computations, found) if found is not None and found.only_product is not None else ()


def product_passes(ctx: LoweringContext, computations: tuple[Computation, ...], found: OnePass) -> tuple[FragmentPass, ...]:
    """PASSES, BOUNDED_FEATURES: by the fastest instructions of groups for the products, FEWER_ROWS and DEPTHS; none where there
    are none. Of what is `found`, which may be a product of a product."""
    machine = block_machine(ctx.device)
    if machine is None:
        return ()
    if any(e.constant == 0 for e in found.extents.values()) or any(len(w.reduced) != 1 for w in found.scores):
        return ()
    if len(found.features(found.products[0])) != 1 or any(found.extents[i].interval[1] is None for i in found.all_features):
        return ()
    for passes in (True, False) if found.statistics else (True,):  # without one, nothing but the first product is kept
        out: list[FragmentPass] = []
        fastest, tried = 0.0, set[tuple[int, int, int]]()
        for firsts, second in instrs_of_products(ctx, machine, computations, found, passes):
            cycles, rows = cycles_of_products(machine, found, firsts, second)[0], firsts[-1].extent(found.rows[-1])
            nest = FragmentPass(ctx, machine, found, firsts, second, passes, out[0].rows_of_call if out else rows)
            tile = (rows, nest.least_keys, firsts[-1].extent(*found.scores[-1].reduced))
            if out and (cycles > fastest or rows > nest.most_rows or tile in tried):
                continue
            if len(nest.staged) == 2 * len(found.scores) + 1 and (passes or nest.crossing is not None):
                out.append(nest)
                fastest = cycles
                tried.add(tile)
        if out:
            return tuple(out)
    return ()
