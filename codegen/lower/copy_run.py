"""How many neighbours a unit copies at once, where a copy between memories goes through registers.

ALIGNED   a run is no longer than what the device loads at once from addresses that are aligned for it, or are so in calls that
          the vector pass may ask for: single elements of unaligned rows would lie apart from those of the next unit.
WORTH     of those, the run that takes the fewest memory instructions of a unit and turns of the banks: what a layout turns is
          stored one by one whatever the run is, a pad may leave stores narrower than loads, and a small tile many units idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from ...dsl.index import Expr, Var
from ...dsl.layout import Layout
from ...dsl.types import DType
from ...dsl.values import Load, loads
from ..tile import Buffer
from ..vector.align import Known, divisor, required
from ..vector.members import Member, members_of
from ..vector.nest import linear
from .access import coordinates
from .banks import served
from .context import Context
from .spec import Focus

Axes = list[tuple[str, int]]


def run_of(ctx: Context, focus: Focus, axes: Axes, fastest: str, layout: Layout, memory: str) -> int:
    """Elements along `fastest` that an innermost unit copies at once, all axes being dealt as one index that ends with it.

    `focus`: of the copy, its ranges at their beginnings; `layout`: of the tile in `memory`.
    """
    if not prod(e for _, e in axes):
        return 1
    copy = _Copy(ctx, focus, tuple(axes), fastest, layout, memory)
    return min((1, *copy.runs()), key=lambda n: (copy.cost(n), n))


@dataclass(frozen=True)
class _Copy:
    ctx: Context
    focus: Focus
    axes: tuple[tuple[str, int], ...]
    fastest: str
    layout: Layout
    memory: str

    @cached_property
    def known(self) -> Known:
        lets = dict(self.ctx.derived)
        sizes = {v for shape in self.ctx.shapes.values() for e in shape for v in e.variables()}
        return Known(frozenset(sizes | lets.keys()), lets, {})

    @cached_property
    def reads(self) -> tuple[tuple[Buffer, Expr], ...]:
        """What memory is read for an element, and the address there, the axes being variables."""
        (work,) = self.focus.works
        ranges = {i: replace(r, base=r.base + Var(i, 0, n - 1)) for i, n in self.axes if (r := self.focus.ranges.get(i))}
        at = replace(self.focus, ranges={**self.focus.ranges, **ranges})
        buffers = {b.name: b for b in self.ctx.buffers}
        found = []
        for load in dict.fromkeys(x for x in loads(work.value) if isinstance(x, Load)):
            view = at.views[load.tensor]
            if view.form == "path":
                continue
            buffer = buffers[view.buffer]
            found.append((buffer, linear(buffer, coordinates(self.ctx, at, load.tensor, load.indices))))
        return tuple(found)

    def runs(self) -> Iterator[int]:
        """ALIGNED"""
        extents = dict(self.axes)
        counts = {m.count for b, _ in self.reads for m in self._loads(b)}
        for n in sorted(counts - {1}):
            if extents[self.fastest] % n == 0 and all(self._one_load(b, e, n) for b, e in self.reads):
                yield n

    def _loads(self, buffer: Buffer) -> tuple[Member, ...]:
        members = members_of(self.ctx.device)
        return members.fitting("load", buffer.memory, members.register, buffer.dtype)

    def _one_load(self, buffer: Buffer, address: Expr, n: int) -> bool:
        """Whether a run of `n` is read at once: it lies together, and is aligned, or is for some sizes."""
        first, *others = self._places(address, n)
        if all(p == first for p in others):
            return True  # one element again and again
        if any((p - first).constant != i for i, p in enumerate(others, 1)):
            return False
        wide = [m for m in self._loads(buffer) if m.count == n]
        return any(required(first, m.align // buffer.dtype.bytes, self.known) is not None for m in wide)

    def _places(self, address: Expr, n: int) -> list[Expr]:
        """The addresses of a run."""
        extents = dict(self.axes)
        first = Var(f"{self.fastest}'", 0, extents[self.fastest] // n - 1)
        axis = next((v for v in address.variables() if v.name == self.fastest), Var(self.fastest))
        return [address.subs({axis: first * n + i}) for i in range(n)]

    # ------------------------------------------------------------ what it costs

    def cost(self, n: int) -> float:
        """WORTH: of a unit that has most to do."""
        width = self._stored(n)
        total = prod(e for _, e in self.axes)
        turns = -(-total // (n * self._units))
        return turns * (len(self.reads) + n // width + self._turns(n, width, total))

    @property
    def _dtype(self) -> DType:
        return self.ctx.dtypes[self.focus.works[0].name]

    @property
    def _units(self) -> int:
        return self.ctx.number(self.ctx.below(self.focus.level, self.ctx.innermost))[1] or 1

    def _stored(self, n: int) -> int:
        """Elements of the widest store that a run takes."""
        values = {a: Var(a, 0, e - 1) for a, e in self.axes}
        address = self.layout.address(values)
        members = members_of(self.ctx.device)
        for m in members.fitting("store", members.register, self.memory, self._dtype):
            if n % m.count or m.count < 2:
                continue
            places = self._places(address, m.count)
            together = all((p - places[0]).constant == i for i, p in enumerate(places))
            if together and divisor(places[0], self.known) * self._dtype.bytes % m.align == 0:
                return m.count
        return 1

    def _turns(self, n: int, width: int, total: int) -> float:
        """Turns of the banks for a run of each lane, of the units that an instruction drives."""
        memory = self.ctx.device.memory(self.memory)
        lanes = self.ctx.device.levels[-1].width or 1
        if memory.banks is None:
            return 0
        order = [(a, e) for a, e in self.axes if a != self.fastest] + [(self.fastest, dict(self.axes)[self.fastest])]
        at = np.unravel_index(np.arange(min(total, lanes * n) // n * n), [e for _, e in order])
        values = {a: Var(a, 0, e - 1) for a, e in order}
        found = self.layout.address(values).evaluate({a: x for (a, _), x in zip(order, at, strict=True)})
        address = np.broadcast_to(found, len(at[0])).reshape(-1, n)
        size = self._dtype.bytes
        return sum(served(address[:, i] * size, width * size, memory.banks) for i in range(0, n, width))
