"""The values that the interpreter computes with: the numbers of the language, or values that stand for them.

A domain defines how values are stored and the operations on them. Which unit executes which statement, when and on which
elements, is the same for all domains. `NUMBERS` is the meaning of a program. `codegen.verify.field_elements` counts
contributions.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np

from ...dsl.semantics.numerics import apply, cast, constant
from ...dsl.types import TYPES, DType

Array = Any  # np.ndarray of `Domain.storage`

_UFUNC = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


def picked(values: Array, where: Any) -> Array:
    """`values[where]`. NumPy copies records field by field, which takes ten times as long as whole ones."""
    if values.dtype.names is None:
        return values[where]
    return values.view(_whole(values.itemsize))[where].view(values.dtype)


def put(values: Array, where: Any, new: Array) -> None:
    """`values[where] = new`, where both are of one type. See `picked`."""
    if values.dtype.names is None:
        values[where] = new
    else:
        whole = _whole(values.itemsize)
        values.view(whole)[where] = new.view(whole)


@cache
def _whole(bytes_: int) -> np.dtype:
    return np.dtype((np.void, bytes_))


class Domain(Protocol):
    """Operations on arrays of values; types are those of the language (`dsl.types`)."""

    def visit(self, count: int) -> None:
        """Called before so many values are stored, or so many units do something. A domain that allows only some raises."""
        ...

    def storage(self, dtype: DType) -> np.dtype:
        """The NumPy type that holds values of `dtype`."""
        ...

    def poison(self, dtype: DType, count: int) -> Array:
        """What memory holds before it is written."""
        ...

    def same(self, a: Array, b: Array) -> np.ndarray:
        """Elementwise: whether two values are one."""
        ...

    def constant(self, value: int | float | bool, dtype: DType) -> Array: ...
    def number(self, index: Any, dtype: DType) -> Array:
        """An index, or a size, as a value."""
        ...

    def cast(self, x: Array, src: DType, dst: DType) -> Array: ...
    def apply(self, fn: str, args: tuple[Array, ...], dtype: DType) -> Array:
        """A scalar function, see `dsl.values.Apply`."""
        ...

    def choice(self, x: Array) -> np.ndarray:
        """A truth value as one that NumPy takes."""
        ...

    def reduce(self, kind: str, x: Array, axes: tuple[int, ...], before: Array | None, src: DType, dst: DType) -> Array:
        """A reduction of an instruction: of `x` (type src) over axes, with what is there before, as `dst`."""
        ...

    def better(self, kind: str, value: Array, index: Array, best: Array, where: Array) -> np.ndarray:
        """argmax, argmin: whether (value, index) takes the place of (best, where)."""
        ...


class Numbers:
    """Values as they are (docs/numbers.md)."""

    def visit(self, count: int) -> None:
        """Any number."""

    def storage(self, dtype: DType) -> np.dtype:
        return dtype.numpy

    def poison(self, dtype: DType, count: int) -> Array:
        """NaN, or bytes 0xAB. Any use of it shows."""
        if dtype.kind == "float":
            return np.full(count, np.nan, np.float64).astype(dtype.numpy)
        if dtype.kind == "bool":
            return np.ones(count, np.bool_)
        return np.full(count * dtype.numpy.itemsize, 0xAB, np.uint8).view(dtype.numpy)

    def same(self, a: Array, b: Array) -> np.ndarray:
        """Of representations: NaN equals itself, 0 is not -0."""
        word = np.dtype(f"u{a.dtype.itemsize}")
        return np.ascontiguousarray(a).view(word) == np.ascontiguousarray(b).view(word)

    def constant(self, value: int | float | bool, dtype: DType) -> Array:
        return np.asarray(constant(value, dtype))

    def number(self, index: Any, dtype: DType) -> Array:
        return cast(np.asarray(index, np.int64), TYPES["i64"], dtype)

    def cast(self, x: Array, src: DType, dst: DType) -> Array:
        return cast(x, src, dst)

    def apply(self, fn: str, args: tuple[Array, ...], dtype: DType) -> Array:
        return np.asarray(apply(fn, args, dtype))

    def choice(self, x: Array) -> np.ndarray:
        return x

    def reduce(self, kind: str, x: Array, axes: tuple[int, ...], before: Array | None, src: DType, dst: DType) -> Array:
        """A float sum is formed in f64 and rounded once: within any tensor unit's stated bound, and exact where
        (docs/numbers.md) results must be."""
        wide = np.float64 if src.kind == "float" else x.dtype
        ufunc, out = _UFUNC[kind], x.astype(wide)
        if axes:
            out = ufunc.reduce(out, axis=axes, dtype=np.bool_ if kind in ("any", "all") else wide)
        if before is not None:
            out = ufunc(out, before.astype(wide))
        return cast(out.astype(src.numpy), src, dst)

    def better(self, kind: str, value: Array, index: Array, best: Array, where: Array) -> np.ndarray:
        """As in NumPy a NaN wins over numbers; the smaller index wins a tie."""
        nan, best_nan = value != value, best != best
        wins = (value > best) if kind == "argmax" else (value < best)
        tie = (value == best) | (nan & best_nan)
        return (wins & ~best_nan) | (nan & ~best_nan) | (tie & (index < where))


NUMBERS = Numbers()
