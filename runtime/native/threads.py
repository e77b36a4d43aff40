"""The number of threads that may take part in a call."""

from __future__ import annotations

import os
from typing import Any

from ...codegen.abi import MAX_THREADS
from ...dsl.errors.run import ArgumentKind
from . import cpu_features


def checked_threads(threads: Any) -> int:
    """A number of threads, at least 1; `MAX_THREADS` for more. Raises ArgumentKind."""
    try:
        count = int(threads)
    except (TypeError, ValueError):
        count = 0
    if count < 1 or count != threads:
        raise ArgumentKind(f"threads is {threads!r}; expected a whole number from 1 on")
    return min(count, MAX_THREADS)


def default_threads() -> int:
    """ANDIRON_THREADS, or as many as this process may use cores."""
    text = os.environ.get("ANDIRON_THREADS", "")
    return checked_threads(int(text) if text.isdigit() else text) if text else checked_threads(cpu_features.usable_cores())
