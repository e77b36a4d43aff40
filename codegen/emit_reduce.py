"""Combining a register across lanes: a butterfly of shuffles, so that every lane ends with the same bits."""

from __future__ import annotations

from ..dsl.errors import InternalError
from .emit_code import storage
from .emit_context import Context
from .tile import AllReduce

_FUNCTION = {"sum": "{a} + {b}", "prod": "{a} * {b}", "max": "m_max({a}, {b})", "min": "m_min({a}, {b})", "any": "{a} | {b}"}
_FUNCTION |= {"all": "{a} & {b}"}


def all_reduce(ctx: Context, s: AllReduce) -> None:
    """Groups are lanes whose numbers differ in one digit; both its place and its size are powers of two."""
    width = ctx.lanes.width
    if s.count == 1 or ctx.lanes.var is None:
        return
    if s.stride & (s.stride - 1) or s.count & (s.count - 1):
        raise InternalError(f"a reduction over {s.count} lanes at a stride of {s.stride}")
    names = [ctx.cell(name, coords) for name, coords in s.cells]
    dtypes = [ctx.lanes.registers[name].buffer.dtype for name, _ in s.cells]
    distance = s.stride
    while distance < s.stride * s.count:
        lanes = ", ".join(str(i ^ distance) for i in range(width))
        shuffled = [f"__builtin_shufflevector({n}, {n}, {lanes})" for n in names]
        if s.kind in ("argmax", "argmin"):
            _better(ctx, s.kind, names, dtypes, shuffled)
        else:
            dtype = dtypes[0]
            if dtype.compute != dtype:
                raise InternalError(f"a reduction over lanes of {dtype}; it is done in {dtype.compute}")
            if s.kind in ("max", "min"):
                ctx.need(f"m_{s.kind}", dtype.name, True)
            text = _FUNCTION[s.kind].format(a=names[0], b=shuffled[0])
            ctx.text.line(f"{names[0]} = {text};")
        distance *= 2


def _better(ctx: Context, kind: str, names: list[str], dtypes: list, shuffled: list[str]) -> None:
    """The other lane's pair wins when its value is better, or equal with a smaller index; NaN is best of all."""
    value, index = names
    v, i = ctx.text.temp(), ctx.text.temp()
    vt, it = ctx.element(storage(dtypes[0]), True), ctx.element(storage(dtypes[1]), True)
    bits, index_bits = dtypes[0].bits, dtypes[1].bits
    ctx.text.line(f"const {vt} {v} = {shuffled[0]};")
    ctx.text.line(f"const {it} {i} = {shuffled[1]};")
    sign = ">" if kind == "argmax" else "<"
    m = ctx.text.temp()
    mask = ctx.element(f"i{bits}", True)
    nan_v, nan_o = f"({v} != {v})", f"({value} != {value})"
    smaller = f"({i} < {index})"
    if bits != index_bits:
        smaller = f"__builtin_convertvector({smaller}, {mask})"
    better = f"({v} {sign} {value}) | ({nan_v} & ~{nan_o})"
    equal = f"(({v} == {value}) | ({nan_v} & {nan_o}))"
    ctx.text.line(f"const {mask} {m} = {better} | ({equal} & {smaller});")
    ctx.text.line(f"{value} = {m} ? {v} : {value};")
    wide_m = m if bits == index_bits else f"__builtin_convertvector({m}, {ctx.element(f'i{index_bits}', True)})"
    ctx.text.line(f"{index} = {wide_m} ? {i} : {index};")
