"""`Dispatcher`: gives work to an engine, and what was lost again, to another worker.

NOTHING_LOST  Work whose worker dies, or is late, is done again, a bounded number of times. Who asked for it decides what
              follows when that does not help. A failure of the connection counts for no work: all that was under way is done
              again.
SUSPECTS      Where an executor does not say whose fault a failure was, work that was under way is done again alone.
LATE          Nothing of its kind came back for as long as one piece of work may take: then the oldest is late. So it does not
              matter how long work waits for a worker. Where the engine has none that could run it, it only waits, and what for
              is said now and then. Where it is not known whether a worker had it, it is `unanswered`.
UNABLE        A worker that lacks memory, or a file, says nothing of the work. Another one may have it, or the same one later.
              Such failures are counted apart: work does not become suspect by them.
BOUNDED       An executor that fails again and again without any result is given up.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from typing import Any

from ....dsl.errors import AndironError, InternalError
from ....dsl.errors.run import ExecutorFailed, VersionsDiffer
from .engine import Engine
from .task import SAME_VERSION

_MOMENT = 1.0  # seconds after which limits are looked at again
_SAID = 300.0  # seconds after which it is said again what is waited for
_RENEWALS = 5  # BOUNDED
_TRIES = 2  # UNABLE
_INTERRUPTIONS = 10  # of one piece of work: more come of the work itself
# A fault of the functions that are called: it would be the same elsewhere.
_OURS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, NotImplementedError, TypeError, ValueError)
_UNABLE = (MemoryError, OSError)  # but those of a connection
_CONNECTION = (CancelledError, ConnectionError, TimeoutError, EOFError)


@dataclass
class Work:
    """A call that an engine makes somewhere.

    kind, target  for which worker                 limit  seconds that it may take
    most          how often it may fail            done   is told the result
    refused       is told of a mistake of the user's, which would be the same elsewhere
    lost          is told that it failed too often: `died`, `late`, `unanswered` or `unable`, and the last reason
    rank          work of a lower rank comes first       patient  whether it waits for a worker as long as there is none
    wanted        is asked when it is about to be given out: False where somebody else has done it meanwhile
    """

    kind: str
    target: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    limit: float
    most: int
    done: Callable[[Any], None]
    refused: Callable[[AndironError], None]
    lost: Callable[[str, str], None]
    rank: float = 0.0
    patient: bool = True
    wanted: Callable[[], bool] = lambda: True
    failures: int = 0
    unable: int = 0  # how often a worker was unable to do it
    interruptions: int = 0
    alone: bool = False  # SUSPECTS


@dataclass
class _Running:
    work: Work
    future: Future[Any]
    since: float


@dataclass
class Dispatcher:
    """Work that waits, and work that is under way. `say` is told of failures."""

    engine: Engine
    say: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    tick: Callable[[], None] = lambda: None  # called now and then while nothing happens
    _waiting: dict[str, list[tuple[float, int, Work]]] = field(default_factory=dict)  # heaps, by kind
    _alone: list[tuple[float, int, Work]] = field(default_factory=list)  # SUSPECTS, before all others
    _running: dict[int, _Running] = field(default_factory=dict)
    _busy: Counter[str] = field(default_factory=Counter)  # how much of a kind is under way
    _events: SimpleQueue[int] = field(default_factory=SimpleQueue)
    _numbers: Any = field(default_factory=count)
    _heard: dict[str, float] = field(default_factory=dict)  # LATE: when work of a kind came back
    _looked: float = 0.0  # LATE: when limits were looked at
    _renewals: int = 0
    _lacking: dict[str, float] = field(default_factory=dict)  # LATE: what is waited for, and when that was said

    def add(self, work: Work) -> None:
        """Adds work. That of a lower rank comes first."""
        heap = self._alone if work.alone else self._waiting.setdefault(work.kind, [])
        heapq.heappush(heap, (work.rank, next(self._numbers), work))

    def run(self) -> None:
        """Until there is no more work. Raises ExecutorFailed, and what `done` and the like raise."""
        while self._running or self._alone or any(self._waiting.values()):
            self._start()
            self._step()

    def close(self) -> None:
        """Forgets all work."""
        for running in self._running.values():
            running.future.cancel()
        for forgotten in (self._running, self._busy, self._waiting, self._alone):
            forgotten.clear()

    # ------------------------------------------------------------ starting

    def _start(self) -> None:
        """Starts what may start, in order."""
        while (work := self._next()) is not None:
            if work.wanted() and not self._submit(work):
                return

    def _next(self) -> Work | None:
        """The work to start now, taken out of what waits."""
        if self._running and (self._alone or (len(self._running) == 1 and next(iter(self._running.values())).work.alone)):
            return None
        if self._alone:
            return heapq.heappop(self._alone)[-1]
        for *_, work in sorted(heap[0] for heap in self._waiting.values() if heap):
            if self.engine.measures_alone and len(self._running) > self._busy[work.kind]:
                return None  # what comes after it would make it wait longer
            if self._busy[work.kind] < self.engine.slots(work.kind):
                return heapq.heappop(self._waiting[work.kind])[-1]
        return None

    def _submit(self, work: Work) -> bool:
        number = next(self._numbers)
        try:
            future = self.engine.submit(work.kind, work.target, work.function, *work.arguments)
        except (BrokenExecutor, RuntimeError, OSError) as error:  # RuntimeError: it was shut down
            self.add(work)
            self._renew(error)
            return False
        self._running[number] = _Running(work, future, self.clock())
        self._busy[work.kind] += 1
        future.add_done_callback(lambda _: self._events.put(number))
        return True

    # ------------------------------------------------------------ what comes back

    def _step(self) -> None:
        number = None
        with suppress(Empty):
            number = self._events.get(timeout=_MOMENT)
        running = self._remove(number)
        if running is not None:  # else somebody else has done it meanwhile
            self._came_back(running)
        if self.clock() >= self._looked + _MOMENT:
            self._looked = self.clock()
            self.tick()
            self._look_for_workers()
            self._abandon_late()

    def _remove(self, number: int | None) -> _Running | None:
        running = None if number is None else self._running.pop(number, None)
        if running is not None:
            self._busy[running.work.kind] -= 1
        return running

    def _came_back(self, running: _Running) -> None:
        work, future = running.work, running.future
        error = CancelledError("it was cancelled") if future.cancelled() else future.exception()
        if isinstance(error, (BrokenExecutor, *_CONNECTION)):
            return self._renew(error, running)
        self._heard[work.kind] = self.clock()
        if error is None:
            self._renewals = 0
            work.done(future.result())
        elif isinstance(error, AndironError):
            work.refused(error)
        elif isinstance(error, ImportError):  # it does not know the function, or what that needs
            work.refused(VersionsDiffer(f"a worker lacks what the task needs: {error}", help=SAME_VERSION))
        elif isinstance(error, _OURS):
            work.refused(InternalError(f"{type(error).__name__}: {error}"))
        elif isinstance(error, _UNABLE):
            self._unable(work, _in_words(error))
        else:
            self._failed(work, "died", f"{type(error).__name__}: {error}")

    def _failed(self, work: Work, how: str, reason: str) -> None:
        work.failures += 1
        first = (reason or how).splitlines()[0].partition(". ")[0]
        if work.failures >= work.most:
            return work.lost(how, first)
        self._again(work, first)

    def _unable(self, work: Work, reason: str) -> None:
        """UNABLE"""
        work.unable += 1
        first = reason.splitlines()[0]
        if work.unable >= max(work.most, _TRIES):
            return work.lost("unable", first)
        self._again(work, first)

    def _again(self, work: Work, reason: str) -> None:
        self.say(f"a worker failed, and its work is done again: {reason}")
        self.add(work)

    def _renew(self, error: BaseException, *failed: _Running) -> None:
        """All that is under way is done again; what has come is kept. SUSPECTS"""
        blamed = isinstance(error, BrokenExecutor) and not self.engine.names_worker
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        self._renewals += 1
        under_way = [*self._running.values(), *failed]
        self._running.clear()
        self._busy.clear()
        if self._renewals > _RENEWALS:
            raise ExecutorFailed(f"the executor failed {self._renewals} times without a result: {reason}")
        self.engine.renew(reason)
        for running in under_way:
            future, work = running.future, running.work
            if future.done() and not future.cancelled() and future.exception() is None:
                work.done(future.result())
            elif blamed or work.interruptions >= _INTERRUPTIONS:
                work.alone = True
                self._failed(work, "died", reason)
            else:
                work.interruptions += 1
                self.add(work)

    # ------------------------------------------------------------ LATE

    def _limit(self, running: _Running) -> float:
        since = max(running.since, self._heard.get(running.work.kind, 0.0))
        return since + running.work.limit - self.clock()

    def _look_for_workers(self) -> None:
        """LATE"""
        lacking: dict[str, float] = {}
        for running in self._running.values():
            what = self.engine.lacking(running.work.kind, running.work.target)
            if what and running.work.patient:
                running.since = self.clock()
            if what:
                lacking[what] = self._lacking.get(what, -inf)
        for what, said in lacking.items():
            if self.clock() >= said + _SAID:
                self.say(f"waiting for {what}")
                lacking[what] = self.clock()
        self._lacking = lacking

    def _abandon_late(self) -> None:
        for number, running in list(self._running.items()):
            if self._limit(running) > 0:
                continue
            self._remove(number)
            how = "late" if self.engine.abandon(running.future) else "unanswered"
            self._heard[running.work.kind] = self.clock()
            self._failed(running.work, how, f"no answer for {running.work.limit:.0f} s")
            return


def _in_words(error: BaseException) -> str:
    """UNABLE"""
    what = "it has not enough memory" if isinstance(error, MemoryError) else "the system refused it something"
    return f"{what}: {error}" if str(error) else what
