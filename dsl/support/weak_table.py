"""`WeakTable`: the one object for each key, for as long as anything else refers to it.

It is what `weakref.WeakValueDictionary` does, with fewer calls: most of what a compilation makes is looked up in one.
"""

from __future__ import annotations

from _weakref import _remove_dead_weakref as remove_dead  # type: ignore[attr-defined] - as `weakref` does: it is one step
from collections.abc import Hashable
from typing import Any, Generic, TypeVar
from weakref import ref

_T = TypeVar("_T")


class _Reference(ref):
    __slots__ = ("key",)

    key: Hashable


class WeakTable(Generic[_T]):
    """Threads may use it at once: each step is one operation of a dictionary. The key of an object is freed with the object.

    reference   of a key: a weak reference to its object, which may be gone, or None
    """

    def __init__(self) -> None:
        self._references: dict[Any, _Reference] = {}
        references = self._references

        def freed(gone: _Reference) -> None:
            remove_dead(references, gone.key)

        self.reference, self._reference_or, self._freed = references.get, references.setdefault, freed

    def __len__(self) -> int:
        return len(self._references)

    def only(self, key: Hashable, new: _T) -> _T:
        """The object of that key: this one, if no other thread made one."""
        mine = _Reference(new, self._freed)
        mine.key = key
        while (known := self._reference_or(key, mine)) is not mine:
            found = known()
            if found is not None:
                return found
            remove_dead(self._references, key)
        return new
