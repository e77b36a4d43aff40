"""The candidates of a pass (`one_pass`), and the pass beside the launches apart.

CHOSEN      the pass is taken where it is predicted to take less time than the launches apart: at each of the sizes that
            candidates are judged at, where sizes are open. If both are predicted alike, it is taken for its fewer launches:
            what these cost the host is not in the model. Both are in the report.
MANY_ROWS   an open number of rows is more than an instruction has, or never is: fewer rows have parts of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...schedule.candidate import Candidate
from ..one_pass.find_pass import one_pass_of
from ..rank import (
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
from ..report import CandidateReport, LaunchReport, launch_report
from .lane_pass import LanePass, lane_pass
from .one_pass import FragmentPass, fragment_pass

# times: as long as launches apart, that a pass is predicted to take at most [estimate; test_alike_the_pass_is_taken]
ALIKE = 1.03
BEFORE = "operands before a pass"  # a pass beside launches that convert its operands, in a report


def pass_nest(ctx: LoweringContext, computations: tuple[Computation, ...]) -> FragmentPass | LanePass | None:
    """How a pass is laid out: by instructions for both products, else by lanes. None: there is no pass."""
    return fragment_pass(ctx, computations) or lane_pass(ctx, computations)


def rank_pass(ctx: LoweringContext, computations: tuple[Computation, ...]) -> RankedCandidates | None:
    """None where there is no pass, or none that fits (MANY_ROWS). Ranked once: to compare the pass with the launches apart, and
    for its candidates."""
    if computations not in ctx.ranked_passes:
        nest = pass_nest(ctx, computations)
        fits = nest is not None and (nest.few_rows is None or nest.are_few)
        ctx.ranked_passes[computations] = rank_nest(ctx, sample_sizes(ctx, computations), nest) if nest and fits else None
    return ctx.ranked_passes[computations]


def every_pass_candidate(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """The candidates of the pass that fit, also those that are slow: an author may have written their sizes. An author may also
    write the lines of a pass where rows may be few (MANY_ROWS): it is right for those, too."""
    if computations not in ctx.whole_passes:
        nest = pass_nest(ctx, computations)
        ranked = rank_nest(ctx, sample_sizes(ctx, computations), nest, far_off=np.inf) if nest is not None else None
        ctx.whole_passes[computations] = every_candidate(ranked, computations[-1].targets[0]) if ranked is not None else []
    return ctx.whole_passes[computations]


def pass_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    ranked = rank_pass(ctx, computations)
    return candidates_of([ranked] if ranked is not None else [], computations[-1].targets[0])


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
    ranked = rank_pass(ctx, computations) if one_pass_of(computations) is not None else None
    found = [ranked] if ranked is not None else rank_candidates(ctx, computations, at=at)
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


def compared(ranked: RankedCandidates, launch: str, apart: Iterable[Sequence[ChosenLaunch]]) -> LaunchReport:
    """CHOSEN: the pass, whole and in parts, beside ways to have more launches, the fastest first."""
    part = ranked.tiles["part"].reshape(-1)
    some = {"one pass: 1 launch": part == 0, "one pass in parts of the keys: 2 launches": part > 0}
    halves = {name: replace(ranked, seconds=np.where(these, ranked.seconds, np.inf)) for name, these in some.items()}
    passes = {name: chosen_launch(launch, [r]) for name, r in halves.items() if np.isfinite(r.seconds[-1]).any()}
    return side_by_side(passes, {_named(launches): launches for launches in apart}, ALIKE)


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
