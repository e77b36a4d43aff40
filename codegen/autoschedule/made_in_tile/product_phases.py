"""One of the two phases of `block_products`: a contraction, of which some operands are in staging memory whole.

RESIDENT    of such an operand nothing is copied for a step. What is not computed there is copied once, before the first step.
STREAMED    other operands are copied for each step. Where a step is a position of a window, positions follow each other in the
            pipeline; each turn of an outer loop begins one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..access_model import AccessModel, AccessProblem
from ..gpu.computed_operands import RESIDENT
from ..gpu.contraction import ContractionTemplate
from ..gpu.contraction_resources import contraction_traffic
from ..gpu.cost import ResourceUse, TileTraffic
from ..gpu.operand_layouts import StagedOperand
from ..gpu.register_sets import SYNC
from ..instr_mappings import InstrMapping
from ..machine_model import MachineModel
from ..tile_space import Tiles, ceil_div, round_up


class _Unstored(ContractionTemplate):
    """A contraction that stores nothing to the outermost memory."""

    @cached_property
    def _problem(self) -> AccessProblem:
        return replace(AccessProblem.of(self.mapping.computation, self.ctx.dtypes, self.ctx.device.computes), writes=())


@dataclass(frozen=True, eq=False)
class Phase:
    """`whole`: the computation without fused indices. `is_first`: it stores nothing. `resident`: RESIDENT; of these `made` is
    computed, and the others copied. `boxed`: rows are a box, which has the order of the tensor."""

    ctx: LoweringContext
    machine: MachineModel
    whole: Computation
    mapping: InstrMapping
    is_first: bool
    resident: tuple[str, ...] = ()
    made: str = ""
    boxed: bool = False

    @cached_property
    def plain(self) -> ContractionTemplate:
        """For its lines."""
        kind = _Unstored if self.is_first else ContractionTemplate
        return kind(
            self.ctx, self.machine, self.mapping, AccessProblem.of(self.whole, self.ctx.dtypes, self.ctx.device.computes)
        )

    @cached_property
    def model(self) -> ContractionTemplate:
        return replace(self.plain, materialised=tuple((t, RESIDENT) for t in self.resident))

    @property
    def is_whole(self) -> bool:
        """Whether no operand is streamed."""
        return {a.tensor for a in self.plain.inputs} <= {*self.resident}

    @property
    def stages_all(self) -> bool:
        """Whether both operands can be staged as they are here: in boxes, channels are neighbours."""
        staged = self.plain.staged(self.mapping.leaf[2])
        rows = [s for s in staged if self.mapping.m in s.access.axes]
        near = all(s.inner == self.mapping.k and s.access.dims[-1] == ((s.inner, 1),) for s in rows)
        return len(staged) == len(self.plain.inputs) == 2 and len(rows) == 1 and (near or not self.boxed)

    def in_boxes(self, weights: bool, made: str = "") -> Phase:
        """Pixels, and perhaps the `weights`, are resident."""
        own = tuple(a.tensor for a in self.plain.inputs if weights or self.mapping.m in a.axes)
        return replace(self, resident=own, made=made, boxed=True)

    def extent(self, index: str) -> int:
        return self.plain.problem.extents[index].constant or 1

    def operand(self, tensor: str) -> StagedOperand:
        return next(s for s in self.plain.staged(self.mapping.leaf[2]) if s.access.tensor == tensor)

    @cached_property
    def _copied(self) -> tuple[AccessModel, ...]:
        """RESIDENT: what is copied once."""
        reads = AccessProblem.of(self.whole, self.ctx.dtypes).inner
        return tuple(a for a in reads if a.tensor in self.resident and a.tensor != self.made)

    @property
    def _live(self) -> dict[str, float]:
        return {i: float(self.extent(i)) for i in (self.mapping.n, self.mapping.k)}

    # ------------------------------------------------------------ what it asks

    def _own(self, t: Tiles, phase: str) -> Tiles:
        """The sizes by the names that they have in a contraction."""
        own = {x: t[x + phase] for x in ("wm", "wn", "gm", "gn", "bk", "stages")}
        same = np.ones_like(own["wm"])
        return own | {"bm": own["wm"] * own["gm"], "bn": own["wn"] * own["gn"], "sets": same, "split": 0 * same, "inner": same}

    def _sizes(self, own: Tiles, sizes: Mapping[str, Any], blocks: Any) -> dict[str, Any]:
        """Rows are as many as all blocks compute."""
        reduced = {i: float(self.extent(i)) for i in self.plain.problem.reduced}
        return {**sizes, **reduced, self.mapping.m: blocks * own["bm"]}

    def _copied_elements(self, a: AccessModel, pixels: Mapping[str, Any], rounded: Mapping[str, Any]) -> Any:
        """Of a block; `rounded`: extents, with what instructions read past them."""
        extents = {i: float(e.constant or 1) for i, e in self.whole.extents if i not in self.whole.indices or i in rounded}
        return a.footprint({i: pixels.get(i, rounded.get(i, extents.get(i, 1.0))) for i in self.whole.all_indices})

    def _copied_bytes(self, a: AccessModel, own: Tiles, pixels: Mapping[str, Any]) -> Any:
        """Of its buffer."""
        s, mp = self.operand(a.tensor), self.mapping
        deep, wide = round_up(self.extent(mp.k), mp.leaf[2]), own["bn"]
        elements = self._copied_elements(a, pixels, {mp.k: deep, mp.n: wide})
        return elements * (1 + s.pad / (deep if s.inner == mp.k else wide)) * a.dtype.bytes

    def demand(self, t: Tiles, phase: str, sizes: Mapping[str, Any], blocks: Any, pixels: Mapping[str, Any]) -> ResourceUse:
        own, machine = self._own(t, phase), self.machine
        known = self._sizes(own, sizes, blocks)
        found = self.model.demand(own, known)
        once, near, far, copies = 0.0, 0.0, 0.0, 0.0
        whole = machine.home.transaction or 32
        every = {**sizes} | {i: float(e.constant or 1) for i, e in self.whole.extents if i in self.whole.reduced}
        for a in self._copied:
            s, elements = self.operand(a.tensor), self._copied_elements(a, pixels, self._live)
            run = float(self.extent(s.inner)) * a.dtype.bytes
            once = once + self._copied_bytes(a, own, pixels)
            near = near + elements * a.dtype.bytes * (ceil_div(run, whole) * whole / run) * blocks
            far = far + a.footprint(every) * a.dtype.bytes
            copies = copies + elements / (found.groups * machine.lanes) * ((2 + s.calc) / s.vector + 1 / s.stored)
        steps = prod(self.extent(i) for i in self.mapping.loops)
        if not self.resident:
            return found
        streamed = 0 if self.is_whole else prod(self.extent(i) for i in self.mapping.loops[:-1])
        flight = np.where(once > 0, np.maximum(found.bytes_in_flight, once), found.bytes_in_flight)
        lost = 2 * SYNC * steps if self.is_whole else 0  # no barrier is between steps
        loops = self.mapping.loops if self.pipelined_over_loops else ()
        return replace(
            found,
            staged=found.staged + once,
            pipe=found.pipe - lost,
            issue=found.issue + copies,
            staging=found.staging + once,
            l2_bytes=found.l2_bytes + near,
            dram_bytes=found.dram_bytes + far,
            bytes_in_flight=flight,
            rounds=(once > 0) + (streamed if loops or self.is_whole else found.rounds),
            first_loads=found.first_loads + once,
        )

    @property
    def pipelined_over_loops(self) -> bool:
        """STREAMED: a step is a position of a window."""
        return bool(self.mapping.loops) and bool(self.resident) and not self.is_whole

    def traffic(self, t: Tiles, phase: str, sizes: Mapping[str, Any], blocks: Any, pixels: Mapping[str, Any]) -> TileTraffic:
        own = self._own(t, phase)
        found = contraction_traffic(self.model, own, self._sizes(own, sizes, blocks))
        once = sum(self._copied_elements(a, pixels, self._live) * a.dtype.bytes for a in self._copied) * blocks
        return replace(found, requested=found.requested + once, served=found.served + once)

    # ------------------------------------------------------------ lines

    def lines(self, at: dict[str, int], phase: str, sizes: Mapping[str, int]) -> dict[str, tuple[syntax.Line, ...]]:
        """By slot, what is copied once first."""
        own = {x: int(v) for x, v in self._own({x: np.array(v) for x, v in at.items()}, phase).items()}
        found = dict(self.plain.lines(own, {**sizes} | {i: self.extent(i) for i in self.plain.problem.reduced}))
        for name in ["stage " + t for t in self.resident] if self.boxed else []:
            (line,) = found[name]
            assert isinstance(line, syntax.Move)
            found[name] = (replace(line, modifiers=tuple(m for m in line.modifiers if m.name != "layout")),)
        (keep,) = found["keep"]
        if self.boxed and any(isinstance(x, syntax.Tile) for x in syntax.block_of(keep)):
            found["keep"] = (replace(keep, block=None),)  # parts of results are rows of one index, which boxes have not
        once = {name: found.pop(name) for a in self._copied if (name := "stage " + a.tensor) in found}
        if self.pipelined_over_loops and own["stages"] > 1:
            (loops,), (k,) = found["loops"], found["k"]
            assert isinstance(loops, syntax.Tile)
            assert isinstance(k, syntax.Tile)
            found |= {"loops": (replace(loops, modifiers=k.modifiers),), "k": (replace(k, modifiers=()),)}
        return once | found
