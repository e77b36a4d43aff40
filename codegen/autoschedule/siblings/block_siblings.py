"""The nest of siblings on devices of blocks: that of the contraction of all results side by side, with the lines of each.

    tile m, n -> block;  keep g;  keep u;  tile k;  move X, Wg, Wu -> shared;  tile m, n -> warp;  instruction

Sizes of a candidate are those of one result: its tile has so many rows and columns of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ..access_model import AccessProblem
from ..constraints import Named, Slot
from ..gpu.contraction import ContractionTemplate
from ..gpu.cost import ResourceUse, TileTraffic
from ..instr_mappings import InstrMapping, mappings
from ..machine_model import MachineModel
from ..tile_space import Tiles
from .find_siblings import Siblings


@dataclass(frozen=True)
class BlockSiblings:
    """`whole`: of all results side by side. `each`: of each of them. `sizes_along`: the names of the sizes of tiles along the
    index of the results that lie side by side."""

    siblings: Siblings
    whole: ContractionTemplate
    each: tuple[ContractionTemplate, ...]
    sizes_along: tuple[str, ...]

    name = "siblings"

    def __str__(self) -> str:
        return f"{self.siblings.count} x {self.each[-1]}"

    @property
    def machine(self) -> MachineModel:
        return self.whole.machine

    @property
    def problem(self) -> AccessProblem:
        return self.each[-1].problem

    def least(self, sizes: dict[str, int]) -> float:
        return self.whole.least(self._side_by_side(sizes))

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles:
        """Those of one result, not split: a write-back that reads a sibling needs all of it. With the registers and the staging
        memory of all of them, the largest do not fit."""
        return self.each[-1].candidates(sizes, {**fixed, "split": 0})

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
        return self.whole.demand(self._wide(t), self._side_by_side(sizes))

    def traffic(self, t: Tiles, sizes: Mapping[str, Any], demand: ResourceUse) -> TileTraffic:
        return self.whole.traffic(self._wide(t), self._side_by_side(sizes), demand)

    def _wide(self, t: Tiles) -> Tiles:
        return t | {x: t[x] * self.siblings.count for x in self.sizes_along}

    def _side_by_side(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        index = self.siblings.index
        return {**sizes, index: sizes[index] * self.siblings.count} if index in sizes else {**sizes}

    # ------------------------------------------------------------ lines

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Those of the last result, and places for what the others have besides."""
        *others, own = self.siblings.operands
        out: list[Slot] = []
        for s in self.each[-1].slots:
            if s.name == "keep":
                out += [replace(s, name=_kept(n), about=w.names) for n, w in enumerate(self.siblings.members[:-1])]
            elif s.about == (own,):
                out += [replace(s, name=s.name.replace(own, t), about=(t,)) for t in others]
            out.append(s)
        return tuple(x for x in out if x.name != "split")

    def lines(self, at: dict[str, int], sizes: Mapping[str, int]) -> Named:
        *others, last = (dict(x.lines(at, dict(sizes))) for x in self.each)
        for n, lines in enumerate(others):
            keep = syntax.Keep(self.siblings.members[n].names[-1:], self.machine.register.name)
            last[_kept(n)] = (keep,)
            last |= {name: x for name, x in lines.items() if name not in last}
        return last


def _kept(n: int) -> str:
    return f"keep {n}"


def block_siblings(ctx: LoweringContext, machine: MachineModel, found: Siblings) -> Iterator[BlockSiblings]:
    """A nest for each way to compute the results."""
    of_each = [{_same(m): m for m in mappings(ctx, w)} for w in found.members]
    for m in mappings(ctx, found.whole):
        if m.refused or m.fuses or found.index not in (m.m, m.n):
            continue
        same = [ways.get(_same(m)) for ways in of_each]
        if any(x is None or x.refused for x in same):
            continue
        axis = "m" if found.index == m.m else "n"
        whole = _template(ctx, machine, m, found.count)
        along = (f"b{axis}", f"w{axis}", *(() if whole.by_group else (f"t{axis}",)))
        each = tuple(_template(ctx, machine, x) for x in same if x is not None)
        yield BlockSiblings(found, whole, each, along)


def _same(m: InstrMapping) -> tuple:
    return (m.instr.name if m.instr else "", m.fuses, m.of, m.m, m.n, m.k, m.batch, m.loops)


def _template(ctx: LoweringContext, machine: MachineModel, m: InstrMapping, results: int = 1) -> ContractionTemplate:
    problem = AccessProblem.of(m.computation, ctx.dtypes, ctx.device.computes)
    return ContractionTemplate(ctx, machine, m, problem, results=results)
