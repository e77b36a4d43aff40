"""The explicit schedule as text: what `complete` prints, and the head comment of emitted text."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.op import Op
from ...dsl.source import Span
from ...dsl.support.fast_replace import replace
from ...dsl.text.format import format_node
from ..ir.schedule_tree import Node
from ..plan.computations import Computation
from .build_tree import is_open_block

LaunchLines = tuple[tuple[Computation, ...], tuple[syntax.Line, ...]]


def schedule_text(
    op: Op,
    decl: syntax.ScheduleDecl | None,
    device: Device,
    written: Sequence[LaunchLines],
    apart: Container[str] = frozenset(),
    lines: Sequence[syntax.Line] = (),
) -> str:
    """One schedule: each `inline`, other launches as `keep T in <outermost memory>:` blocks, then the lines of the main one.

    A launch that only computes intermediates, or one result, has a block as well if a line keeps one that another launch reads,
    or moves it there: outside of a block, those lines would call for it inside the launch of its readers.

    written  the computations and the lines of each launch
    apart    tensors that have launches of their own because a line, or a choice, says so: only a block's name says it again
    lines    of the author's schedule
    """
    outer = device.memories[0].name
    blocks: list[syntax.Line] = []
    plain: tuple = ()
    nameless = [w for w in written if not any(t in apart for x in w[0] for t in x.targets)]
    main = max(nameless, key=lambda w: (len(w[0]) > 1, max(len(x.all_indices) for x in w[0]), len(w[0])), default=None)
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    for computations, own in written:
        alone = len(written) > 1 and (len(computations) == 1 or all(t in inner for w in computations for t in w.targets))
        read = {t for w, _ in written if w is not computations for x in w for t in x.reads}
        keeping = any(isinstance(x, syntax.Keep) and not (inner | read).isdisjoint(x.tensors) for x in own)
        moving = any(
            x.tensor in w.targets for _, every in written for x in every if isinstance(x, syntax.Move) for w in computations
        )
        if main is not None and computations is main[0] and not (alone and (keeping or moving)):
            plain = own
            continue
        blocks.append(syntax.Keep(_block_names(computations, own, written, inner, apart), outer, block=own))
    name = decl.name if decl else f"{op.name}_auto"
    where = decl.where if decl else ()
    device_name = decl.device if decl else None
    inlined = (x for x in lines if isinstance(x, syntax.Inline))
    whole = syntax.ScheduleDecl(name, op.name, None, (), device_name, where, (*inlined, *blocks, *plain))
    return format_node(whole)


def _block_names(
    computations: tuple[Computation, ...],
    lines: tuple[syntax.Line, ...],
    written: Sequence[LaunchLines],
    inner: Container[str],
    apart: Container[str],
) -> tuple[str, ...]:
    """The tensors that the line of a launch names: those of `apart` that it computes, or else one, and the intermediates that
    other launches move. Without their names, readers would compute pointwise ones for themselves."""
    others = (x for _, every in written if every is not lines for x in every)
    moved = {x.tensor for x in others if isinstance(x, syntax.Move)}
    targets = [t for w in computations for t in w.targets]
    first = next((t for t in targets if t in apart), computations[-1].targets[0])
    return tuple(dict.fromkeys((first, *(t for t in targets if t in apart or (t in inner and t in moved)))))


def lines_with_blocks(
    tree: Node, filled: Mapping[object, tuple[syntax.Line, ...]], without_instr: Container[Span]
) -> tuple[syntax.Line, ...]:
    """The lines of a launch; those without a block have the one that completion gave them, by the node's key.

    without_instr   lines for which an instruction was chosen that cannot be used
    """
    return tuple(_with_block(x.line, filled.get(x.key, ()), without_instr) for x in tree.path() if x.line is not None)


def _with_block(line: syntax.Line, block: tuple[syntax.Line, ...], without_instr: Container[Span]) -> syntax.Line:
    """With the nested block that completion gave it, and without instructions that are not used."""
    line = _usable(line, without_instr)
    if not block or not isinstance(line, syntax.Move | syntax.Keep):
        return replace(line, block=None) if isinstance(line, syntax.Keep) and is_open_block(line.block) else line
    block = tuple(_usable(x, without_instr) for x in block)
    if isinstance(line, syntax.Move) and any(isinstance(x, syntax.Compute) and x.instr is None for x in block):
        line = _without_with(line)
    return replace(line, block=block)


def _usable(line: syntax.Line, without_instr: Container[Span]) -> syntax.Line:
    """The line, and those of its block, without instructions that cannot be used there."""
    if isinstance(line, syntax.Move | syntax.Keep) and line.block is not None:
        line = replace(line, block=tuple(_usable(x, without_instr) for x in line.block))
    if line.span not in without_instr:
        return line
    if isinstance(line, syntax.Compute):
        return replace(line, instr=None)
    return _without_with(line) if isinstance(line, syntax.Move) else line


def _without_with(line: syntax.Move) -> syntax.Move:
    return replace(line, modifiers=tuple(m for m in line.modifiers if m.name != "with"))
