"""The lines that declare the cells of a register: together with the first store of a cell, or several in a line."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.limits import TEXT_WIDTH
from .c.dead_declarations import identifiers
from .c.text_builder import TextScope
from .emission_context import EmissionContext


def declare_where_set(ctx: EmissionContext, name: str, scopes: Sequence[TextScope]) -> None:
    """Cells that lines of these scopes, which are one block, set before all else are declared in that line."""
    kind, pending = _cell_type(ctx, name), {text: where for where, text in ctx.cells[name].items()}
    spoken = ctx.emitted_names[name]
    for lines in (scope.lines for scope in scopes):
        for i, line in enumerate(lines):
            if spoken not in line:
                continue
            if not pending:
                return
            for cell in pending.keys() & identifiers(line):
                where = pending.pop(cell)
                if line.startswith(f"{cell} = "):
                    lines[i] = f"{kind} " + line
                    del ctx.cells[name][where]


def declarations(ctx: EmissionContext, name: str) -> list[str]:
    """Of the cells that were used and not declared yet."""
    kind = _cell_type(ctx, name)
    lines, line = [], ""
    for _, cell in sorted(ctx.cells[name].items()):
        piece = f"{', ' if line else kind + ' '}{cell}"
        if len(line) + len(piece) > TEXT_WIDTH:
            lines.append(line + ";")
            line, piece = "", f"{kind} {cell}"
        line += piece
    lines += [line + ";"] if line else []
    if name in ctx.packed and name in ctx.stored:  # parts are put in one by one
        lines = [x.replace(",", " = 0,").replace(";", " = 0;") for x in lines]
    return lines


def _cell_type(ctx: EmissionContext, name: str) -> str:
    register = ctx.lanes.registers[name]
    with ctx.in_sub_vector(0):
        return ctx.register_type(register.buffer, not register.uniform)
