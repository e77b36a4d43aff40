"""Buffers of the outermost memory that live as long as the program: between launches, and between iterations of outer loops."""

from __future__ import annotations

from ...dsl.index.expr import Expr
from ..ir.tile_ir import Buffer
from .lowering_context import LoweringContext


def workspace(ctx: LoweringContext, name: str, dtype, shape: tuple[Expr, ...]) -> Buffer:
    """A row-major buffer in the outermost memory, alive during the program."""
    return Buffer.row_major(name, dtype, "workspace", ctx.device.memories[0].name, ctx.outermost, shape)
