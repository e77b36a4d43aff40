"""A whole tile program: its launches, and the sizes, buffers and instructions that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...dsl.device import Device, Instr
from ...dsl.index.expr import Expr, Var
from .printer import show
from .tile_ir import Buffer, Launch, Needs


@dataclass(frozen=True)
class Program:
    """`dims`: the sizes left open, arguments of the kernel in this order. `lets`: sizes derived from them, in order.

    `finite`: variables for the unit counts of finite levels, bound by the launcher (level, var).
    `needs`, `instead`: calls for which the needs do not hold get the other program, of the same arguments and workspaces
    (`abi.chosen`).
    """

    name: str
    device: Device
    dims: tuple[Var, ...]
    lets: tuple[tuple[Var, Expr], ...]
    finite: tuple[tuple[str, Var], ...]
    buffers: tuple[Buffer, ...]  # inputs, outputs, workspaces
    launches: tuple[Launch, ...]
    instrs: tuple[Instr, ...] = ()
    conditions: tuple[tuple[Expr, str], ...] = ()  # must be >= 0 at the call; the text says what failed
    head: str = ""  # the explicit schedule, for the head comment of emitted text
    needs: Needs | None = None
    instead: Program | None = None

    @property
    def call_sizes(self) -> tuple[Var, ...]:
        """The variables that a call gives values: sizes, those derived from them, unit counts of finite levels."""
        return (*self.dims, *(v for v, _ in self.lets), *(v for _, v in self.finite))

    def with_derived(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes by name, and those that are derived from them."""
        known = dict(sizes)
        for var, e in self.lets:
            known[var.name] = int(e.evaluate(known))
        return known

    def call_values(self, sizes: Mapping[str, int], units: Mapping[str, int] | None = None) -> dict[str, int]:
        """The values of `call_sizes`. `units`: of finite levels, how many take part; all that the device has otherwise."""
        counts = {v.name: (units or {}).get(level) or self.device.level(level).most or 1 for level, v in self.finite}
        return self.with_derived({name: int(n) for name, n in sizes.items()} | counts)

    def __str__(self) -> str:
        return show(self)
