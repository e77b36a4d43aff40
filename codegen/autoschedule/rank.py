"""rTile: the lines of a launch of which the author said nothing, or only some.

Candidates are constructed for every way to lay the work out (`Nest`), costed all together in closed form, and the best is
written as schedule lines. For sizes that are open a candidate is judged at a spread of sizes, by the geometric mean of how much
slower than the best it is at each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import Any, Protocol

import numpy as np

from ...dsl import syntax
from ..lower.lower_schedule import fused
from ..lower.lowering_context import Context
from ..lower.spec import ZERO, Focus, Range
from ..plan.computations import Work, work_extents
from ..schedule.schedule_fallback import Way
from . import instr_mappings
from .access_model import Problem
from .constraints import Named, Read, Slot, completed, read
from .gpu.contraction import Contraction
from .gpu.cost import Cost, Demand, cost
from .gpu.elementwise import maps
from .gpu.machine_model import Machine
from .gpu.materialised_operands import made_for
from .gpu.row_reductions import rows
from .gpu.traffic import Traffic
from .report import choice
from .sample_sizes import spread
from .tile_space import Tiles, columns, entry, floats, shape_of, taken

Lines = tuple[syntax.Line, ...]
AUTO: Lines = (syntax.AutoLine(),)
FEW = 64  # candidates of a nest that are looked at one by one
MANY = 1000  # candidates that are too many for those far off to be looked at in vain
AT_ONCE = 8192  # numbers of an array: some dozens of these fit the nearest caches
FAR_OFF = 3.0  # times the best at the largest sizes: no gain at smaller ones makes up for more
SAME = 0.01  # what the model does not tell apart


class Nest(Protocol):
    """One way to lay a work out: its candidates, what they ask of the machine at given sizes, and one of them as lines."""

    @property
    def name(self) -> str: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def problem(self) -> Problem: ...

    @property
    def slots(self) -> tuple[Slot, ...]: ...

    def least(self, sizes: dict[str, int]) -> float: ...  # seconds that any candidate takes, unless sizes of it are written

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles: ...

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> Demand: ...  # in floats; sizes: numbers, or `tiles.columns`

    def traffic(self, t: Tiles, sizes: Mapping[str, Any]) -> Traffic: ...

    def lines(self, at: dict[str, int], sizes: dict[str, int]) -> Named: ...


@dataclass(frozen=True)
class Ranked:
    """Candidates of one nest, by number, with their seconds at each set of sizes: infinite where they are no good. What they
    ask, and the parts of the cost, are those at the largest sizes.

    tiles    of shape `shape` together, whose places in order are the candidates' numbers
    seconds  [sizes, candidates]
    count    of candidates that were looked at, those that the author's lines rule out among them
    """

    nest: Nest
    written: Read
    tiles: Tiles
    shape: tuple[int, ...]
    sizes: list[dict[str, int]]
    demand: Demand
    cost: Cost
    seconds: np.ndarray
    count: int

    def table(self, numbers: Sequence[int] | np.ndarray, *fields: Any) -> np.ndarray:
        """Of candidates, a column each, what they have at the largest sizes of fields of the tiles, the demand or the cost."""
        at = (-1, *np.unravel_index(numbers, self.shape))
        out = np.empty((len(fields), len(numbers)))
        for row, x in enumerate(fields):
            out[row] = entry(x, at)
        return out

    def tile(self, i: int) -> dict[str, int]:
        """The sizes of a candidate by name."""
        return dict(zip(self.tiles, map(int, self.table([i], *self.tiles.values())[:, 0]), strict=True))

    def bound(self, i: int) -> str:
        """What takes longest."""
        return list(self.cost.parts)[int(self.table([i], *self.cost.parts.values()).argmax())]

    def traffic(self, numbers: Sequence[int] | np.ndarray) -> Traffic:
        tiles = self.table(numbers, *self.tiles.values())
        return self.nest.traffic(dict(zip(self.tiles, tiles, strict=True)), self.sizes[-1])


def ranked(ctx: Context, machine: Machine, works: tuple[Work, ...], lines: Lines = AUTO) -> list[Ranked]:
    """All candidates of all nests that the author's lines can be meant for, costed."""
    out: list[Ranked] = []
    limit, at = np.inf, judged_at(ctx, works)
    for nest in nests(ctx, machine, works, lines):
        found = costed(ctx, at, nest, lines, limit)
        if found is not None:
            out.append(found)
            limit = min(limit, FAR_OFF * found.seconds[-1].min())
    return out


