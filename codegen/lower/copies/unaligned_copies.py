"""Copies for sizes for which their runs are not aligned: lowered beside the others, in two programs that differ only in copies.

A copy whose runs require sizes (`copy_width`) is lowered twice, once with runs and once element by element; everything else is
common to both programs. Each program has its own fresh names within copies, so from the first such copy on all copies are
lowered twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.errors import InternalError
from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Node
from ...ir.tile_ir import Alloc, Buffer, Stmt
from ...ir.tile_visitors import map_bodies, mapped, spanned
from ..lowering_context import UnalignedVariant
from ..spec import Focus
from .copy_width import Axes, elementwise_tree

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def aligned_fill(low: Lowering, focus: Focus, axes: Axes, block: Node, buffer: Buffer) -> tuple[Stmt, ...]:
    """The statements that fill a buffer by the block, for aligned sizes; those for others are put aside where they differ."""
    ctx, unaligned = low.ctx, low.ctx.unaligned
    others = None if unaligned is False else elementwise_tree(ctx, focus, axes, block)
    if unaligned is not None or (others is None and ctx.unaligned_variant is None):
        return spanned(tuple(low.lower(focus, others or block)), buffer.span)
    apart = ctx.unaligned_variant or UnalignedVariant(ctx.names.copy())
    again = low.in_context(ctx.copy(names=apart.names, unaligned=True, unaligned_variant=None))
    ctx.unaligned, ctx.unaligned_variant = False, None
    made = spanned(tuple(low.lower(focus, block)), buffer.span)
    ctx.unaligned, ctx.unaligned_variant = None, apart
    copy = spanned(tuple(again.lower(focus, others or block)), buffer.span)
    ctx.instrs |= again.ctx.instrs
    if copy != made:
        apart.copies[buffer.name] = made, copy
    return made


def unaligned_variant(body: tuple[Stmt, ...], apart: UnalignedVariant) -> tuple[Stmt, ...]:
    """The statements of a launch as they are for unaligned sizes; the same objects where that changes nothing."""

    def one(s: Stmt) -> Stmt:
        if not isinstance(s, Alloc) or s.buffer.name not in apart.copies:
            return map_bodies(s, lambda inner: unaligned_variant(inner, apart))
        made, copy = apart.copies[s.buffer.name]
        if s.body[: len(made)] != made:
            raise InternalError(f"{s.buffer.name} is not filled by its first statement")
        staging = s.staging and replace(s.staging, copy=len(copy))
        return replace(s, body=(*copy, *unaligned_variant(s.body[len(made) :], apart)), staging=staging)

    return mapped(body, one)
