"""Index sets: the addresses that an access reaches, at given sizes, by enumeration of the units and loops that matter to it.

RELEVANT   an access depends on the variables in its coordinates and conditions, and on those in the bounds of such loops. Other
           loops only matter where they may be empty.
ROOT       a variable of a unit or a loop. A `Let` is a function of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dsl.index.expr import Expr, Var, as_expr
from ..ir.tile_ir import For, Launch, Let, Units
from .accesses import Access, Guard, Step, names

Number = Any  # an int, or an int64 array with one entry a point


class PointBudgetExceeded(Exception):
    """More points than are allowed."""


@dataclass
class PointBudget:
    """How many points may still be enumerated in all."""

    left: int

    def spend(self, points: int) -> None:
        if points > self.left:
            raise PointBudgetExceeded
        self.left -= points


@dataclass(frozen=True)
class IndexSet:
    """`address` of each point, its coordinates, and the values of the roots that were asked for."""

    address: np.ndarray
    coords: tuple[Number, ...]
    roots: dict[str, np.ndarray]
    extent: int

    def at(self, n: int) -> tuple[tuple[int, ...], dict[str, int]]:
        """The coordinates and the roots of an address."""
        coords = [int(_at(c, n // self.extent)) for c in self.coords]
        if coords:
            coords[-1] += n % self.extent
        return tuple(coords), {k: int(x[n]) for k, x in self.roots.items()}

    def within(self, size: int) -> IndexSet:
        """Without addresses outside of a buffer of that size, which are another check's."""
        inside = (self.address >= 0) & (self.address < size)
        if inside.all():
            return self
        index = np.flatnonzero(inside)
        coords = [np.broadcast_to(c, (len(self.address) // self.extent,))[index // self.extent] for c in self.coords]
        if coords:
            coords[-1] = coords[-1] + index % self.extent
        return IndexSet(self.address[index], tuple(coords), {k: x[index] for k, x in self.roots.items()}, 1)


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps of an enumeration, outermost first, each with the names that are used after it.

    relevant   names that the access depends on, sizes too
    """

    access: Access
    units: tuple[tuple[Units, frozenset[str]], ...]
    steps: tuple[tuple[Step, bool, frozenset[str]], ...]  # bool: the loop's variable is bound
    keys: tuple[str, ...]
    implied: frozenset[int]
    relevant: frozenset[str]

    @property
    def roots(self) -> frozenset[str]:
        """Variables of units and loops that are enumerated."""
        loops = {s.var.name for s, binds, _ in self.steps if type(s) is For and binds}
        return frozenset(loops | {u.var.name for u, _ in self.units})


def plan(access: Access, launch: Launch, keys: Collection[str] = (), implied: Collection[int] = ()) -> Plan:
    """How the points of an access are enumerated.

    keys      roots whose values are wanted of each point
    implied   steps of the path, by place, whose conditions hold anyway
    """
    buffer = access.buffer
    own = names(*access.coords, *buffer.strides)
    needed = own | set(keys)
    steps: list[tuple[Step, bool, frozenset[str]]] = []
    for n, s in reversed(list(enumerate(access.path))):
        after = frozenset(needed)
        match s:
            case Guard():
                if n in implied:
                    continue
                needed |= names(*s.conds)
                steps.append((s, False, after))
            case Let():
                if s.var.name not in needed:
                    continue
                needed |= names(s.value)
                steps.append((s, True, after))
            case For():
                binds = s.var.name in needed
                if not binds and (n in implied or runs(s)):
                    continue
                needed |= names(s.start, s.stop, s.step) if binds else names(s.start, s.stop)
                steps.append((s, binds, after))
    needed |= {v.name for v in access.first}
    units: list[tuple[Units, frozenset[str]]] = []
    for u in reversed(launch.units):
        if u.var.name in needed:
            units.append((u, frozenset(needed)))
            needed |= names(u.count)
    return Plan(
        access,
        tuple(reversed(units)),
        tuple(reversed(steps)),
        tuple(dict.fromkeys(keys)),
        frozenset(implied),
        frozenset(needed),
    )


def runs(s: For) -> bool:
    """Whether the loop is known to have an iteration."""
    return (s.stop - s.start).at_least(1)


def enumerate_points(p: Plan, sizes: Mapping[str, int], budget: PointBudget) -> IndexSet:
    """Raises PointBudgetExceeded."""
    points = _Points(dict(sizes), budget, p.keys)
    for u, live in p.units:
        points.loop(u.var, 0, points.value(u.count), 1, live)
    for v in p.access.first:
        points.keep(points.value(as_expr(v)) == 0, {x for _, _, live in p.steps for x in live} | set(p.relevant))
    for s, binds, live in p.steps:
        match s:
            case Guard():
                points.guard(s, live)
            case Let():
                points.env[s.var.name] = points.value(s.value)
            case For():
                start, stop = points.value(s.start), points.value(s.stop)
                if binds:
                    points.loop(s.var, start, stop, points.value(s.step), live)
                else:
                    points.keep(start < stop, live)
    return points.index_set(p.access, p.keys)


class _Points:
    """The points so far: variables are numbers, or arrays with one entry a point."""

    def __init__(self, env: dict[str, Number], budget: PointBudget, keys: tuple[str, ...]) -> None:
        self.env, self.budget, self.keys = env, budget, keys
        self.count = 1

    def value(self, e: Expr) -> Number:
        return e.evaluate(self.env)

    def _pick(self, index: np.ndarray, live: Collection[str]) -> None:
        for name, value in self.env.items():
            if isinstance(value, np.ndarray) and (name in live or name in self.keys):
                self.env[name] = value[index]

    def loop(self, var: Var, start: Number, stop: Number, step: Number, live: Collection[str]) -> None:
        trips = np.maximum(0, -((start - stop) // step))
        total = int(trips.sum()) if trips.ndim else int(trips) * self.count
        self.budget.spend(total)
        if not trips.ndim:
            index = np.repeat(np.arange(self.count), int(trips))
            turn = np.tile(np.arange(int(trips)), self.count)
        else:
            index = np.repeat(np.arange(self.count), trips)
            turn = np.arange(total) - np.repeat(np.cumsum(trips) - trips, trips)
        self._pick(index, live)
        self.env[var.name] = _at(start, index) + turn * _at(step, index)
        self.count = total

    def keep(self, mask: Number, live: Collection[str]) -> None:
        if not isinstance(mask, np.ndarray):
            if mask:
                return
            mask = np.zeros(self.count, np.bool_)
        if not mask.all():
            index = np.flatnonzero(mask)
            self._pick(index, live)
            self.count = len(index)

    def guard(self, s: Guard, live: Collection[str]) -> None:
        mask: Any = True
        for c in s.conds:
            mask = mask & (self.value(c) >= 0)
        self.keep(mask if s.holds else np.logical_not(mask) if isinstance(mask, np.ndarray) else not mask, live)

    def index_set(self, access: Access, keys: tuple[str, ...]) -> IndexSet:
        coords = tuple(self.value(c) for c in access.coords)
        address: Number = 0
        for c, stride in zip(coords, access.buffer.strides, strict=True):
            address = address + c * self.value(stride)
        address = np.broadcast_to(address, (self.count,))
        roots = {k: np.broadcast_to(self.env[k], (self.count,)) for k in keys}
        if access.extent > 1:
            self.budget.spend(self.count * access.extent)
            reach = np.arange(access.extent) * self.value(access.buffer.strides[-1])
            address = (address[:, None] + reach).reshape(-1)
            roots = {k: np.repeat(x, access.extent) for k, x in roots.items()}
        return IndexSet(address, coords, roots, access.extent)


def _at(x: Number, index: Any) -> Number:
    return x[index] if isinstance(x, np.ndarray) else x
