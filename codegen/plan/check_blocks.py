"""Checks of the lines that give tensors launches of their own, and of `inline`: each is obeyed, or refused with the reason.

keep T in <outermost memory>:     T is computed by a launch of its own, which the block schedules
inline T                          T is computed by its readers

ELSEWHERE  `keep T in register` stands outside the block of what reads T, so that the launch of T stores it for that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...dsl import syntax
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import LateInline, NotComputed
from ...dsl.op import Op
from ...dsl.values import Load, loads
from .computations import Computation
from .group_launches import shared_outputs, statements_reading

Groups = Sequence[Sequence[Computation]]


def check_blocks(op: Op, own: Sequence[syntax.Keep], lines: Iterable[syntax.Line], groups: Groups, outer: str) -> None:
    """Raises NotComputed where a line of `own` names what its launch does not compute, or where two are for one launch.

    own     the lines that have a launch of their own each       lines   all lines of the schedule
    """
    for line in own:
        first, *others = line.tensors
        launch = next((g for g in groups if first in _stored(g)), None)
        if launch is None:
            what = "an input" if op.tensor(first).role == "input" else "another name of a tensor"
            raise NotComputed(f"no launch computes `{first}`: it is {what}", line.span, help="leave the line out")
        if missing := [t for t in others if t not in _stored(launch)]:
            raise NotComputed(
                f"the launch that computes `{first}` does not compute `{missing[0]}`",
                line.span,
                help=f"give `{missing[0]}` a line of its own: `keep {missing[0]} in {outer}:`",
            )
    for g in groups:
        if len(blocks := _blocks_of(own, g)) > 1:
            raise _one_launch(blocks, lines, g, outer)


def shared_by_blocks(own: Sequence[syntax.Keep], groups: Groups) -> frozenset[str]:
    """What computations of a launch with several blocks read of each other: that joins the launches of these blocks. And the
    same of launches that have one block: that keeps them apart."""
    several = [g for g in groups if len(_blocks_of(own, g)) > 1]
    for x in own:
        mine = [g for g in groups if not _stored(g).isdisjoint(x.tensors)]
        several += mine if len(mine) > 1 else []
    return frozenset(t for g in several for t in _read_within(g))


def joined_outputs(op: Op, own: Sequence[syntax.Keep]) -> frozenset[str]:
    """Outputs that a line may keep in the launch of their readers (ELSEWHERE)."""
    return frozenset(t for t in shared_outputs(op) if not _read_elsewhere(op, own, t))


def sums_apart(op: Op, own: Sequence[syntax.Keep]) -> frozenset[str]:
    """Reductions without a name of their own, whose readers are ELSEWHERE: a line keeps the accumulator."""
    sums = {s.target for s in op.statements if s.reduction is not None and "." in s.target}
    return frozenset(t for t in sums if _read_elsewhere(op, own, t))


def _read_elsewhere(op: Op, own: Sequence[syntax.Keep], tensor: str) -> bool:
    """ELSEWHERE: whether a reader has a block of its own, which is not the block in which a line keeps the tensor."""
    said = {t: x for x in own for y in syntax.all_lines(x.block or ()) if isinstance(y, syntax.Keep) for t in y.tensors}
    blocks = {t for x in own for t in x.tensors}
    names = {s.target for s in statements_reading(op, tensor)}
    readers = {name if name in blocks else name.partition(".")[0] for name in names}  # a sum without a name is its target's
    return any(readers.intersection(x.tensors) for x in own if said.get(tensor) is not x)


def _one_launch(
    blocks: Sequence[syntax.Keep], lines: Iterable[syntax.Line], group: Sequence[Computation], outer: str
) -> NotComputed:
    """What to say where two blocks are for one launch."""
    shared = _read_within(group).difference(*(x.tensors for x in blocks))
    joining = (x for x in lines if x not in blocks and isinstance(x, syntax.Keep | syntax.Move))
    line, tensor = next(((x, t) for x in joining for t in syntax.tensors_of(x) if t in shared), (None, ""))
    first, second = (next(t for t in x.tensors if t in _stored(group)) for x in blocks[:2])
    labels = [Label(x.span, "this block") for x in blocks[:2] if x.span is not None]
    if line is None:
        return NotComputed(
            f"`{second}` is computed in the launch of `{first}`, which has a block already",
            blocks[1].span,
            labels=labels[:1],
            help=f"write one block for both: `keep {first}, {second} in {outer}:`",
        )
    return NotComputed(
        f"this line has `{tensor}` in one launch with all its readers, and `{first}` and `{second}` have blocks of their own",
        line.span,
        labels=labels,
        help=f"give `{tensor}` a block of its own: `keep {tensor} in {outer}:`",
    )


def _stored(group: Iterable[Computation]) -> frozenset[str]:
    return frozenset(t for w in group for t in w.targets)


def _read_within(group: Iterable[Computation]) -> frozenset[str]:
    """What computations of a launch read of each other's results."""
    return _stored(group) & {t for w in group for t in w.reads}


def _blocks_of(own: Sequence[syntax.Keep], group: Sequence[Computation]) -> list[syntax.Keep]:
    stored = _stored(group)
    return [x for x in own if not stored.isdisjoint(x.tensors)]


def inlined_tensors(lines: Iterable[syntax.Line]) -> frozenset[str]:
    return frozenset(t for x in lines if isinstance(x, syntax.Inline) for t in x.tensors)


def check_inlined(op: Op, lines: Sequence[syntax.Line], groups: Groups) -> None:
    """Raises LateInline where a line has the readers of a tensor compute it, and another line holds it, or a launch stores it.

    lines   all lines of the schedule
    """
    stored = frozenset(t for g in groups for t in _stored(g))
    for line in lines:
        if not isinstance(line, syntax.Inline):
            continue
        for t in line.tensors:
            other = next((x for x in lines if t in syntax.tensors_of(x)), None)
            if other is not None:
                labels = [Label(other.span, "held here")] if other.span is not None else []
                message = f"the readers of `{t}` compute it, and another line holds it"
                raise LateInline(message, line.span, labels=labels, help="leave one of the lines out")
            if t in stored:
                raise LateInline(f"`{t}` cannot be inlined: {_obstacle(op, t)}", line.span, help="leave the line out")


def _obstacle(op: Op, tensor: str) -> str:
    padded = next((ld for ld in _reads(op, tensor) if ld.otherwise is not None), None)
    if padded is None:
        return "a reader would execute too many operations for each point"
    at = ", ".join(map(str, padded.indices))
    return f"it is read as `{tensor}[{at} else ...]`, so elements past its edges are those of a tensor in memory"


def _reads(op: Op, tensor: str) -> Iterable[Load]:
    return (ld for s in op.statements for ld in loads(s.value) if ld.tensor == tensor)
