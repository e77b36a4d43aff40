"""`evolve`: generations of mutations on this machine, from trials that were measured, until the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....dsl.errors import AndironError
from ....dsl.support.amounts import counted, seconds_text
from ...check_results import ExpectedResults
from ...native import cpu_features
from ...timing import BURSTS
from ..racing import ROUNDS, SAMPLE, winner
from ..result import Trial
from ..trial_runs import Say, TrialRuns
from ..trials import prediction, refusal_text
from .generations import FINAL_SHARE, OUTLINED, Generations, choose_batch
from .mutation_space import MutationSpace

if TYPE_CHECKING:
    from ...compile import CompileRequest
    from ..learn.ranker import Ranker

_LEAST_BATCH = 8  # candidates: the incumbent is timed with each batch, and should not be most of it
_FEWEST = 4  # rounds of the last race that say more than the races before


@dataclass
class Evolution:
    """A search outwards. `trials` and `refused` grow; `best` is the fastest so far, also where the search is cut off.

    place     which of the request's schedules is searched for
    expected  results to compare with            limit  how many trials there may be
    improved  is told of each new best           ranker orders candidates before they are built; None: the closed form
    """

    request: CompileRequest
    place: int
    dims: dict[str, int]
    runs: TrialRuns
    expected: ExpectedResults
    pool: Executor
    trials: list[Trial]
    refused: list[tuple[str, str]]
    limit: int
    say: Say
    improved: Callable[[Trial], None]
    ranker: Ranker | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._generations = Generations(MutationSpace.of(self.request.special, self.request.device), self.seed)
        self._generations.add(self.trials)
        self.best = winner(self.trials)

    def run(self, deadline: float) -> str:
        """Until the deadline or the limit: why it ended."""
        reserved = FINAL_SHARE * max(0.0, deadline - time.monotonic())
        why = ""
        while not why:
            until = deadline - min(reserved, self._final_seconds())
            why = self._ended(until) or self._generation(until)
        self._final(deadline)
        return why

    def _ended(self, deadline: float) -> str:
        if len(self.trials) >= self.limit:
            return f"{counted(len(self.trials), 'candidate')} measured"
        if self._generations.stalled:
            return "no change can be faster by more than noise"
        return "the time is up" if time.monotonic() > deadline else ""

    # ------------------------------------------------------------ a generation

    def _generation(self, deadline: float) -> str:
        count = min(max(_LEAST_BATCH, 2 * cpu_features.usable_cores()), self.limit - len(self.trials))
        batch = self._compiled(count, deadline)
        if not batch:
            return "nothing else was found to try"
        self._build(batch, deadline)
        race = [replace(self.best, samples=[]), *batch]
        self.trials += batch
        self.runs.check(batch, self.expected, deadline, self.say)
        self.runs.race(race, deadline, self._leading)
        self._generations.add(race)
        if self._generations.incumbent != self.best.schedule:
            self.best = next(t for t in batch if t.schedule == self._generations.incumbent)
            self.improved(self.best)
        for t in batch:
            if t is not self.best:
                self.runs.drop(t)
        return ""

    def _compiled(self, count: int, deadline: float) -> list[Trial]:
        """New candidates as trials: more are compiled to text, and those of the least predicted time taken."""
        found: list[tuple[Trial, float | None]] = []
        seen = {t.schedule for t in self.trials}
        base = self.request.schedules[self.place]
        where = base.where if base is not None else ()
        for new in self._generations.new_candidates():
            if len(found) >= OUTLINED * count or time.monotonic() > deadline:
                break
            self.say(f"generation {self._generations.count}, candidate {len(found) + 1}: {new.about}")
            try:
                variant = self.request.variant(replace(new.schedule, where=where), {})
            except Exception as error:
                self.refused.append((new.about, refusal_text(error)))
                continue
            if variant.schedule in seen:
                continue
            seen.add(variant.schedule)
            predicted, bound = prediction(self.request, variant, self.dims)
            ranked = self.ranker(variant) if self.ranker is not None else predicted
            found.append((Trial(0, new.about, predicted, bound, variant), ranked))
        batch = choose_batch(found, count, self._generations.rng())
        for number, t in enumerate(batch, len(self.trials)):
            t.number = number
        return batch

    def _build(self, batch: list[Trial], deadline: float) -> None:
        builds = [self.pool.submit(t.variant.load) for t in batch]
        for t, build in zip(batch, builds, strict=True):
            self.say(f"building {t.number + 1}: {t.about}")
            try:
                build.result(max(0.0, deadline - time.monotonic()))
            except (TimeoutError, FutureTimeout):
                build.cancel()
                t.reject("failed to build", "not built in time")
            except AndironError as error:
                t.reject("failed to build", f"not built: {str(error).splitlines()[0]}")

    def _leading(self, alive: list[Trial], turn: int) -> None:
        self.say(
            f"generation {self._generations.count}, round {turn} of {ROUNDS}, {len(alive)} left; "
            f"{counted(len(self.trials), 'candidate')}; the best {seconds_text(self.best.seconds or 0.0)}: {self.best.about}"
        )

    # ------------------------------------------------------------ the end

    def _final_seconds(self) -> float:
        """About the time of the last race."""
        times = [self.trials[0].seconds or 0.0, *(self._generations.estimates[s] for s in self._generations.finalists())]
        return 1.2 * ROUNDS * BURSTS * sum(max(SAMPLE, t) for t in times)

    def _final(self, deadline: float) -> None:
        """FINAL of `generations`: the times of the fastest and of the schedule as it was are those of this race."""
        if self._generations.count < 2:
            return
        by_schedule = {t.schedule: t for t in self.trials}
        chosen = dict.fromkeys((self.trials[0].schedule, *self._generations.finalists()))
        race = [replace(by_schedule[s], samples=[]) for s in chosen]
        if not self.runs.race(race, deadline, self._leading) and len(race[0].samples) < _FEWEST:
            return
        for t in race:
            by_schedule[t.schedule].samples = t.samples
            if t.rejected:
                by_schedule[t.schedule].reject(t.verdict, t.rejected)
        self.best = by_schedule[winner(race).schedule]
