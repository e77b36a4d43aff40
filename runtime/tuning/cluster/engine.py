"""What runs the parts of tasks: `Engine`. Executors are in `executor_engine`, a cluster in `dask_engine`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

COMPILE, MEASURE = "compile", "measure"  # kinds of work


class Engine(Protocol):
    """Where work runs.

    measures_alone  whether compilers would disturb measurements
    names_worker    whether a failure is of the work that fails, and not of any that ran at that time
    """

    measures_alone: bool
    names_worker: bool

    def submit(self, kind: str, target: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Raises what the executor raises when it is broken."""
        ...

    def slots(self, kind: str) -> int:
        """How many of a kind are submitted at a time."""
        ...

    def workers(self) -> int | None:
        """How many workers there are; None where that is not known."""
        ...

    def lacking(self, kind: str, target: str) -> str:
        """What is missing for work of a kind for a target, in words; "" where nothing is."""
        ...

    def abandon(self, future: Future[Any]) -> bool:
        """Gives up on work that is late. Whether a worker is known to have had it."""
        ...

    def renew(self, reason: str) -> None:
        """Goes on after a failure of the executor. Raises ExecutorFailed where that is not possible."""
        ...

    def interrupt(self) -> None:
        """Ends what nobody waits for any more, where that can be done."""
        ...

    def close(self) -> None:
        """Ends what the engine started."""
        ...
