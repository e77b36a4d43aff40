"""The address of an element: linear, in elements, and as text a pointer and an index.

NEAR      The addresses of one statement in unrolled iterations differ by constants. Their common part is printed once, as long
          as the pointer is known and no variable gets another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dsl.index.expr import Atom, Expr, Fn, Var
from ...dsl.index.simplify import linear_combination
from ..ir.tile_ir import Buffer
from .c.c_expr import storage
from .c.text_builder import NOWHERE, KnownPointer
from .emission_context import EmissionContext


def linear_address(ctx: EmissionContext, buffer: Buffer, coords: Sequence[Expr]) -> Expr:
    """The linear address in elements, as the program has it."""
    key = (id(buffer), id(coords))
    found = ctx.addresses.get(key)
    if found is None:
        parts = zip(coords, buffer.strides, strict=True)
        total = linear_combination([(_product(ctx, c, s), 1) if s.terms else (c, s.const) for c, s in parts], 0)
        found = ctx.addresses[key] = (total, buffer, coords)  # what the key names stays alive
    return found[0]


def _product(ctx: EmissionContext, c: Expr, s: Expr) -> Expr:
    """A coordinate times a stride. Equal arguments give the same object, because substitution remembers by identity."""
    found = ctx.products.get((id(c), id(s)))
    if found is None:
        found = ctx.products[id(c), id(s)] = (c * s, c, s)
    return found[0]


def address(ctx: EmissionContext, buffer: Buffer, coords: Sequence[Expr]) -> Expr:
    """The linear address in elements, with Lets and unrolled loops substituted."""
    return ctx.substitute(linear_address(ctx, buffer, coords))


def pointer_and_index(ctx: EmissionContext, buffer: Buffer, e: Expr) -> tuple[str, str]:
    """(pointer, index text) of a linear address; the lane, if it varies, is left out (lane 0)."""
    e = ctx.at_lane(e, 0) if ctx.varies(e) else e
    pointer, late, _ = _pointed(ctx, buffer, e)
    return pointer, ctx.text.index.terms(late, e.const) if late else str(e.const)


def _pointed(ctx: EmissionContext, buffer: Buffer, e: Expr) -> tuple[str, Sequence[tuple[Atom, int]], KnownPointer]:
    """The pointer, the terms that are left for the index, and where the pointer is known."""
    constant = ctx.text.constant
    late = [term for term in e.terms if constant(term[0])]
    terms = [term for term in e.terms if term not in late] if late else e.terms
    base = ctx.emitted_names[buffer.name]
    if not terms:
        return base, late, NOWHERE
    const = "const " if buffer.kind == "input" else ""
    pointer, rest, held = ctx.text.pointer(base, f"{const}{ctx.element(storage(buffer.dtype), False)}*", terms)
    return pointer, [*rest, *late], held


def lane_pointer(ctx: EmissionContext, buffer: Buffer, e: Expr) -> str:
    """`p + i` for lane 0 of a linear address."""
    return _moved(*pointer_and_index(ctx, buffer, e))


def _moved(pointer: str, index: str) -> str:
    if index == "0":
        return pointer
    return f"{pointer} - {index[1:]}" if index[0] == "-" and index[1:].isdigit() else f"{pointer} + {index}"


def element_text(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> str:
    """`p[i]` for an element of a buffer in memory, without lanes."""
    if ctx.recorded_operands is not None:
        return ctx.recorded_operands.placeholder(_place_near, ctx, name, coords)
    buffer = ctx.buffers[name]
    pointer, index = pointer_and_index(ctx, buffer, address(ctx, buffer, coords))
    return f"{pointer}[{index}]"


def pointer_text(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> str:
    """`p + i`, as `element_text`."""
    if ctx.recorded_operands is not None:
        return ctx.recorded_operands.placeholder(_pointer_near, ctx, name, coords)
    buffer = ctx.buffers[name]
    return lane_pointer(ctx, buffer, address(ctx, buffer, coords))


def _place_near(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> str:
    pointer, index = _near(ctx, name, coords)
    return f"{pointer}[{index}]"


def _pointer_near(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> str:
    return _moved(*_near(ctx, name, coords))


@dataclass
class AddressText:
    """NEAR. `rest`: an address but for a constant; `late`: its terms that are no part of the pointer, which `index` is made of;
    `room`: what may be added to them without another text; `grows`: whether that begins with a term that is added."""

    rest: Expr
    kept: tuple[object, ...]  # what the key of it names stays alive
    names: int = -1
    base: str = ""
    pointer: str = ""
    held: KnownPointer = NOWHERE
    late: Sequence[tuple[Atom, int]] = ()
    index: str = ""
    grows: bool = False
    room: int = 0


def _inside(e: Expr) -> tuple[Var, ...]:
    """The variables in functions."""
    return tuple({v: None for a, _ in e.terms if type(a) is Fn for v in a.variables()})


def _near(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> tuple[str, str]:
    """The text of an address that differs by a constant from an earlier one."""
    buffer, env = ctx.buffers[name], ctx.env
    total = linear_address(ctx, buffer, coords)
    const, key = total.const, [id(total)]
    for v in ctx.inside.of(total, _inside):
        key.append(id(env[v]) if v in env else 0)
    for a, c in total.terms:
        if type(a) is Var and a in env:
            value = env[a]
            if value.terms:
                key.append(id(value))
            else:
                key.append(1)
                const += c * value.const
        else:
            key.append(0)
    at = tuple(key)
    near = ctx.near.get(at)
    if near is None:
        left = tuple([(a, c) for a, c in total.terms if type(a) is Fn or a not in env or env[a].terms])
        rest = ctx.substitute(total if len(left) == len(total.terms) and not total.const else Expr(left))
        near = ctx.near[at] = AddressText(rest, (total, *[env[v] for v in total.variables() if v in env]))
    text = ctx.text
    base, index = ctx.emitted_names[name], text.index
    if near.names != index.names or near.base != base or not near.held.still(text.scopes):
        near.names, near.base = index.names, base
        near.pointer, late, near.held = _pointed(ctx, buffer, near.rest)
        near.late, near.index = late, index.terms(late, 0) if late else ""
        near.room = index.room(late)
        near.grows = any([c > 0 for _, c in late])
    const += near.rest.const
    shown = near.index
    if not shown:
        return near.pointer, str(const)
    if abs(const) > near.room:
        return near.pointer, index.terms(near.late, const)
    if not const:
        return near.pointer, shown
    if not near.grows and const > 0:
        return near.pointer, f"{const} - {shown[1:]}"
    return near.pointer, f"{shown} + {const}" if const > 0 else f"{shown} - {-const}"
