"""Conversions as text: from one type to another, and to and from the type in memory or in a register."""

from __future__ import annotations

from ....dsl.types import DType
from ....dsl.values import Apply, Const, Masked, Value
from ..emission_context import EmissionContext
from ..load_store import splat
from .c_expr import AND, ATOM, BOOL, COMPARE, I64, PRODUCT, TERNARY, UNARY, CExpr, is_converted, literal, storage
from .device_functions import conversion_name


class Conversions:
    def __init__(self, ctx: EmissionContext) -> None:
        self.ctx = ctx

    # ------------------------------------------------------------ memory <-> arithmetic

    def from_storage(self, text: str, vector: bool, dtype: DType, register: bool) -> CExpr:
        ctx, compute = self.ctx, dtype.compute
        if dtype.kind == "bool":
            if register:
                if ctx.in_lane and "[" in text:
                    return CExpr(f"{text} != 0", BOOL, False, 0, COMPARE)
                return CExpr(text, BOOL, vector, 32 if vector else 0)
            if not vector:
                return CExpr(f"{text} != 0", BOOL, False, 0, COMPARE)
            return CExpr(f"(__builtin_convertvector({text}, {ctx.element('i32', True)}) != 0)", BOOL, True, 32)
        if not is_converted(dtype) or dtype.name == "tf32":
            return CExpr(text, compute, vector)
        if dtype.kind == "float":
            name = f"f32_from_{dtype.name}"
            ctx.need(name, dtype.name, vector)
            return CExpr(f"{name}({text})", compute, vector)
        if vector:
            return CExpr(f"__builtin_convertvector({text}, {ctx.element('i32', True)})", compute, True)
        return CExpr(f"(int32_t){text}", compute, False, 0, UNARY)

    def to_storage(self, c: CExpr, dtype: DType, register: bool) -> CExpr:
        """Rounded to `dtype`; integers wrap."""
        ctx = self.ctx
        if dtype.kind == "bool":
            c = c if c.dtype.kind == "bool" else self._nonzero(c)
            if register:
                return self.mask(c, 32) if c.vector else c
            if not c.vector:
                return CExpr(c.text, dtype, False, 0, c.precedence)
            narrow = self.mask(c, 32)
            return CExpr(f"__builtin_convertvector({narrow.at(AND + 1)} & 1, {ctx.element('u8', True)})", dtype, True)
        c = self.convert(c, dtype)
        if not is_converted(dtype):
            return c
        if dtype.kind == "float":
            if c.text == "0.0f" and ctx.width == 1:  # all bits are 0 in every type
                return CExpr("0.0f" if dtype.name == "tf32" else "0", dtype)
            name = conversion_name(dtype.name)
            ctx.need(name, dtype.name, c.vector)
            return CExpr(f"{name}({c.text})", dtype, c.vector)
        if dtype.name == "i4":
            c = self._wrap(c, dtype)
        element = storage(dtype)
        if c.vector:
            return CExpr(f"__builtin_convertvector({c.text}, {ctx.element(element, True)})", dtype, True)
        return CExpr(f"({ctx.element(element, False)}){c.at(UNARY)}", dtype, False, 0, UNARY)

    # ------------------------------------------------------------ types

    def splat(self, c: CExpr) -> CExpr:
        if c.vector or self.ctx.in_lane or self.ctx.width == 1:
            return c
        if c.dtype.kind == "bool":
            return CExpr(splat(self.ctx, "i32", CExpr(f"-(int32_t){c.at(ATOM)}", BOOL)), BOOL, True, 32)
        return CExpr(splat(self.ctx, c.dtype.name, c), c.dtype, True)

    def mask(self, c: CExpr, bits: int) -> CExpr:
        """A varying bool as a mask of elements of `bits` bits."""
        c = self.splat(c)
        if c.mask == bits or not c.vector:
            return c
        return CExpr(f"__builtin_convertvector({c.text}, {self.ctx.element(f'i{bits}', True)})", BOOL, True, bits)

    def _nonzero(self, c: CExpr) -> CExpr:
        c0 = c.at(COMPARE + 1)
        return CExpr(f"({c0} != {literal(0, c.dtype)})", BOOL, c.vector, c.dtype.bits if c.vector else 0)

    def convert(self, c: CExpr, dtype: DType) -> CExpr:
        """To the compute type of `dtype`, and within its range where a float becomes an integer."""
        ctx, source, target = self.ctx, c.dtype, dtype.compute
        if source.kind == "bool" and target.kind != "bool":
            one, zero = literal(1, target), literal(0, target)
            if not c.vector:
                return CExpr(f"{c.at(TERNARY + 1)} ? {one} : {zero}", target, False, 0, TERNARY)
            m = self.mask(c, target.bits)
            ones, zeros = (splat(ctx, target.name, CExpr(x, target)) for x in (one, zero))
            return CExpr(f"{m.at(COMPARE + 1)} ? {ones} : {zeros}", target, True, 0, TERNARY)
        if target.kind == "bool":
            return c if source.kind == "bool" else self._nonzero(c)
        if source.kind == "float" and target.kind != "float":
            name = f"{dtype.name}_from_{source.name}"  # saturates to dtype's own range
            ctx.need(name, source.name, c.vector)
            return CExpr(f"{name}({c.text})", target, c.vector)
        if _rounds_twice(source, dtype):
            name = f"f32_odd_from_{source.name}"  # so that rounding twice is rounding once
            ctx.need(name, source.name, c.vector)
            return CExpr(f"{name}({c.text})", target, c.vector)
        if source == target:
            return c
        if c.vector:
            return CExpr(f"__builtin_convertvector({c.text}, {ctx.element(target.name, True)})", target, True)
        return CExpr(f"({ctx.ctype(target, False)}){c.at(UNARY)}", target, False, 0, UNARY)

    def _wrap(self, c: CExpr, dtype: DType) -> CExpr:
        """An i32 reduced to the values of a narrower integer."""
        if dtype.kind == "uint":
            return CExpr(f"({c.at(PRODUCT)} & {(1 << dtype.bits) - 1})", c.dtype, c.vector)
        shift = 32 - dtype.bits
        return CExpr(f"({c.at(PRODUCT)} << {shift} >> {shift})", c.dtype, c.vector)


def _rounds_twice(source: DType, target: DType) -> bool:
    """Whether a value is rounded to f32 on its way to a narrower float. Integers that f32 cannot hold are infinite in f16, and
    saturate in f8, either way; tf32 and bf16 hold their like."""
    if target.kind != "float" or target.compute == target:
        return False
    return source.name == "f64" or (source.kind == "int" and source.bits >= 32 and target.name in ("bf16", "tf32"))


def in_64_bits(c: CExpr) -> CExpr:
    return CExpr(f"(int64_t){c.at(ATOM)}", I64, precedence=UNARY)


def is_int_in_c(v: Value) -> bool:
    """Whether C takes the text of an i64 value for an `int`, in which its arithmetic would overflow."""
    match v:
        case Const(value=value):
            return abs(value) < 1 << 31
        case Apply(fn="where", args=(_, a, b)) | Masked(value=a, otherwise=b):
            return is_int_in_c(a) and is_int_in_c(b)
    return False
