"""Lines that a launch did not obey: each line of an author is obeyed by a computation of its launch, or refused.

Lowering marks a line where it has an effect. A tile has one where a computation in focus has the index, a `keep` where one
computes the tensor, a `move` where one reads it. Nests of a launch differ in that, so it is known at the end of the launch.
(`block_lines` says which lines of a block are about something else than what the block computes.)
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from ....dsl.errors.base import UserError
from ....dsl.errors.schedule import NotComputed, NotRead, UnknownIndexInSchedule
from ....dsl.source import Span
from ...ir.schedule_tree import Keep, Materialise, Move, Node, Tile, all_nodes
from ...plan.computations import Computation
from ...plan.derived_names import tensor_of
from ...schedule.synthetic_spans import is_filled_in
from ..other_launches import in_other_launches

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def obeyed(low: Lowering, node: Node, name: str) -> None:
    """The line has an effect on what has the index or the tensor of this name.

    A `move` in a write-back is of the accumulator, or of what is rounded from it, so it is marked as a whole.
    """
    low.obeyed.add(_effect(node, name))


def refused_unless_obeyed(low: Lowering, node: Node, name: str, refusal: UserError) -> None:
    """The line has no effect here. A block serves several nests, and the line may have one in another."""
    low.refusals.setdefault(_effect(node, name), refusal)


def _effect(node: Node, name: str) -> tuple[Span | None, str]:
    return node.span, "" if isinstance(node, Move) else tensor_of(name)


def check_obeyed(low: Lowering, tree: Node) -> None:
    """Raises UnknownIndexInSchedule, NotComputed or NotRead at a line of the author that had no effect in the launch.

    Tiles that go to units have one for each that takes part, so they are not asked. A tile of an index that nothing in the
    launch has gets a note: completion gives some to another launch than the author meant.
    """
    for x in all_nodes(tree):
        if is_filled_in(x.span):
            continue
        for name in [a.index for a in x.axes] if isinstance(x, Tile) else x.tensors:
            if _effect(x, name) in low.obeyed:
                continue
            if isinstance(x, Tile) and not any(name in w.all_indices for w in low.computations):
                _tell(low, x, name)
            elif not isinstance(x, Tile) or x.level is None:
                _refuse(low, tree, x, name)


def _tell(low: Lowering, tile: Tile, index: str) -> None:
    """A note that the index of a tile is ignored, and where the line would have an effect."""
    assert tile.span is not None
    line = tile.span.source.line(tile.span.line).strip()
    note = f"line {tile.span.line}, `{line}`: no statement of its launch has `{index}`, which is ignored"
    other = next((w for w in in_other_launches(low.ctx, low.computations) if index in w.all_indices), None)
    if other is not None:
        block = f"keep {tensor_of(other.targets[0])} in {low.ctx.device.memories[0].name}:"
        note += f"; `{tensor_of(other.result)}` has it, in a launch of its own: write the line in the block of `{block}`"
    low.ctx.note(note)


def _refuse(low: Lowering, tree: Node, node: Node, name: str) -> None:
    if (known := low.refusals.get(_effect(node, name))) is not None:
        raise known
    if isinstance(node, Keep) and any(_effect(node, t) in low.obeyed for t in node.tensors):
        raise NotComputed(f"no statement computes `{name}` here", node.span, help=f"leave `{name}` out of this line")
    if isinstance(node, Tile):
        raise UnknownIndexInSchedule(
            f"no statement has `{name}` here",
            node.span,
            help=_way(tree, node, [w for w in low.computations if name in w.all_indices]),
        )
    if isinstance(node, Move):
        readers = [w for w in low.computations if name in w.reads]
        raise NotRead(f"no statement reads `{name}` here", node.span, help=_way(tree, node, readers))
    makers = [w for w in low.computations if name in w.names]
    raise NotComputed(f"no statement computes `{name}` here", node.span, help=_way(tree, node, makers))


def _way(tree: Node, node: Node, about: list[Computation]) -> str:
    """The way out for a line about computations that a block above schedules."""
    path = [*tree.path()]
    above = [*takewhile(lambda x: x is not node, path)]
    if len(above) == len(path):
        return "leave the line out"  # it is in a block
    for x in above:
        if isinstance(x, Materialise) and x.block is not None and any(not {*w.names}.isdisjoint(x.tensors) for w in about):
            verb = "keep" if isinstance(x, Keep) else "move"
            line = f"{verb} {', '.join(map(tensor_of, x.tensors))}"
            return f"the block of `{line}` computes what has it: write this line there, or leave it out"
    return "leave the line out"
