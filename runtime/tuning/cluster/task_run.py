"""`TaskRun`: one task on its way. Its candidates are listed, compiled and measured, each as work for a `Dispatcher`.

IN_ORDER  Candidates are compiled in parallel, and taken in their order, so that the same ones are measured on any engine.
SPLIT     Candidates are measured together, so that they can be compared. When the worker dies, each half of them is measured by
          itself, and so on: in the end the one that kills workers is alone, and set aside when it has killed two.
KNOWN     What the database has of the same task on the same kind of machine is not measured again. It is asked when the task
          begins, and when its turn to be measured comes: another process may have the same tasks. What both have measured
          counts as the first of them has stored it.
UNABLE    A worker that lacks memory says nothing of a candidate: the task fails, and nothing of it is stored.
UNKNOWN   Nor does work say anything that perhaps no worker had: it is set aside for this time, and not stored.
OUTWARDS  A task that asks for more trials than first candidates goes on with generations of their changes (`TaskSearch`).
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
from ..candidates import leaves_all_open
from ..database.database import Database
from ..database.describe import task_of as database_task
from ..database.measurement import Measurement
from ..evolution.generations import FIRST_SHARE
from ..learn.model_store import LearnedModel
from ..learn.ranker import Ranker, usable_model
from ..racing import winner
from ..trial_runs import FIRST_CALL
from ..trials import COMPILED_FOR_PARAMETERS, candidate_limit
from .candidates import CompiledCandidate, MeasuredBatch, MeasuredCandidate, TaskCandidate
from .dispatcher import Dispatcher, Work
from .engine import COMPILE, MEASURE
from .patient_database import PatientDatabase
from .remote_tasks import compile_candidate, list_candidates, measure_candidates
from .task import Machine, TuningTask
from .task_search import TaskSearch
from .task_trial import DEATHS, TaskTrial, complete_run, known_trial, last_race, run_name, set_aside

if TYPE_CHECKING:
    from ...compile import CompileRequest

_COMPILING = 600.0  # seconds after which the compilation of one candidate is late


@dataclass
class TaskRun:
    """A task, and what is known of it so far.

    state    `waiting`, `compiling`, `measuring`, `done` or `failed`
    request  as it was asked here               rank    those of a lower rank come first
    inputs   arrays to measure with             before  schedules that were found earlier, each with where
    reuse    whether a task that the database has completely is not compiled either
    trials   the candidates; the first is the schedule as it was
    measured how many of them were measured by this run, and not known before
    deciding the trials that were timed together last, of which one is the best; all where there was no search outwards
    took     seconds of measuring the first candidates
    ranker   of a search outwards, where a learned model is used; None: the closed form ranks
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
    deciding: Sequence[TaskTrial] = ()
    ranker: Ranker | None = None
    took: float = 0.0
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
        deciding = self.deciding or self.trials
        return winner(deciding) if any(t.samples for t in deciding) else None

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
        self.dispatcher, self._database, self.changed = dispatcher, database, changed
        self._task = database_task(self.task.request(), dict(self.task.dims))
        self._find_known()
        if self.reuse and (self._is_finished() if self.searches else self._is_complete()):
            return self.end()
        self.state = "compiling"
        self._model = None
        if database is not None:
            learned = partial(usable_model, database, self.task.target, fingerprint)
            self._model = (database.patiently(learned) if isinstance(database, PatientDatabase) else learned())[0]
        self.work(COMPILE, list_candidates, (self.task, self._model), self._listed, self._lost_altogether)

    def _find_known(self) -> None:
        """KNOWN"""
        self._rows = self._database.find(self._task.key, self.fingerprint) if self._database is not None else []
        known = [m for m in self._rows if m.run.startswith(self.task.key)]
        known.sort(key=lambda m: m.run.startswith(run_name(self.task.key, 0)[:-1]))  # the first candidates were timed together
        self._known = {m.schedule: m for m in known}
        self._killers = {m.schedule for m in self._rows if m.run == self._compiling_run}

    @property
    def searches(self) -> bool:
        """OUTWARDS. What the lines of an author's schedule say stays as it is."""
        return self.task.trials > self.task.top and leaves_all_open(self.request.schedules[self.place])

    def _is_complete(self) -> bool:
        finished = complete_run(self.task.key, self._rows)
        if finished is not None:
            self.trials = [known_trial(number, m) for number, m in enumerate(finished)]
        return finished is not None

    def _is_finished(self) -> bool:
        """Whether the database has all of the search."""
        last = last_race(self.task, self._rows)
        if last is None:
            return False
        deciding = {m.schedule: m for m in last}
        others = {m.schedule: m for m in self._rows if m.run.startswith(self.task.key) and m.run != self._compiling_run}
        found = [*last, *(m for m in others.values() if m.schedule not in deciding)]
        self.trials = [known_trial(number, m) for number, m in enumerate(found)]
        self.deciding = self.trials[: len(last)]
        return True

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
        if self.state != "compiling" or self.trials:  # a search compiles in its own way
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
            self.work(
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
        detail = f"compiled {DEATHS} times: {reason}"
        self.add([MeasuredCandidate(candidate.schedule, how, (), detail, "")], "", self._compiling_run)
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
            if not self._take_known(t):
                numbers.append(t.number)
        self._missing = len(numbers)
        self._measure(numbers)
        self.changed()

    def _take_known(self, t: TaskTrial) -> bool:
        """KNOWN. Whether the database has it."""
        known = self._known.get(t.schedule)
        if known is None:
            return False
        t.samples, t.verdict = known.samples, known.verdict
        t.rejected = known.detail if known.verdict != "right" else ""
        return True

    def _still_wanted(self, numbers: list[int]) -> bool:
        """KNOWN. If another process has measured some of them meanwhile, the others are given out."""
        if self._database is None or self.ended:
            return True
        self._find_known()
        missing = [n for n in numbers if not self._take_known(self.trials[n])]
        if missing == numbers:
            return True
        self._missing -= len(numbers) - len(missing)
        self._measure(missing)
        self.changed()
        return False

    def _measure(self, numbers: list[int]) -> None:
        if not numbers:
            return self._after_the_first() if not self._missing else None
        batch = tuple(self.accepted[n] for n in numbers)
        seconds = (FIRST_SHARE if self.searches else 1.0) * self.task.seconds
        limit = 1.5 * seconds + 2 * FIRST_CALL
        self.work(
            MEASURE, measure_candidates, (self.task, batch, self.inputs, seconds), partial(self._has_measured, numbers),
            partial(self._not_measured, numbers), limit, DEATHS if len(numbers) == 1 else 1,
            partial(self._still_wanted, numbers),
        )  # fmt: skip

    def _has_measured(self, numbers: list[int], batch: MeasuredBatch) -> None:
        self.note = batch.note or self.note
        self.fingerprint = batch.fingerprint or self.fingerprint
        for number, found in zip(numbers, self.add(batch.candidates, batch.host), strict=True):
            t = self.trials[number]
            t.samples, t.verdict, t.rejected = found.samples, found.verdict, found.detail
        self.took += batch.took
        self.measured += len(numbers)
        self._missing -= len(numbers)
        if not self._missing:
            self._after_the_first()
        self.changed()

    def _not_measured(self, numbers: list[int], how: str, reason: str) -> None:
        """SPLIT"""
        if len(numbers) > 1:
            half = len(numbers) // 2
            self._measure(numbers[:half])
            return self._measure(numbers[half:])
        detail = set_aside(how, reason)
        found = MeasuredCandidate(self.trials[numbers[0]].schedule, how, (), detail, self.accepted[numbers[0]].toolchain)
        self._has_measured(numbers, MeasuredBatch((found,), "", "", ""))

    # ------------------------------------------------------------ the end

    def _after_the_first(self) -> None:
        """OUTWARDS"""
        if not self.searches or not any(t.samples for t in self.trials):
            return self.end()
        if self.ranker is None and self._model is not None:
            self.ranker = self._learned(self._model)
        TaskSearch(self, self._rows).begin()

    def _learned(self, model: LearnedModel) -> Ranker:
        """Compares schedules with the first candidates."""
        ranker = Ranker(self.task.request(), model, dict(self.task.dims))
        ranker.seconds([c.trial(self.task, number)[0].variant for number, c in enumerate(self.accepted)])
        return ranker

    def end(self) -> None:
        """Nothing more will be done."""
        self.state = "done"
        if self.reuse:  # of many tasks: code that nobody needs any more would fill the memory
            self.accepted = []
        if self.trials and not any(t.samples for t in self.trials):
            self.state, self.reason = "failed", f"no candidate works; the schedule as it was: {self.trials[0].rejected}"
        self.changed()

    def _lost_altogether(self, how: str, reason: str) -> None:
        self.state, self.reason = "failed", reason if how == "unable" else f"{how}: {reason}"
        self.changed()

    def _refused(self, error: AndironError) -> None:
        self.error = self.error or error
        if not self.ended:
            self._lost_altogether("refused", getattr(error, "errors", (error,))[0].message)

    def work(
        self, kind: str, function: Any, arguments: tuple[Any, ...], done: Callable[[Any], None],
        lost: Callable[[str, str], None], limit: float = _COMPILING, most: int = DEATHS,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Work that is forgotten when the task has ended before it."""

        def unless_ended(then: Callable[..., None]) -> Callable[..., None]:
            return lambda *given: None if self.ended else then(*given)

        def no_result(how: str, reason: str) -> None:
            if how == "unable":  # no verdict on what was to be compiled or measured
                return self._lost_altogether(how, f"a worker could not do it: {reason}. The next run tries it again")
            lost(how, reason)

        then, otherwise = unless_ended(done), unless_ended(no_result)
        rank = self.rank if kind == COMPILE else self.rank - 0.5
        self.dispatcher.add(
            Work(kind, self.task.target, function, arguments, limit, most, then, self._refused, otherwise, rank, wanted=wanted)
        )

    def add(self, found: Sequence[MeasuredCandidate], host: str, run: str = "") -> Sequence[MeasuredCandidate]:
        """Rows of the database, as soon as they are known. Candidates as the database has them: KNOWN."""
        stored = [c for c in found if c.verdict != "unanswered"]  # UNKNOWN
        if self._database is None or not stored:
            return found
        run = run or run_name(self.task.key, len(self.accepted))
        where = {"host": host} if host else {}
        about = {t.schedule: t.about for t in self.trials}
        rows = {}
        for c in stored:
            detail = "; ".join(x for x in (about.get(c.schedule, ""), c.detail) if x)
            rows[c.schedule] = Measurement(
                self._task, c.schedule, self.fingerprint, c.toolchain, run, c.verdict, tuple(c.samples), detail, **where
            )
        if self._database.add(rows.values()) == len(rows):
            return found
        self._find_known()
        first = {m.key: m for m in self._rows}
        return [_as_stored(c, first.get(rows[c.schedule].key) if c.schedule in rows else None) for c in found]


def _as_stored(c: MeasuredCandidate, m: Measurement | None) -> MeasuredCandidate:
    if m is None:
        return c
    return replace(c, verdict=m.verdict, samples=m.samples, detail=m.detail if m.verdict != "right" else "")


def inputs_key(inputs: Sequence[np.ndarray] | None) -> str:
    """The hash of arrays that a user gave, "" for random ones."""
    return key_of(*(part for a in inputs for part in (a.shape, a.dtype.str, a.tobytes()))) if inputs else ""
