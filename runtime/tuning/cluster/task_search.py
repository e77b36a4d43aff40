"""`TaskSearch`: the search outwards of one task. It follows the first candidates of a `TaskRun`, as work of the same kinds.

SIZED    A batch has as many candidates as the engine compiles at a time, so workers that compile are busy. While it is measured
         they compile for other tasks.
RESUMED  What the database has of the search is added in its order, as if it came now. What follows is the same as in the search
         that was cut off.
SPLIT    As in `task_run`. Each half has the incumbent, so that it can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ....dsl.text.print_node import format_node
from ..database.measurement import Measurement
from ..evolution.generations import FINAL_SHARE, OUTLINED, Generations, NewCandidate, choose_batch
from ..evolution.mutation_space import MutationSpace
from ..racing import winner
from ..trial_runs import FIRST_CALL
from .candidates import CompiledCandidate, MeasuredBatch, MeasuredCandidate, TaskCandidate
from .engine import COMPILE, MEASURE
from .remote_tasks import compile_candidate, measure_candidates, outline_candidate
from .task_trial import (
    DEATHS,
    TaskTrial,
    generation_name,
    generations,
    known_trial,
    last_name,
    last_race,
    set_aside,
)

if TYPE_CHECKING:
    from .task_run import TaskRun

_LEAST_BATCH, _MOST_BATCH = 8, 32  # SIZED
_WAVES = 3  # of new candidates of which none was legal, or new


class TaskSearch:
    """`run`: the task, whose first candidates were measured; `rows`: what the database has of it."""

    def __init__(self, run: TaskRun, rows: Sequence[Measurement]) -> None:
        self.run, self.rows = run, rows
        request = run.task.request()
        self.generations = Generations(MutationSpace.of(request.special, request.device), run.task.seed)
        self.generations.add(run.trials)
        self.incumbent = winner(run.trials)
        self.seconds = (1 - FINAL_SHARE) * run.task.seconds - run.took
        self._outlined: dict[int, CompiledCandidate] = {}
        self._waiting = 0  # pieces of work of one kind that are under way

    def begin(self) -> None:
        """RESUMED"""
        known = {t.schedule: t for t in self.run.trials}
        for rows in generations(self.run.task.key, self.rows):
            base = next((replace(known[m.schedule], samples=m.samples) for m in rows if m.schedule in known), None)
            race = [base or replace(self.incumbent, samples=())]
            for m in rows:
                if m.schedule not in known:
                    t = known[m.schedule] = known_trial(len(self.run.trials), m)
                    self._append(t, CompiledCandidate(t.about, schedule=t.schedule))
                    race.append(t)
            self._ran(race)
        if last_race(self.run.task, self.rows) is not None:
            return self._last()
        self._next()

    def _append(self, t: TaskTrial, made: CompiledCandidate) -> None:
        self.run.trials.append(t)
        self.run.accepted.append(made)

    # ------------------------------------------------------------ new candidates

    def _next(self) -> None:
        """The next generation, or the last race."""
        left = self.run.task.trials - len(self.run.trials)
        if left <= 0 or self.generations.stalled or self.seconds <= 0:
            return self._last()
        slots = self.run.dispatcher.engine.slots(COMPILE)
        self.size = min(max(_LEAST_BATCH, min(slots, _MOST_BATCH)), left)
        self.run.state = "compiling"
        self._wave(self.generations.new_candidates(), _WAVES)

    def _wave(self, untried: Iterator[NewCandidate], waves: int) -> None:
        """New candidates are compiled to text."""
        self._outlined = {}
        candidates = [
            TaskCandidate(format_node(p.schedule), (), p.about) for p in islice(untried, OUTLINED * self.size)
        ] if waves else []  # fmt: skip
        then = partial(self._chosen, candidates, untried, waves)
        work = [(outline_candidate, (self.run.task, c, self.run.ranker is not None)) for c in candidates]
        self._all(work, candidates, self._outlined, then)

    def _chosen(self, candidates: list[TaskCandidate], untried: Iterator[NewCandidate], waves: int) -> None:
        """The best by prediction are built."""
        if not candidates:
            return self._last()
        seen = {t.schedule for t in self.run.trials}
        found: list[tuple[TaskCandidate, float | None]] = []
        for _, made in sorted(self._outlined.items()):
            if made.refused:
                self.run.refused.append((made.about, made.refused))
            elif made.schedule not in seen:
                seen.add(made.schedule)
                candidate = TaskCandidate(made.schedule, (), made.about, made.predicted, made.bound)
                found.append((candidate, self._ranked(made)))
        if not found:
            return self._wave(untried, waves - 1)
        batch = choose_batch(found, self.size, self.generations.rng())
        self._built(batch, self._race)

    def _ranked(self, made: CompiledCandidate) -> float | None:
        if self.run.ranker is None:
            return made.predicted
        trial, _ = made.trial(self.run.task, 0)
        return self.run.ranker(trial.variant)

    def _built(self, batch: Sequence[TaskCandidate], then: Callable[[], None]) -> None:
        """New candidates become trials. The incumbent is compiled again where that was long ago."""
        made: dict[int, CompiledCandidate] = {}
        needed = [*batch, *self._uncompiled([self.incumbent])]
        self._all(
            [(compile_candidate, (self.run.task, c)) for c in needed], needed, made, partial(self._took, needed, made, then)
        )

    def _uncompiled(self, trials: Sequence[TaskTrial]) -> list[TaskCandidate]:
        return [TaskCandidate(t.schedule, (), t.about) for t in trials if not self.run.accepted[t.number].code]

    def _took(self, needed: Sequence[TaskCandidate], made: dict[int, CompiledCandidate], then: Callable[[], None]) -> None:
        numbers = {t.schedule: t.number for t in self.run.trials}
        for place, candidate in enumerate(needed):
            found = made[place]
            known = numbers.get(candidate.schedule or "")
            if known is not None:
                self.run.accepted[known] = found
            elif found.refused:
                self.run.refused.append((found.about, found.refused))
            else:
                t = TaskTrial(len(self.run.trials), found.schedule, found.about, found.predicted, found.bound)
                self._append(t, found)
        then()

    # ------------------------------------------------------------ races

    def _race(self) -> None:
        self._measure([t for t in self.run.trials if not t.verdict])

    def _measure(self, batch: list[TaskTrial]) -> None:
        if not batch:
            return self._next()
        self.run.state = "measuring"
        self._waiting += 1
        race = [self.incumbent, *batch]
        most = DEATHS if len(batch) == 1 else 1
        self._timed(race, max(1.0, self.seconds), partial(self._has_measured, race), partial(self._not_measured, batch), most)
        self.run.changed()

    def _timed(
        self,
        race: list[TaskTrial],
        seconds: float,
        done: Callable[[MeasuredBatch], None],
        lost: Callable[[str, str], None],
        most: int,
    ) -> None:
        code = tuple(self.run.accepted[t.number] for t in race)
        arguments = (self.run.task, code, self.run.inputs, seconds)
        self.run.work(MEASURE, measure_candidates, arguments, done, lost, 1.5 * seconds + 2 * FIRST_CALL, most)

    def _has_measured(self, race: list[TaskTrial], found: MeasuredBatch) -> None:
        name = generation_name(self.run.task.key, self.generations.count)
        measured = self.run.add(found.candidates, found.host, name)
        self.seconds -= found.took
        timed = [_timed_trial(t, m) for t, m in zip(race, measured, strict=True)]
        for t, m in zip(race[1:], timed[1:], strict=True):
            t.samples, t.verdict, t.rejected = m.samples, m.verdict, m.rejected
        self.run.measured += len(race) - 1
        self._ran(timed)
        self._came_back()

    def _ran(self, race: list[TaskTrial]) -> None:
        """A race is over. The first was the incumbent."""
        self.generations.add(race)
        self.incumbent = next(t for t in self.run.trials if t.schedule == self.generations.incumbent)
        self.run.deciding = [self.incumbent]

    def _not_measured(self, batch: list[TaskTrial], how: str, reason: str) -> None:
        """SPLIT"""
        if len(batch) > 1:
            half = len(batch) // 2
            self._measure(batch[:half])
            self._measure(batch[half:])
        else:
            (t,) = batch
            t.verdict, t.rejected = how, set_aside(how, reason)
            found = MeasuredCandidate(t.schedule, how, (), t.rejected, self.run.accepted[t.number].toolchain)
            self.run.add([found], "", generation_name(self.run.task.key, self.generations.count))
            self._ran([replace(self.incumbent, samples=()), t])
        self._came_back()

    def _came_back(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._next()
        self.run.changed()

    # ------------------------------------------------------------ the last race

    def _last(self) -> None:
        by_schedule = {t.schedule: t for t in self.run.trials}
        chosen = dict.fromkeys((self.run.trials[0].schedule, *self.generations.finalists()))
        race = [by_schedule[s] for s in chosen]
        then = partial(
            self._timed, race, FINAL_SHARE * self.run.task.seconds, partial(self._has_decided, race), self._undecided, DEATHS
        )
        known = [m for m in last_race(self.run.task, self.rows) or () if m.schedule in by_schedule]
        if known:  # the search was complete, and its result is wanted here
            race = [by_schedule[m.schedule] for m in known]
            then = partial(self._decided, race, [known_trial(0, m) for m in known])
        needed = self._uncompiled(race)
        made: dict[int, CompiledCandidate] = {}
        self._all(
            [(compile_candidate, (self.run.task, c)) for c in needed], needed, made, partial(self._took, needed, made, then)
        )

    def _has_decided(self, race: list[TaskTrial], found: MeasuredBatch) -> None:
        task = self.run.task
        measured = self.run.add(found.candidates, found.host, last_name(task.key, len(race), task.trials))
        self._decided(race, [_timed_trial(t, m) for t, m in zip(race, measured, strict=True)])

    def _decided(self, race: list[TaskTrial], timed: list[TaskTrial]) -> None:
        for t, m in zip(race, timed, strict=True):
            t.samples, t.verdict, t.rejected = m.samples, m.verdict, m.rejected
        self.run.deciding = race
        self.run.end()

    def _undecided(self, how: str, reason: str) -> None:
        """The last race killed its workers: the incumbent stands."""
        self.run.end()

    # ------------------------------------------------------------ work

    def _all(
        self,
        work: Sequence[tuple[Callable[..., CompiledCandidate], tuple[object, ...]]],
        candidates: Sequence[TaskCandidate],
        made: dict[int, CompiledCandidate],
        then: Callable[[], None],
    ) -> None:
        """Work that compiles, and what to do when all of it is there."""

        def done(place: int, found: CompiledCandidate) -> None:
            made[place] = found
            if len(made) == len(work):
                then()

        def lost(place: int, how: str, reason: str) -> None:
            done(place, CompiledCandidate(candidates[place].about, refused=f"{how}: {reason}"))

        if not work:
            return then()
        for place, (function, arguments) in enumerate(work):
            self.run.work(COMPILE, function, arguments, partial(done, place), partial(lost, place))


def _timed_trial(t: TaskTrial, m: MeasuredCandidate) -> TaskTrial:
    return replace(t, samples=m.samples, verdict=m.verdict, rejected=m.detail)
