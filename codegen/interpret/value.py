"""Value expressions for all units of a frame at once, in the types they are declared in (docs/numbers.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dsl.errors import InternalError
from ...dsl.meaning.numerics import apply, cast, constant
from ...dsl.types import TYPES, DType
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value
from .frame import Frame

LoadFn = Callable[[Load, Frame], np.ndarray]  # one element a unit, of the load's type


def evaluate(value: Value, frame: Frame, load: LoadFn) -> np.ndarray:
    """An array of `value.dtype`, one entry a unit of the frame (or of no dimension, when all have the same)."""
    match value:
        case Const():
            return np.asarray(constant(value.value, value.dtype))
        case IndexValue():
            return cast(np.asarray(value.expr.evaluate(frame.env), np.int64), TYPES["i64"], value.dtype)
        case Load():
            return load(value, frame)
        case Cast():
            return cast(evaluate(value.arg, frame, load), value.arg.dtype, value.dtype)
        case Apply():
            args = tuple(_computable(evaluate(a, frame, load), a.dtype) for a in value.args)
            return np.asarray(apply(value.fn, args, value.dtype))
        case Masked():
            return _masked(value, frame, load)
    raise InternalError(f"{type(value).__name__} in a tile program")


def _computable(x: np.ndarray, dtype: DType) -> np.ndarray:
    return x if dtype.compute == dtype else cast(x, dtype, dtype.compute)


def _masked(value: Masked, frame: Frame, load: LoadFn) -> np.ndarray:
    """Each side is evaluated for the units that take it, and for no other."""
    mask = frame.hold(value.conds)
    if isinstance(mask, bool):
        return evaluate(value.value if mask else value.otherwise, frame, load)
    out = np.empty(len(frame.ids), value.dtype.numpy)
    out[mask] = evaluate(value.value, frame.sub(mask), load)
    out[~mask] = evaluate(value.otherwise, frame.sub(~mask), load)
    return out
