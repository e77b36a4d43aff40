"""Accumulators have names apart from the tensors that their results are stored to."""

from __future__ import annotations

from ...dsl.index.expr import Var, as_expr
from ...dsl.support.fast_replace import replace
from ...dsl.types import TYPES, DType
from ...dsl.values import Load, Value, transform
from .computations import Computation, Output
from .derived_names import Accumulator


def accumulating(w: Computation) -> Computation:
    """The computation, whose accumulator has a name of its own if it is a reduction."""
    if w.reduction is None:
        return w
    at = tuple(as_expr(Var(i)) for i in w.indices)
    own = Accumulator(w.name)
    outputs = w.outputs or (Output(w.name, w.indices, Load(w.name, at, TYPES["f32"])),)
    kind = TYPES["i64"] if w.reduction.kind in ("argmax", "argmin") else w.value.dtype
    return replace(w, name=own, outputs=tuple(replace(o, value=_renamed(o.value, w.name, own, kind)) for o in outputs))


def _renamed(value: Value, old: str, new: str, dtype: DType) -> Value:
    def step(v: Value) -> Value | None:
        if isinstance(v, Load) and v.tensor == old:
            return replace(v, tensor=new, dtype=dtype)
        return None

    return transform(value, step)
