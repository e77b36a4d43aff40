"""The candidates of a pass (`one_pass`), and the pass beside the launches apart.

CHOSEN      the pass is taken where it is predicted to take less time than the launches apart: at each of the sizes that
            candidates are judged at, where sizes are open. If both are predicted alike, it is taken for its fewer launches:
            what these cost the host is not in the model. Both are in the report.
FUSED       where a block has room for more rows than the last index has, the indices of rows that share keys are one. An
            author's lines may have them apart.
MANY_ROWS   an open number of rows is more than an instruction has, or never is: fewer rows have parts of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .....dsl.support.fast_replace import replace
from ....lower.lowering_context import LoweringContext
from ....plan.computations import Computation
from ....schedule.candidate import Candidate
from ...one_pass.find_pass import one_pass_of
from ...one_pass.fused_rows import with_fused_rows
from ...rank import (
    FAR_OFF,
    RankedCandidates,
    Sizes,
    best_candidates,
    candidates_of,
    every_candidate,
    extents_at,
    mean_slowdown,
    rank_candidates,
    rank_nest,
    sample_sizes,
)
from ...report import CandidateReport, LaunchReport, launch_report
from .lane_pass import LanePass, lane_passes
from .one_pass import FragmentPass, fragment_passes
from .reduced_product import ReducedProduct, reduced_products

PassNest = FragmentPass | LanePass | ReducedProduct

# times: as long as launches apart, that a pass is predicted to take at most [estimate; test_alike_the_pass_is_taken]
ALIKE = 1.03
BEFORE = "operands before a pass"  # a pass beside launches that convert its operands, in a report


def pass_nests(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[PassNest, ...]:
    """How a pass is laid out, then with FUSED rows. Empty: there is no pass."""
    own = _nests(ctx, computations)
    are_few = bool(own) and own[0].most[own[0].row] <= own[0].least_of_block()
    fused = with_fused_rows(ctx, computations) if are_few else None
    return own if fused is None else (*own, *_nests(ctx, fused))


def _nests(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[PassNest, ...]:
    """By instructions for both products; by lanes where these have more rows than there are, or there are none. Without a
    product over the keys, that of the scores."""
    found = fragment_passes(ctx, computations)
    if found and found[-1].most[found[-1].row] >= found[-1].rows_of_call:
        return found
    whole = one_pass_of(computations)
    return (*found, *lane_passes(ctx, whole), *reduced_products(ctx, whole))


def rank_pass(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[RankedCandidates]:
    """Empty where there is no pass, or none that fits (MANY_ROWS). Ranked once: to compare the pass with the launches apart,
    and for its candidates."""
    if computations not in ctx.ranked_passes:
        nests = [x for x in pass_nests(ctx, computations) if x.few_rows is None or x.are_few]
        fused = [x for x in nests if x.fuses]
        ctx.ranked_passes[computations] = _ranked(ctx, computations, fused or nests, FAR_OFF)
    return ctx.ranked_passes[computations]


def _ranked(
    ctx: LoweringContext, computations: tuple[Computation, ...], nests: Iterable[PassNest], far_off: float
) -> list[RankedCandidates]:
    at = sample_sizes(ctx, computations)
    return [r for nest in nests if (r := rank_nest(ctx, at, nest, far_off=far_off)) is not None]


def every_pass_candidate(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """The candidates of the pass that fit, also those that are slow: an author may have written their sizes. An author may also
    write the lines of a pass where rows may be few (MANY_ROWS): it is right for those, too."""
    if computations not in ctx.whole_passes:
        ranked = _ranked(ctx, computations, pass_nests(ctx, computations), np.inf)
        ctx.whole_passes[computations] = every_candidate(ranked, computations[-1].targets[0])
    return ctx.whole_passes[computations]


def pass_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """Those in parts of the keys are left out where one launch is predicted to be ALIKE."""
    ranked = rank_pass(ctx, computations)
    whole = [x for r in ranked if (x := _some(r, False)) is not None]
    alike = whole and _best(whole) <= ALIKE * _best(ranked)
    return candidates_of(whole if alike else ranked, computations[-1].targets[0])


def _best(ranked: list[RankedCandidates]) -> float:
    """Seconds at the largest sizes."""
    return min(float(r.seconds[-1].min()) for r in ranked)


# ---------------------------------------------------------------- beside the launches apart


@dataclass(frozen=True)
class ChosenLaunch:
    """What is chosen for a launch: its report, of which it is the first candidate, and its seconds at each of the sizes."""

    report: LaunchReport
    seconds: np.ndarray

    @property
    def candidate(self) -> CandidateReport:
        return self.report.candidates[0]


def chosen_launch(launch: str, found: list[RankedCandidates]) -> ChosenLaunch:
    """The best of ranked candidates."""
    first = best_candidates(found)[0]
    r, i, _ = first
    return ChosenLaunch(launch_report(launch, found, [first]), r.seconds[:, i])


def apart_launch(ctx: LoweringContext, computations: tuple[Computation, ...], at: Sizes) -> ChosenLaunch | None:
    """None where no candidate is made for the launch. `at`: the sizes that the pass is judged at."""
    ranked = rank_pass(ctx, computations) if one_pass_of(computations) is not None else []
    found = ranked or rank_candidates(ctx, computations, at=at)
    return chosen_launch(computations[-1].targets[0], found) if found else None


def apart_launches(
    launches: Iterable[tuple[Computation, ...]], new: Callable[[], LoweringContext], judged: list[dict[str, int]]
) -> list[ChosenLaunch] | None:
    """Each by itself, in a context of its own; None where no candidate is made for one of them."""
    out = []
    for computations in launches:
        ctx = new()
        launch = apart_launch(ctx, computations, extents_at(ctx, computations, judged))
        if launch is None:
            return None
        out.append(launch)
    return out


def compared(ranked: list[RankedCandidates], launch: str, apart: Iterable[Sequence[ChosenLaunch]]) -> LaunchReport:
    """CHOSEN: the pass, whole and in parts, beside ways to have more launches, the fastest first."""
    ways = {"one pass: 1 launch": False, "one pass in parts of the keys: 2 launches": True}
    halves = {name: [x for r in ranked if (x := _some(r, parts)) is not None] for name, parts in ways.items()}
    passes = {name: chosen_launch(launch, some) for name, some in halves.items() if some}
    return side_by_side(passes, {_named(launches): launches for launches in apart}, ALIKE)


def _some(r: RankedCandidates, parts: bool) -> RankedCandidates | None:
    """The candidates with parts of the keys, or those without; None where none of them fits."""
    seconds = np.where((r.tiles["part"].reshape(-1) > 0) == parts, r.seconds, np.inf)
    return replace(r, seconds=seconds) if np.isfinite(seconds[-1]).any() else None


def _named(launches: Sequence[ChosenLaunch]) -> str:
    before = any(x.candidate.nest.startswith("one pass") for x in launches)
    return f"{BEFORE if before else 'apart'}: {len(launches)} launches"


def side_by_side(
    together: Mapping[str, ChosenLaunch], apart: Mapping[str, Sequence[ChosenLaunch]], alike: float
) -> LaunchReport:
    """Ways to compute several computations together beside launches apart, by name: the fastest first.

    alike   times: as long as the launches apart, that those together may take to be preferred
    """
    every = {**together, **{name: in_turn(name, launches) for name, launches in apart.items()}}
    seconds = np.array([x.seconds for x in every.values()]).T
    slower = mean_slowdown(seconds, seconds.min(axis=1))
    slower = slower / slower.min()
    rows = [replace(x.candidate, nest=way, slower=float(n)) for (way, x), n in zip(every.items(), slower, strict=True)]
    report = next(iter(together.values())).report
    order = sorted(rows, key=lambda x: x.slower if x.nest in together else x.slower * alike)
    return replace(report, count=len(rows), candidates=tuple(order))


def in_turn(name: str, launches: Sequence[ChosenLaunch]) -> ChosenLaunch:
    """Launches one after another as one."""
    reports = [x.candidate for x in launches]
    seconds, asked, moved = (sum(getattr(x, what) for x in reports) for what in ("seconds", "asked", "moved"))
    longest = max(launches, key=lambda x: x.candidate.seconds)
    parts = {f"{n}: {x.nest}": x.seconds for n, x in enumerate(reports, 1)}
    every = replace(longest.candidate, nest=name, seconds=seconds, asked=asked, moved=moved, parts=parts)
    return ChosenLaunch(replace(longest.report, candidates=(every,)), np.sum([x.seconds for x in launches], axis=0))
