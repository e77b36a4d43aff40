"""The element types of the language.

Each has a name, a width in bits, a kind, and the type it computes in (docs/numbers.md): floats narrower than f32 compute in
f32, integers narrower than i32 in i32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .support.cached import cached_property


@dataclass(frozen=True, eq=False)
class DType:
    """One of `TYPES`: the same object for the same type, so that it is compared by identity."""

    name: str
    bits: int
    kind: str  # float | int | uint | bool

    def __reduce__(self):
        return _named, (self.name,)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def bytes(self) -> int:
        """Bytes of one element in an array (i4 is stored one to a byte)."""
        return max(1, self.bits // 8)

    @cached_property
    def compute(self) -> DType:
        """The type arithmetic on this type is done in."""
        if self.kind == "float":
            return self if self.bits >= 32 and self.name != "tf32" else TYPES["f32"]
        if self.kind in ("int", "uint"):
            return self if self.bits >= 32 else TYPES["i32"]
        return self

    @cached_property
    def numpy(self) -> Any:
        """The NumPy dtype of arrays of this type (bf16, f8 through `ml_dtypes`; i4 as int8; tf32 as float32)."""
        import numpy as np

        plain = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "i64": "int64", "i32": "int32"}
        plain |= {"i16": "int16", "i8": "int8", "u8": "uint8", "i4": "int8", "bool": "bool"}
        if self.name in plain:
            return np.dtype(plain[self.name])
        import ml_dtypes

        narrow = {"bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
        return np.dtype(narrow[self.name])


TYPES: dict[str, DType] = {
    name: DType(name, bits, kind)
    for name, bits, kind in [
        ("f64", 64, "float"),
        ("f32", 32, "float"),
        ("tf32", 32, "float"),
        ("bf16", 16, "float"),
        ("f16", 16, "float"),
        ("f8e4m3", 8, "float"),
        ("f8e5m2", 8, "float"),
        ("i64", 64, "int"),
        ("i32", 32, "int"),
        ("i16", 16, "int"),
        ("i8", 8, "int"),
        ("u8", 8, "uint"),
        ("i4", 4, "int"),
        ("bool", 1, "bool"),
    ]
}


# binary digits of a value, exponents of the least and of the largest one: IEEE 754, and the OCP 8-bit formats of 2023
_FORMATS = {
    "f64": (53, -1074, 1023),
    "f32": (24, -149, 127),
    "tf32": (11, -136, 127),
    "bf16": (8, -133, 127),
    "f16": (11, -24, 15),
    "f8e4m3": (4, -9, 8),
    "f8e5m2": (3, -16, 15),
}


def holds_all(wide: DType, narrow: DType) -> bool:
    """Is each value of the float or integer type `narrow` one of the float type `wide`?"""
    if wide.kind != "float" or narrow.kind == "bool":
        return False
    digits, least, largest = _FORMATS[wide.name]
    if narrow.kind == "float":
        theirs, low, high = _FORMATS[narrow.name]
        return theirs <= digits and low >= least and high <= largest
    bits = narrow.bits - (narrow.kind == "int")
    return bits <= min(digits, largest)


def has_subnormals_of(wide: DType, narrow: DType) -> bool:
    """Is the least value of the float type `narrow` a subnormal one of the float type `wide`?"""
    digits, least, _ = _FORMATS[wide.name]
    return narrow.kind == "float" and _FORMATS[narrow.name][1] < least + digits - 1


def _named(name: str) -> DType:
    return TYPES[name]
