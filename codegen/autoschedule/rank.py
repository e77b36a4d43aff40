"""rTile: chooses the schedule of a launch whose lines are missing, or missing in part.

Candidates are constructed for every kind of nest (`NestModel`) and costed together in closed form. The best one is written as
schedule lines. For open sizes a candidate is judged at several sizes, by the geometric mean of its times over the best times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from math import prod
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from ...dsl import syntax
from ..lower.lowering_context import LoweringContext
from ..lower.tiling.fuse_indices import fused_computations
from ..plan.computations import Computation
from ..schedule.candidate import Candidate, Cost, Description, Lines
from . import instr_mappings
from .access_model import AccessProblem
from .carried.block_loops import carried_loops
from .constraints import Named, ParsedConstraints, Slot, merged_lines, parse_constraints
from .gpu.computed_operands import operand_computations
from .gpu.contraction import ContractionTemplate
from .gpu.cost import GpuCost, ResourceUse, TileTraffic, blocks_with_spills, cost
from .gpu.elementwise import elementwise_templates, together_templates
from .gpu.passes.lane_pass import lane_passes
from .gpu.passes.one_pass import product_passes
from .gpu.row_reductions import row_templates
from .line_builders import is_all_open
from .machine_model import MachineModel, block_machine
from .made_in_tile.block_products import products_templates
from .made_in_tile.block_template import pair_templates
from .one_pass.find_pass import product_of_product
from .report import launch_report
from .representative_sizes import representative_sizes
from .row_parts.row_pass import row_passes
from .siblings.block_siblings import block_siblings
from .siblings.find_siblings import siblings_of
from .tile_space import Tiles, as_floats, columns, entry_at, select_tiles, tiles_shape

AUTO: Lines = (syntax.AutoLine(),)
FEW = 64  # candidates: of a nest that are compared one by one [limit]
MANY = 1000  # candidates: beyond it only those near the best are costed at smaller sizes [limit]
AT_ONCE = 8192  # numbers: of an array, some dozens of which fit the inner caches [limit]
# times: the best at the largest sizes; no gain at smaller sizes makes up for more [estimate;
# test_what_is_far_off_at_the_largest_sizes_is_out]
FAR_OFF = 3.0
SAME = 0.01  # log of times: candidates within it count as equal, the precision of the model [estimate; test_first_candidates]


class NestModel(Protocol):
    """One way to lay a computation out: its candidates, what they ask of the machine at given sizes, and one of them as
    lines."""

    @property
    def name(self) -> str: ...

    @property
    def machine(self) -> MachineModel: ...

    @property
    def problem(self) -> AccessProblem: ...

    @property
    def slots(self) -> tuple[Slot, ...]: ...

    def least(self, sizes: dict[str, int]) -> float: ...  # seconds that any candidate takes, unless sizes of it are written

    def candidates(self, sizes: list[dict[str, int]], fixed: Mapping[str, int]) -> Tiles: ...

    def demand(self, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse: ...  # in floats; sizes: numbers, or `tiles.columns`

    def traffic(self, t: Tiles, sizes: Mapping[str, Any], demand: ResourceUse) -> TileTraffic: ...  # of tiles with this demand

    def lines(self, at: dict[str, int], sizes: dict[str, int]) -> Named: ...


@dataclass(frozen=True, eq=False)
class RankedCandidates:
    """Candidates of one nest, by number, with their seconds at each set of sizes: infinite where they are no good. What they
    ask, and the parts of the cost, are those at the largest sizes.

    tiles    of shape `shape` together, whose places in order are the candidates' numbers
    seconds  [sizes, candidates]
    count    of candidates that were looked at, those that the author's lines rule out among them
    """

    nest: NestModel
    written: ParsedConstraints
    tiles: Tiles
    shape: tuple[int, ...]
    sizes: list[dict[str, int]]
    demand: ResourceUse
    cost: GpuCost
    seconds: np.ndarray
    count: int

    def table(self, numbers: Sequence[int] | np.ndarray, *fields: Any) -> np.ndarray:
        """Of candidates, a column each, what they have at the largest sizes of fields of the tiles, the demand or the cost."""
        at = (-1, *np.unravel_index(numbers, self.shape))
        out = np.empty((len(fields), len(numbers)))
        for row, x in enumerate(fields):
            out[row] = entry_at(x, at)
        return out

    def tile(self, i: int) -> dict[str, int]:
        """The sizes of a candidate by name."""
        return dict(zip(self.tiles, map(int, self.table([i], *self.tiles.values())[:, 0]), strict=True))

    def costs(self, numbers: Sequence[int]) -> dict[int, tuple[dict[str, int], Cost]]:
        """Of candidates by number, the sizes by name, and the cost at the largest sizes."""
        tiles, parts = (self.table(numbers, *x.values()).T.tolist() for x in (self.tiles, self.cost.parts))
        return {
            i: (
                dict(zip(self.tiles, map(int, tile), strict=True)),
                Cost(float(self.seconds[-1, i]), dict(zip(self.cost.parts, part, strict=True))),
            )
            for i, tile, part in zip(numbers, tiles, parts, strict=True)
        }

    def demands(self, numbers: Sequence[int] | np.ndarray) -> ResourceUse:
        """What candidates ask at the largest sizes."""
        return ResourceUse(*self.table(numbers, *vars(self.demand).values()))

    def traffic(self, numbers: Sequence[int] | np.ndarray) -> TileTraffic:
        tiles = self.table(numbers, *self.tiles.values())
        return self.nest.traffic(dict(zip(self.tiles, tiles, strict=True)), self.sizes[-1], self.demands(numbers))


def rank_candidates(
    ctx: LoweringContext,
    computations: tuple[Computation, ...],
    lines: Lines = AUTO,
    at: Sizes | None = None,
    spilled: bool = False,
    limit: float = np.inf,
    largest: bool = False,
) -> list[RankedCandidates]:
    """All candidates of all nests that the author's lines can be meant for, costed. `at`: the sizes that they are judged at;
    `spilled`, `largest`: as for `rank_nest`; `limit`: seconds at the largest sizes, beyond which none is wanted."""
    out: list[RankedCandidates] = []
    at = sample_sizes(ctx, computations) if at is None else at
    for nest in applicable_nests(ctx, computations, lines):
        found = rank_nest(ctx, at, nest, lines, limit, spilled=spilled, largest=largest)
        if found is not None:
            out.append(found)
            limit = min(limit, FAR_OFF * found.seconds[-1].min())
    return out


Sizes = list[tuple[dict[str, int], dict[str, int]]]  # values of the op's sizes, and the extents of computations that these make


def sample_sizes(ctx: LoweringContext, computations: tuple[Computation, ...]) -> Sizes:
    """The sizes that candidates for a launch are judged at, the largest last."""
    problems = [AccessProblem.of(w, ctx.dtypes) for w in computations]
    return extents_at(ctx, computations, representative_sizes(problems, ctx.derived, ctx.has_statistics))


def extents_at(ctx: LoweringContext, computations: tuple[Computation, ...], sizes: Iterable[dict[str, int]]) -> Sizes:
    """Values of the op's sizes, each with the extents of these computations."""
    problems = [AccessProblem.of(w, ctx.dtypes) for w in computations]
    return [(e, {a: n for p in problems for a, n in p.sizes(e).items()}) for e in sizes]


