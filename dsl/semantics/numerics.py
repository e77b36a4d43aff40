"""The arithmetic of the language, in NumPy. `dsl.semantics.reference` and the interpreter of tile programs use it.

`cast(array, src, dst)` converts, `apply(fn, args, dtype)` is one scalar function, `reduce(kind, ...)` a reduction.

Arrays store a type's values in `dtype.numpy` (tf32 in float32 with the low bits zero, i4 in int8). With `wide`, a NumPy
float type, floats of all types are stored in it: the values of a type are then a subset, and only casts round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..types import TYPES, DType

Array = Any  # np.ndarray or a NumPy scalar
Wide = np.dtype | None

_WIDE = np.dtype("float64")
# Exponent of the smallest normal number, bits of the fraction, largest finite value.
_FORMATS = {
    "tf32": (-126, 10, 2.0**127 * (2 - 2.0**-10)),
    "bf16": (-126, 7, 2.0**127 * (2 - 2.0**-7)),
    "f16": (-14, 10, 65504.0),
    "f8e4m3": (-6, 3, 448.0),
    "f8e5m2": (-14, 2, 57344.0),
    "f32": (-126, 23, float(np.finfo(np.float32).max)),
}


def storage(dtype: DType, wide: Wide = None) -> np.dtype:
    """The NumPy type that holds values of `dtype`."""
    return wide if wide is not None and dtype.kind == "float" else dtype.numpy


# ---------------------------------------------------------------- casts


def round_to(x: Array, dtype: DType) -> Array:
    """Floats (any NumPy float type) rounded to the nearest value of a float type, ties to even, in float64.

    f8 saturates, infinities too (both formats, as the hardware's saturating conversions do); the others overflow to infinity.
    """
    with np.errstate(all="ignore"):
        x = np.asarray(x, dtype=_WIDE)
    if dtype.name == "f64":
        return x
    low, bits, largest = _FORMATS[dtype.name]
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(x)
        quantum = np.maximum(exponent - 1, low) - bits  # the last place of x, or of the smallest normals
        scaled = np.ldexp(x, -quantum)
        rounded = np.where(np.isfinite(x), np.ldexp(np.rint(scaled), quantum), x)
        if dtype.bits == 8:
            return np.where(np.isnan(x), x, np.clip(rounded, -largest, largest))
        return np.where(np.abs(rounded) > largest, np.copysign(np.inf, x), rounded)


def cast(array: Array, src: DType, dst: DType, wide: Wide = None) -> Array:
    """`array` of type `src` as `dst`.

    To float: nearest, ties to even. Float to integer: truncates and saturates, NaN to 0. Integer to integer: wraps. To bool:
    whether it is not 0 (NaN is not). From bool: 0 or 1. The result is held in `storage(dst, wide)`.
    """
    array = np.asarray(array)
    if src == dst:
        return array.astype(storage(dst, wide), copy=False)
    if dst.kind == "bool":
        return array != 0
    if dst.kind == "float":
        return _to_float(array, src, dst, wide)
    if src.kind == "float":
        return _float_to_int(array, dst)
    return wrap(array, dst)


def _to_float(array: Array, src: DType, dst: DType, wide: Wide) -> Array:
    out = storage(dst, wide)
    if src.kind != "float":
        with np.errstate(all="ignore"):
            if dst.name in ("f64", "f32"):  # NumPy rounds these once
                return array.astype(dst.numpy).astype(out)
            exact = array.astype(_WIDE)
            if src.bits == 64:  # to odd, so that the second rounding is right
                exact = _odd(array, exact)
            return round_to(exact, dst).astype(out)
    if dst.name in ("f64", "f32", "f16") and array.dtype.kind == "f":  # NumPy rounds these once, from any of its floats
        with np.errstate(all="ignore"):
            return array.astype(dst.numpy).astype(out, copy=False)
    return round_to(array, dst).astype(out)


def _odd(array: Array, nearest: Array) -> Array:
    """int64 as float64, rounded to odd in the last place where it is inexact."""
    exact = np.array([int(x) for x in np.ravel(array)], dtype=object).reshape(np.shape(array))
    differences = [int(a) - int(b) for a, b in zip(np.ravel(exact), np.ravel(nearest), strict=True)]
    error = np.array(differences).reshape(np.shape(array))
    bits = nearest.view(np.int64)
    toward = np.where(error > 0, np.nextafter(nearest, np.inf), np.where(error < 0, np.nextafter(nearest, -np.inf), nearest))
    return np.where((error != 0) & (bits % 2 == 0), toward, nearest)


def _float_to_int(array: Array, dst: DType) -> Array:
    low, high = limits(dst)
    with np.errstate(all="ignore"):
        x = np.trunc(np.asarray(array, dtype=_WIDE))
    with np.errstate(all="ignore"):
        inside = np.where((x >= -(2.0**63)) & (x < 2.0**63), x, 0).astype(np.int64)
    out = np.where(x >= float(high), high, np.where(x <= float(low), low, inside))
    return np.where(np.isnan(x), 0, out).astype(dst.numpy)


def limits(dtype: DType) -> tuple[int, int]:
    """(lowest, highest) value of an integer type."""
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def largest(dtype: DType) -> float:
    """The largest finite value of a type, but for bool."""
    if dtype.kind != "float":
        return float(limits(dtype)[1])
    return float(np.finfo(np.float64).max) if dtype.name == "f64" else _FORMATS[dtype.name][2]


def wrap(array: Array, dtype: DType) -> Array:
    """Integers (or truth values) modulo 2^bits."""
    array = np.asarray(array)
    with np.errstate(all="ignore"):
        if dtype.name == "i4":
            low = array.astype(np.int64) & 15
            return (low - ((low & 8) << 1)).astype(np.int8)
        return array.astype(dtype.numpy)


def constant(value: int | float | bool, dtype: DType, wide: Wide = None) -> Array:
    """A literal as a value of `dtype`, rounded once."""
    if dtype.kind == "float":
        return _to_float(np.asarray(float(value)), TYPES["f64"], dtype, wide)[()]
    return np.asarray(value).astype(dtype.numpy)[()]


# ---------------------------------------------------------------- functions


def apply(fn: str, args: tuple[Array, ...] | list[Array], dtype: DType, wide: Wide = None) -> Array:
    """A scalar function (`dsl.values.Apply`) elementwise. Arguments broadcast; all of one type, f32, f64, i32, i64 or bool.

    Integers wrap; `floordiv` and `mod` by 0 give 0 (a defined value for what an op must not do). min and max give NaN when
    either is NaN. The result is held in `storage(dtype, wide)`.
    """
    with np.errstate(all="ignore"):
        out = _FUNCTIONS[fn](*[np.asarray(a) for a in args])
        return np.asarray(out).astype(storage(dtype, wide), copy=False)


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype.kind != "f":
        return a * b + c
    if a.dtype.itemsize <= 4:  # the product of two f32 is exact in f64; the sum rounds twice, by less than half a place
        return _round_once(a.astype(_WIDE) * b.astype(_WIDE), c.astype(_WIDE)).astype(a.dtype)
    return (np.longdouble(a) * np.longdouble(b) + np.longdouble(c)).astype(a.dtype)


def _round_once(p: Array, c: Array) -> Array:
    """p + c rounded to odd in float64, so that rounding it to f32 is right (Boldo and Melquiond)."""
    s = p + c
    t = s - p
    error = (p - (s - t)) + (c - t)
    if not error.any():  # most often: whole numbers
        return s
    s, error = np.broadcast_arrays(s, error)
    bits = np.ascontiguousarray(s).view(np.int64).reshape(s.shape)
    toward = np.where(error > 0, np.nextafter(s, np.inf), np.nextafter(s, -np.inf))
    return np.where(np.isfinite(s) & (error != 0) & (bits % 2 == 0), toward, s)


def _erf(x: Array) -> Array:
    out = np.asarray(_libm_erf(x.astype(_WIDE)), dtype=_WIDE)
    return out.astype(x.dtype)


_libm_erf = np.vectorize(math.erf, otypes=[_WIDE])


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _gelu(x: Array) -> Array:
    """x P(normal < x) = x erfc(-x / sqrt(2)) / 2: 1 + erf would cancel. What rounding the argument takes away is put back."""
    exact = -x.astype(np.longdouble) * _ROOT_HALF
    y = np.asarray(exact.astype(_WIDE))
    lost = np.where(np.isfinite(y), exact - y, 0).astype(_WIDE)
    tail = _libm_erfc(y) - lost * np.exp(-y * y) * _TWO_OVER_ROOT_PI
    return np.where(np.isneginf(x), -0.0, x * x.dtype.type(0.5) * tail.astype(np.promote_types(x.dtype, _WIDE))).astype(x.dtype)


_libm_erfc = np.vectorize(math.erfc, otypes=[_WIDE])
_ROOT_HALF = np.sqrt(np.longdouble(0.5))
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _silu(x: Array) -> Array:
    return np.where(np.isneginf(x), -0.0, x * _sigmoid(x)).astype(x.dtype)


def _floordiv(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))


def _mod(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))


def _relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))  # NaN stays


_FUNCTIONS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": _floordiv,
    "mod": _mod,
    "reciprocal": lambda x: 1 / x,
    "divide_by": lambda x, d, _: np.divide(x, d),
    "scaled": lambda x, c: np.where(x == 0, x, x * c),
    "above_zero": lambda x: np.where(x <= 0, x.dtype.type(1), x),
    "neg": np.negative,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "fma": _fma,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "erf": _erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sigmoid": _sigmoid,
    "relu": _relu,
    "gelu": _gelu,
    "silu": _silu,
}


# ---------------------------------------------------------------- reductions


def identity(kind: str, dtype: DType, wide: Wide = None) -> Array:
    """What an empty reduction gives: 0 1 -inf inf false true; for integers their ends. Not for argmax, argmin."""
    if kind in ("any", "all"):
        return np.bool_(kind == "all")
    if kind in ("sum", "prod"):
        return storage(dtype, wide).type(kind == "prod")
    if dtype.kind == "float":
        return storage(dtype, wide).type(-np.inf if kind == "max" else np.inf)
    low, high = limits(dtype)
    return dtype.numpy.type(low if kind == "max" else high)


def combine(kind: str, a: Array, b: Array, dtype: DType, wide: Wide = None) -> Array:
    """Two partial results of a reduction as one (not argmax, argmin)."""
    fn = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}[kind]
    return apply(fn, (a, b), dtype, wide)


def fold(kind: str, array: Array, axes: tuple[int, ...], dtype: DType, wide: Wide = None) -> Array:
    """The reduction of `array` (type `dtype`) over `axes`.

    argmax and argmin give the row-major number, over `axes` in the order given, of the first winner (i64); NaN wins, as in
    NumPy. Raises ValueError where they have nothing to choose from.
    """
    array = np.asarray(array)
    if kind in ("argmax", "argmin"):
        rest = [a for a in range(array.ndim) if a not in axes]
        left = [array.shape[a] for a in rest]
        count = math.prod(array.shape[a] for a in axes)
        if count == 0 or 0 in left:
            if 0 not in left:
                raise ValueError(f"{kind} of nothing")
            return np.zeros(left, dtype=np.int64)
        moved = array.transpose(*rest, *axes).reshape(*left, count)
        return getattr(np, kind)(moved, axis=-1).astype(np.int64)
    own = storage(dtype, wide)
    with np.errstate(all="ignore"):
        if kind in ("any", "all"):
            return getattr(np, kind)(array, axis=axes)
        if kind in ("sum", "prod"):
            return getattr(np, kind)(array, axis=axes, dtype=own)
        return getattr(np, kind)(array, axis=axes, initial=identity(kind, dtype, wide))


__all__ = ["TYPES", "apply", "cast", "combine", "constant", "fold", "identity", "limits", "round_to", "storage", "wrap"]
