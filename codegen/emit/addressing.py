"""The address of an element: linear, in elements, and as text a pointer and an index."""

from __future__ import annotations

from collections.abc import Sequence

from ...dsl.index.expr import Atom, Expr
from ..analysis.loop_nest import linear_address
from ..ir.tile_ir import Buffer
from .c.c_expr import storage
from .emission_context import EmissionContext


def address(ctx: EmissionContext, buffer: Buffer, coords: Sequence[Expr]) -> Expr:
    """The linear address in elements, with Lets and unrolled loops substituted."""
    return ctx.substitute(linear_address(buffer, tuple(coords)))


def pointer_and_index(ctx: EmissionContext, buffer: Buffer, e: Expr) -> tuple[str, str]:
    """(pointer, index text) of a linear address; the lane, if it varies, is left out (lane 0)."""
    e = ctx.at_lane(e, 0) if ctx.varies(e) else e
    pointer, late = _pointed(ctx, buffer, e)
    return pointer, ctx.text.index.terms(late, e.const) if late else str(e.const)


def _pointed(ctx: EmissionContext, buffer: Buffer, e: Expr) -> tuple[str, Sequence[tuple[Atom, int]]]:
    """The pointer, and the terms that are left for the index."""
    constant = ctx.text.constant
    late = [term for term in e.terms if constant(term[0])]
    terms = [term for term in e.terms if term not in late] if late else e.terms
    base = ctx.emitted_names[buffer.name]
    if not terms:
        return base, late
    const = "const " if buffer.kind == "input" else ""
    ctype = f"{const}{ctx.element(storage(buffer.dtype), False)}*"
    near = buffer.memory != ctx.program.device.memories[0].name  # addresses of the outermost memory take more registers
    pointer, rest = ctx.text.pointer(base, ctype, terms, arrays=near)
    return pointer, [*rest, *late]


def lane_pointer(ctx: EmissionContext, buffer: Buffer, e: Expr) -> str:
    """`p + i` for lane 0 of a linear address."""
    return _moved(*pointer_and_index(ctx, buffer, e))


def _moved(pointer: str, index: str) -> str:
    if index == "0":
        return pointer
    return f"{pointer} - {index[1:]}" if index[0] == "-" and index[1:].isdigit() else f"{pointer} + {index}"


def element_text(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> str:
    """`p[i]` for an element of a buffer in memory, without lanes."""
    buffer = ctx.buffers[name]
    pointer, index = pointer_and_index(ctx, buffer, address(ctx, buffer, coords))
    return f"{pointer}[{index}]"


def pointer_text(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> str:
    """`p + i`, as `element_text`."""
    buffer = ctx.buffers[name]
    return lane_pointer(ctx, buffer, address(ctx, buffer, coords))
