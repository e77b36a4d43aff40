"""Pieces of C text with their type, and the vocabulary of types and helper functions that all dialects share.

A `CExpr` is a scalar or, where lanes differ, a vector of one element a lane. Values have the type they compute in
(`DType.compute`); a varying bool is a mask: all ones or zeros in integers of `mask` bits.

An expression requests helper functions by name and type (`Helper`); the dialect's prelude defines the requested ones. One
name serves scalars and vectors, as overloads, from one text: SAME_BITS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....dsl.types import TYPES, DType
from ...ir.tile_ir import Buffer
from .c_tree import Binary

TERNARY = 0  # precedence: of C operators, the order alone counts [fact: C]
OR = 1  # precedence: of C operators, the order alone counts [fact: C]
AND = 2  # precedence: of C operators, the order alone counts [fact: C]
COMPARE = 3  # precedence: of C operators, the order alone counts [fact: C]
SUM = 4  # precedence: of C operators, the order alone counts [fact: C]
PRODUCT = 5  # precedence: of C operators, the order alone counts [fact: C]
UNARY = 6  # precedence: of C operators, the order alone counts [fact: C]
ATOM = 10  # precedence: of C operators, the order alone counts [fact: C]

F32, F64, I32, I64, BOOL = (TYPES[n] for n in ("f32", "f64", "i32", "i64", "bool"))


class Helper(NamedTuple):
    """A helper: its name, the element type it works on ("" if none), the number of lanes (1: scalar)."""

    name: str
    type: str = ""
    lanes: int = 1


@dataclass(frozen=True)
class CExpr:
    text: str
    dtype: DType
    vector: bool = False
    mask: int = 0
    precedence: int = ATOM
    binary: Binary | None = None

    @staticmethod
    def infix(a: CExpr, op: str, b: CExpr, dtype: DType, vector: bool, precedence: int) -> CExpr:
        """An operation whose operator is left-associative."""
        made = Binary(a.at(precedence), op, b.at(precedence + 1))
        return CExpr(str(made), dtype, vector, 0, precedence, made)

    @property
    def code(self) -> str | Binary:
        """The expression as a part of a statement."""
        return self.binary or self.text

    def at(self, precedence: int) -> str:
        return self.text if self.precedence >= precedence else f"({self.text})"


SCALARS = {
    "f64": "double",
    "f32": "float",
    "tf32": "float",
    "bf16": "uint16_t",
    "f16": "uint16_t",
    "f8e4m3": "uint8_t",
    "f8e5m2": "uint8_t",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
    "u8": "uint8_t",
    "i4": "int8_t",
    "bool": "uint8_t",
}
ELEMENTS = SCALARS | {"u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t"}

_STORAGE = {"tf32": "f32", "bf16": "u16", "f16": "u16", "f8e4m3": "u8", "f8e5m2": "u8", "i4": "i8", "bool": "u8"}


def storage(dtype: DType) -> str:
    """The plain element that memory holds: f16 and bf16 are u16, f8 and bool u8, i4 i8, tf32 f32."""
    return _STORAGE.get(dtype.name, dtype.name)


def pointer_type(b: Buffer) -> str:
    """Of the elements of a buffer, which are only read in an input."""
    return f"{'const ' if b.kind == 'input' else ''}{ELEMENTS[storage(b.dtype)]}*"


def is_converted(dtype: DType) -> bool:
    """Whether the bits in memory differ from those in arithmetic."""
    return dtype.compute != dtype or dtype.kind == "bool"


def literal(value: int | float | bool, dtype: DType) -> str:
    """A constant of a compute type, exactly."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.kind in ("int", "uint"):
        n = int(value)
        bits = max(dtype.bits, 32)
        n = (n + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        if n == -(1 << (bits - 1)):
            return "INT64_MIN" if bits == 64 else "INT32_MIN"
        return f"INT64_C({n})" if bits == 64 and abs(n) >= 1 << 31 else str(n)
    x = float(value)
    suffix = "" if dtype.bits == 64 else "f"
    if x != x:
        return f'__builtin_nan{suffix}("")'
    if x in (float("inf"), float("-inf")):
        return f"{'-' if x < 0 else ''}__builtin_inf{suffix}()"
    if not suffix:
        return repr(x)
    text = _shortest_f32(x) if x else str(x)
    if text is None:
        return f"{'-' if x < 0 else ''}__builtin_inff()"
    return (text if "." in text or "e" in text else text + ".0") + "f"


def _shortest_f32(x: float) -> str | None:
    """The shortest decimal that rounds to the nearest f32 of x; None when it overflows."""
    with np.errstate(over="ignore"):
        y = np.float32(x)
    return None if np.isinf(y) else str(y) if y != 0 else ("-0.0" if np.signbit(y) else "0.0")
