"""The lifetimes of local buffers in a body of statements: the buffers and loops around each allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.tile_ir import Alloc, Buffer, For, If, Stmt


@dataclass(frozen=True)
class Lifetime:
    """An allocation. `around`: those whose lifetimes hold its own, outermost first. `loops`: the loops around it."""

    alloc: Alloc
    around: tuple[Alloc, ...]
    loops: tuple[For, ...]

    @property
    def buffer(self) -> Buffer:
        return self.alloc.buffer

    @property
    def live(self) -> tuple[Buffer, ...]:
        """The buffers that are in memory at its beginning, itself among them."""
        return (*(a.buffer for a in self.around), self.buffer)


def lifetimes(body: tuple[Stmt, ...], around: tuple[Alloc, ...] = (), loops: tuple[For, ...] = ()) -> Iterator[Lifetime]:
    """The lifetime of each allocation in the statements, in the order of the text."""
    for s in body:
        match s:
            case Alloc():
                yield Lifetime(s, around, loops)
                yield from lifetimes(s.body, (*around, s), loops)
            case For():
                yield from lifetimes(s.body, around, (*loops, s))
            case If():
                yield from lifetimes(s.body, around, loops)
                yield from lifetimes(s.orelse, around, loops)
