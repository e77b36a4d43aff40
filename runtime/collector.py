"""Garbage collection while something is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_waits() -> Iterator[None]:
    """Cycles of garbage are looked for afterwards: a compilation makes hardly any, and keeps most of what it makes to its end,
    which would be looked through again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
