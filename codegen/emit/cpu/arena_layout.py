"""The offsets of local buffers in memory: buffers whose lifetimes do not overlap share space.

    BEHIND     a buffer follows the nearest one around it, so siblings begin at the same offset.
    IN_ORDER   one thread executes in order: its private buffers need no more than BEHIND.
    APART      threads that share buffers may be in the lifetimes of two siblings at once, unless each begins with a barrier;
               otherwise siblings follow one another.

Launches run one after another: each begins at offset 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...ir.tile_ir import Alloc, Barrier, Buffer, For, If, Let, Stmt


@dataclass(frozen=True)
class ArenaSlot:
    """`where` names the place. It begins at `start`: a C expression over `base` (behind the workspaces), `top` (behind all so
    far) and the ends of other slots."""

    buffer: Buffer
    where: str
    start: str
    private: bool

    @property
    def end(self) -> str:
        return f"{self.where}_end"


def arena_slots(
    body: tuple[Stmt, ...],
    in_memory: Callable[[Buffer], bool],
    private: Callable[[Buffer], bool],
    orders: Callable[[Barrier, Buffer], bool] | None,
    fresh: Callable[[str], str],
) -> dict[int, ArenaSlot]:
    """The slots of a launch, by the identity of the Alloc, outer ones first. `private`: whether each thread has its own;
    `orders`: whether a barrier lets all who share a buffer meet; None: one thread only."""
    out: dict[int, ArenaSlot] = {}

    def visit(stmts: tuple[Stmt, ...], around: ArenaSlot | None, own: bool) -> None:
        here = list(_outermost(stmts, lambda b: in_memory(b) and private(b) == own))
        apart = not own and len(here) > 1 and orders is not None and not all(_opens(s.body, s.buffer, orders) for s in here)
        for s in here:
            start = "top" if apart else around.end if around else "0" if own else "base"
            out[id(s)] = ArenaSlot(s.buffer, fresh(f"at_{s.buffer.name}"), start, own)
            visit(s.body, out[id(s)], own)

    visit(body, None, False)
    visit(body, None, True)
    return out


def _outermost(stmts: tuple[Stmt, ...], wanted: Callable[[Buffer], bool]) -> Iterator[Alloc]:
    """Allocs of such buffers that stand in no other one."""
    for s in stmts:
        match s:
            case Alloc() if wanted(s.buffer):
                yield s
            case Alloc() | For():
                yield from _outermost(s.body, wanted)
            case If():
                yield from _outermost(s.body, wanted)
                yield from _outermost(s.orelse, wanted)


def _opens(stmts: tuple[Stmt, ...], b: Buffer, orders: Callable[[Barrier, Buffer], bool]) -> bool:
    """Whether a barrier stands before all else."""
    for s in stmts:
        match s:
            case Let():
                continue
            case Alloc():
                return _opens(s.body, b, orders)
            case Barrier():
                if orders(s, b):
                    return True
            case _:
                return False
    return False
