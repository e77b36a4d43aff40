"""The offsets of a block's buffers in its shared memory.

    STACKED   every buffer has bytes of its own; buffers of one name share them (barriers know buffers by name)
    NESTED    buffers whose lifetimes do not overlap share bytes; a barrier stands before such a buffer's lifetime

NESTED is chosen if it saves memory and its barriers stand outside loops, or if the capacity leaves no other choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ....dsl.errors.base import Label
from ....dsl.errors.schedule import CapacityExceeded
from ....dsl.index.expr import Var
from ....dsl.support.amounts import bytes_text
from ...analysis.lifetimes import allocations
from ...ir.limits import WIDEST_ACCESS
from ...ir.tile_ir import Alloc, Buffer, For, If, Let, Stmt
from ..lane_analysis import any_varies


@dataclass(frozen=True)
class SharedMemoryLayout:
    """`at`: first byte of each Alloc, by identity. `meet`: Allocs with a barrier before them. `total`: bytes in all."""

    at: dict[int, int]
    meet: frozenset[int]
    total: int


@dataclass(frozen=True)
class _Place:
    alloc: Alloc
    first: int
    last: int
    loops: tuple[For, ...]  # around it


def shared_memory_layout(
    body: tuple[Stmt, ...], size: Callable[[Buffer], int | None], units: frozenset[Var], capacity: int | None
) -> SharedMemoryLayout:
    """`size` in bytes, None for buffers that are not in shared memory. `units`: of the block, by their numbers.

    Raises CapacityExceeded where buffers fit only if some share bytes, and units diverge where they would wait for each other.
    """
    nested = list(_nested(body, size))
    slots: dict[str, tuple[int, int]] = {}
    top = 0
    for p in nested:
        n = p.last - p.first
        _, room = slots.get(p.alloc.buffer.name, (top, -1))  # a buffer of no bytes has a place, too
        if room < n:
            slots[p.alloc.buffer.name] = (top, n)
            top = _up(top + n)
    stacked = SharedMemoryLayout({id(p.alloc): slots[p.alloc.buffer.name][0] for p in nested}, frozenset(), top)
    total = max((p.last for p in nested), default=0)
    shares = [p for i, p in enumerate(nested) if any(_overlap(p, q) and (j < i or _again(p, q)) for j, q in enumerate(nested))]
    tight = capacity is not None and stacked.total > capacity
    pays = total < stacked.total and (tight or not any(p.loops for p in shares))
    parts = divergent_statements(body, units) if pays else frozenset()  # divergent units cannot synchronise
    if pays and not any(id(p.alloc) in parts for p in shares):
        return SharedMemoryLayout({id(p.alloc): p.first for p in nested}, frozenset(id(p.alloc) for p in shares), total)
    if tight:
        raise _too_large([p.alloc.buffer for p in nested], stacked.total, capacity or 0)
    return stacked


def _too_large(buffers: list[Buffer], total: int, capacity: int) -> CapacityExceeded:
    spans = list(dict.fromkeys(b.span for b in sorted(buffers, key=lambda b: -(b.size.constant or 0)) if b.span is not None))
    return CapacityExceeded(
        f"the tiles need {bytes_text(total)} of {buffers[0].memory} memory, of which there are {bytes_text(capacity)}: units"
        " diverge where tiles would share bytes, and cannot wait for each other there",
        spans[0] if spans else None,
        labels=[Label(x, "and here") for x in spans[1:]],
        help="take smaller tiles, or keep a tensor above the tiles that only some units have",
    )


def _overlap(p: _Place, q: _Place) -> bool:
    return p.alloc.buffer.name != q.alloc.buffer.name and p.first < q.last and q.first < p.last


def _again(p: _Place, q: _Place) -> bool:
    """Whether `p` may begin after `q` wherever they stand: they are in one loop."""
    return any(a is b for a in p.loops for b in q.loops)


def _nested(body: tuple[Stmt, ...], size: Callable[[Buffer], int | None]) -> Iterator[_Place]:
    """Each buffer directly after those whose lifetimes contain its own."""
    for x in allocations(body):
        n = size(x.buffer)
        if n is not None:
            first = 0
            for a in x.around:
                first = _up(first + (size(a.buffer) or 0))
            yield _Place(x.alloc, first, first + n, x.loops)


def _up(n: int) -> int:
    return -(-n // WIDEST_ACCESS) * WIDEST_ACCESS


def divergent_statements(body: tuple[Stmt, ...], units: frozenset[Var]) -> frozenset[int]:
    """Statements, by identity, that only some of the units may execute: where control flow depends on `units`."""
    found: set[int] = set()

    def visit(stmts: tuple[Stmt, ...], varying: frozenset[Var], apart: bool) -> None:
        for s in stmts:
            if apart:
                found.add(id(s))
            match s:
                case Let() if not varying.isdisjoint(s.value.variables()):
                    varying = varying | {s.var}
                case For():
                    start = not varying.isdisjoint(s.start.variables() | s.step.variables())
                    inner = varying | {s.var} if start else varying
                    visit(s.body, inner, apart or start or not varying.isdisjoint(s.stop.variables()))
                case If():
                    inside = apart or any_varies(s.conds, varying)
                    visit(s.body, varying, inside)
                    visit(s.orelse, varying, inside)
                case Alloc():
                    visit(s.body, varying, apart)

    visit(body, units, False)
    return frozenset(found)