def rank_nest(
    ctx: LoweringContext,
    at: Sizes,
    nest: NestModel,
    lines: Lines = AUTO,
    limit: float = np.inf,
    far_off: float = FAR_OFF,
    spilled: bool = False,
    largest: bool = False,
) -> RankedCandidates | None:
    """The candidates of a nest: if they are many at the largest sizes first, then those within the limit at the others. None:
    there are none within it.

    far_off   times: as long as the best, that others may take
    spilled   also those for which the model would have more registers than there are
    largest   their seconds at the largest sizes are all that is asked: the others are infinite
    """
    sizes = [e | extents | nest.problem.sizes(e) for e, extents in at]  # domains depend on the op's own sizes, too
    if lines == AUTO and nest.least(sizes[-1]) > limit:
        return None
    written = parse_constraints(ctx.device, nest.slots, _heads(lines)[1])
    if written is None:
        return None
    tiles = nest.candidates(sizes, written.fixed)
    count = prod(tiles_shape(tiles))
    if count and (written.fixed or written.auto_sizes):
        tiles = select_tiles(tiles, _realisable(tiles, written))
    shape = tiles_shape(tiles)
    if not prod(shape):
        return None
    first = len(sizes) - 1 if largest or prod(shape) > MANY else 0
    t = as_floats(tiles)
    demand = nest.demand(t, columns(sizes[first:], len(shape)))
    found = cost(nest.machine, demand, blocks_with_spills(nest.machine, demand) if spilled else None)
    longest = found.seconds[-1]
    near = (longest <= min(limit, far_off * longest.min())) & np.isfinite(longest)
    if not near.any():
        return None
    far = np.where(near, 0.0, np.inf)
    seconds = np.full((len(sizes), *shape), np.inf)
    seconds[first:] = found.seconds + far
    if first and not largest:
        others = columns(sizes[:first], len(shape))
        some = np.flatnonzero(near.any(axis=tuple(range(near.ndim - 1))))
        for part in np.array_split(some, 1 + len(some) * (near.size // shape[-1]) * first // AT_ONCE):
            at_others = cost(
                nest.machine, nest.demand(select_tiles(t, part), others), found.resident.take(part, axis=-1)
            ).seconds
            seconds[:first, ..., part] = at_others + far.take(part, axis=-1)
    return RankedCandidates(nest, written, tiles, shape, sizes, demand, found, seconds.reshape(len(sizes), -1), count)


def _realisable(tiles: Tiles, written: ParsedConstraints) -> np.ndarray:
    """Which tiles have the sizes that are written, and those that are asked for."""
    out: Any = np.ones(tiles_shape(tiles)[-1], bool)
    for name, n in written.fixed.items():
        same = tiles.get(name, n) == n
        out = out & (np.all(same) if np.ndim(same) > 1 else same)  # what goes with every tile is as it is written, or never
    for name in written.auto_sizes:
        out = out & (tiles[name] > 0)
    return out.reshape(-1)


def meant(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Is there a nest that the author's lines can be meant for, whether or not it fits?"""
    return any(
        parse_constraints(ctx.device, nest.slots, _heads(lines)[1]) is not None
        for nest in applicable_nests(ctx, computations, lines)
    )


def _heads(lines: Lines) -> tuple[tuple[syntax.Fuse, ...], Lines]:
    """The lines that fuse indices, which come first, and the others."""
    heads = tuple(takewhile(lambda x: isinstance(x, syntax.Fuse), lines))
    return heads, lines[len(heads) :]  # type: ignore[return-value]


def applicable_nests(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines = AUTO) -> Iterator[NestModel]:
    """The ways to lay a launch out; with an instruction that the author named, only those that use it."""
    machine, whole = block_machine(ctx.device), computations
    if machine is None:
        return
    for line in _heads(lines)[0]:
        computations = fused_computations(computations, line)
    own = ctx.device.computes
    problems = tuple(AccessProblem.of(w, ctx.dtypes, own) for w in computations)
    chain = product_of_product(computations) if is_all_open(lines) else None
    by_instr = product_passes(ctx, computations, chain) if chain is not None else ()
    yield from by_instr or lane_passes(ctx, chain)
    if by_instr:
        yield from products_templates(ctx, machine, computations)
        return
    products = list(products_templates(ctx, machine, computations)) if is_all_open(lines) else []
    yield from products
    pairs = pair_templates(ctx, machine, computations, problems)
    yield from pairs
    made = operand_computations(computations, own)
    if (chain is not None or products) and not made:
        return
    siblings, named = siblings_of(computations), _named_instrs(lines)
    if siblings is not None:
        yield from (x for x in block_siblings(ctx, machine, siblings) if _uses(x.whole.mapping, named))
        return
    if made:
        computations, whole = computations[-1:], whole[-1:]
    elif not pairs:
        yield from row_templates(ctx, machine, computations, problems)
        yield from row_passes(ctx, machine, computations, problems, not is_all_open(lines))
        yield from together_templates(ctx, machine, problems) if len(computations) > 1 else ()
        if len(computations) == 1:
            yield from elementwise_templates(ctx, machine, problems[0])
            yield from carried_loops(ctx, machine, problems[0]) if is_all_open(lines) else ()
    if len(computations) == 1:
        meant = (m for m in instr_mappings.mappings(ctx, computations[0]) if _uses(m, named))
        for m in _undominated(machine, list(meant)):
            nest = ContractionTemplate(ctx, machine, m, AccessProblem.of(whole[0], ctx.dtypes, own), made)
            if nest.materialises_all:
                yield nest


def _named_instrs(lines: Lines) -> set[str | None]:
    return {x.instr for x in lines if isinstance(x, syntax.Compute) and not isinstance(x.instr, syntax.Auto)}


def _uses(m: instr_mappings.InstrMapping, named: set[str | None]) -> bool:
    return not named or bool(named & ({m.instr.name, m.instr.family} if m.instr else {None}))


def _undominated(machine: MachineModel, found: list[instr_mappings.InstrMapping]) -> list[instr_mappings.InstrMapping]:
    """Legal mappings; of instructions that do the same tile the fastest, of those the deepest; instructions of groups first."""
    kept: dict[tuple, instr_mappings.InstrMapping] = {}
    fused = {i for m in found for f in m.fuses for i in f.indices if not m.refused}
    near = {a.fast for m in found[:1] for a in AccessProblem.of(m.computation, {}).reads}
    for m in sorted(found, key=lambda m: m.instr is None):
        if m.refused or (fused & {m.m, m.n} - near and m.batch):
            continue  # or some of what could be fused is left apart, without neighbours
        level = m.instr.level if m.instr else ""
        key = (level, m.fuses, m.m, m.n, m.k, m.leaf[:2])
        if key not in kept or machine.instr_speed(m.instr) > machine.instr_speed(kept[key].instr):
            kept[key] = m
    return list(kept.values())


def best_candidates(found: list[RankedCandidates]) -> list[tuple[RankedCandidates, int, float]]:
    """Candidates in order, the best first: (nest, number, how much slower than the best at each of the sizes)."""
    if not found:
        return []
    fastest = np.min([r.seconds.min(axis=1) for r in found], axis=0)
    named, columns = [], []
    for r in found:
        some = np.flatnonzero(np.isfinite(r.seconds[-1]))
        slower = mean_slowdown(r.seconds.take(some, axis=1), fastest)
        least = _least(slower, FEW)
        table = r.table(some[least], r.demand.groups, r.cost.resident, r.demand.run, r.demand.blocks, r.demand.operands)
        columns.append(np.vstack([slower[least], table]))
        named += [(r, i) for i in some[least].tolist()]
    # What is as good within the model's precision: whatever it does not know of, more threads hide better. Of what is just the
    # same, mirror images for one, that whose groups read fewer elements, then that of longer rows, then that of fewer blocks.
    slower, groups, resident, run, blocks, operands = np.concatenate(columns, axis=1)
    alike = (np.log(slower / slower.min()) / SAME).astype(int)
    digits = [round(x, 6) for x in slower.tolist()]
    order = np.lexsort((blocks, -run, operands, digits, -groups * resident, alike))
    return [(*named[n], float(slower[n])) for n in order]


def mean_slowdown(seconds: np.ndarray, fastest: np.ndarray) -> np.ndarray:
    """How many times the fastest, of candidates [sizes, candidates]: the geometric mean over the sizes."""
    weights = np.arange(1, len(fastest) + 1)  # the larger the sizes, the more time there is to lose
    return np.exp((weights[:, None] * np.log(seconds / fastest[:, None])).sum(axis=0) / weights.sum())


def _least(values: np.ndarray, count: int) -> np.ndarray:
    """Places of the least values in order, those alike by place."""
    if len(values) <= count:
        return np.argsort(values, kind="stable")
    some = np.flatnonzero(~(values > np.partition(values, count - 1)[count - 1]))  # what is no number comes last
    return some[np.argsort(values[some], kind="stable")][:count]


def block_candidates(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines = AUTO) -> list[Candidate]:
    """Candidates for a launch, the author's lines among them, the best first; none where no nest is made for it."""
    return candidates_of(rank_candidates(ctx, computations, lines), computations[-1].targets[0], lines)


def tight_candidates(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> list[Candidate]:
    """The same where registers are short by the model. It counts those for addresses and loads in flight, which a compiler may
    do without; what lines hold in registers is checked when they are lowered."""
    return candidates_of(rank_candidates(ctx, computations, lines, spilled=True), computations[-1].targets[0], lines)


def candidates_of(found: list[RankedCandidates], launch: str, lines: Lines = AUTO) -> list[Candidate]:
    """Ranked candidates for a launch, the author's lines among them, the best first."""
    return _made(found, best_candidates(found), launch, lines)


def every_candidate(found: list[RankedCandidates], launch: str) -> list[Candidate]:
    """All candidates that fit, the fastest at the largest sizes first."""
    fit = [(r, int(i), float(r.seconds[-1, i])) for r in found for i in np.flatnonzero(np.isfinite(r.seconds[-1]))]
    order = sorted(fit, key=itemgetter(2))
    return _made(found, [(r, i, x / order[0][2]) for r, i, x in order], launch, AUTO)


def _made(
    found: list[RankedCandidates], order: list[tuple[RankedCandidates, int, float]], launch: str, lines: Lines
) -> list[Candidate]:
    costs = {r: cache(partial(r.costs, [i for x, i, _ in order if x is r])) for r in found}  # of all, once one is asked for
    reports = (partial(_report, launch, found, order, n) for n in range(len(order)))
    return [
        Candidate(partial(lines_of, r, i, lines), partial(_description, r, i, costs[r]), r.nest, report)
        for (r, i, _), report in zip(order, reports, strict=True)
    ]


def _description(r: RankedCandidates, i: int, costs: Callable[[], dict[int, tuple[dict[str, int], Cost]]]) -> Description:
    tile, cost = costs()[i]
    about = f"{r.nest.name} " + " ".join(f"{name}={x}" for name, x in tile.items())
    return Description(cost, about, tile)


def _report(launch: str, found: list[RankedCandidates], order: list[tuple[RankedCandidates, int, float]], n: int):
    """Of the candidate with that number, the others after it."""
    return launch_report(launch, found, [order[n], *order[:n], *order[n + 1 :]])


def lines_of(r: RankedCandidates, i: int, lines: Lines = AUTO) -> Lines:
    """A candidate as lines, the author's among them."""
    at = r.tile(i)
    merged = merged_lines(r.nest.machine.device, r.written.placement, r.nest.lines(at, r.sizes[-1]), at)
    return (*_heads(lines)[0], *(line for _, line in merged))
