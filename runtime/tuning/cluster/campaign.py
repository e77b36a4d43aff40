"""`Campaign`: many tasks on one engine, with one database.

ONCE   Tasks that are alike are one. What the database has is not measured again: a campaign that was cut off, or whose
       scheduler was started again, goes on where the database stands.
AHEAD  Tasks are begun in their order, a few ahead of the one that is measured: workers that compile have work, and what is
       compiled and waits stays little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ....dsl.errors import AndironError
from ....dsl.errors.database import DatabaseFailed
from ..database.database import Database
from .dispatcher import Dispatcher, Work
from .engine import COMPILE, MEASURE, Engine
from .patient_database import PatientDatabase
from .remote_tasks import describe_machine
from .task import Machine
from .task_run import TaskRun

_DESCRIBING = 120.0  # seconds after which a worker that is asked what it is is late
_FAILURES = 3  # workers that may fail at that


@dataclass
class Campaign:
    """Tasks, in the order in which they are begun.

    database  where results go as they come; None: nowhere
    say       is told of failures               watch  is called when something has changed
    stopped   why it ended early; "" where it did not       failed  the error of a database that stayed away
    """

    engine: Engine
    runs: Sequence[TaskRun]
    database: Database | None = None
    say: Callable[[str], None] = lambda _: None
    watch: Callable[[Campaign], None] = lambda _: None
    stopped: str = ""
    failed: DatabaseFailed | None = None
    began: float = field(default_factory=time.monotonic)
    _beginning: bool = False

    def __post_init__(self) -> None:
        """ONCE"""
        first: dict[str, TaskRun] = {}
        for r in sorted(self.runs, key=lambda r: -r.task.trials):  # of a search the longest
            first.setdefault(r.task.key, r)
        self.runs = [first[r.task.key] for r in self.runs]
        self.distinct = list({id(r): r for r in self.runs}.values())
        for number, run in enumerate(self.distinct):
            run.rank = float(number)
        if self.database is not None:
            self.database = PatientDatabase(self.database, self.say)
        self._machines: dict[tuple[str, int | None], tuple[Machine, str]] = {}
        self._dispatcher = Dispatcher(self.engine, self.say, tick=self._changed)

    def run(self) -> None:
        """Does what the tasks ask for. Ctrl-C ends it: what was measured by then counts.

        A database that stays away ends it too (`failed`). Raises ExecutorFailed, and what else the database raises.
        """
        groups: dict[tuple[str, int | None], TaskRun] = {}
        for r in self.distinct:
            groups.setdefault((r.task.target, r.task.threads), r)
        try:
            for group, one in groups.items():
                self._dispatcher.add(
                    Work(
                        MEASURE, one.task.target, describe_machine, (one.task,), _DESCRIBING, _FAILURES,
                        partial(self._described, group), partial(self._not_described, group),
                        partial(self._no_answer, group), -1.0, patient=False,
                    )
                )  # fmt: skip
            self._dispatcher.run()
        except KeyboardInterrupt:
            self.stopped = "interrupted"
            self.engine.interrupt()
        except DatabaseFailed as error:
            self.stopped, self.failed = "the database failed", error
            self.engine.interrupt()
        finally:
            self._dispatcher.close()
            self.watch(self)

    @property
    def ended(self) -> int:
        """How many of the distinct tasks have ended."""
        return sum(r.ended for r in self.distinct)

    @property
    def measured(self) -> int:
        """How many candidates were measured, those that were known before not among them."""
        return sum(r.measured for r in self.distinct)

    def seconds_left(self) -> float | None:
        """The time that the tasks which have not ended take, if they take as long as the others did; None: not known."""
        new = sum(1 for r in self.distinct if r.ended and r.measured)
        if not new:
            return None
        return (time.monotonic() - self.began) / new * (len(self.distinct) - self.ended)

    # ------------------------------------------------------------ machines

    def _described(self, group: tuple[str, int | None], found: tuple[Machine, str]) -> None:
        self._machines[group] = found
        self._changed()

    def _not_described(self, group: tuple[str, int | None], error: AndironError) -> None:
        self._none_measures(group, error.message, error)

    def _no_answer(self, group: tuple[str, int | None], how: str, reason: str) -> None:
        lacking = self.engine.lacking(MEASURE, group[0])
        self._none_measures(group, f"no worker measures ({how}: {reason})" + (f"; it takes {lacking}" if lacking else ""))

    def _none_measures(self, group: tuple[str, int | None], reason: str, error: AndironError | None = None) -> None:
        for r in self.distinct:
            if (r.task.target, r.task.threads) == group:
                r.state, r.reason, r.error = "failed", reason, error
        self._changed()

    # ------------------------------------------------------------ AHEAD

    def _changed(self) -> None:
        if not self._beginning:  # a task that ends as it begins calls this again
            self._beginning = True
            self._begin()
            self._beginning = False
        self.watch(self)

    def _begin(self) -> None:
        slots = self.engine.slots(COMPILE) + 2 * self.engine.slots(MEASURE)
        open_runs = sum(r.state in ("compiling", "measuring") for r in self.distinct)
        for r in self.distinct:
            known = self._machines.get((r.task.target, r.task.threads))
            if r.state == "waiting" and known is not None and open_runs < slots:
                r.state = "compiling"
                r.start(*known, self._dispatcher, self.database, self._changed)
                open_runs += not r.ended
