"""One pass over the columns of a product whose rows are reduced, as a loss of logits: these are in registers, never in memory.

    tile i: 128 -> block
    tile j: 1024 -> block online by workspace       where rows are too few for the units
    keep top, total in register
    tile j: 64 online
    keep z in register:
        tile k: 32 pipeline 4                       the lines of a contraction
        ...
        tile i: 32, j: 64 -> warp
        ...
        compute with mma_m16n8k16_f16
    tile i: 32 -> warp                              each warp goes on with the rows that it has
    compute

KNOWN_ROWS   where rows may be few, one block of them would have all columns, and the others of the device nothing to do.
WHOLE_ROWS   warps divide the rows of a block, and not its columns: each has all that a tile adds to its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from .....dsl import syntax
from .....dsl.support.cached import cached_property
from .....dsl.support.fast_replace import replace
from ....lower.lowering_context import LoweringContext
from ....plan.computations import Computation
from ...access_model import AccessProblem
from ...constraints import Named
from ...instr_mappings import mappings
from ...line_builders import modifier, tile_text
from ...machine_model import block_machine
from ...one_pass.find_pass import OnePass, name_of
from ...tile_space import Tiles, crossed, select_tiles
from ..contraction import ContractionTemplate
from ..cost import ResourceUse
from .lane_pass import CORRECTION
from .pass_model import RUNNING, PassModel

ABOVE = ("fuse", "outer", "split", "keep", "loops")  # slots of a contraction in whose place the pass has lines of its own
# resources of a block that each of its tiles of columns takes again
EACH = ("pipe", "issue", "staging", "rounds", "stall", "exposed", "waits", "addressing")


@dataclass(frozen=True, eq=False)
class ReducedProduct(PassModel):
    """A pass that has no product over its keys (a `NestModel`). `whole`: the contraction of its scores."""

    whole: ContractionTemplate

    loops = ("bn",)

    def __str__(self) -> str:
        return str(self.whole)

    @property
    def product(self) -> Computation:
        """What goes over the keys, in place of a product."""
        return self.found.statistics[0]

    @cached_property
    def feature(self) -> str:
        return self.scores[0].reduced[0]

    def least_of_block(self) -> int:
        return self.whole.mapping.leaf[0]

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles:
        """WHOLE_ROWS: those of the contraction, with parts of the keys."""
        t = self.whole.candidates(sizes, {**fixed, "split": 0})
        buffers = {name: t.pop(name).reshape(-1) for name in ("stages", "sets")}  # they go with every tile
        t = crossed(select_tiles(t, t["gn"] == 1), buffers)
        return self.with_parts({**t, "bi": t["bm"], "wi": t["wm"]}, "bn", sizes)

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
        """That of the contraction for each tile of columns, and of what is computed of its results, which stay in registers."""
        machine, one = self.machine, self.whole.demand(t, sizes)
        blocks, turns, parts, more = self.turns(t, "bn", sizes)
        rows, each = t["wm"] / machine.lanes, t["wm"] * t["wn"] / machine.lanes  # of a lane
        computed = turns * (each * self.score_operations + rows * CORRECTION * len(self.found.sums))
        cycles = machine.lanes * machine.schedulers / machine.operations(self.score_type.compute)
        (score,) = self.scores
        results = score.value.dtype.bytes * prod(sizes[i] for i in score.indices)
        again: dict[str, Any] = {name: getattr(one, name) * turns for name in EACH}
        again["pipe"] += computed * cycles
        again["issue"] += computed
        again["rounds"] += more
        return replace(
            one,
            **again,
            blocks=blocks,
            registers=one.registers + each + RUNNING * rows,  # scores beside their accumulators
            l2_bytes=one.l2_bytes - results + parts,
            dram_bytes=one.dram_bytes - results + parts,
            launches=1 + (t["part"] > 0),
            second_launch_bytes=parts,
        )

    # ------------------------------------------------------------ lines

    def lines(self, at: dict[str, int], sizes: dict[str, int]) -> Named:
        found, kept = self.found, self.machine.register.name
        product = self.whole.lines({**at, "split": 0}, sizes)
        if at["sets"] > 1:  # each tile of columns begins its loads anew
            product = {**product, "inner": tuple(_begun_anew(x, at["sets"]) for x in product["inner"])}
        block = tuple(x for slot, lines in product.items() if slot not in ABOVE for x in lines)
        out = self.lines_above({**at, "stages": 1}, at["bn"], ())
        out.append(syntax.Keep((name_of(self.scores[0], found),), kept, block=block))
        out.append(tile_text((self.row, at["wm"]), level=self.machine.group.name))
        if found.values:
            out.append(syntax.Keep(tuple(name_of(w, found) for w in found.values), kept))
        return {"pass": (*out, syntax.Compute())}


def _begun_anew(line: syntax.Line, sets: int) -> syntax.Line:
    """The loop over staged terms, without running through into the next tile."""
    return replace(line, modifiers=modifier("pipeline", sets)) if isinstance(line, syntax.Tile) else line


def reduced_products(ctx: LoweringContext, found: OnePass | None) -> tuple[ReducedProduct, ...]:
    """KNOWN_ROWS: by the fastest instruction of groups for the scores; none where there is none, or the pass computes more."""
    machine = block_machine(ctx.device)
    if machine is None or found is None or found.products or len(found.scores) != 1 or found.operands:
        return ()
    if any(found.extents[i].constant is None for i in found.rows):
        return ()
    (score,), level, axes = found.scores, machine.group.name, (found.rows[-1], found.key)
    fit = [m for m in mappings(ctx, score) if m.instr is not None and m.instr.level == level and (m.m, m.n) == axes]
    fit = [m for m in fit if not m.refused]
    if not fit:
        return ()
    best = max(fit, key=lambda m: machine.instr_speed(m.instr))
    problem = AccessProblem.of(score, ctx.dtypes, ctx.device.computes)
    return (ReducedProduct(ctx, machine, found, ContractionTemplate(ctx, machine, best, problem)),)
