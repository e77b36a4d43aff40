"""Garbage collection while something is parsed or compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .forks import ForkLock, in_children


@contextmanager
def postpone_collection() -> Iterator[None]:
    """Cycles of garbage are looked for afterwards: a compilation makes hardly any, and keeps most of what it makes to its end,
    which would be looked through again and again. Where several threads are at it, it is when the last one has ended."""
    global _waiting, _stopped
    with _lock.held():
        if _waiting == 0:
            _stopped = gc.isenabled()
            gc.disable()
        _waiting += 1
    try:
        yield
    finally:
        with _lock.held():
            _waiting = max(0, _waiting - 1)  # in a forked child it has begun anew
            if _waiting == 0 and _stopped:
                gc.enable()


_waiting = 0  # how many blocks there are at the moment
_stopped = False  # whether the first of them stopped it
_lock = ForkLock()


def _begin_anew() -> None:
    """In a forked child, which has none of the other threads."""
    global _waiting
    if _waiting and _stopped:
        gc.enable()
    _waiting = 0


in_children(_begin_anew)
