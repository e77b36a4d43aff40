"""Loads and stores of stored elements: registers by name, memory through hoisted pointers.

The form of an access to memory depends on the difference of its linear address from lane to lane: one (a vector load or store),
two (two loads and a shuffle), zero (a scalar, or one store), another constant (gather, scatter), or none (lane by lane).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dsl.index.expr import Expr, Var, as_expr
from .addressing import address, element_text, lane_pointer, pointer_and_index
from .c.c_expr import ATOM, BOOL, COMPARE, CExpr, storage
from .c.c_tree import Assign, Binary, Declaration, ExprStatement, If, SetPart
from .cpu.prefetch import emit_prefetch
from .emission_context import EmissionContext
from .lane_analysis import LaneRegister
from .partial_lanes import ChosenLanes, FirstLanes, LaneMask, LaneRange
from .streaming_stores import streaming_store

# elements: the steps from lane to lane that vector loads cover, each or every second element [fact: load instructions]
BESIDE = (1, 2)


def lane_step(ctx: EmissionContext, e: Expr) -> Expr | None:
    """How much an address grows from one lane to the next; None when that differs."""
    if not ctx.varies(e):
        return as_expr(0)
    var = ctx.lane
    assert var is not None
    if all(isinstance(a, Var) or var not in a.variables() for a, _ in e.terms):
        return as_expr(e.coefficient(var))
    first = ctx.at_lane(e, 0)
    step = ctx.at_lane(e, 1) - first
    return step if e == first + step * var else None


def _lanes(ctx: EmissionContext, e: Expr) -> list[Expr]:
    return [ctx.at_lane(e, i) for i in range(ctx.width)]


def _braces(ctx: EmissionContext, element: str, pieces: Sequence[str]) -> str:
    return f"({ctx.element(element, True)}){{{', '.join(pieces)}}}"


def has_masked_form(ctx: EmissionContext, name: str, coords: Sequence[Expr], written: bool = False) -> bool:
    """Whether an access has a form for a part of the lanes (`EmissionContext.mask`)."""
    if name in ctx.lanes.registers:
        return ctx.lanes.registers[name].named and not written
    step = lane_step(ctx, address(ctx, ctx.buffers[name], coords))
    return written if step is None else not written or step.constant != 0


def load(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> tuple[str, bool]:
    """The stored element (see `storage`) of a buffer as text, and whether it is a vector."""
    if name in ctx.lanes.registers:
        return _load_register(ctx, name, coords)
    if ctx.lanes.var is None:
        return element_text(ctx, name, coords), False
    buffer = ctx.buffers[name]
    e = address(ctx, buffer, coords)
    step = lane_step(ctx, e)
    element = storage(buffer.dtype)
    if step is None:
        places = [pointer_and_index(ctx, buffer, x) for x in _lanes(ctx, e)]
        return _braces(ctx, element, [f"{p}[{i}]" for p, i in places]), True
    if not step.terms and step.const == 0:
        pointer, index = pointer_and_index(ctx, buffer, e)
        return f"{pointer}[{index}]", False
    if step.constant in BESIDE:
        how = "load" if step.const == 1 else "load_even"
        pointer = lane_pointer(ctx, buffer, e)
        suffix, lanes = _masked(ctx.mask)
        how = "load" if suffix == "_where" else how
        ctx.need(f"{how}{suffix}", element, True)
        if lanes:
            return f"{how}{suffix}_{element}x{ctx.width}({pointer}, {lanes})", True
        if step.const == 1:
            emit_prefetch(ctx, buffer, e, pointer)
        return f"{how}_{element}x{ctx.width}({pointer})", True
    suffix, lanes = _masked(ctx.mask)
    ctx.need(f"gather{suffix}", element, True)
    args = [lane_pointer(ctx, buffer, e), ctx.text.index.text(step), *([lanes] if lanes else [])]
    return f"gather{suffix}_{element}x{ctx.width}({', '.join(args)})", True


def _masked(mask: LaneMask | None) -> tuple[str, str]:
    """How the name of a helper that loads lanes ends, and the arguments that tell it the lanes."""
    match mask:
        case FirstLanes(count=count):
            return "_part", count.text
        case LaneRange(bounds=bounds):
            return "_between", bounds
        case ChosenLanes(bits=bits):
            return "_where", bits
    return "", ""


def _load_register(ctx: EmissionContext, name: str, coords: Sequence[Expr]) -> tuple[str, bool]:
    register = ctx.lanes.registers[name]
    buffer = register.buffer
    if (shared := ctx.word_and_part(name, coords)) is not None:
        ctx.need("part", storage(buffer.dtype))
        return f"m_part_{storage(buffer.dtype)}({', '.join(shared)})", False
    if register.named:
        cell = ctx.cell(name, coords)
        if register.uniform or not ctx.in_lane:
            return cell, not register.uniform
        return ctx.lane_of(cell, ctx.register_type(buffer, True)), False
    e = _in_array(ctx, register, address(ctx, buffer, coords))
    array = ctx.emitted_names[name]
    if ctx.varies(e):
        lane = "" if register.uniform else "[{}]"
        pieces = [f"{array}[{ctx.text.index.text(x)}]" + lane.format(i) for i, x in enumerate(_lanes(ctx, e))]
        return _braces(ctx, "i32" if buffer.dtype.kind == "bool" else storage(buffer.dtype), pieces), True
    cell = f"{array}[{ctx.text.index.text(e)}]"
    if register.uniform or not ctx.in_lane:
        return cell, not register.uniform
    return f"{cell}[{ctx.lane_text()}]", False


def _in_array(ctx: EmissionContext, register: LaneRegister, e: Expr) -> Expr:
    """The place of a cell in an array: the vectors of one cell are contiguous."""
    return e if register.uniform or ctx.sub_vectors == 1 else e * ctx.sub_vectors + (ctx.sub_vector or 0)


def store(ctx: EmissionContext, name: str, coords: Sequence[Expr], value: CExpr, using: str | None = None) -> None:
    """Prints the store of a stored element (already converted; for bool registers a mask or a bool).

    `using`: the instruction, or family, that stores whole vectors where it may.
    """
    if name in ctx.lanes.registers:
        return _store_register(ctx, name, coords, value)
    if ctx.lanes.var is None:
        ctx.text.add(Assign(element_text(ctx, name, coords), value.text))
        return
    buffer = ctx.buffers[name]
    e = address(ctx, buffer, coords)
    step = lane_step(ctx, e)
    element, last = storage(buffer.dtype), ctx.width - 1
    if step is not None and not step.terms and step.const == 0:
        # one place for all lanes: the last one is seen
        pointer, index = pointer_and_index(ctx, buffer, e)
        ctx.text.add(Assign(f"{pointer}[{index}]", f"{value.at(ATOM)}[{last}]" if value.vector else value.text))
        return
    text = value.text if value.vector else splat(ctx, element, value)
    part = ctx.first_lanes
    if step is None:
        t = ctx.text.temp()
        ctx.text.add(Declaration(ctx.element(element, True), t, text, const=True))
        few = None if part is None else part.at(COMPARE + 1)
        for i, x in enumerate(_lanes(ctx, e)):
            pointer, index = pointer_and_index(ctx, buffer, x)
            one = Assign(f"{pointer}[{index}]", f"{t}[{i}]")
            ctx.text.add(one if few is None else If(f"{i} < {few}", [one], short=True))
    elif part is not None and step.constant != 1:
        ctx.need("scatter_part", element, True)
        shown = ctx.text.index.text(step)
        ctx.text.add(ExprStatement(f"scatter_part({lane_pointer(ctx, buffer, e)}, {shown}, {part.text}, {text})"))
    elif part is not None:
        ctx.need("store_part", element, True)
        ctx.text.add(ExprStatement(f"store_part({lane_pointer(ctx, buffer, e)}, {part.text}, {text})", brief=True))
    elif not step.terms and step.const == 1:
        ctx.need("store", element, True)
        where = lane_pointer(ctx, buffer, e)
        streamed = streaming_store(ctx, using, buffer, where, text) if using else None
        ctx.text.add(streamed or ExprStatement(f"store({where}, {text})", brief=True))
    else:
        ctx.need("scatter", element, True)
        where = lane_pointer(ctx, buffer, e)
        ctx.text.add(ExprStatement(f"scatter({where}, {ctx.text.index.text(step)}, {text})", brief=True))


def _store_register(ctx: EmissionContext, name: str, coords: Sequence[Expr], value: CExpr) -> None:
    register = ctx.lanes.registers[name]
    is_bool = register.buffer.dtype.kind == "bool"
    text: str | Binary = value.code
    if not register.uniform and not value.vector and not ctx.in_lane:
        text = splat(ctx, "i32" if is_bool else storage(register.buffer.dtype), _as_mask(value) if is_bool else value)
    elif not register.uniform and ctx.in_lane and is_bool:
        text = _as_mask(value).text
    if (shared := ctx.word_and_part(name, coords)) is not None:
        ctx.need("set_part", storage(register.buffer.dtype))
        ctx.text.add(SetPart(storage(register.buffer.dtype), *shared, str(text)))
        return
    kind = ctx.register_type(register.buffer, not register.uniform)
    if register.named:
        cell = ctx.cell(name, coords)
        target = cell if register.uniform or not ctx.in_lane else ctx.lane_of(cell, kind, write=True)
        ctx.text.add(Assign(target, text))
        return
    e = _in_array(ctx, register, address(ctx, register.buffer, coords))
    array = ctx.emitted_names[name]
    if ctx.varies(e):
        t = ctx.text.temp()
        ctx.text.add(Declaration(kind, t, text, const=True))
        for i, x in enumerate(_lanes(ctx, e)):
            ctx.text.add(Assign(f"{array}[{ctx.text.index.text(x)}][{i}]", f"{t}[{i}]"))
        return
    lane = f"[{ctx.lane_text()}]" if ctx.in_lane and not register.uniform else ""
    ctx.text.add(Assign(f"{array}[{ctx.text.index.text(e)}]{lane}", text))


def _as_mask(value: CExpr) -> CExpr:
    return CExpr(f"-(int32_t){value.at(ATOM)}", BOOL)


def splat(ctx: EmissionContext, element: str, value: CExpr) -> str:
    """A uniform element in all lanes."""
    if value.text in ("0", "0.0f", "0.0"):
        return f"({ctx.element(element, True)}){{}}"
    ctx.need("splat", element, True)
    return f"splat_{element}x{ctx.width}({value.text})"
