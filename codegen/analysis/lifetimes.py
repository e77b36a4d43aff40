"""The lifetimes of local buffers in a body of statements: the buffers and loops around each allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.tile_ir import Alloc, Buffer, For, If, Stmt
from ..ir.tile_visitors import accessed


@dataclass(frozen=True)
class Lifetime:
    """An allocation. `around`: those whose lifetimes hold its own, outermost first. `loops`: the loops around it. `unused`: the
    buffers around it that nothing has used until its end: registers are not taken for them yet."""

    alloc: Alloc
    around: tuple[Alloc, ...]
    loops: tuple[For, ...]
    unused: frozenset[str] = frozenset()

    @property
    def buffer(self) -> Buffer:
        return self.alloc.buffer

    @property
    def live(self) -> tuple[Buffer, ...]:
        """The buffers that are in memory at its beginning, itself among them."""
        return (*(a.buffer for a in self.around), self.buffer)

    @property
    def used(self) -> tuple[Buffer, ...]:
        """Those of them that hold values until its end."""
        return tuple(b for b in self.live if b.name not in self.unused)


def allocations(body: tuple[Stmt, ...], around: tuple[Alloc, ...] = (), loops: tuple[For, ...] = ()) -> Iterator[Lifetime]:
    """The same as `lifetimes`, where nobody asks what is unused."""
    for s in body:
        match s:
            case Alloc():
                yield Lifetime(s, around, loops)
                yield from allocations(s.body, (*around, s), loops)
            case For():
                yield from allocations(s.body, around, (*loops, s))
            case If():
                yield from allocations(s.body, around, loops)
                yield from allocations(s.orelse, around, loops)


def lifetimes(body: tuple[Stmt, ...]) -> Iterator[Lifetime]:
    """The lifetime of each allocation in the statements, in the order of the text."""
    used: dict[int, frozenset[str]] = {}
    _note_used(body, used)
    yield from _lifetimes(body, (), (), set(), used)


def _note_used(body: tuple[Stmt, ...], used: dict[int, frozenset[str]]) -> frozenset[str]:
    """The buffers that statements use. Notes those of the bodies of allocations and loops, by identity."""
    found: list[frozenset[str]] = []
    for s in body:
        match s:
            case Alloc() | For():
                used[id(s)] = _note_used(s.body, used)
                found.append(used[id(s)])
            case If():
                found += (_note_used(s.body, used), _note_used(s.orelse, used))
            case _:
                found.append(accessed(s))
    return frozenset().union(*found)


def _lifetimes(
    body: tuple[Stmt, ...],
    around: tuple[Alloc, ...],
    loops: tuple[For, ...],
    begun: set[str],
    used: dict[int, frozenset[str]],
) -> Iterator[Lifetime]:
    """`begun`: the buffers that something before uses, or that a loop uses which is around the statements."""
    for s in body:
        match s:
            case Alloc():
                here = begun | used[id(s)] if around else begun
                yield Lifetime(s, around, loops, frozenset(a.buffer.name for a in around) - here)
                yield from _lifetimes(s.body, (*around, s), loops, begun, used)
            case For():
                begun |= used[id(s)]
                yield from _lifetimes(s.body, around, (*loops, s), begun, used)
            case If():
                yield from _lifetimes(s.body, around, loops, begun, used)
                yield from _lifetimes(s.orelse, around, loops, begun, used)
            case _:
                begun |= accessed(s)
