"""Markdown about the name under the cursor."""

from __future__ import annotations

from ...dsl.device import Device
from ...dsl.errors import UserError
from ...dsl.text.print_node import format_node
from ..repl.view import costs, draft_report
from ..word_help import device_summary, device_word_help, statements_about
from .analysis import Analysis
from .names import Occurrence


def hover(analysis: Analysis, offset: int) -> str | None:
    """About the name there, else about the statement and the line of the schedule."""
    name = analysis.name_at(offset)
    line = analysis.line_at(offset)
    parts = []
    if name is not None:
        parts.append(_about_name(analysis, name))
    if line is not None:
        schedule, _, traced = line
        if traced is not None and traced.specs:
            spec = "\n".join(traced.specs)
            parts.append(f"In focus after this line:\n```text\n{spec}\n```" + (f"\n{traced.effect}" if traced.effect else ""))
        kernel = analysis.kernel(schedule)
        if kernel is not None:
            parts.append(costs(draft_report(kernel), None))
        word = _word(analysis.text, offset)
        about = next(iter(statements_about(word)), None)
        if name is None and about is not None:
            parts.insert(0, f"```text\n{about.form}\n```\n{about.text.strip()}")
    return "\n\n".join(p for p in parts if p) or None


def _about_name(analysis: Analysis, name: Occurrence) -> str:
    module, symbol = analysis.module, name.symbol
    if module is None:
        return ""
    if symbol.kind == "op" and symbol.name in module.ops:
        return f"```sched\n{module.ops[symbol.name]}\n```"
    if symbol.kind == "device":
        try:
            return device_summary(module.device(symbol.name))
        except UserError:
            return ""
    if symbol.kind == "strategy" and symbol.name in module.strategies:
        return f"```sched\n{format_node(module.strategies[symbol.name])}\n```"
    op = module.ops.get(symbol.scope)
    if op is not None and symbol.kind == "tensor":
        tensor = next((t for t in op.tensors if t.name == symbol.name), None)
        if tensor is not None:
            return f"{tensor.role} `{tensor.name}: {tensor.dtype.name}[{', '.join(map(str, tensor.shape))}]` of `{op.name}`"
        return f"intermediate `{symbol.name}` of `{op.name}`"
    if op is not None and symbol.kind == "index":
        extents = {str(e) for s in op.statements for i, e in s.ranges if i == symbol.name}
        return f"index `{symbol.name}` < {', '.join(sorted(extents))}" if extents else ""
    device = _device_of(analysis, name)
    if device is not None:
        return device_word_help(device, symbol.name, module.devices)
    return ""


def _device_of(analysis: Analysis, name: Occurrence) -> Device | None:
    """That of the schedule in which the name stands."""
    for schedule in analysis.schedules:
        start, end = analysis.extent(schedule)
        kernel = analysis.kernel(schedule) if start <= name.start <= end else None
        if kernel is not None:
            return kernel.program.device
    return None


def _word(text: str, offset: int) -> str:
    start, end = offset, offset
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[start:end]
