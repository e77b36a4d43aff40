"""Which points two accesses of a buffer share, and which of them come before others.

INSTANCE   what writes and what reads a local buffer share an instance of it: the same unit of its level, in the same iteration
           of the loops around its Alloc
BEFORE     a write comes before a read in one iteration of the loops around both if it stands before it in the text, and in any
           case if one of these loops is in an earlier iteration and those around it are in the same. Loops whose bounds differ
           between units have no common order: only of one unit it is known which iteration is earlier
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...dsl.index.expr import Expr
from ..ir.program import Program
from ..ir.tile_ir import Buffer, For, Launch, Let, Units
from .accesses import Access, Guard, Step, names


@dataclass(frozen=True)
class Scope:
    """The variables around several points.

    outer    those that are the same for all of them
    inner    the others
    implied  steps of the path, by place, whose conditions hold for all of these points where they hold for one
    start    how many steps are around them: loops from there on are each point's own
    """

    outer: frozenset[str]
    inner: frozenset[str]
    implied: frozenset[int]
    start: int


def scope_of(program: Program, launch: Launch, buffer: Buffer, path: tuple[Step, ...], one_unit: bool = False) -> Scope:
    """Of units that share an instance of the buffer, or of one of them. `path`: what is around them."""
    depth = program.device.depth(buffer.level)
    below = () if one_unit else (u for u in launch.units if program.device.depth(u.level) > depth)
    return scope_with(launch, path, {u.var.name for u in below})


def scope_with(launch: Launch, path: tuple[Step, ...], own: Collection[str]) -> Scope:
    """`own`: the units and loops that each point has for itself."""
    inner = set(own)
    outer = {u.var.name for u in launch.units} - inner
    implied: set[int] = set()
    for n, s in enumerate(path):
        apart = not inner.isdisjoint(names(*_bounds(s))) or (isinstance(s, For) and s.var.name in own)
        if not apart and not isinstance(s, Let):
            implied.add(n)
        if isinstance(s, For | Let) and apart:
            inner.add(s.var.name)
        elif isinstance(s, For):
            outer.add(s.var.name)
    return Scope(frozenset(outer), frozenset(inner), frozenset(implied), len(path))


def _bounds(s: Step) -> tuple[Expr, ...]:
    return s.conds if isinstance(s, Guard) else (s.value,) if isinstance(s, Let) else (s.start, s.stop, s.step)


@dataclass(frozen=True)
class Order:
    """How a write may come before a read.

    common    how many steps are around both
    loops     those inside the buffer's lifetime, by place, outermost first
    one_unit  whether only one unit's iterations have an order
    here      whether it may be in the same iteration of all of them
    """

    common: int
    loops: tuple[int, ...]
    one_unit: bool
    here: bool

    @property
    def possible(self) -> bool:
        return self.here or bool(self.loops)


def order_of(program: Program, launch: Launch, write: Access, read: Access) -> Order:
    """BEFORE. A statement that reads the element which it writes does not make that element itself."""
    common = 0
    for a, b in zip(write.path, read.path, strict=False):
        if a is not b:
            break
        common += 1
    if write.stmt is read.stmt and write.coords == read.coords:
        return Order(common, (), False, False)
    loops = tuple(n for n in range(write.scope, common) if isinstance(write.path[n], For))
    implied = scope_of(program, launch, write.buffer, write.path[:common]).implied if loops else ()
    return Order(common, loops, not all(n in implied for n in loops), write.order < read.order)


def apart_units(program: Program, launch: Launch) -> tuple[Units, ...]:
    """The units that cannot synchronise in a launch."""
    return tuple(u for u in launch.units if program.device.level(u.level).siblings == "nothing")
