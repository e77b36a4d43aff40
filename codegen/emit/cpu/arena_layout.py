"""The offsets of local buffers in memory: buffers whose lifetimes do not overlap share space.

    BEHIND     a buffer follows the nearest one around it, so siblings begin at the same offset.
    IN_ORDER   one thread executes in order: its private buffers need no more than BEHIND.
    APART      threads that share buffers may be in the lifetimes of two siblings at once, unless each begins with a barrier;
               otherwise siblings follow one another.
    SEVERAL_PLACES  a body may stand in the text several times, as of a loop that was split, with other buffers around each.
               Its own are behind all of these.

Launches run one after another: each begins at offset 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...analysis.lifetimes import Lifetime, lifetimes
from ...ir.tile_ir import Alloc, Barrier, Buffer, Let, Stmt


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
    `orders`: whether a barrier synchronises all threads that share the buffer; None: one thread only."""
    out: dict[int, ArenaSlot] = {}
    for own in (False, True):
        places = [x for x in lifetimes(body) if in_memory(x.buffer) and private(x.buffer) == own]
        slotted: dict[int, Lifetime] = {}
        for x in places:
            slotted.pop(id(x.alloc), None)  # SEVERAL_PLACES: behind what is around the last one
            slotted[id(x.alloc)] = x
        outers: dict[int, set[int | None]] = {key: set() for key in slotted}
        for x in places:
            outers[id(x.alloc)].add(next((id(a) for a in reversed(x.around) if id(a) in slotted), None))
        around = {key: None if len(some) > 1 else next(iter(some)) for key, some in outers.items()}
        siblings: dict[int | None, list[Lifetime]] = {}
        for key, x in slotted.items():
            siblings.setdefault(around[key], []).append(x)
        for key, x in slotted.items():
            here = siblings[around[key]]
            apart = len(outers[key]) > 1 or (
                not own
                and len(here) > 1
                and orders is not None
                and not all(_begins_with_barrier(y.alloc.body, y.buffer, orders) for y in here)
            )
            outer = around[key]
            start = "top" if apart else out[outer].end if outer is not None else "0" if own else "base"
            out[key] = ArenaSlot(x.buffer, fresh(f"at_{x.buffer.name}"), start, own)
    return out


def _begins_with_barrier(stmts: tuple[Stmt, ...], b: Buffer, orders: Callable[[Barrier, Buffer], bool]) -> bool:
    """Whether a barrier stands before all else."""
    for s in stmts:
        match s:
            case Let():
                continue
            case Alloc():
                return _begins_with_barrier(s.body, b, orders)
            case Barrier():
                if orders(s, b):
                    return True
            case _:
                return False
    return False
