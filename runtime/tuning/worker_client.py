"""`WorkerClient`: the other end of `worker`, with deadlines. A worker that dies or is late is replaced.

OTHERS_TURN   Time in which a worker could have run, but others had its core, does not count: deadlines move by it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...dsl.errors import InternalError
from ...dsl.support.processes import start_program

NO_MEMORY = 12  # exit status of a worker that cannot even read a request, or write its answer
_START = 60.0  # seconds until a worker must have its inputs
_MOMENT = 0.05  # seconds that a deadline is not moved for


class WorkerFailed(Exception):
    """A request that was `refused`, that took the worker down (`died`), or that was cut short (`late`): its verdict.

    Where there was no memory for it, that is no verdict on a candidate: `unable`.
    """

    def __init__(self, reason: str, verdict: str = "refused") -> None:
        super().__init__(reason)
        self.verdict = verdict

    @property
    def late(self) -> bool:
        """Whether it was cut short."""
        return self.verdict == "late"


class WorkerClient:
    """A process that runs kernels. `prepare(ask)` gives a new worker its inputs."""

    def __init__(self, prepare: Callable[[Callable[..., Any]], None]) -> None:
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether the worker of the last request is still there."""
        return self._process is not None

    def ask(self, what: str, *arguments: Any, limit: float = _START) -> Any:
        """The worker's answer, within `limit` seconds of its own (OTHERS_TURN).

        Raises Failed; then the next request goes to a new worker.
        """
        if self._process is None:
            self._process = _start()
            try:
                self._prepare(self.ask)
            except WorkerFailed as error:
                if error.verdict == "unable":
                    raise MemoryError(str(error)) from None
                raise InternalError(f"the process that measures does not work: {error}") from None
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = _Deadline(process, limit)
        try:
            pickle.dump((what, *arguments), process.stdin, protocol=5)
            process.stdin.flush()
            status, value = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = process.wait()
            self.close()
            if deadline.passed:
                raise WorkerFailed("took too long", "late") from None
            if code == NO_MEMORY:
                raise WorkerFailed("no memory for a request to the process that measures", "unable") from None
            raise WorkerFailed(f"ended the process: {_why(code)}", "died") from None
        except BaseException:
            self.close()  # its answer would be taken for that of the next request
            raise
        finally:
            deadline.cancel()
        if status != "ok":
            raise WorkerFailed(value, "refused" if status == "error" else status)
        return value

    def close(self) -> None:
        """Ends the worker."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                process.kill()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    if stream is not None:
                        stream.close()
            process.wait()

    def __enter__(self) -> WorkerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Deadline:
    """Ends a process after so many seconds of its own. OTHERS_TURN"""

    def __init__(self, process: subprocess.Popen[bytes], limit: float) -> None:
        self.passed = False
        self._process, self._waited = process, _waited(process.pid)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._wait(limit)

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            before, self._waited = self._waited, _waited(self._process.pid)
            if self._waited - before > _MOMENT:
                return self._wait(self._waited - before)
            self.passed = True
            with suppress(OSError):
                self._process.kill()

    def cancel(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None


def _waited(pid: int) -> float:
    """Seconds for which a process could have run and others did; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/schedstat") as f:
            return int(f.read().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


def _start() -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise InternalError("measuring takes a process of its own, and Python does not say where its interpreter is")
    package = __name__.partition(".runtime.")[0]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    code = f"from {package}.runtime.tuning.worker import main; main()"
    return start_program(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        start_new_session=True,  # Ctrl-C at the terminal is for the search, which decides what becomes of the worker
    )


def _why(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit status {code}"
