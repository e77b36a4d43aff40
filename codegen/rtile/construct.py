"""rTile: the lines of a launch of which the author said nothing, or only some.

Candidates are constructed for every way to lay the work out (`Nest`), costed all together in closed form, and the best is
written as schedule lines. For sizes that are open a candidate is judged at a spread of sizes, by the geometric mean of how much
slower than the best it is at each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...dsl import syntax
from ..lower.context import Context
from ..lower.work import Work
from .contraction import Contraction
from .cost import Cost, Demand, cost
from .machine import Machine
from .maps import maps
from .match import Mapping, mappings
from .problem import Problem
from .rows import rows
from .sizes import spread
from .tiles import Tiles, taken

FEW = 64  # candidates of a nest that are looked at one by one
SAME = 0.01  # what the model does not tell apart


class Nest(Protocol):
    """One way to lay a work out: its candidates, what they ask of the machine at given sizes, and one of them as lines."""

    @property
    def name(self) -> str: ...

    @property
    def problem(self) -> Problem: ...

    def candidates(self, sizes: list[dict[str, int]]) -> Tiles: ...

    def demand(self, t: Tiles, sizes: dict[str, int]) -> Demand: ...

    def lines(self, t: Tiles, i: int, sizes: dict[str, int]) -> tuple[syntax.Line, ...]: ...


@dataclass(frozen=True)
class Ranked:
    """Candidates of one nest with their costs at each set of sizes; `slower`: seconds over the best of all, geometric mean."""

    nest: Nest
    tiles: Tiles
    sizes: list[dict[str, int]]
    demands: list[Demand]
    costs: list[Cost]
    seconds: np.ndarray  # [sizes, candidates]


def ranked(ctx: Context, machine: Machine, works: tuple[Work, ...]) -> list[Ranked]:
    """All candidates of all nests, costed."""
    out = []
    problems = [Problem.of(w, ctx.dtypes) for w in works]
    for nest in nests(ctx, machine, works):
        envs = spread(problems, ctx.derived)
        sizes = [{a: n for p in (*problems, nest.problem) for a, n in p.sizes(e).items()} for e in envs]
        tiles = nest.candidates(sizes)
        if not len(next(iter(tiles.values()))):
            continue
        demands = [nest.demand(tiles, s) for s in sizes]
        costs = [cost(machine, d) for d in demands]
        out.append(Ranked(nest, tiles, sizes, demands, costs, np.stack([c.seconds for c in costs])))
    return out


def nests(ctx: Context, machine: Machine, works: tuple[Work, ...]) -> Iterator[Nest]:
    """The ways to lay a launch out."""
    problems = tuple(Problem.of(w, ctx.dtypes) for w in works)
    yield from rows(ctx, machine, works, problems)
    if len(works) == 1:
        yield from maps(ctx, machine, problems[0])
        for m in _undominated(machine, list(mappings(ctx, works[0]))):
            yield Contraction(ctx, machine, m, Problem.of(works[0], ctx.dtypes))


def _undominated(machine: Machine, found: list[Mapping]) -> list[Mapping]:
    """Legal mappings; of instructions that do the same tile the fastest, of those the deepest."""
    kept: dict[tuple, Mapping] = {}
    for m in found:
        if m.refused:
            continue
        level = m.instr.level if m.instr else ""
        key = (level, m.fuses, m.m, m.n, m.k, m.leaf[:2])
        if key not in kept or _rate(machine, m) > _rate(machine, kept[key]):
            kept[key] = m
    return list(kept.values())


def _rate(machine: Machine, m: Mapping) -> tuple[float, int]:
    if m.instr is None:
        return (0.0, 1)
    work = m.leaf[0] * m.leaf[1] * m.leaf[2]
    return (round(work / machine.instr_cycles(m.instr), 3), work)


def best(found: list[Ranked]) -> list[tuple[Ranked, int, float]]:
    """Candidates in order, the best first: (nest, number, how much slower than the best at each of the sizes)."""
    if not found:
        return []
    fastest = np.min([r.seconds.min(axis=1) for r in found], axis=0)
    weights = np.arange(1, len(fastest) + 1)  # the larger the sizes, the more time there is to lose
    out = []
    for r in found:
        with np.errstate(invalid="ignore"):
            slower = np.exp(np.average(np.log(r.seconds / fastest[:, None]), axis=0, weights=weights))
        threads = np.broadcast_to(r.demands[-1].groups, slower.shape) * r.costs[-1].resident
        order = np.argsort(slower, kind="stable")[:FEW]
        out += [(r, int(i), float(slower[i]), int(threads[i])) for i in order if np.isfinite(slower[i])]
    # what is as good within the model's precision: whatever it does not know of, more threads hide better
    least = min((slower for _, _, slower, _ in out), default=1.0)
    out.sort(key=lambda x: (int(np.log(x[2] / least) / SAME), -x[3], x[2]))
    return [(r, i, slower) for r, i, slower, _ in out]


def construct(ctx: Context, machine: Machine, works: tuple[Work, ...]) -> tuple[syntax.Line, ...] | None:
    """Lines for a launch; None where no nest is made for it."""
    order = best(ranked(ctx, machine, works))
    if not order:
        return None
    r, i, _ = order[0]
    return r.nest.lines(r.tiles, i, r.sizes[-1])


__all__ = ["Nest", "Ranked", "best", "construct", "nests", "ranked", "taken"]
