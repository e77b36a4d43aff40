"""The declarations of the cells of a register: together with the first store of a cell, or several in a line."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.limits import TEXT_WIDTH
from .c.c_tree import Assign, Declaration, Declarations
from .c.text_builder import TextScope
from .emission_context import EmissionContext


def declare_where_set(ctx: EmissionContext, name: str, scopes: Sequence[TextScope]) -> None:
    """Cells that statements of these scopes, which are one block, set before all else are declared by them."""
    kind, pending = _cell_type(ctx, name), {text: where for where, text in ctx.cells[name].items()}
    for body in (scope.body for scope in scopes):
        for i, s in enumerate(body):
            if not pending:
                return
            for cell in pending.keys() & s.within:
                where = pending.pop(cell)
                if isinstance(s, Assign) and s.target == cell and not s.op:
                    body[i] = Declaration(kind, cell, s.value, span=s.span)
                    del ctx.cells[name][where]


def declarations(ctx: EmissionContext, name: str) -> list[Declarations | Declaration]:
    """Of the cells that were used and not declared yet, as many in a line as fit."""
    kind = _cell_type(ctx, name)
    lines: list[list[str]] = []
    width = 0
    for _, cell in sorted(ctx.cells[name].items()):
        if lines and width + len(cell) + 2 <= TEXT_WIDTH:
            lines[-1].append(cell)
            width += len(cell) + 2
        else:
            lines.append([cell])
            width = len(kind) + 1 + len(cell)
    return [
        Declarations(kind, tuple([(cell, None) for cell in cells])) if len(cells) > 1 else Declaration(kind, cells[0])
        for cells in lines
    ]


def _cell_type(ctx: EmissionContext, name: str) -> str:
    register = ctx.lanes.registers[name]
    with ctx.in_sub_vector(0):
        return ctx.register_type(register.buffer, not register.uniform)
