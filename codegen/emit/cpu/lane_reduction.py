"""Combines a register across lanes by a butterfly of shuffles, so that every lane ends with the same bits."""

from __future__ import annotations

from ....dsl.errors import InternalError
from ....dsl.types import DType
from ...ir.tile_ir import AllReduce
from ..c.c_expr import storage
from ..c.c_tree import Assign, Declaration
from ..emission_context import EmissionContext
from ..load_store import load

_FUNCTION = {"sum": "{a} + {b}", "prod": "{a} * {b}", "max": "m_max({a}, {b})", "min": "m_min({a}, {b})", "any": "{a} | {b}"}
_FUNCTION |= {"all": "{a} & {b}"}


def all_reduce(ctx: EmissionContext, s: AllReduce) -> None:
    """Subgroups are lanes whose numbers differ in one digit; its place and its size are powers of two."""
    if s.count == 1:
        return
    if ctx.lanes.var is None or s.level != ctx.program.device.levels[-1].name:
        raise InternalError(f"a reduction over {s.count} units of {s.level}, which are not lanes of one vector")
    if ctx.in_lane:
        raise InternalError("a reduction over lanes in divergent control flow")
    if s.stride & (s.stride - 1) or s.count & (s.count - 1):
        raise InternalError(f"a reduction over {s.count} lanes at a stride of {s.stride}")
    dtypes = [ctx.lanes.registers[name].buffer.dtype for name, _ in s.cells]
    vectors: list[list[str]] = []  # of each share, its vectors
    for share in range(ctx.sub_vectors):
        with ctx.in_sub_vector(share):
            vectors.append([load(ctx, name, coords)[0] for name, coords in s.cells])
    distances = [s.stride << n for n in range(s.count.bit_length() - 1)]
    with ctx.in_sub_vector(0):
        # whole vectors first: then one of them is enough
        same = list(range(ctx.sub_vectors))
        for d in (d // ctx.width for d in distances if d >= ctx.width):
            for share in range(ctx.sub_vectors):
                if same[share] == share and not share & d:
                    _combine(ctx, s.kind, vectors[share], dtypes, vectors[share | d])
            same = [x & ~d for x in same]
        for d in (d for d in distances if d < ctx.width):
            lanes = ", ".join(str(i ^ d) for i in range(ctx.width))
            for names in (vectors[x] for x in sorted(set(same))):
                _combine(ctx, s.kind, names, dtypes, [f"__builtin_shufflevector({n}, {n}, {lanes})" for n in names])
        for mine, other in zip(vectors, (vectors[x] for x in same), strict=True):
            for name, value in zip(mine, other, strict=True):
                if name != value:
                    ctx.text.add(Assign(name, value))


def _combine(ctx: EmissionContext, kind: str, names: list[str], dtypes: list[DType], others: list[str]) -> None:
    if kind in ("argmax", "argmin"):
        return _better(ctx, kind, names, dtypes, others)
    dtype = dtypes[0]
    if dtype.compute != dtype:
        raise InternalError(f"a reduction over lanes of {dtype}; it must be in {dtype.compute}")
    if kind in ("max", "min"):
        ctx.need(f"m_{kind}", dtype.name, True)
    ctx.text.add(Assign(names[0], _FUNCTION[kind].format(a=names[0], b=others[0])))


def _better(ctx: EmissionContext, kind: str, names: list[str], dtypes: list[DType], shuffled: list[str]) -> None:
    """The other lane's pair wins when its value is better, or equal with a smaller index; NaN is best of all."""
    value, index = names
    v, i = ctx.text.temp(), ctx.text.temp()
    vt, it = ctx.element(storage(dtypes[0]), True), ctx.element(storage(dtypes[1]), True)
    bits, index_bits = dtypes[0].bits, dtypes[1].bits
    ctx.text.add(Declaration(vt, v, shuffled[0], const=True))
    ctx.text.add(Declaration(it, i, shuffled[1], const=True))
    sign = ">" if kind == "argmax" else "<"
    m = ctx.text.temp()
    mask = ctx.element(f"i{bits}", True)
    nan_v, nan_o = f"({v} != {v})", f"({value} != {value})"
    smaller = f"({i} < {index})"
    if bits != index_bits:
        smaller = f"__builtin_convertvector({smaller}, {mask})"
    better = f"({v} {sign} {value}) | ({nan_v} & ~{nan_o})"
    equal = f"(({v} == {value}) | ({nan_v} & {nan_o}))"
    ctx.text.add(Declaration(mask, m, f"{better} | ({equal} & {smaller})", const=True))
    ctx.text.add(Assign(value, f"{m} ? {v} : {value}"))
    wide_m = m if bits == index_bits else f"__builtin_convertvector({m}, {ctx.element(f'i{index_bits}', True)})"
    ctx.text.add(Assign(index, f"{wide_m} ? {i} : {index}"))
