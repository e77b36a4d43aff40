"""Fragments: the distribution of a tile's elements over units and their registers.

A fragment is a map (unit, register) -> index, written as expressions of the two. The coordinate named `r` numbers the registers
of a unit; the other one numbers the units. A coordinate that is absent, or not in the map, replicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from .device import Operand
from .index.expr import ZERO, Expr, Fn, Index, Var, as_expr
from .support.cached import cached_property

REGISTER = "r"


@dataclass(frozen=True)
class FragmentLayout:
    """`coords`: variables with finite intervals from 0; `map`: the index along each axis; `shape`: the tile's extents."""

    coords: tuple[Var, ...]
    map: tuple[Expr, ...]
    shape: tuple[int, ...]

    @staticmethod
    def of(operand: Operand) -> FragmentLayout:
        """The fragment of an instruction's register operand."""
        return FragmentLayout(operand.coords, operand.map, operand.shape)

    @property
    def unit(self) -> Var | None:
        """The coordinate that numbers units."""
        return next((v for v in self.coords if v.name != REGISTER), None)

    @property
    def register(self) -> Var | None:
        """The coordinate that numbers the registers of a unit."""
        return next((v for v in self.coords if v.name == REGISTER), None)

    @property
    def units(self) -> int:
        return _count(self.unit)

    @property
    def registers(self) -> int:
        return _count(self.register)

    def table(self) -> Any:
        """int64 array [units, registers, axes]: the index of the element that each register holds."""
        import numpy as np

        units, registers = np.meshgrid(np.arange(self.units), np.arange(self.registers), indexing="ij")
        env = {v.name: registers if v.name == REGISTER else units for v in self.coords}
        columns = [np.broadcast_to(e.evaluate(env), units.shape) for e in self.map]
        return np.stack(columns, axis=-1) if columns else np.zeros((*units.shape, 0), np.int64)

    def linear(self) -> Any:
        """int64 array [units, registers]: the element's row-major number in the tile; -1 where the map leaves the tile."""
        return self._linear

    @cached_property
    def _linear(self) -> Any:
        import numpy as np

        table = self.table()
        inside = ((table >= 0) & (table < np.array(self.shape, np.int64))).all(axis=-1)
        strides = np.array([prod(self.shape[i + 1 :]) for i in range(len(self.shape))], np.int64)
        numbers = np.where(inside, (table * strides).sum(axis=-1), -1)
        numbers.flags.writeable = False
        return numbers

    @cached_property
    def _counts(self) -> Any:
        import numpy as np

        numbers = self.linear().ravel()
        return np.bincount(numbers[numbers >= 0], minlength=prod(self.shape))

    @property
    def inside(self) -> bool:
        """Whether the map stays within the tile."""
        return bool((self.linear() >= 0).all())

    @property
    def covers(self) -> bool:
        """Whether every element of the tile is somewhere."""
        return bool((self._counts > 0).all())

    @property
    def unique(self) -> bool:
        """Whether no element is held twice."""
        return bool((self._counts <= 1).all())

    def equal(self, other: FragmentLayout) -> bool:
        """Whether both hold the same elements in the same places, whatever their maps look like."""
        import numpy as np

        return self.shape == other.shape and np.array_equal(self.linear(), other.linear())

    def owner(self, index: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The (unit, register) pairs that hold the element at `index`, in order."""
        import numpy as np

        hits = (self.table() == np.array(index)).all(axis=-1)
        return tuple((int(u), int(r)) for u, r in np.argwhere(hits))

    def at(self, values: Mapping[str, Index]) -> tuple[Expr, ...]:
        """The element's index at given coordinates."""
        return tuple(e.subs({v: values[v.name] for v in self.coords if v.name in values}) for e in self.map)

    def inverse(self, index: Sequence[Index]) -> dict[str, Expr] | None:
        """The coordinates that hold the element at `index`; None when the map is no permutation of digits.

        Of a replicated element the owner with the lowest numbers is given.
        """
        axes = [Var(f"axis{i}", 0, n - 1) for i, n in enumerate(self.shape)]
        found: dict[str, Expr] = {v.name: ZERO for v in self.coords}
        for axis, e in zip(axes, self.map, strict=True):
            for atom, k in e.terms:
                digit = read_digit(Expr(((atom, 1),)))
                if digit is None or k <= 0:
                    return None
                coord, div, extent = digit
                extent = extent or (_count(coord) - 1) // div + 1
                found[coord.name] = found[coord.name] + axis // k % extent * div
        back = [e.subs({v: found[v.name] for v in self.coords}) for e in self.map]
        if not all(self._same(e, axis, axes) for e, axis in zip(back, axes, strict=True)):
            return None
        return {name: e.subs(dict(zip(axes, index, strict=True))) for name, e in found.items()}

    def _same(self, e: Expr, axis: Var, axes: Sequence[Var]) -> bool:
        import numpy as np

        grid = np.indices(self.shape)
        env = {v.name: grid[i] for i, v in enumerate(axes)}
        return bool((e.evaluate(env) == env[axis.name]).all())

    def tiled(self, counts: Sequence[int]) -> FragmentLayout:
        """The fragment of `counts` tiles along each axis, one tile's registers after another's (last axis fastest)."""
        registers, total = self.registers, prod(counts)
        r = Var(REGISTER, 0, registers * total - 1)
        repetition, moved = as_expr(r) // registers, []
        inner = [e.subs({self.register: as_expr(r) % registers}) if self.register else e for e in self.map]
        for i, e in enumerate(inner):
            below = prod(counts[i + 1 :])
            moved.append(e + repetition // below % counts[i] * self.shape[i])
        coords = (*(v for v in self.coords if v.name != REGISTER), r)
        return FragmentLayout(coords, tuple(moved), tuple(n * c for n, c in zip(self.shape, counts, strict=True)))


def _count(v: Var | None) -> int:
    if v is None:
        return 1
    assert v.hi is not None, f"fragment coordinate {v.name} is unbounded"
    return v.hi + 1


def read_digit(e: Expr) -> tuple[Var, int, int | None] | None:
    """(x, div, extent) of a digit `x`, `x/8`, `x % 8` or `x/8 % 4`; extent None without a remainder; None for anything else."""
    atom, extent, div = e.atom, None, 1
    if isinstance(atom, Fn) and atom.kind == "mod":
        extent = atom.args[1].constant
        atom = atom.args[0].atom if extent else None
    if isinstance(atom, Fn) and atom.kind == "div":
        div = atom.args[1].constant or 0
        atom = atom.args[0].atom if div else None
    return (atom, div, extent) if isinstance(atom, Var) else None
