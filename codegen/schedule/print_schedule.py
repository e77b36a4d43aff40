"""The explicit schedule as text: what `complete` prints, and the head comment of emitted text."""

from __future__ import annotations

from collections.abc import Mapping

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.op import Op
from ...dsl.support.fast_replace import replace
from ...dsl.text.format import format_node


def schedule_text(op: Op, decl: syntax.ScheduleDecl | None, device: Device, written: list, filled: Mapping[int, tuple]) -> str:
    """One schedule: other launches as `keep T in <outermost memory>:` blocks, then the lines of the main one.

    A launch that only computes intermediates, and keeps one as it does, has a block as well: outside of one, `keep` would
    call for that intermediate inside the launch of its readers.

    filled  the blocks that completion gave to lines without one, by the line's `id`
    """
    outer = device.memories[0].name
    blocks: list[syntax.Line] = []
    plain: tuple = ()
    main = max(written, key=lambda w: (len(w[0]) > 1, max(len(x.all_indices) for x in w[0]), len(w[0])), default=None)
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    for computations, todo in written:
        explicit = tuple(_with_block(x, filled) for x in todo)
        alone = len(written) > 1 and (
            len(computations) == 1 or all(t.rstrip("@") in inner for w in computations for t in w.targets)
        )
        keeping = any(isinstance(x, syntax.Keep) and inner & set(x.tensors) for x in todo)
        if main is not None and computations is main[0] and not (alone and keeping):
            plain = explicit
            continue
        blocks.append(syntax.Keep((computations[-1].targets[0].rstrip("@"),), outer, block=explicit))
    lines = (*blocks, *plain)
    name = decl.name if decl else f"{op.name}_auto"
    where = decl.where if decl else ()
    device_name = decl.device if decl else None
    whole = syntax.ScheduleDecl(name, op.name, None, (), device_name, where, tuple(lines))
    return format_node(whole)


def _with_block(line, filled: Mapping[int, tuple]):
    """With the nested block that completion gave it."""
    if isinstance(line, syntax.Move | syntax.Keep) and id(line) in filled:
        return replace(line, block=filled[id(line)])
    return line
