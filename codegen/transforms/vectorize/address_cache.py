"""Addresses of accesses, each computed once: loops of a nest, passes over a program and its variants need the same ones.

Statements that a pass does not change are the same objects, and so are their coordinates. The cache goes by identity: equal
expressions may differ in their variables' intervals.
"""

from __future__ import annotations

from ....dsl.index.expr import Expr, Var
from ...analysis.loop_nest import first_and_step, linear_address
from ...ir.tile_ir import Buffer

_Place = tuple[Buffer, tuple[Expr, ...]]


class Addresses:
    def __init__(self) -> None:
        self._known: dict[tuple, Expr | None] = {}
        self._held: list[_Place] = []  # so that no other object is taken for one of these

    def of(self, buffer: Buffer, coords: tuple[Expr, ...]) -> Expr:
        """The linear address, in elements."""
        key = id(buffer), id(coords)
        if key not in self._known:
            self._held.append((buffer, coords))
            self._known[key] = linear_address(buffer, coords)
        return self._known[key]  # type: ignore[return-value]

    def neighbours(self, buffer: Buffer, coords: tuple[Expr, ...], var: Var, turns: int, count: int) -> Expr | None:
        """The address of the first of `count` neighbours along `var`, which has `turns` values; None where they are none."""
        address = self.of(buffer, coords)
        key = id(buffer), id(coords), var.name, turns, count
        if key not in self._known:
            first = Var(f"{var.name}'", 0, turns // count - 1)
            found = first_and_step(address, var, first * count, count)
            self._known[key] = found[0] if found is not None and found[1] == 1 else None
        return self._known[key]
