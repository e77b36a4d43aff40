"""`DaskEngine`: work on a cluster of Dask, of which `distributed` is the client.

RESOURCES  A worker that measures declares a resource: `measure=1`, for GPUs `gpu=1`, or one of the target's name. Each
           measurement takes one of it, so a worker with one measures alone, and with one thread it compiles nothing meanwhile.
           Work that compiles asks for `compile` where workers declare that, or did, else it runs anywhere.
FIRST      Dask's client takes its time for an address where nothing is, and is never rid of a failed attempt: so a plain
           connection is tried before it.
QUIET      Dask's client logs lost connections with tracebacks. Who waits is told in words by the campaign.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any
from uuid import uuid4

from ....dsl.errors.run import ExecutorFailed, NoPackage
from .engine import COMPILE, MEASURE

LOGGERS = ("distributed", "distributed.client")  # those that have levels and handlers of their own (QUIET)
_ADDRESS = re.compile(r"(?:(?P<scheme>\w+)://)?(?P<host>\[[^\]/]+\]|[^:/\[\]]+):(?P<port>\d{1,5})")
_PATIENCE = 60.0  # seconds to wait for a scheduler that is started again
_KNOCK = 0.2  # seconds between two attempts at that
_NEWS = 2.0  # seconds for which what the scheduler said of its workers is believed


class DaskEngine:
    """The scheduler at an address, as `tcp://host:8786`."""

    measures_alone = False
    names_worker = True  # the scheduler tells which work was on a worker that died

    def __init__(self, address: str) -> None:
        self._place = _host_and_port(address)
        try:
            from distributed import Client  # type: ignore[import-not-found]
        except ImportError:
            raise NoPackage("a cluster's address needs Dask's client", help="pip install 'andiron[cluster]'") from None
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address, self._connect = address, Client
        self._client = self._connected()
        self._submitted: dict[Future[Any], Any] = {}
        self._resources: list[dict[str, float]] = []
        self._names: set[str] = set()  # of resources that workers have, or had
        self._threads, self._asked = 0, -_NEWS

    def submit(self, kind: str, target: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        name = self._resource(kind, target)
        work = self._client.submit(
            function,
            *arguments,
            key=f"andiron-{kind}-{uuid4().hex}",
            pure=False,
            resources={name: 1} if name else None,
            priority=1 if kind == MEASURE else 0,
        )
        answer: Future[Any] = Future()
        self._submitted[answer] = work
        work.add_done_callback(lambda done: _pass_on(done, answer))
        answer.add_done_callback(lambda done: self._submitted.pop(done, None))
        return answer

    def slots(self, kind: str) -> int:
        self._ask()
        if kind == COMPILE:
            return max(1, 2 * self._threads)
        measuring = sum(n for known in self._resources for name, n in known.items() if name != COMPILE)
        return max(1, int(measuring))

    def workers(self) -> int | None:
        self._ask()
        return len(self._resources)

    def abandon(self, future: Future[Any]) -> bool:
        """The worker is ended, for what it runs may never end. Its nanny, or who else started it, starts it again."""
        work = self._submitted.get(future)
        future.cancel()
        if work is None:
            return False
        busy: list[str] = []
        with suppress(Exception):  # it may be gone
            busy = [worker for worker, keys in self._client.processing().items() if work.key in keys]
            self._client.cancel([work], force=True)
            if busy:
                self._client.run(os._exit, 1, workers=busy, on_error="ignore")
        return bool(busy)

    def renew(self, reason: str) -> None:
        self.close()
        self._client = self._connected()

    def interrupt(self) -> None:
        with suppress(Exception):  # it may be gone
            self._client.cancel(list(self._submitted.values()))

    def close(self) -> None:
        with suppress(Exception):
            self._client.close(timeout=1)

    def _connected(self) -> Any:
        try:
            self._knock()
            return self._connect(self._address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ExecutorFailed(
                f"no scheduler answers at {self._address}: {reason}", help="`dask scheduler` starts one, and prints its address"
            ) from None

    def _knock(self) -> None:
        """FIRST. Raises OSError."""
        until = time.monotonic() + _PATIENCE
        while self._place is not None:
            try:
                return socket.create_connection(self._place, timeout=_PATIENCE).close()
            except socket.gaierror as error:  # no host has the name
                raise OSError(error.strerror) from None
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(_KNOCK)

    def lacking(self, kind: str, target: str) -> str:
        name = self._resource(kind, target)
        if any(name is None or name in worker for worker in self._resources):
            return ""
        what = "a worker that measures" if kind == MEASURE else "a worker that compiles" if name else "a worker"
        return f"{what}: `dask worker {self._address} --nthreads 1" + (f" --resources {name}=1`" if name else "`")

    def _resource(self, kind: str, target: str) -> str | None:
        """RESOURCES. What has gone counts too, so that work which waits and work which comes wait for the same workers."""
        self._ask()
        if kind == COMPILE:
            return COMPILE if COMPILE in self._names else None
        return target if target in self._names else "measure" if target.partition(":")[0] == "cpu" else "gpu"

    def _ask(self) -> None:
        if time.monotonic() < self._asked + _NEWS:
            return
        self._asked = time.monotonic()
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except TypeError:  # earlier versions tell of all
            workers = self._client.scheduler_info()["workers"].values()
        self._resources = [worker["resources"] for worker in workers]
        self._names.update(name for known in self._resources for name in known)
        compiling = [worker for worker in workers if COMPILE in worker["resources"]] or workers
        self._threads = sum(worker["nthreads"] for worker in compiling)


def _host_and_port(address: str) -> tuple[str, int] | None:
    """Where a connection can be tried; None for what is no TCP. Raises ExecutorFailed for an address without a port."""
    if address.startswith("inproc://"):
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        host = address.partition("://")[2] or address
        example = f"tcp://{host}:8786" if re.fullmatch(r"[\w.-]+", host) else "tcp://host:8786"
        raise ExecutorFailed(
            f"`{address}` is no address of a scheduler: it has no host and port",
            help=f"as {example}; `dask scheduler` prints its address",
        )
    return (found["host"].strip("[]"), int(found["port"])) if found["scheme"] in (None, "tcp", "tls") else None


def _pass_on(done: Any, answer: Future[Any]) -> None:
    """The result of Dask's future, or its failure."""
    with suppress(InvalidStateError):  # nobody waits for it any more
        try:
            if done.status == "finished":
                return answer.set_result(done.result())
            error = done.exception() if done.status == "error" else None
        except BaseException as raised:
            error = raised
        answer.set_exception(error if error is not None else CancelledError(f"{done.key} was {done.status}"))
