"""Value expressions for all units of a frame at once, in the types they are declared in (docs/numbers.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dsl.errors import InternalError
from ...dsl.types import DType
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value
from .domain import NUMBERS, Domain, put
from .frame import Frame

LoadFn = Callable[[Load, Frame], np.ndarray]  # one element a unit, of the load's type


def evaluate(value: Value, frame: Frame, load: LoadFn, domain: Domain = NUMBERS) -> np.ndarray:
    """An array of `value.dtype`, one entry a unit of the frame (or of no dimension, when all have the same)."""
    match value:
        case Const():
            return domain.constant(value.value, value.dtype)
        case IndexValue():
            return domain.number(value.expr.evaluate(frame.env), value.dtype)
        case Load():
            return load(value, frame)
        case Cast():
            return domain.cast(evaluate(value.arg, frame, load, domain), value.arg.dtype, value.dtype)
        case Apply():
            args = tuple(_computable(evaluate(a, frame, load, domain), a.dtype, domain) for a in value.args)
            return domain.apply(value.fn, args, value.dtype)
        case Masked():
            return _masked(value, frame, load, domain)
    raise InternalError(f"a tile program has no {type(value).__name__}")


def _computable(x: np.ndarray, dtype: DType, domain: Domain) -> np.ndarray:
    return x if dtype.compute == dtype else domain.cast(x, dtype, dtype.compute)


def _masked(value: Masked, frame: Frame, load: LoadFn, domain: Domain) -> np.ndarray:
    """Each side is evaluated for the units that take it, and for no other."""
    mask = frame.hold(value.conds)
    if isinstance(mask, bool):
        return evaluate(value.value if mask else value.otherwise, frame, load, domain)
    out = np.empty(len(frame.ids), domain.storage(value.dtype))
    put(out, mask, evaluate(value.value, frame.sub(mask), load, domain))
    put(out, ~mask, evaluate(value.otherwise, frame.sub(~mask), load, domain))
    return out
