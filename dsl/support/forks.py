"""Locks and other state of a process that may be forked while another thread uses them.

A forked child has one thread, the one that forked. A lock of another thread would stay locked for ever in the child. Most data
that locks protect here is replaced in one step, or started again by its next user, so the child may use it as it is: its locks
are free. Otherwise a fork waits until the lock is free.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager


class ForkLock:
    """A lock that the same thread may take again, and that a forked child finds free. `forks_wait`: a fork waits for it."""

    def __init__(self, forks_wait: bool = False) -> None:
        self._lock = threading.RLock()
        if forks_wait:
            _waited_for.append(self._lock)
        else:
            _locks.add(self)

    def held(self) -> AbstractContextManager[bool]:
        """For a block that has it. A child that was forked in the block gives back what was taken."""
        return self._lock

    def renew(self) -> None:
        self._lock = threading.RLock()


def in_children(renew: Callable[[], object]) -> None:
    """Calls this in each process that is forked from now on, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()
_waited_for: list[threading.RLock] = []
_held: list[threading.RLock] = []  # by the fork that is under way; another thread may add to the others meanwhile


def _renew() -> None:
    for lock in list(_locks):
        lock.renew()


def _hold_all() -> None:
    """Takes each lock that forks wait for. It has none while it waits, as the holder of one may wait for another."""
    order = list(_waited_for)
    while order:
        taken: list[threading.RLock] = []
        for lock in order:
            if not lock.acquire(blocking=not taken):
                break
            taken.append(lock)
        else:
            _held[:] = taken
            break
        for other in taken:
            other.release()
        order.remove(lock)
        order.insert(0, lock)


def _release_all() -> None:
    taken = list(_held)
    _held.clear()
    for lock in taken:
        lock.release()


in_children(_renew)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)
