"""Programs that are started while other threads may fork.

A forked child has a copy of each pipe that is open at the fork. Whoever reads a pipe sees its end when the last copy of the end
that is written to is closed, so a child that was forked between the making of a pipe and the closing of that end would keep the
reader waiting for as long as the child lives. A fork waits for that moment to pass: afterwards only the program has that end.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .forks import ForkLock

_STARTS = ForkLock(forks_wait=True)


def start_program(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """As `subprocess.Popen`. Raises OSError where it cannot be started."""
    with _STARTS.held():
        return subprocess.Popen(command, **options)


def run_program(
    command: Sequence[str], timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Its exit status and what it said, at its end. Raises OSError where it cannot be started, and subprocess.TimeoutExpired
    after so many seconds, when it is ended."""
    pipe = subprocess.PIPE
    with start_program(command, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, errors="replace") as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
