"""The candidates of a pass (`one_pass`), and the pass beside the launches apart.

CHOSEN      the pass is taken where it is predicted to take less time than the launches apart: at each of the sizes that
            candidates are judged at, where sizes are open. Both are in the report.
ALIKE       of candidates that the model cannot tell apart that with most resident threads is first, as for other nests.
MANY_ROWS   an open number of rows is more than an instruction has. For fewer rows launches apart deal the keys to blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...schedule.candidate import Candidate, Cost
from ..rank import SAME, Sizes, best_candidates, extents_at, mean_slowdown, rank_candidates, sample_sizes
from ..report import KEPT, CandidateReport, LaunchReport, launch_report
from .cost import GpuCost, ResourceUse, cost
from .one_pass import PassNest, pass_nest


@dataclass(frozen=True, eq=False)
class RankedPass:
    """The candidates of a pass, the best first (ALIKE). What they ask, and parts of the cost, are those at the largest sizes.

    seconds  [sizes, candidates]        slower   times the fastest, over all sizes        order   numbers of candidates
    """

    nest: PassNest
    tiles: dict[str, np.ndarray]
    sizes: Sizes
    demand: ResourceUse
    cost: GpuCost
    seconds: np.ndarray
    slower: np.ndarray
    order: tuple[int, ...]

    def tile(self, n: int) -> dict[str, int]:
        return {name: int(v[n]) for name, v in self.tiles.items()}

    def part_seconds(self, n: int) -> Cost:
        parts = {name: float(np.broadcast_to(v, self.cost.seconds.shape)[n]) for name, v in self.cost.parts.items()}
        return Cost(float(self.cost.seconds[n]), parts)


def rank_pass(ctx: LoweringContext, computations: tuple[Computation, ...]) -> RankedPass | None:
    """None where there is no pass, or none that fits (MANY_ROWS). Ranked once: to compare the pass with the launches apart, and
    for its candidates."""
    if computations not in ctx.ranked_passes:
        ctx.ranked_passes[computations] = _rank(ctx, computations, pass_nest(ctx, computations))
    return ctx.ranked_passes[computations]


def _rank(ctx: LoweringContext, computations: tuple[Computation, ...], nest: PassNest | None) -> RankedPass | None:
    if nest is None or nest.few_rows is not None:
        return None
    t, sizes = nest.tiles(), sample_sizes(ctx, computations)
    asked = [nest.demand(t, extents) for _, extents in sizes]
    costs = [cost(nest.machine, d) for d in asked]
    seconds = np.array([c.seconds for c in costs])
    some = np.flatnonzero(np.isfinite(seconds).all(axis=0))
    if not len(some):
        return None
    slower = np.full(seconds.shape[1], np.inf)
    slower[some] = mean_slowdown(seconds[:, some], seconds.min(axis=1))
    alike = (np.log(slower[some] / slower[some].min()) / SAME).astype(int)
    threads = (asked[-1].groups * costs[-1].resident)[some]
    order = tuple(int(n) for n in some[np.lexsort((slower[some], -threads, alike))])
    return RankedPass(nest, t, sizes, asked[-1], costs[-1], seconds, slower, order)


def fragment_pass_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    ranked = rank_pass(ctx, computations)
    if ranked is None:
        return []
    name = computations[-1].targets[0]
    return [
        Candidate(
            partial(ranked.nest.lines, ranked.tile(n)),
            ranked.part_seconds(n),
            "one pass " + " ".join(f"{x}={v}" for x, v in ranked.tile(n).items()),
            None,
            partial(_report, ranked, name, place),
        )
        for place, n in enumerate(ranked.order)
    ]


def _report(ranked: RankedPass, launch: str, place: int) -> LaunchReport:
    order = [ranked.order[place], *(n for n in ranked.order if n != ranked.order[place])]
    return _report_of(ranked, launch, len(order), tuple(_candidate(ranked, n) for n in order[:KEPT]))


# ---------------------------------------------------------------- beside the launches apart


@dataclass(frozen=True)
class ApartLaunch:
    """What is chosen for a launch apart. `seconds`: at each of the sizes that the pass is judged at."""

    report: CandidateReport
    seconds: np.ndarray


def apart_launch(ranked: RankedPass, ctx: LoweringContext, computations: tuple[Computation, ...]) -> ApartLaunch | None:
    """None where no candidate is made for the launch."""
    at = extents_at(ctx, computations, [env for env, _ in ranked.sizes])
    found = rank_candidates(ctx, computations, at=at)
    if not found:
        return None
    first = best_candidates(found)[0]
    r, i, _ = first
    report = launch_report(computations[-1].targets[0], found, [first])
    return ApartLaunch(report.candidates[0], r.seconds[:, i])


def compared(ranked: RankedPass, launch: str, apart: Sequence[ApartLaunch]) -> LaunchReport:
    """CHOSEN: the pass beside the launches apart, the faster one first."""
    together, reports = _candidate(ranked, ranked.order[0]), [x.report for x in apart]
    seconds, asked, moved = (sum(getattr(x, name) for x in reports) for name in ("seconds", "asked", "moved"))
    longest = max(reports, key=lambda x: x.seconds)
    parts = {f"{n}: {x.nest}": x.seconds for n, x in enumerate(reports, 1)}
    nests = f"apart: {len(apart)} launches", "one pass: 1 launch"
    several = replace(longest, nest=nests[0], seconds=seconds, asked=asked, moved=moved, parts=parts)
    both = np.array([np.sum([x.seconds for x in apart], axis=0), ranked.seconds[:, ranked.order[0]]]).T
    slower = mean_slowdown(both, both.min(axis=1))
    slower = slower / slower.min()
    rows = [replace(together, nest=nests[1], slower=float(slower[1])), replace(several, slower=float(slower[0]))]
    return _report_of(ranked, launch, 2, tuple(sorted(rows, key=lambda x: x.slower)))


def _report_of(ranked: RankedPass, launch: str, count: int, rows: tuple[CandidateReport, ...]) -> LaunchReport:
    machine, extents = ranked.nest.machine, [x for _, x in ranked.sizes]
    least = ranked.nest.least(extents[-1])
    return LaunchReport(launch, tuple(extents), count, least, machine.home.name, machine.staging.name, rows)


def _candidate(ranked: RankedPass, n: int) -> CandidateReport:
    machine, d = ranked.nest.machine, ranked.demand
    shape = ranked.cost.seconds.shape
    blocks, groups, registers, staged, near = (
        float(np.broadcast_to(x, shape)[n]) for x in (d.blocks, d.groups, d.registers, d.staged, d.l2_bytes)
    )
    resident = max(1, int(ranked.cost.resident[n]))
    most = machine.device.limit(f"resident {machine.lane.name}s") or machine.max_groups * machine.lanes
    found = ranked.part_seconds(n)
    tile = ranked.tile(n)
    rows = ranked.sizes[-1][1][ranked.nest.row]
    return CandidateReport(
        nest=f"one pass: {ranked.nest.first.instr.name}",
        tile=tile,
        slower=float(ranked.slower[n]),
        seconds=found.seconds,
        bound=found.bound,
        parts=found.parts,
        asked=near,
        served=float(np.broadcast_to(d.staging, shape)[n]) * blocks,
        moved=float(np.broadcast_to(d.dram_bytes, shape)[n]),
        blocks=blocks,
        waves=blocks / (machine.units * resident),
        resident=resident,
        occupancy=resident * groups * machine.lanes / most,
        busy=blocks / (machine.units * np.ceil(blocks / machine.units)),
        waste=1 - rows / (-(-rows // tile["bi"]) * tile["bi"]),
        registers=registers,
        held=staged,
    )