Sizes = list[tuple[dict[str, int], dict[str, int]]]  # values of the op's sizes, and the extents of works that these make


def judged_at(ctx: Context, works: tuple[Work, ...]) -> Sizes:
    """The sizes that candidates for a launch are judged at, the largest last."""
    problems = [Problem.of(w, ctx.dtypes) for w in works]
    return [(e, {a: n for p in problems for a, n in p.sizes(e).items()}) for e in spread(problems, ctx.derived)]


def costed(ctx: Context, at: Sizes, nest: Nest, lines: Lines = AUTO, limit: float = np.inf) -> Ranked | None:
    """The candidates of a nest: if they are many at the largest sizes first, then those within the limit at the others. None:
    there are none within it."""
    sizes = [extents | nest.problem.sizes(e) for e, extents in at]
    if lines == AUTO and nest.least(sizes[-1]) > limit:
        return None
    written = Read(autos=[0]) if lines == AUTO else read(ctx.device, nest.slots, _heads(lines)[1])
    if written is None:
        return None
    tiles = nest.candidates(sizes, written.fixed)
    count = prod(shape_of(tiles))
    if count and (written.fixed or written.asked):
        tiles = taken(tiles, _meant(tiles, written))
    shape = shape_of(tiles)
    if not prod(shape):
        return None
    first = len(sizes) - 1 if prod(shape) > MANY else 0
    t = floats(tiles)
    demand = nest.demand(t, columns(sizes[first:], len(shape)))
    found = cost(nest.machine, demand)
    largest = found.seconds[-1]
    near = (largest <= min(limit, FAR_OFF * largest.min())) & np.isfinite(largest)
    if not near.any():
        return None
    far = np.where(near, 0.0, np.inf)
    seconds = np.full((len(sizes), *shape), np.inf)
    seconds[first:] = found.seconds + far
    if first:
        others = columns(sizes[:first], len(shape))
        some = np.flatnonzero(near.any(axis=tuple(range(near.ndim - 1))))
        for part in np.array_split(some, 1 + len(some) * (near.size // shape[-1]) * first // AT_ONCE):
            at_others = cost(nest.machine, nest.demand(taken(t, part), others), found.resident.take(part, axis=-1)).seconds
            seconds[:first, ..., part] = at_others + far.take(part, axis=-1)
    return Ranked(nest, written, tiles, shape, sizes, demand, found, seconds.reshape(len(sizes), -1), count)


def _meant(tiles: Tiles, written: Read) -> np.ndarray:
    """Which tiles have the sizes that are written, and those that are asked for."""
    out: Any = np.ones(shape_of(tiles)[-1], bool)
    for name, n in written.fixed.items():
        out = out & (tiles.get(name, n) == n)
    for name in written.asked:
        out = out & (tiles[name] > 0)
    return out.reshape(-1)


def meant(ctx: Context, machine: Machine, works: tuple[Work, ...], lines: Lines) -> bool:
    """Is there a nest that the author's lines can be meant for, whether or not it fits?"""
    return any(read(ctx.device, nest.slots, _heads(lines)[1]) is not None for nest in nests(ctx, machine, works, lines))


def _heads(lines: Lines) -> tuple[tuple[syntax.Fuse, ...], Lines]:
    """The lines that fuse indices, which come first, and the others."""
    heads = tuple(takewhile(lambda x: isinstance(x, syntax.Fuse), lines))
    return heads, lines[len(heads) :]  # type: ignore[return-value]


def nests(ctx: Context, machine: Machine, works: tuple[Work, ...], lines: Lines = AUTO) -> Iterator[Nest]:
    """The ways to lay a launch out; with an instruction that the author named, only those that use it."""
    whole = works
    for line in _heads(lines)[0]:
        ranges = {i: Range(ZERO, e) for w in works for i, e in work_extents(w).items() if i in w.all_indices}
        works = fused(Focus(works, ranges, ctx.outermost, ctx.outermost, {}), line).works
    problems = tuple(Problem.of(w, ctx.dtypes) for w in works)
    made = made_for(works)
    if made:
        works, whole = works[-1:], whole[-1:]
    else:
        yield from rows(ctx, machine, works, problems)
        if len(works) == 1:
            yield from maps(ctx, machine, problems[0])
    if len(works) == 1:
        named = {x.instr for x in lines if isinstance(x, syntax.Compute) and not isinstance(x.instr, syntax.Auto)}
        found = instr_mappings.mappings(ctx, works[0])
        meant = (m for m in found if not named or named & ({m.instr.name, m.instr.family} if m.instr else {None}))
        for m in _undominated(machine, list(meant)):
            nest = Contraction(ctx, machine, m, Problem.of(whole[0], ctx.dtypes), made)
            if nest.makes_all:
                yield nest


def _undominated(machine: Machine, found: list[instr_mappings.Mapping]) -> list[instr_mappings.Mapping]:
    """Legal mappings; of instructions that do the same tile the fastest, of those the deepest; instructions of groups first."""
    kept: dict[tuple, instr_mappings.Mapping] = {}
    fused = {i for m in found for f in m.fuses for i in f.indices if not m.refused}
    near = {a.fast for m in found[:1] for a in Problem.of(m.work, {}).reads}
    for m in sorted(found, key=lambda m: m.instr is None):
        if m.refused or (fused & {m.m, m.n} - near and m.batch):
            continue  # or some of what could be fused is left apart, without neighbours
        level = m.instr.level if m.instr else ""
        key = (level, m.fuses, m.m, m.n, m.k, m.leaf[:2])
        if key not in kept or _rate(machine, m) > _rate(machine, kept[key]):
            kept[key] = m
    return list(kept.values())


def _rate(machine: Machine, m: instr_mappings.Mapping) -> tuple[float, int]:
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
    named, columns = [], []
    for r in found:
        some = np.flatnonzero(np.isfinite(r.seconds[-1]))
        slower = np.exp(
            (weights[:, None] * np.log(r.seconds.take(some, axis=1) / fastest[:, None])).sum(axis=0) / weights.sum()
        )
        least = _least(slower, FEW)
        table = r.table(some[least], r.demand.groups, r.cost.resident, r.demand.run, r.demand.blocks)
        columns.append(np.vstack([slower[least], table]))
        named += [(r, i) for i in some[least].tolist()]
    # What is as good within the model's precision: whatever it does not know of, more threads hide better. Of what is just the
    # same, mirror images for one, that which stores longer rows, then the one of fewer blocks.
    slower, groups, resident, run, blocks = np.concatenate(columns, axis=1)
    alike = (np.log(slower / slower.min()) / SAME).astype(int)
    digits = [round(x, 6) for x in slower.tolist()]
    order = np.lexsort((blocks, -run, digits, -groups * resident, alike))
    return [(*named[n], float(slower[n])) for n in order]


def _least(values: np.ndarray, count: int) -> np.ndarray:
    """Places of the least values in order, those alike by place."""
    if len(values) <= count:
        return np.argsort(values, kind="stable")
    some = np.flatnonzero(~(values > np.partition(values, count - 1)[count - 1]))  # what is no number comes last
    return some[np.argsort(values[some], kind="stable")][:count]


def construct(ctx: Context, machine: Machine, works: tuple[Work, ...], lines: Lines = AUTO) -> Iterator[Way]:
    """Ways to do a launch, the author's lines among them, the best first; none where no nest is made for it."""
    found = ranked(ctx, machine, works, lines)
    order = best(found)
    for n in _varied(order):
        r, i, _ = order[n]
        about = f"{r.nest.name}: {r.nest}"
        yield Way(lines_of(r, i, lines), about, choice(works[-1].targets[0], found, [order[n], *order[:n], *order[n + 1 :]]))


def _varied(order: list[tuple[Ranked, int, float]]) -> list[int]:
    """Places in the order: the best of each nest first, as what one of a nest lacks the others may lack, too."""
    firsts = {id(r): n for n, (r, _, _) in reversed(list(enumerate(order)))}
    return [*sorted(firsts.values()), *(n for n in range(len(order)) if n not in firsts.values())]


def lines_of(r: Ranked, i: int, lines: Lines = AUTO) -> Lines:
    """A candidate as lines, the author's among them."""
    at = r.tile(i)
    chosen = r.nest.lines(at, r.sizes[-1])
    heads, rest = _heads(lines)
    return (*heads, *completed(r.nest.slots, rest, r.written, chosen, at))
