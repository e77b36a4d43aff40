"""Races: which unit last read and wrote each element, and when.

Time is the number of leaf statements executed so far in the launch. An access by unit u at time t is ordered before a later
one by unit v if

    SAME_GROUP   they are one unit, or lockstep siblings (which run statement by statement together; within one statement all
                 reads come before all writes), or
    BARRIER      a unit of some level has both below it, and its units reached a barrier after t.

Two accesses of one element, at least one a write and not both atomic, that are not ordered are a race; so are different values
that lockstep siblings write to one element in one statement.

Little needs to be remembered, because ordering is transitive (levels nest, so the larger of two barriers has all units below
it). One last writer is enough, and readers only since that write. The latest two readers with different units are stored at
each *grain* (level below the buffer's): a third one is older than one of these two at the same grain or above, and a barrier
that orders that one orders it as well.
"""

from __future__ import annotations

import numpy as np

from .frame import UnitTree

_NEVER = -1  # unit: no unit has accessed the element [fact: marker]


class Clock:
    """Time in a launch, and when each unit of each level last met in a barrier."""

    def __init__(self, tree: UnitTree) -> None:
        self.tree = tree
        self.now = 0
        self._met: dict[int, np.ndarray] = {}  # innermost units below one unit of the level -> time by unit

    def meet(self, size: int, ids: np.ndarray) -> None:
        """The innermost units `ids`, whole units of a level with `size` below each, have met."""
        met = self._met.get(size)
        if met is None:
            met = self._met[size] = np.full(-(-self.tree.total // size), _NEVER, np.int64)
        met[ids // size] = self.now

    def unordered(self, old: np.ndarray, then: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Where an access by units `old` at times `then` is not ordered before one by units `new` now."""
        bad = (old != _NEVER) & (old // self.tree.lock != new // self.tree.lock)
        if bad.any():
            for size, met in self._met.items():
                group = new // size
                bad &= ~((old // size == group) & (met[group] > then))
        return bad


class _Latest:
    """The latest two accesses with different units, at one grain, of each element."""

    def __init__(self, size: int, elements: int) -> None:
        self.size = size
        self.first = np.full(elements, _NEVER, np.int64)
        self.first_time = np.full(elements, _NEVER, np.int64)
        self.second = np.full(elements, _NEVER, np.int64)
        self.second_time = np.full(elements, _NEVER, np.int64)

    def record(self, where: np.ndarray, units: np.ndarray, now: int) -> None:
        old, old_time = self.first[where], self.first_time[where]
        self.first[where] = units
        self.first_time[where] = now
        winner = self.first[where]  # of several units that access one element at once
        moved = (old != _NEVER) & (old // self.size != winner // self.size)
        if moved.any():
            self.second[where[moved]] = old[moved]
            self.second_time[where[moved]] = old_time[moved]
        lost = units // self.size != winner // self.size
        if lost.any():
            self.second[where[lost]] = units[lost]
            self.second_time[where[lost]] = now

    def clear(self, where: np.ndarray) -> None:
        self.first[where] = _NEVER
        self.second[where] = _NEVER


Conflict = tuple[int, int, int, str]  # position in the access, earlier unit, its time, what it did


class Shadow:
    """The accesses of one buffer in one launch."""

    def __init__(self, clock: Clock, elements: int, grains: tuple[int, ...], atomics: bool) -> None:
        self.clock = clock
        self._writer = np.full(elements, _NEVER, np.int64)
        self._written = np.full(elements, _NEVER, np.int64)
        self._reads = [_Latest(size, elements) for size in grains]
        self._atomics = [_Latest(size, elements) for size in grains] if atomics else []

    def read(self, where: np.ndarray, units: np.ndarray) -> Conflict | None:
        found = self._against_write(where, units) or self._against(self._atomics, "combined", where, units)
        for latest in self._reads:
            latest.record(where, units, self.clock.now)
        return found

    def write(self, where: np.ndarray, units: np.ndarray) -> Conflict | None:
        """Also finds two groups that write one element in this very statement."""
        found = (
            self._against_write(where, units)
            or self._against(self._reads, "read", where, units)
            or self._against(self._atomics, "combined", where, units)
        )
        self._writer[where] = units
        self._written[where] = self.clock.now
        for latest in self._reads + self._atomics:
            latest.clear(where)
        lock = self.clock.tree.lock
        winner = self._writer[where]
        together = winner // lock != units // lock
        if found is None and together.any():
            at = int(np.argmax(together))
            found = at, int(winner[at]), self.clock.now, "written"
        return found

    def combine(self, where: np.ndarray, units: np.ndarray) -> Conflict | None:
        """An atomic update: conflicts with reads and plain writes, not with other atomic updates."""
        found = self._against_write(where, units) or self._against(self._reads, "read", where, units)
        for latest in self._atomics:
            latest.record(where, units, self.clock.now)
        return found

    def _against_write(self, where: np.ndarray, units: np.ndarray) -> Conflict | None:
        return self._first(self._writer[where], self._written[where], units, "written")

    def _against(self, latest: list[_Latest], what: str, where: np.ndarray, units: np.ndarray) -> Conflict | None:
        for one in latest:
            found = self._first(one.first[where], one.first_time[where], units, what)
            found = found or self._first(one.second[where], one.second_time[where], units, what)
            if found:
                return found
        return None

    def _first(self, old: np.ndarray, then: np.ndarray, units: np.ndarray, what: str) -> Conflict | None:
        bad = self.clock.unordered(old, then, units)
        if not bad.any():
            return None
        at = int(np.argmax(bad))
        return at, int(old[at]), int(then[at]), what
