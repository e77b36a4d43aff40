"""Locks, and what else a process has once, where a process may be forked while another thread is at it.

A forked child has one thread, the one that forked. A lock that another thread held at that moment would be held for ever in the
child. What most locks here protect is replaced in one step, or begun anew by the next one who wants it, so the child may go on
from what it finds: its locks are free. Where that is not so, a fork waits until the lock is free.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ForkLock:
    """A lock that the same thread may take again, and that a forked child finds free. `forks_wait`: a fork waits for it."""

    def __init__(self, forks_wait: bool = False) -> None:
        self._lock = lock = threading.RLock()
        if not forks_wait:
            _locks.add(self)
        elif hasattr(os, "register_at_fork"):
            os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Has it while the block runs."""
        with self._lock:  # looked up once: a child that was forked in this block gives back what was taken
            yield

    def renew(self) -> None:
        self._lock = threading.RLock()


def in_children(renew: Callable[[], object]) -> None:
    """Calls this in each process that is forked from now on, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew() -> None:
    for lock in list(_locks):
        lock.renew()


in_children(_renew)
