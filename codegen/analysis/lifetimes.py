"""The lifetimes of local buffers in a body of statements: the buffers and loops around each allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.tile_ir import Alloc, Buffer, For, If, Stmt
from ..ir.tile_visitors import buffers_used


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


def lifetimes(body: tuple[Stmt, ...]) -> Iterator[Lifetime]:
    """The lifetime of each allocation in the statements, in the order of the text."""
    yield from _lifetimes(body, (), (), set())


def _lifetimes(
    body: tuple[Stmt, ...], around: tuple[Alloc, ...], loops: tuple[For, ...], begun: set[str]
) -> Iterator[Lifetime]:
    """`begun`: the buffers that something before uses, or that a loop uses which is around the statements."""
    for s in body:
        match s:
            case Alloc():
                here = begun | buffers_used(s.body) if around else begun
                yield Lifetime(s, around, loops, frozenset(a.buffer.name for a in around) - here)
                yield from _lifetimes(s.body, (*around, s), loops, begun)
            case For():
                begun |= buffers_used(s.body)
                yield from _lifetimes(s.body, around, (*loops, s), begun)
            case If():
                yield from _lifetimes(s.body, around, loops, begun)
                yield from _lifetimes(s.orelse, around, loops, begun)
            case _:
                begun |= buffers_used((s,))
