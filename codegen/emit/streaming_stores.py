"""Stores of whole vectors by instructions that go past the caches, where alignment and sizes allow it.

Such an instruction is taken where no bit of the address is set that its limit has. The limit has all bits where the tensor is
too small for the instruction to pay, which sizes decide at the call.
"""

from __future__ import annotations

from ...dsl.device import Instr
from ...dsl.types import DType
from ..ir.tile_ir import Buffer
from .c.c_tree import ExprStatement, If, Statement
from .emission_context import EmissionContext


def streaming_store(ctx: EmissionContext, using: str, buffer: Buffer, pointer: str, vector: str) -> Statement | None:
    """The store of a vector by the instruction of that name or family; None where it has no such form."""
    instr = _instr(ctx, using, buffer.dtype)
    if instr is None:
        return None
    for helper in ("instr", "put"):
        ctx.need(f"{helper}:{instr.name}", "", True)
    return ExprStatement(f"put_{instr.name}({pointer}, {vector}, {_limit(ctx, buffer, instr)})")


def _instr(ctx: EmissionContext, using: str, dtype: DType) -> Instr | None:
    for i in ctx.program.instrs:
        target = i.operand(i.statement.target)
        if using in (i.name, i.family) and target.dtype == dtype and target.shape == (ctx.width,):
            return i
    return None


def _limit(ctx: EmissionContext, buffer: Buffer, instr: Instr) -> str:
    """The bits of an address that must be 0 for the instruction to be taken."""
    target = instr.operand(instr.statement.target)
    bits, least = f"{max(target.alignment, buffer.dtype.bytes) - 1}", target.least
    if not least:
        ctx.stream_limits[bits] = False
        return bits
    size = ctx.substitute(buffer.size) * buffer.dtype.bytes
    limit = ctx.constant(
        (buffer.name, bits, least),
        "uintptr_t",
        f"{ctx.emitted_names[buffer.name]}_low",
        lambda: f"{ctx.text.index.text(size)} >= {least} ? {bits} : UINTPTR_MAX",
        f"{instr.name} pays from {least} bytes on",
    )
    ctx.stream_limits[limit] = True
    return limit


def fence(ctx: EmissionContext) -> Statement:
    """The statement after which others see what these instructions stored."""
    limits = " & ".join(ctx.stream_limits)
    fence = ExprStatement("__atomic_thread_fence(__ATOMIC_SEQ_CST)", "others see what went past the caches")
    taken = f"{f'({limits})' if len(ctx.stream_limits) > 1 else limits} != UINTPTR_MAX"
    return If(taken, [fence], short=True) if all(ctx.stream_limits.values()) else fence
