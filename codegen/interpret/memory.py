"""The instances of one buffer, and the facts about each element: its value, whether it was ever written, which units used it.

One flat array has all instances, one after another. The `checks` of the interpreter are here: coordinates within the shape,
addresses within the size and aligned for the instruction, reads of elements that were never written, races (`race_shadow`), use
of elements that an asynchronous copy has not yet delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dsl.types import DType
from ..ir.tile_ir import Buffer, Stmt
from .domain import NUMBERS, Domain, picked, put
from .faults import Fault, Reports, describe
from .frame import UnitTree
from .race_shadow import Clock, Conflict, Shadow

_all = np.logical_and.reduce  # of one dimension: `x.all()` takes twice as long where there are few elements
Written = tuple[np.ndarray, np.ndarray]  # positions, units
_Located = tuple[np.ndarray, np.ndarray, Sequence[Any], Any]  # positions, units, coordinates; which ones, if not all


@dataclass
class Site:
    """The statement in execution: what faults name, and when it happens. `past` are the statements by time."""

    reports: Reports
    tree: UnitTree
    clock: Clock
    past: list[Stmt]
    domain: Domain = NUMBERS
    traffic: dict[tuple[str, str], int] | None = None  # bytes by (memory, "read" or "written"), when asked for

    def count(self, buffer: Buffer, how: str, elements: int) -> None:
        if self.traffic is not None:
            key = buffer.memory, how
            self.traffic[key] = self.traffic.get(key, 0) + elements * buffer.dtype.bytes

    def enter(self, stmt: Stmt) -> None:
        self.clock.now += 1
        self.past.append(stmt)

    @property
    def stmt(self) -> Stmt | None:
        return self.past[-1] if self.past else None

    def report(self, kind: str, message: str, buffer: str = "") -> None:
        self.reports.add(Fault(kind, message, buffer, self.stmt))


class Memory:
    """The instances of `buffer` for the innermost units from `first` on; `below` of them share one instance.

    `slices`: instances that lie in one memory, one after another; each memory begins at an address aligned to any.
    """

    def __init__(
        self, buffer: Buffer, env: Any, below: int, first: int, units: int, slices: int = 1, domain: Domain = NUMBERS
    ) -> None:
        self.domain = domain
        self.buffer = buffer
        self.shape = tuple(int(e.evaluate(env)) for e in buffer.shape)
        self.strides = tuple(int(e.evaluate(env)) for e in buffer.strides)
        self.size = int(buffer.size.evaluate(env))
        self._axes = tuple(zip(self.shape, self.strides, strict=True))
        self.below = below
        self.slices = slices
        self._first = first // below
        self.elements = max(1, -(-units // below)) * self.size
        self._latest: tuple[Any, Any] = None, None
        self._alone = self.elements == self.size  # one instance: its position is 0 for every unit
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        self._inside = min(self.strides, default=0) >= 0 and last < self.size  # what is within the shape is within the size
        self.base = 0  # the first element's address, as far as it matters for alignment
        self.data = domain.poison(buffer.dtype, self.elements)
        self.defined: np.ndarray | None = np.zeros(self.elements, np.bool_)
        self.shadow: Shadow | None = None
        self.flying: np.ndarray | None = None  # elements an asynchronous copy is under way to
        self.log: list[tuple[Site, Stmt | None, np.ndarray, np.ndarray]] | None = None  # who stored where, when asked for

    def _begins(self, ids: np.ndarray) -> np.ndarray:
        """Where each unit's instance begins. One statement after another has the same units, as the same object."""
        if self._latest[0] is not ids:
            self._latest = ids, (ids // self.below - self._first) * self.size
        return self._latest[1]

    def fill(self, values: np.ndarray) -> None:
        """The contents of an argument; all of it counts as written."""
        self.data = np.ascontiguousarray(values, dtype=self.domain.storage(self.buffer.dtype)).reshape(-1).copy()
        self.defined = None

    def forget(self) -> None:
        """A new lifetime in the same place: the contents are gone, who used it when is not."""
        self.data = self.domain.poison(self.buffer.dtype, self.elements)
        self.defined = np.zeros(self.elements, np.bool_)

    def locate(self, site: Site, ids: np.ndarray, coords: Sequence[Any]) -> _Located:
        """Where each unit's access is. Those out of bounds are reported and left out."""
        if len(coords) != len(self.shape):
            site.report(
                "malformed", f"`{self.buffer.name}` has {len(self.shape)} coordinates, not {len(coords)}", self.buffer.name
            )
        address: Any = None  # most arrays are short, so that each operation of NumPy counts
        good: Any = True
        for c, (extent, stride) in zip(coords, self._axes, strict=True):
            # As words without a sign, negative ones are beyond all others: one comparison instead of two.
            inside = c.view(np.uint64) < extent if isinstance(c, np.ndarray) else 0 <= c < extent
            good = inside if good is True else good & inside
            step = c if stride == 1 else c * stride
            address = step if address is None else address + step
        if address is None:
            address = 0
        if not self._inside:
            good = good & (address >= 0) & (address < self.size)
        keep = None
        if not (_all(good) if isinstance(good, np.ndarray) else good):
            good = np.broadcast_to(good, ids.shape)
            keep, at = np.flatnonzero(good), int(np.argmin(good))
            where = f"`{self.buffer.name}`[{self._indices(coords, at)}] is outside shape {list(self.shape)}, size {self.size}"
            site.report("out-of-bounds", f"{where}; accessed by {site.tree.name(int(ids[at]))}", self.buffer.name)
            ids = ids[keep]
            address, *coords = [x[keep] if isinstance(x, np.ndarray) else x for x in (address, *coords)]
        if not self._alone:
            address = self._begins(ids) + address
        elif not isinstance(address, np.ndarray):
            address, one = np.empty(ids.shape, np.int64), address
            address[:] = one
        return address, ids, coords, keep

    def check_aligned(self, site: Site, ids: np.ndarray, coords: Sequence[Any], multiple: int) -> None:
        """Every unit's address is a multiple of so many bytes."""
        address: Any = self.base + ids // self.below % self.slices * self.size * self.buffer.dtype.bytes
        for c, stride in zip(coords, self.strides, strict=True):
            address = address + c * stride * self.buffer.dtype.bytes
        if (bad := address % multiple != 0).any():
            self._report(
                site,
                "misaligned",
                f"{{unit}}'s address is not a multiple of {multiple} bytes",
                ids,
                coords,
                int(np.argmax(bad)),
            )

    def load(self, site: Site, ids: np.ndarray, coords: Sequence[Any]) -> np.ndarray:
        """One element a unit; poison where the access is out of bounds."""
        count = len(ids)
        site.count(self.buffer, "read", count)
        where, ids, coords, keep = self.locate(site, ids, coords)
        if self.defined is not None and not _all(self.defined[where]):
            at = int(np.argmin(self.defined[where]))
            self._report(site, "uninitialised", "read by {unit}, was never written", ids, coords, at)
        if self.flying is not None and self.flying[where].any():
            at = int(np.argmax(self.flying[where]))
            self._report(site, "in-flight", "read by {unit}, was not waited for", ids, coords, at)
        if self.shadow is not None:
            self._race(site, "read", self.shadow.read(where, ids), ids, coords)
        if keep is None:
            return picked(self.data, where)
        out = self.domain.poison(self.buffer.dtype, count)
        put(out, keep, picked(self.data, where))
        return out

    def store(self, site: Site, ids: np.ndarray, coords: Sequence[Any], values: np.ndarray, flight: bool = False) -> Written:
        """One element a unit, already of the buffer's type. Out of bounds nothing is written.

        Gives the positions written and the units that did. `flight`: by an asynchronous copy.
        """
        site.count(self.buffer, "written", len(ids))
        where, ids, coords, keep = self.locate(site, ids, coords)
        values = values if keep is None else picked(values, keep)
        if self.shadow is not None:
            self._race(site, "written", self.shadow.write(where, ids), ids, coords)
        if self.flying is not None and self.flying[where].any():
            at = int(np.argmax(self.flying[where]))
            self._report(site, "in-flight", "written by {unit}, has a copy under way to it", ids, coords, at)
        put(self.data, where, values)
        if self.log is not None:
            self.log.append((site, site.stmt, where, ids))
        if self.below > 1 and not (same := self.domain.same(picked(self.data, where), values)).all():
            at = int(np.argmin(same))
            self._report(site, "race", "given different values in one statement; one is {unit}'s", ids, coords, at)
        if self.defined is not None:
            self.defined[where] = True
        if flight:
            if self.flying is None:
                self.flying = np.zeros(self.elements, np.bool_)
            self.flying[where] = True
        return where, ids

    def land(self, where: np.ndarray, ids: np.ndarray) -> None:
        """An asynchronous copy issued by `ids` is complete: what it wrote at `where` counts as written now."""
        if self.flying is not None:
            self.flying[where] = False
        if self.shadow is not None:
            self.shadow.write(where, ids)

    def combine(self, site: Site, ids: np.ndarray, coords: Sequence[Any], values: np.ndarray, dtype: DType, fn: str) -> None:
        """Atomic updates `x = fn(x, value)`, one after another in the order of the units, each rounded to the buffer's type."""
        site.count(self.buffer, "read", len(ids))
        site.count(self.buffer, "written", len(ids))
        where, ids, coords, keep = self.locate(site, ids, coords)
        values = values if keep is None else values[keep]
        if self.defined is not None and not self.defined[where].all():
            at = int(np.argmin(self.defined[where]))
            self._report(site, "uninitialised", "combined by {unit}, was never written", ids, coords, at)
        if self.shadow is not None:
            self._race(site, "combined", self.shadow.combine(where, ids), ids, coords)
        if self.log is not None:
            self.log.append((site, site.stmt, where, ids))
        own, domain = self.buffer.dtype, self.domain
        for some in _rounds(where):
            old = domain.cast(self.data[where[some]], own, dtype)
            self.data[where[some]] = domain.cast(domain.apply(fn, (old, values[some]), dtype), dtype, own)

    def _race(self, site: Site, doing: str, found: Conflict | None, ids: Any, coords: Any) -> None:
        if found is None:
            return
        at, unit, then, what = found
        before = site.past[then - 1]
        earlier = "in the same statement" if before is site.stmt and then == site.clock.now else f"by `{describe(before)}`"
        text = f"{doing} by {{unit}}, was {what} by {site.tree.name(unit)} {earlier} with no barrier between"
        self._report(site, "race", text, ids, coords, at)

    def _report(self, site: Site, kind: str, text: str, ids: np.ndarray, coords: Sequence[Any], at: int) -> None:
        text = text.replace("{unit}", site.tree.name(int(ids[at])))
        site.report(kind, f"`{self.buffer.name}`[{self._indices(coords, at)}], {text}", self.buffer.name)

    @staticmethod
    def _indices(coords: Sequence[Any], at: int) -> str:
        return ", ".join(str(int(c[at]) if isinstance(c, np.ndarray) else int(c)) for c in coords)


def _rounds(where: np.ndarray) -> list[np.ndarray]:
    """Positions of `where` in rounds without duplicates, that keep the order of equal ones."""
    order = np.argsort(where, kind="stable")
    ordered = where[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(where) else np.array([], np.int64)
    rank = np.arange(len(where)) - np.repeat(starts, np.diff(np.r_[starts, len(where)]))
    return [order[rank == r] for r in range(int(rank.max(initial=-1)) + 1)]
