"""Candidates as trials: compiled to text, equal texts once, failed compilations set aside."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ...codegen.schedule.parameters import parameters
from ...dsl.errors import AndironError, InternalError, UserError
from ...dsl.errors.run import ArgumentKind
from ...dsl.support.expected import expect_count, expect_time
from ..native import cpu_features
from ..report import Report
from ..variant import Variant
from .candidates import tuning_candidates
from .result import Trial

if TYPE_CHECKING:
    from ..compile import CompileRequest
    from .learn.ranker import Ranker

_LOOKED_AT = 4  # times as many candidates as are wanted: some cannot be made, or are alike
MOST_TOP = 10_000  # first candidates of a task [estimate]: more than an op has that are worth a measurement
MOST_TRIALS = 1_000_000  # candidates of a search [estimate]: a second for each takes eleven days
COMPILED_FOR_PARAMETERS = 4  # times as many as are wanted are compiled, where parameters make most of them


def expect_budget(top: int, seconds: float, trials: int | None) -> None:
    """Raises what `Kernel.tune` raises for these arguments."""
    expect_count("top", top, 1, "how many candidates to measure")
    expect_time("seconds", seconds)
    _expect_at_most("top", top, MOST_TOP)
    if trials is not None:
        expect_count("trials", trials, 1, "how many candidates to measure, those of the search among them")
        _expect_at_most("trials", trials, MOST_TRIALS)
        if trials < top:
            raise ArgumentKind(
                f"`trials` is {trials}, fewer than `top`, {top}: these are measured first, and a search goes on from them",
                help="give more `trials`, or a smaller `top`",
            )


def _expect_at_most(name: str, count: int, most: int) -> None:
    if count > most:
        raise ArgumentKind(f"`{name}` is too large", help=f"at most {most}")


def candidate_limit(top: int) -> int:
    """How many candidates are looked at for `top` trials."""
    return _LOOKED_AT * top + 8


def trials_for(
    request: CompileRequest,
    place: int,
    top: int,
    dims: dict[str, int],
    say: Callable[[str], None],
    ready: Callable[[Trial], None] = lambda _: None,
    until: float = float("inf"),
    ranker: Ranker | None = None,
) -> tuple[list[Trial], list[tuple[str, str]]]:
    """The `top` most promising candidates, and what could not be compiled. The first is the one as it was.

    ready   is told of each as soon as it is sure to be among them     until  on the monotonic clock: then no more are made
    ranker  a learned model that chooses among more; None: the closed form's order
    """
    trials: list[Trial] = []
    refused: list[tuple[str, str]] = []
    seen: set[str] = set()
    base = request.schedules[place]
    # Of values of parameters nothing is known before they are compiled: more are, and the best of them taken.
    many = bool(set(parameters(base)) - set(request.values)) or ranker is not None
    for proposal, values in tuning_candidates(request, place):
        enough = len(trials) >= (COMPILED_FOR_PARAMETERS if many else 1) * top or len(trials) + len(refused) >= candidate_limit(
            top
        )
        if enough or (trials and time.monotonic() > until):
            break
        say(f"candidate {len(trials) + 1}: {proposal.about}")
        schedule = base if not trials else replace(proposal.schedule, where=base.where if base is not None else ())
        try:
            variant = request.variant(schedule, values)
        except Exception as error:
            if not trials:
                raise
            refused.append((proposal.about, refusal_text(error)))
            continue
        if variant.schedule in seen:
            if variant.schedule == trials[0].schedule and proposal.seconds is not None:  # the model's first choice
                trials[0].predicted, trials[0].bound = proposal.seconds, proposal.bound
                trials[0].about += f"; {proposal.about}"
            continue
        seen.add(variant.schedule)
        known = proposal.seconds is not None
        predicted, bound = (proposal.seconds, proposal.bound) if known else prediction(request, variant, dims)
        trials.append(Trial(len(trials), proposal.about, predicted, bound, variant))
        if not many:
            ready(trials[-1])
    if ranker is not None:
        for t, seconds in zip(trials, ranker.seconds([t.variant for t in trials]), strict=True):
            t.predicted = t.predicted if seconds is None else seconds
    if many:
        trials[1:] = sorted(trials[1:], key=lambda t: t.predicted or 0.0)[: top - 1]
        for number, t in enumerate(trials):
            t.number = number
            ready(t)
    return trials, refused


def prediction(request: CompileRequest, variant: Variant, dims: dict[str, int]) -> tuple[float | None, str]:
    """The least time at the device's rates, and what bounds it, where the device states some."""
    with suppress(InternalError, UserError):
        report = Report.of(request.op, [variant], dims, request.threads or cpu_features.usable_cores(), ())
        if report.bound:
            return report.seconds[report.bound], report.bound
    return None, ""


def refusal_text(error: Exception) -> str:
    """In one line. A fault of ours in one candidate is no reason not to try the others."""
    if isinstance(error, UserError):
        return getattr(error, "errors", (error,))[0].message
    return f"internal: {type(error).__name__}: {error.message if isinstance(error, AndironError) else error}"
