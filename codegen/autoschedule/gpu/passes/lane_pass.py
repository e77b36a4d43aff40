"""One pass over the keys without an instruction: lanes have rows, and tiles of both products in registers.

    tile h: 1, i: 128 -> block
    keep m, l, o in register
    move q -> shared pad 8
    tile t: 32 online pipeline 2               copies of more keys than scores are computed of at a time
    move k -> shared
    move v -> shared
    tile t: 8 online
    tile i: 64 -> warp
    keep s in register:
        tile i: 1 every 16, d: 4 every 8 -> thread
        tile d: 4
        move q -> register
        compute
    keep p in register
    tile i: 1 every 16, d: 4 every 8 -> thread
    compute

A_ROW_FOR_LANES  lanes that share a row have parts of its features: of the sums of a score, which they add by shuffles, and of
                 the result. What is computed of a score they compute each. So the features of several rows fit in the registers
                 of a lane, and a key that is read serves all of these.
STRIDED          lanes have neighbouring vectors of a row, and neighbouring rows: their reads have no bank conflicts.
BOUNDED_FEATURES accumulators are as many registers. Heads, rows and keys may be open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from .....dsl import syntax
from .....dsl.support.cached import cached_property
from .....dsl.support.fast_replace import replace
from ....ir.limits import WIDEST_ACCESS
from ....lower.lowering_context import LoweringContext
from ....plan.computations import Computation
from ...access_model import AccessModel, AccessProblem
from ...constraints import Named
from ...line_builders import modifier, tile_text, tiled
from ...machine_model import block_machine
from ...one_pass.find_pass import OnePass, name_of
from ...tile_space import Tiles, ceil_div
from ..contraction_resources import STEP
from ..cost import ResourceUse
from ..operand_layouts import PLAIN, StagedOperand
from ..register_sets import SYNC
from .pass_model import RUNNING, SPARE, STAGES, PassModel, copies

ROWS = (1, 2, 4, 8)  # rows: of a lane [tried; test_sizes_tried_for_lanes]
SHARING = (1, 2, 4, 8, 16, 32)  # lanes: that share a row [tried; test_sizes_tried_for_lanes]
MOST_SHARING = 8  # lanes: that share a row where there are rows for all lanes [estimate; test_sizes_tried_for_lanes]
GROUPS = (1, 2, 4, 8)  # warps: of a block [tried; test_sizes_tried_for_lanes]
KEYS = (8, 16, 32)  # keys: whose scores are computed at a time [tried; test_sizes_tried_for_lanes]
COPIED = (1, 2, 4)  # tiles of keys: that are copied at a time [tried; test_sizes_tried_for_lanes]
SHUFFLE = 2  # cycles: of the staging memory's path, for a shuffle of a group [estimate; test_first_candidates]
WIDENED = 1  # operations: of a conversion to what is multiplied [estimate; test_first_candidates]
CORRECTION = 12  # operations: for a row and an iteration, of its statistic and the correction [estimate; test_first_candidates]


@dataclass(frozen=True, eq=False)
class LanePass(PassModel):
    """A pass by scalars (a `NestModel`). `staged`: the operands of all products that are in memory, those with rows first."""

    staged: tuple[StagedOperand, ...]

    loops = ("bk", "bt")

    def __str__(self) -> str:
        return "scalars"

    def least_of_block(self) -> int:
        """With fewer rows than these most lanes of a warp have none."""
        return self.machine.lanes // 2

    @cached_property
    def vector(self) -> int:
        """Elements of the widest access of any operand: lanes that share a row have as many neighbours."""
        return max(1, WIDEST_ACCESS // max(s.access.dtype.bytes for s in self.staged))

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles:
        """Rows of a lane, lanes that share one, rows of a warp and of a block, keys of scores and of copies, and stages."""
        lanes, narrow, key = self.machine.lanes, min(map(int, self.widths(self.most).values())), self.most[self.found.key]
        found = [
            (r, share, lanes // share * r, lanes // share * r * g, n, n * c, s)
            for share in SHARING
            for r in (ROWS if share > 1 else ROWS[:1])
            for g in GROUPS
            for n in KEYS
            for c in COPIED
            for s in STAGES
            if (share <= MOST_SHARING or 2 * lanes // share > self.most[self.row])
            and self.vector * (share - 1) < narrow  # each of them has features, or lanes would be numbered otherwise
            and (g == 1 or lanes // share * r * (g - 1) < self.most[self.row])
            and (n * c == KEYS[0] or n * c < 2 * key)
        ]
        columns = np.array(list(dict.fromkeys(found))).T
        return self.with_parts(
            dict(zip(("rows", "share", "wi", "bi", "bt", "bk", "stages"), columns, strict=True)), "bk", sizes
        )

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
        machine, lanes = self.machine, self.machine.lanes
        groups = t["bi"] // t["wi"]
        blocks, copies, parts, more = self.turns(t, "bk", sizes)
        turns = copies * (t["bk"] // t["bt"])
        deep, wide = sum(self._part(t, sizes[self.features_of(w)]) for w in self.scores), self._part(t, sizes[self.feature])
        scores = t["rows"] * t["bt"]  # of a lane in an iteration
        shuffles = len(self.scores) * scores * np.log2(t["share"])
        both = scores * (deep + wide)  # multiply-adds
        computed = both + scores * self.score_operations + t["rows"] * (wide + CORRECTION) + shuffles
        elements = t["bt"] * (deep + wide) + t["rows"] * deep
        computed = computed + elements * (WIDENED if self._widens else 0)
        fetch = elements / self.vector
        read = fetch * lanes * WIDEST_ACCESS + shuffles * SHUFFLE * machine.bank_bytes
        once, each = self._staged_bytes(t, sizes)
        held_once, held_each = self._staged_bytes(t, self.most)
        copied = 2 * (once + copies * each) / WIDEST_ACCESS / (groups * lanes)  # instructions of a lane
        cycles = lanes * machine.schedulers / machine.operations(self.score_type.compute)
        return ResourceUse(
            blocks=blocks,
            groups=groups,
            registers=self._registers(t),
            staged=held_once + t["stages"] * held_each,
            pipe=turns * computed * cycles + SYNC * copies,
            issue=turns * (computed + fetch + shuffles) + copies * STEP + copied,
            staging=turns * read * groups + copies * each + once,
            l2_bytes=blocks * (once + copies * each) + parts + self.written(sizes),
            dram_bytes=parts + self.moved(sizes),
            bytes_in_flight=each * np.maximum(1, t["stages"] - 1) + 1,
            rounds=2 + np.where(t["stages"] == 1, copies, 0) + more,
            launches=1 + (t["part"] > 0),
            second_launch_bytes=parts,
            stall=turns * (fetch + shuffles),
            run=self.vector * t["share"],
        )

    def _part(self, t: Tiles, features: Any) -> Any:
        """Features of a row that a lane has."""
        return ceil_div(features, self.vector * t["share"]) * self.vector

    @property
    def _widens(self) -> bool:
        """Are elements converted before they are multiplied?"""
        return any(s.access.dtype != self.score_type for s in self.staged)

    def _staged_bytes(self, t: Tiles, features: Mapping[str, Any]) -> tuple[Any, Any]:
        """Of a block: bytes that are staged once, and in each iteration."""
        spans = {**self.widths(features), self.row: t["bi"], self.found.key: t["bk"]}
        once, each = 0.0, 0.0
        for s in copies(self.staged):
            size = s.access.footprint(spans) * s.access.dtype.bytes
            if self.row in s.access.axes:
                once = once + size + t["bi"] * self._pad(t["share"]) * s.access.dtype.bytes
            else:
                each = each + size
        return once, each

    def _pad(self, share: Any) -> Any:
        """STRIDED: elements after a row."""
        return self.vector * share

    def _registers(self, t: Tiles) -> np.ndarray:
        """Of a lane: the results and running values; the scores of each of their products; beside these the sums and operands
        of one, or the values; and what is loaded for the next iteration."""
        word = self.machine.register_bytes
        held, scores, *values = (
            max(1, w.value.dtype.bytes // word) for w in (self.product, self.scores[-1], *self.found.values)
        )
        each = t["rows"] * t["bt"]
        operand = (t["rows"] + 1) * self.vector * max(s.access.dtype.bytes for s in self.staged) / word
        beside = np.maximum(each * scores, each * sum(values)) + operand
        spans = {**self.widths(self.most), self.found.key: t["bk"]}
        ahead = sum(
            s.access.footprint(spans) * s.access.dtype.bytes / word / (t["bi"] // t["wi"] * self.machine.lanes)
            for s in copies(self.staged)
            if self.row not in s.access.axes and not s.asynchronous
        )
        return np.ceil(
            t["rows"] * (self._part(t, self.width) * held + RUNNING)
            + len(self.scores) * each * scores
            + beside
            + ahead * (t["stages"] > 1)
            + SPARE
        )

    def fit(self, tiles: Sequence[Mapping[str, int]], sizes: Mapping[str, int]) -> np.ndarray:
        """A_ROW_FOR_LANES: a warp has as many rows as its lanes."""
        mine = [x["wi"] * x["share"] == x["rows"] * self.machine.lanes for x in tiles]
        return super().fit(tiles, sizes) & np.array(mine)

    # ------------------------------------------------------------ lines

    def lines(self, at: dict[str, int], sizes: dict[str, int]) -> Named:
        machine, found, kept = self.machine, self.found, self.machine.register.name
        out = self.lines_above(at, at["bk"], [(s, self._staged_line(s, at)) for s in copies(self.staged)])
        if at["bt"] < at["bk"]:
            out.append(tile_text((found.key, at["bt"]), modifiers=modifier("online") if found.statistics else ()))
        out.append(tile_text((self.row, at["wi"]), level=machine.group.name))
        rows = [s.access.tensor for s in self.staged if self.row in s.access.axes]
        for w in self.scores:
            deep, mine = self.features_of(w), tuple(syntax.Move(x, kept) for x in dict.fromkeys(rows) if x in w.reads)
            block = (self._lanes(at, deep), tile_text((deep, self.vector)), *mine, syntax.Compute())
            out.append(syntax.Keep((name_of(w, found),), kept, block=block))
        if found.values:
            out.append(syntax.Keep(tuple(name_of(w, found) for w in found.values), kept))
        return {"pass": (*out, self._lanes(at, self.feature), syntax.Compute())}

    def _lanes(self, at: dict[str, int], features: str) -> syntax.Tile:
        """A_ROW_FOR_LANES, STRIDED."""
        level = self.machine.lane.name
        if at["share"] == 1:
            return tile_text((self.row, 1), level=level)
        every = at["wi"] // at["rows"] if at["rows"] > 1 else None
        return tiled(((self.row, 1, every), (features, self.vector, self.vector * at["share"])), level)

    def _staged_line(self, s: StagedOperand, at: dict[str, int]) -> syntax.Move:
        row = self.most[s.inner]
        if self.row in s.access.axes:
            pad = self._pad(at["share"])
            s = replace(s, pad=pad, modifiers=(*s.modifiers, syntax.Modifier("pad", (syntax.Num(pad),))))
        return s.line(self.machine.staging.name, at["bk"] if row == inf else int(row))


def lane_passes(ctx: LoweringContext, found: OnePass | None) -> tuple[LanePass, ...]:
    """BOUNDED_FEATURES; none also where an operand is read at subscripts that are no plain indices, or is converted before, and
    where each row has keys of its own: then lanes have nothing to share. `found` may be a product of a product."""
    machine = block_machine(ctx.device)
    product = found.only_product if found is not None else None
    if machine is None or found is None or product is None or found.operands:
        return ()
    if any(e.constant == 0 for e in found.extents.values()) or any(len(w.reduced) != 1 for w in found.scores):
        return ()
    if len(found.features(product)) != 1 or any(found.extents[i].interval[1] is None for i in found.all_features):
        return ()
    model = PassModel(ctx, machine, found)
    before: dict[str, tuple[Computation, StagedOperand]] = {}
    staged: list[StagedOperand] = []
    for w in (*found.scores, product):
        near = model.features_of(w)
        for a in AccessProblem.of(w, ctx.dtypes).inner:
            if a.tensor in ctx.shapes and near in a.axes and not model.is_made(a):
                s = _staged(model, a, near)
                other = before.setdefault(a.tensor, (w, s)) if s is not None else None
                if s is None or (other is not None and other[1] is not s and model.copied_for(*other, w, a) is None):
                    return ()
                staged.append(s)
    if any({model.row, found.key} <= s.access.axes for s in staged):
        return ()
    staged.sort(key=lambda s: model.row not in s.access.axes)
    return (LanePass(ctx, machine, found, tuple(staged)),) if len(staged) == 2 * len(found.scores) + 1 else ()


def _staged(model: PassModel, a: AccessModel, near: str) -> StagedOperand | None:
    """How an operand is staged: the features of a row or a key are neighbours. None where it is no tile of the tensor."""
    axes = _axes(model, a)
    if axes is None or not a.can_be_staged:
        return None
    as_it_lies = axes[-1] == near
    names = tuple(syntax.Name(i) for i in (*(i for i in axes if i != near), near))
    order = () if as_it_lies else (syntax.Modifier("layout", names),)
    copiers = tuple((i, n) for i, dtype, n in model.machine.asynchronous if dtype == a.dtype) if as_it_lies else ()
    wide = max(1, WIDEST_ACCESS // a.dtype.bytes)
    return StagedOperand(a, "", near, order, 0, None, 0.0, 0.0, wide, wide, PLAIN, copiers)


def _axes(model: PassModel, a: AccessModel) -> list[str] | None:
    """Of the copy: those of the tensor, or of its view where one stands for several of them; None for other subscripts."""
    fused = {x.name for x in model.fuses}
    axes = [d[0][0] if len(d) == 1 and (d[0][1] == 1 or d[0][0] in fused) else None for d in a.dims]
    once = [i for n, i in enumerate(axes) if i not in fused or i not in axes[:n]]
    return [i for i in once if i is not None] if None not in once and len({*once}) == len(once) else None
