"""Buffers of the outermost memory that live as long as the program: between launches, and between iterations of outer loops."""

from __future__ import annotations

from ...dsl.index.expr import Expr, as_expr
from ..ir.tile_ir import Buffer
from .lowering_context import LoweringContext


def workspace(ctx: LoweringContext, name: str, dtype, shape: tuple[Expr, ...]) -> Buffer:
    """A row-major buffer in the outermost memory, alive during the program."""
    strides, size = [], as_expr(1)
    for n in reversed(shape):
        strides.append(size)
        size = size * n
    outer = ctx.device.memories[0]
    return Buffer(name, dtype, "workspace", outer.name, ctx.outermost, shape, tuple(reversed(strides)), size)
