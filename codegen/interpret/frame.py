"""The units that execute a statement, and the variables as each of them sees them.

All innermost units of a launch have one linear number, the outermost level slowest. A frame has the numbers of the active
ones, ascending, and an environment with one value for all (an int) or one for each unit (an array). Divergence is a smaller
frame: it lacks the units that do not take part, so nothing is evaluated for them. Where iterations of a loop are executed
together, a frame has a unit once for each iteration.

OPEN_IN_CHUNKS: units of an outermost level that cannot synchronise are executed some at a time, to bound memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...dsl.device import Device
from ...dsl.index.expr import Expr
from ..ir.tile_ir import Alloc, For, If, Launch, Stmt

_UNITS_AT_ONCE = 16384  # innermost units: of an open level, that are interpreted as one array [limit]

Index = Any  # an int, or an int64 array with one entry a unit


class UnitVariables(dict[str, Index]):
    """Variables by name; what is not bound here comes from the parent, cut down to the units picked."""

    def __init__(self, parent: UnitVariables | None = None, pick: np.ndarray | None = None) -> None:
        super().__init__()
        self._parent = parent
        self._pick = pick

    def __missing__(self, name: str) -> Index:
        if self._parent is None:
            raise KeyError(name)
        value = self._parent[name]
        if self._pick is not None and isinstance(value, np.ndarray):
            value = value[self._pick]
        self[name] = value
        return value


@dataclass
class Frame:
    """The active units (`ids`, ascending, int64) and their variables."""

    ids: np.ndarray
    env: UnitVariables

    def sub(self, pick: np.ndarray | None = None) -> Frame:
        """A scope inside this one, for all units or for those of `pick`: a boolean mask, or places in the frame."""
        return Frame(self.ids if pick is None else self.ids[pick], UnitVariables(self.env, pick))

    def hold(self, conds: Iterable[Expr]) -> Any:
        """Whether every cond is >= 0: a bool when all units agree, else a mask."""
        mask: Any = True
        for cond in conds:
            mask = mask & (cond.evaluate(self.env) >= 0)
        if isinstance(mask, np.ndarray):
            return True if mask.all() else mask if mask.any() else False
        return bool(mask)


class UnitTree:
    """The units of a launch: how many innermost units are below one unit of each level."""

    def __init__(self, device: Device, launch: Launch, counts: tuple[int, ...]) -> None:
        self.device = device
        self.levels = tuple(u.level for u in launch.units)
        self.counts = counts
        self.total = prod(counts)
        sizes = [prod(counts[i + 1 :]) for i in range(len(counts))]
        self._size = dict(zip(self.levels, sizes, strict=True))
        # Levels that the launch leaves out have one unit: as large as their nearest ancestor's child here.
        for level in reversed(device.levels):
            if level.name not in self._size:
                deeper = [u for u in self.levels if device.depth(u) > device.depth(level.name)]
                self._size[level.name] = self._size[deeper[0]] * counts[self.levels.index(deeper[0])] if deeper else 1
        self.lock = 1  # innermost units per lockstep group
        for level, count in zip(reversed(self.levels), reversed(counts), strict=True):
            if device.level(level).siblings != "lockstep":
                break
            self.lock *= count

    def size(self, level: str) -> int:
        """Innermost units below one unit of `level`."""
        return self._size[level]

    def count(self, level: str) -> int:
        """Units of `level` under one parent."""
        return self.counts[self.levels.index(level)] if level in self.levels else 1

    def grains(self, level: str) -> tuple[int, ...]:
        """Sizes of the levels below `level` whose units are distinct and not in lockstep, outermost first."""
        top = self.size(level)
        sizes = {max(self._size[name], self.lock) for name in self.levels if self._size[name] < top}
        return tuple(sorted((s for s in sizes if s < top), reverse=True))

    def name(self, unit: int) -> str:
        """An innermost unit as people call it: `block 3, warp 0, thread 5`."""
        parts = [f"{lv} {unit // self._size[lv] % c}" for lv, c in zip(self.levels, self.counts, strict=True)]
        return ", ".join(parts) or "the only unit"


def units_at_once(device: Device, launch: Launch, tree: UnitTree) -> int:
    """OPEN_IN_CHUNKS: how many innermost units are executed at once."""
    if not launch.units:
        return tree.total
    outer = device.level(launch.units[0].level)
    if outer.siblings != "nothing" or _owned_above(device, launch, outer.name):
        return tree.total
    below = tree.size(outer.name)
    return max(1, _UNITS_AT_ONCE // below) * below


def _owned_above(device: Device, launch: Launch, level: str) -> bool:
    """Whether a local buffer belongs to all units of the outermost level together."""

    def any_in(body: tuple[Stmt, ...]) -> bool:
        for s in body:
            if isinstance(s, Alloc) and device.depth(s.buffer.level) < device.depth(level):
                return True
            if isinstance(s, Alloc | For) and any_in(s.body):
                return True
            if isinstance(s, If) and (any_in(s.body) or any_in(s.orelse)):
                return True
        return False

    return any_in(launch.body)
