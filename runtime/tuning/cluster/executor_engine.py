"""`ExecutorEngine`: work on an executor of `concurrent.futures`, or one like it.

ALONE    Compilers on the same machine disturb measurements. Threads and processes of the standard library are on this machine:
         they measure while nothing is compiled. Of other executors nothing is known.
ONE      One measurement runs at a time: nothing says how many devices an executor has.
RENEWED  A pool of processes is broken for good when one of them dies. A function that makes executors is called for a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from ....dsl.errors.run import ArgumentKind, ExecutorFailed
from ...native import cpu_features
from .engine import MEASURE
from .remote_tasks import interrupt_here

_OF_FUTURES = ("add_done_callback", "cancel", "cancelled", "done", "exception", "result")  # what is asked of them


class ExecutorEngine:
    """An executor that a user gives, or that a function of theirs makes; None: threads of this process."""

    def __init__(self, executor: Executor | Callable[[], Executor] | None) -> None:
        self._make = executor if callable(executor) and not hasattr(executor, "submit") else None
        if executor is None:
            self._make = lambda: ThreadPoolExecutor(cpu_features.usable_cores())
        self._own = self._make is not None
        self._executor: Any = executor if self._make is None else self._made(self._make)
        _expect_executor(self._executor)
        self.measures_alone = isinstance(self._executor, (ThreadPoolExecutor, ProcessPoolExecutor))
        self.names_worker = False
        interrupt_here(False)

    def submit(self, kind: str, target: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            future = self._executor.submit(function, *arguments)
        except (BrokenExecutor, RuntimeError, OSError):  # broken, or shut down: the dispatcher asks for another one
            raise
        except Exception as error:
            raise ExecutorFailed(
                f"`submit` of the executor raised {type(error).__name__}: {error}",
                help="it is called with a function and its arguments, as those of `concurrent.futures` are",
            ) from error
        if lacks := [name for name in _OF_FUTURES if not callable(getattr(future, name, None))]:
            raise ExecutorFailed(
                f"`submit` of the executor gave a {type(future).__name__}, which has no `{lacks[0]}`",
                help="expected a future, as those of `concurrent.futures` are",
            )
        return future

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
        self._executor = self._made(self._make)
        _expect_executor(self._executor)

    def interrupt(self) -> None:
        interrupt_here(isinstance(self._executor, ThreadPoolExecutor))

    def close(self) -> None:
        shutdown = getattr(self._executor, "shutdown", None)
        if self._own and callable(shutdown):
            try:
                shutdown(wait=False, cancel_futures=True)
            except TypeError:  # one of another library
                shutdown(wait=False)

    @staticmethod
    def _made(make: Callable[[], Executor]) -> Executor:
        try:
            return make()
        except Exception as error:
            raise ExecutorFailed(
                f"the function that makes an executor raised {type(error).__name__}: {error}",
                help="it is called without arguments, as `executor=lambda: ProcessPoolExecutor(4)`",
            ) from error


def _expect_executor(given: Any) -> None:
    if not callable(getattr(given, "submit", None)):
        raise ArgumentKind(
            f"executor is a {type(given).__name__}; expected one with `submit`, as those of `concurrent.futures`",
            help="or a function that makes one, or the address of a Dask scheduler",
        )
