"""`WeakTable`: the one object for each key, for as long as anything else refers to it.

It is what `weakref.WeakValueDictionary` does, with fewer calls: most of what a compilation makes is looked up in one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar
from weakref import ref

from .forks import ForkLock

_T = TypeVar("_T")


class _Reference(ref):
    __slots__ = ("key",)

    key: Hashable


class WeakTable(Generic[_T]):
    """Threads may use it at once. The key of an object is freed with the object.

    reference   of a key: a weak reference to its object, which may be gone, or None
    """

    def __init__(self) -> None:
        self._references: dict[Any, _Reference] = {}
        self.reference = self._references.get
        self._lock = ForkLock()

    def __len__(self) -> int:
        return len(self._references)

    def only(self, key: Hashable, new: _T) -> _T:
        """The object of that key: this one, if no other thread made one."""
        with self._lock.held():
            known = self._references.get(key)
            found = None if known is None else known()
            if found is not None:
                return found
            self._references[key] = mine = _Reference(new, self._freed)
            mine.key = key
            return new

    def _freed(self, gone: _Reference) -> None:
        with self._lock.held():
            if self._references.get(gone.key) is gone:  # and no other object came in the meantime
                del self._references[gone.key]
