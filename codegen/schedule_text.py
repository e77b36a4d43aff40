"""The explicit schedule as text: what `complete` prints, and the head comment of emitted text."""

from __future__ import annotations

from dataclasses import replace

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.format import format_node
from ..dsl.op import Op
from .context import Context


def schedule_text(op: Op, decl: syntax.ScheduleDecl | None, device: Device, written: list, ctx: Context) -> str:
    """One schedule: other launches as `keep T in <outermost memory>:` blocks, then the lines of the main one."""
    outer = device.memories[0].name
    lines: list[syntax.Line] = []
    main = max(written, key=lambda w: (max(len(x.all_indices) for x in w[0]), len(w[0]))) if written else None
    for works, todo in written:
        filled = tuple(_filled(x, ctx) for x in todo)
        if main is not None and works is main[0]:
            continue
        target = works[-1].targets[0].rstrip("@")
        lines.append(syntax.Keep((target,), outer, block=filled))
    if main is not None:
        lines += [_filled(x, ctx) for x in main[1]]
    name = decl.name if decl else f"{op.name}_auto"
    where = decl.where if decl else ()
    device_name = decl.device if decl else None
    whole = syntax.ScheduleDecl(name, op.name, None, (), device_name, where, tuple(lines))
    return format_node(whole)


def _filled(line, ctx: Context):
    """With the nested block that completion gave it."""
    if isinstance(line, syntax.Move) and line.block is None and id(line) in ctx.filled:
        return replace(line, block=ctx.filled[id(line)])
    return line
