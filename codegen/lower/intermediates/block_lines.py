"""What the lines of a `keep`'s block are about: what the block computes or stores, and nothing else of the launch.

OTHER_NEST   a tile may give computations nests of their own (FISSION), and a block serves each name of its line, and each
             result of its accumulator, by itself. So a line may be about another one than that in focus: it does nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.schedule_tree import Keep, Materialise
from ...plan.computations import Computation
from ...plan.derived_names import StoredCopy, tensor_of
from ..reductions.accumulator_computations import RunningUpdate
from ..spec import Focus

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


@dataclass(frozen=True)
class Block:
    """The block that is being lowered.

    names    of its line
    served   what it is about: what it computes or stores now, and the other names of its line
    made     what it computes now for others to read; where it stores what an accumulator has, nothing
    """

    node: Materialise
    names: tuple[str, ...]
    served: tuple[Computation, ...]
    made: frozenset[str]


@contextmanager
def lines_about(low: Lowering, node: Materialise, served: Iterable[Computation], makes: bool = False) -> Iterator[None]:
    """While the block of the node is lowered, for `served`."""
    served = tuple(served)
    here = {t for w in served for t in w.names}
    same = (x for x in (*low.ctx.lines_above, node) if isinstance(x, Materialise) and x.block is node.block)
    names = tuple(dict.fromkeys(tensor_of(t) for x in same for t in x.tensors))
    others = (w for w in low.computations if here.isdisjoint(w.names) and not {*names}.isdisjoint(w.names))
    before, low.block = low.block, Block(node, names, (*served, *others), frozenset(here) if makes else frozenset())
    try:
        yield
    finally:
        low.block = before


def names_other_nest(low: Lowering, focus: Focus, fits: Callable[[Computation], bool]) -> bool:
    """Whether the line is for computations that have a nest of their own, and not for those in focus (OTHER_NEST)."""
    mine = {t for w in low.computations for t in (w.name, w.result)}
    others = (w for w in focus.computations if not isinstance(w, RunningUpdate))
    known = all(w.name in mine or w.result in mine or isinstance(w.name, StoredCopy) for w in others)
    return known and any(fits(w) for w in (low.computations if low.block is None else low.block.served))


def out_of_block(low: Lowering, fits: Callable[[Computation], bool]) -> str | None:
    """The way out for a line of a block that is about something else of the launch; None for another line."""
    if low.block is None or not any(fits(w) for w in low.computations):
        return None
    verb = "keep" if isinstance(low.block.node, Keep) else "move"
    line, what = f"{verb} {', '.join(low.block.names)}", " and ".join(f"`{t}`" for t in low.block.names)
    return f"the block of `{line}` is about {what} alone: write this line outside of it, or leave it out"


def way_of_own_name(low: Lowering, tensor: str, memory: str) -> str | None:
    """The way out for a line that moves a name of its block's line to the memory, where the block has nothing to move."""
    if low.block is None or tensor not in low.block.names:
        return None
    if tensor in low.block.made:
        line = f"`keep {', '.join(low.block.names)} in {memory}:`"
        return f"what the block computes is read where its own line has it: leave this line out, or write {line}"
    where = "" if low.block.node.memory is None else f" in {low.block.node.memory}"
    others = " and ".join(f"`{t}`" for t in low.block.names if t != tensor)
    return (
        f"the block is also that of {others}: write a line for each, `keep {tensor}{where}:` with this one" if others else None
    )
