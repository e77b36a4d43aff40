"""`TaskRun`: one task on its way. Its candidates are listed, compiled and measured, each as work for a `Dispatcher`.

IN_ORDER  Candidates are compiled in parallel, and taken in their order, so that the same ones are measured on any engine.
SPLIT     Candidates are measured together, so that they can be compared. When the worker dies, each half of them is measured by
          itself, and so on: in the end the one that kills workers is alone, and set aside when it has killed two.
KNOWN     What the database has of the same task on the same kind of machine is not measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....codegen.schedule.parameters import parameters
from ....dsl.errors import AndironError
from ...storage.cache import key_of
from ..candidates import AS_IT_WAS
from ..database.database import Database
from ..database.describe import task_of as database_task
from ..database.measurement import Measurement
from ..learn.ranker import usable_model
from ..racing import winner
from ..trial_runs import FIRST_CALL
from ..trials import COMPILED_FOR_PARAMETERS, candidate_limit
from .candidates import CompiledCandidate, MeasuredBatch, MeasuredCandidate, TaskCandidate
from .dispatcher import Dispatcher, Work
from .engine import COMPILE, MEASURE
from .remote_tasks import compile_candidate, list_candidates, measure_candidates
from .task import Machine, TuningTask

if TYPE_CHECKING:
    from ...compile import CompileRequest

_COMPILING = 600.0  # seconds after which the compilation of one candidate is late
_DEATHS = 2  # workers that a candidate may kill


@dataclass
class TaskTrial:
    """A candidate of a task, with its measurements, which another process made. The fields are those of `Trial`."""

    number: int
    schedule: str
    about: str
    predicted: float | None = None
    bound: str = ""
    samples: Sequence[float] = ()
    rejected: str = ""
    verdict: str = ""

    @property
    def seconds(self) -> float | None:
        """The lower quartile of the samples."""
        return sorted(self.samples)[len(self.samples) // 4] if self.samples else None


@dataclass
class TaskRun:
    """A task, and what is known of it so far.

    state    `waiting`, `compiling`, `measuring`, `done` or `failed`
    request  as it was asked here               rank    those of a lower rank come first
    inputs   arrays to measure with             before  schedules that were found earlier, each with where
    reuse    whether a task that the database has completely is not compiled either
    trials   the candidates; the first is the schedule as it was
    measured how many of them were measured by this run, and not known before
    """

    task: TuningTask
    request: CompileRequest
    place: int
    rank: float = 0.0
    inputs: Sequence[np.ndarray] | None = None
    before: tuple[TaskCandidate, ...] = ()
    reuse: bool = True
    state: str = "waiting"
    reason: str = ""
    error: AndironError | None = None
    note: str = ""
    fingerprint: str = ""
    measured: int = 0
    trials: list[TaskTrial] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    accepted: list[CompiledCandidate] = field(default_factory=list)
    _candidates: list[TaskCandidate] = field(default_factory=list)
    _compiled: dict[int, CompiledCandidate] = field(default_factory=dict)
    _submitted: int = 0
    _taken: int = 0
    _missing: int = 0  # trials without a result

    # ------------------------------------------------------------ what it has come to

    @property
    def ended(self) -> bool:
        """Whether nothing more will be done for it."""
        return self.state in ("done", "failed")

    @property
    def best(self) -> TaskTrial | None:
        """The fastest so far, or None."""
        return winner(self.trials) if any(t.samples for t in self.trials) else None

    @property
    def gain(self) -> float:
        """The time of the schedule as it was, divided by the time of the best."""
        best = self.best
        return self.trials[0].seconds / best.seconds if best and best.seconds and self.trials[0].seconds else 1.0

    def as_dict(self) -> dict[str, Any]:
        """What it has come to, as dictionaries, lists, strings and numbers."""
        best, base = self.best, self.trials[0] if self.trials else None
        return {
            "op": self.task.op,
            "sizes": {**dict(self.task.dims), **dict(self.task.given)},
            "target": self.task.target,
            "threads": self.task.threads,
            "machine": self.fingerprint,
            "state": self.state,
            "reason": self.reason,
            "note": self.note,
            "default": base.seconds if base else None,
            "seconds": best.seconds if best else None,
            "gain": self.gain,
            "candidates": len(self.trials),
            "measured": self.measured,
            "set_aside": [f"{t.about}: {t.rejected}" for t in self.trials if t.rejected],
            "schedule": best.schedule if best else None,
        }

    # ------------------------------------------------------------ steps

    def start(
        self, machine: Machine, fingerprint: str, dispatcher: Dispatcher, database: Database | None, changed: Callable[[], None]
    ) -> None:
        """Begins, once the machine that measures is known."""
        self.task = replace(self.task, machine=machine)
        self.fingerprint = fingerprint
        self._dispatcher, self._database, self._changed = dispatcher, database, changed
        self._task = database_task(self.task.request(), dict(self.task.dims))
        rows = database.find(self._task.key, fingerprint) if database is not None else []
        self._known = {m.schedule: m for m in rows if m.run.startswith(self.task.key)}
        self._killers = {m.schedule for m in rows if m.run == self._compiling_run}
        finished = complete_run(self.task.key, rows) if self.reuse else None
        if finished is not None:
            self.trials = [_known_trial(number, m) for number, m in enumerate(finished)]
            return self._end()
        self.state = "compiling"
        model = usable_model(database, self.task.target, fingerprint)[0] if database is not None else None
        self._work(COMPILE, list_candidates, (self.task, model), self._listed, self._lost_altogether)

    @property
    def _compiling_run(self) -> str:
        return f"{self.task.key} compiling"

    def _listed(self, candidates: tuple[TaskCandidate, ...]) -> None:
        self._candidates = [c for c in candidates if c.schedule is None or c.schedule not in self._killers]
        base = self.request.schedules[self.place]
        self._by_parameters = bool(set(parameters(base)) - set(self.request.values))
        self._wanted = self.task.top * (COMPILED_FOR_PARAMETERS if self._by_parameters else 1)
        self._compile()

    def _compile(self) -> None:
        """IN_ORDER. As many as may still be wanted are under way."""
        if self.state != "compiling":
            return
        while self._taken in self._compiled and len(self.accepted) < self._wanted:
            self._take(self._compiled.pop(self._taken))
            self._taken += 1
        enough = len(self.accepted) + len(self.refused) >= candidate_limit(self.task.top)
        missing = 0 if enough else self._wanted - len(self.accepted)
        end = min(self._taken + missing, len(self._candidates))
        while self._submitted < end:
            number, candidate = self._submitted, self._candidates[self._submitted]
            self._submitted += 1
            self._work(
                COMPILE, compile_candidate, (self.task, candidate), partial(self._has_compiled, number),
                partial(self._not_compiled, number, candidate),
            )  # fmt: skip
        if self._taken >= end:
            self._all_compiled()

    def _has_compiled(self, number: int, made: CompiledCandidate) -> None:
        self._compiled[number] = made
        self._compile()

    def _not_compiled(self, number: int, candidate: TaskCandidate, how: str, reason: str) -> None:
        """Its compilation killed workers, or did not end: it is set aside."""
        if candidate.schedule is None:
            return self._lost_altogether(how, reason)
        detail = f"compiled {_DEATHS} times: {reason}"
        self._add([MeasuredCandidate(candidate.schedule, how, (), detail, "")], "", self._compiling_run)
        self._has_compiled(number, CompiledCandidate(candidate.about, refused=f"{how}: {reason}"))

    def _take(self, made: CompiledCandidate) -> None:
        same = next((n for n, c in enumerate(self.accepted) if c.schedule == made.schedule), None)
        if made.refused:
            self.refused.append((made.about, made.refused))
        elif same is None:
            self.accepted.append(made)
        elif same == 0 and made.predicted is not None:  # the model's first choice
            first = self.accepted[0]
            about = f"{first.about}; {made.about}"
            self.accepted[0] = replace(first, about=about, predicted=made.predicted, bound=made.bound)

    def _all_compiled(self) -> None:
        if not self.accepted:
            return self._lost_altogether("refused", self.refused[0][1] if self.refused else "it has no candidate")
        if self._by_parameters:
            first, *others = self.accepted
            self.accepted = [first, *sorted(others, key=lambda c: c.predicted or 0.0)[: self.task.top - 1]]
        if self.before:  # compiled after the others, whatever their number is
            self._candidates, self.before = [*self._candidates[: self._submitted], *self.before], ()
            self._wanted = len(self.accepted) + len(self._candidates) - self._submitted
            self._taken = self._submitted
            self._by_parameters = False
            return self._compile()
        self.state = "measuring"
        self.trials = [TaskTrial(n, c.schedule, c.about, c.predicted, c.bound) for n, c in enumerate(self.accepted)]
        numbers = []
        for t in self.trials:
            known = self._known.get(t.schedule)
            if known is None:
                numbers.append(t.number)
            else:
                t.samples, t.verdict = known.samples, known.verdict
                t.rejected = known.detail if known.verdict != "right" else ""
        self._missing = len(numbers)
        self._measure(numbers)
        self._changed()

    def _measure(self, numbers: list[int]) -> None:
        if not numbers:
            return self._end() if not self._missing else None
        batch = tuple(self.accepted[n] for n in numbers)
        limit = 1.5 * self.task.seconds + 2 * FIRST_CALL
        self._work(
            MEASURE, measure_candidates, (self.task, batch, self.inputs), partial(self._has_measured, numbers),
            partial(self._not_measured, numbers), limit, _DEATHS if len(numbers) == 1 else 1,
        )  # fmt: skip

    def _has_measured(self, numbers: list[int], batch: MeasuredBatch) -> None:
        self.note = batch.note or self.note
        self.fingerprint = batch.fingerprint or self.fingerprint
        self._add(batch.candidates, batch.host)
        for number, found in zip(numbers, batch.candidates, strict=True):
            t = self.trials[number]
            t.samples, t.verdict, t.rejected = found.samples, found.verdict, found.detail
        self.measured += len(numbers)
        self._missing -= len(numbers)
        if not self._missing:
            self._end()
        self._changed()

    def _not_measured(self, numbers: list[int], how: str, reason: str) -> None:
        """SPLIT"""
        if len(numbers) > 1:
            half = len(numbers) // 2
            self._measure(numbers[:half])
            return self._measure(numbers[half:])
        detail = f"set aside: {how} on {_DEATHS} workers: {reason}"
        found = MeasuredCandidate(self.trials[numbers[0]].schedule, how, (), detail, self.accepted[numbers[0]].toolchain)
        self._has_measured(numbers, MeasuredBatch((found,), "", "", ""))

    # ------------------------------------------------------------ the end

    def _end(self) -> None:
        self.state = "done"
        if self.reuse:  # of many tasks: code that nobody needs any more would fill the memory
            self.accepted = []
        if self.trials and not any(t.samples for t in self.trials):
            self.state, self.reason = "failed", f"no candidate works; the schedule as it was: {self.trials[0].rejected}"
        self._changed()

    def _lost_altogether(self, how: str, reason: str) -> None:
        self.state, self.reason = "failed", f"{how}: {reason}"
        self._changed()

    def _refused(self, error: AndironError) -> None:
        self.error = self.error or error
        if not self.ended:
            self._lost_altogether("refused", getattr(error, "errors", (error,))[0].message)

    def _work(
        self, kind: str, function: Any, arguments: tuple[Any, ...], done: Callable[[Any], None],
        lost: Callable[[str, str], None], limit: float = _COMPILING, most: int = _DEATHS,
    ) -> None:  # fmt: skip
        """Work that is forgotten when the task has ended before it."""

        def unless_ended(then: Callable[..., None]) -> Callable[..., None]:
            return lambda *given: None if self.ended else then(*given)

        then, otherwise = unless_ended(done), unless_ended(lost)
        rank = self.rank if kind == COMPILE else self.rank - 0.5
        self._dispatcher.add(
            Work(kind, self.task.target, function, arguments, limit, most, then, self._refused, otherwise, rank)
        )

    def _add(self, found: Sequence[MeasuredCandidate], host: str, run: str = "") -> None:
        """Rows of the database, as soon as they are known."""
        if self._database is None:
            return
        run = run or run_name(self.task.key, len(self.accepted))
        where = {"host": host} if host else {}
        about = {t.schedule: t.about for t in self.trials}
        details = ["; ".join(x for x in (about.get(c.schedule, ""), c.detail) if x) for c in found]
        self._database.add(
            Measurement(
                self._task, c.schedule, self.fingerprint, c.toolchain, run, c.verdict, tuple(c.samples), detail, **where
            )
            for c, detail in zip(found, details, strict=True)
        )


def run_name(key: str, count: int) -> str:
    """The name of the rows of a task with so many candidates."""
    return f"{key} of {count}"


def complete_run(key: str, rows: Sequence[Measurement]) -> list[Measurement] | None:
    """The rows of a run of the task that has all of its candidates, the schedule as it was first; None if no run has."""
    runs: dict[str, dict[str, Measurement]] = {}
    for m in rows:
        runs.setdefault(m.run, {})[m.schedule] = m
    complete = (found.values() for run, found in runs.items() if run == run_name(key, len(found)))
    return next((sorted(found, key=lambda m: not m.detail.startswith(AS_IT_WAS)) for found in complete), None)


def _known_trial(number: int, m: Measurement) -> TaskTrial:
    right = m.verdict == "right"
    about, rejected = (m.detail, "") if right else ("", m.detail)
    return TaskTrial(number, m.schedule, about, samples=m.samples, rejected=rejected, verdict=m.verdict)


def inputs_key(inputs: Sequence[np.ndarray] | None) -> str:
    """The hash of arrays that a user gave, "" for random ones."""
    return key_of(*(part for a in inputs for part in (a.shape, a.dtype.str, a.tobytes()))) if inputs else ""
