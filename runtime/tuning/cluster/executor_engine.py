"""`ExecutorEngine`: work on an executor of `concurrent.futures`, or one like it.

ALONE    Compilers on the same machine disturb measurements. Threads and processes of the standard library are on this machine:
         they measure while nothing is compiled. Of other executors nothing is known.
ONE      One measurement runs at a time: nothing says how many devices an executor has.
RENEWED  A pool of processes is broken for good when one of them dies. A function that makes executors is called for a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from ....dsl.errors.run import ArgumentKind, ExecutorFailed
from ...native import cpu_features
from .engine import MEASURE
from .remote_tasks import interrupt_here


class ExecutorEngine:
    """An executor that a user gives, or that a function of theirs makes; None: threads of this process."""

    def __init__(self, executor: Executor | Callable[[], Executor] | None) -> None:
        self._make = executor if callable(executor) and not hasattr(executor, "submit") else None
        if executor is None:
            self._make = lambda: ThreadPoolExecutor(cpu_features.usable_cores())
        self._executor: Any = executor if self._make is None else self._make()
        self._own = self._make is not None
        if not callable(getattr(self._executor, "submit", None)):
            raise ArgumentKind(
                f"executor is a {type(self._executor).__name__}; expected one with `submit`, as those of `concurrent.futures`",
                help="or a function that makes one, or the address of a Dask scheduler",
            )
        self.measures_alone = isinstance(self._executor, (ThreadPoolExecutor, ProcessPoolExecutor))
        self.names_worker = False
        interrupt_here(False)

    def submit(self, kind: str, target: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._executor.submit(function, *arguments)

    def slots(self, kind: str) -> int:
        return 1 if kind == MEASURE else self.workers() or cpu_features.usable_cores()

    def workers(self) -> int | None:
        count = getattr(self._executor, "_max_workers", None)  # the executors of the standard library tell nobody
        return count if isinstance(count, int) else None

    def lacking(self, kind: str, target: str) -> str:
        return ""

    def abandon(self, future: Future[Any]) -> bool:
        runs = not future.cancel()
        return runs and self.measures_alone  # of other executors' futures nothing is known

    def renew(self, reason: str) -> None:
        if self._make is None:
            raise ExecutorFailed(
                f"the executor broke: {reason}",
                help="give a function that makes one, as `executor=lambda: ProcessPoolExecutor(4)`",
            )
        self.close()
        self._executor = self._make()

    def interrupt(self) -> None:
        interrupt_here(isinstance(self._executor, ThreadPoolExecutor))

    def close(self) -> None:
        if self._own:
            self._executor.shutdown(wait=False, cancel_futures=True)
