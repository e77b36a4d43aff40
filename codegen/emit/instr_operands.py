"""The operands of an instruction as arguments of its inline function."""

from __future__ import annotations

from ...dsl.device import Instr, Operand
from ...dsl.index.expr import Expr
from ..analysis.register_buffers import register_memories
from ..ir.tile_ir import Piece
from .addressing import pointer_text
from .c.c_expr import BOOL, CExpr, storage
from .emission_context import EmissionContext
from .lane_analysis import has_lane
from .load_store import load, splat


def instr_name(instr: Instr) -> str:
    """The inline function of an instruction; the double underscore keeps users' names off it."""
    return f"i__{instr.name}"


def instr_heading(instr: Instr) -> str:
    """Its name, and the types and shapes of its operands, for people."""
    roles = ", ".join(f"{o.name}: {o.dtype}{list(o.shape)}" for o in instr.operands)
    return f"{instr.name} ({roles})"


def element_coords(ctx: EmissionContext, piece: Piece) -> list[tuple[Expr, ...]]:
    """The coordinates of each element of an operand. Those of several fragments, one after another, are in several rows."""
    c, register = piece.coords, ctx.lanes.registers.get(piece.buffer)
    row = register.buffer.shape[-1].constant if c and register is not None else None
    if row is None or len(c) < 2 or piece.extent <= row or register is None or row != register.buffer.strides[-2].constant:
        return [(*c[:-1], c[-1] + i) if c else () for i in range(piece.extent)]
    return [(*c[:-2], c[-2] + (c[-1] + i) // row, (c[-1] + i) % row) for i in range(piece.extent)]


def operand_arguments(ctx: EmissionContext, piece: Piece, operand: Operand) -> list[str]:
    """An operand for all lanes: registers one by one, those that are still in memory loaded here; memory as a pointer."""
    loaded = operand.memory in register_memories(ctx.program.device) and operand.role == "input"
    if piece.buffer not in ctx.lanes.registers and not loaded:
        return [pointer_text(ctx, piece.buffer, piece.coords)]
    out = []
    for place in element_coords(ctx, piece):
        text, vector = load(ctx, piece.buffer, place)
        if has_lane(operand) and not vector and operand.role == "input" and ctx.lanes.var is not None:
            text = splat(ctx, storage(operand.dtype), CExpr(text, operand.dtype if operand.dtype.kind != "bool" else BOOL))
        out.append(text)
    return out
