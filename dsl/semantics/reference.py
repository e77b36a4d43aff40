"""The meaning of an op: `reference(op)` evaluates it with NumPy, in higher precision. It is the oracle of every test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ..errors.op import WrongArgument
from ..op import Op, Tensor
from ..ops.specialise import bind_params, specialise
from ..support.expected import expect
from ..types import TYPES, DType
from .empty_argmax import check_empty_argmax
from .error_bounds import BoundedArithmetic, corrected_sums, output_rounding
from .evaluate import NumpyArithmetic, evaluate


def reference(op: Op, exact: bool = False) -> Callable[..., Any]:
    """Gives the meaning of an op as a function on NumPy arrays. Every schedule of the op agrees with it within the error bound.

    op     an op, as in `module.ops`
    exact  True gives each output as a pair of float64 arrays: the value before its last rounding, and a bound on the distance
           of any correct evaluation from it. The bound is `n u sum|terms|`, propagated, with the rounding of the output

    Floats compute in float64. An op with f64 tensors computes in the extended precision of the machine, where it has one.
    Integers compute as declared and wrap. Casts by type name round, and outputs are rounded to their types.

    Returns a function: `reference(op)(*arrays, **params)`. It takes one array for each input, of the declared shape and element
    type (`DType.numpy`: bf16 and f8 by `ml_dtypes`, i4 in int8, tf32 in float32). A scalar may be a Python number. `params` are
    values of integer parameters. It returns one array, or a tuple of arrays if the op has several outputs.

    Raises ArgumentKind if `op` is no op. The function raises WrongArgument if the number, shape or type of arrays is wrong,
    EmptyArgmax if an `argmax` has nothing to choose from, UnknownSize or MissingParameter for a wrong or missing parameter,
    BadSize for a value that is no integer, and ConditionFailed if a condition of the op does not hold.
    """

    expect("op", op, Op, "an op, as in `module.ops`")

    return _Reference(op, exact)


class _Reference:
    """What `reference` returns: a class, so that it can be pickled."""

    def __init__(self, op: Op, exact: bool) -> None:
        self._op, self._exact = op, exact
        self.__name__ = op.name
        self.__doc__ = f"The reference meaning of op `{op.name}`."

    def __call__(self, *arrays: Any, **params: int) -> Any:
        bound = bind_params(self._op, params)
        inputs = _inputs(bound, arrays)
        concrete = specialise(bound, _sizes(bound, inputs))
        _check(concrete, inputs)
        outputs = _outputs(concrete, inputs, self._exact)
        results = [outputs[t.name] for t in concrete.outputs]
        return results[0] if len(results) == 1 else tuple(results)


def _inputs(op: Op, arrays: tuple[Any, ...]) -> dict[str, np.ndarray]:
    if len(arrays) != len(op.inputs):
        names = ", ".join(t.name for t in op.inputs)
        raise WrongArgument(f"op `{op.name}` takes {len(op.inputs)} arrays ({names}), not {len(arrays)}")
    out = {}
    for t, given in zip(op.inputs, arrays, strict=True):
        if not t.shape and not isinstance(given, Real) and not hasattr(given, "dtype"):
            raise WrongArgument(f"`{t.name}` of op `{op.name}` is one {t.dtype}, and no {type(given).__name__}")
        array = np.asarray(given)
        if not hasattr(given, "dtype") and not t.shape:
            array = array.astype(t.dtype.numpy)
        if array.dtype != t.dtype.numpy:
            help = f"convert it: `.astype({t.dtype.numpy})`"
            raise WrongArgument(f"`{t.name}` of op `{op.name}` is {t.dtype}; the array holds {array.dtype}", help=help)
        if array.ndim != len(t.shape):
            raise WrongArgument(f"`{t.name}` of op `{op.name}` has {len(t.shape)} axes; the array has {array.ndim}")
        out[t.name] = array
    return out


def _sizes(op: Op, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The sizes that the shapes of the inputs tell (DIMS_BIND)."""
    dims = {v.name for v in op.dims}
    sizes: dict[str, int] = {}
    where: dict[str, str] = {}
    for t in op.inputs:
        for axis, (e, size) in enumerate(zip(t.shape, inputs[t.name].shape, strict=True)):
            name = str(e)
            if name not in dims:
                continue
            if sizes.setdefault(name, size) != size:
                raise WrongArgument(
                    f"size `{name}` of op `{op.name}` is {sizes[name]} ({where[name]}) and {size} (axis {axis} of `{t.name}`)"
                )
            where.setdefault(name, f"axis {axis} of `{t.name}`")
    return sizes


def _check(op: Op, inputs: Mapping[str, np.ndarray]) -> None:
    for t in op.inputs:
        shape = tuple(e.constant for e in t.shape)
        if shape != inputs[t.name].shape:
            raise WrongArgument(f"`{t.name}` of op `{op.name}` has the shape {shape}; the array's is {inputs[t.name].shape}")
    check_empty_argmax(op, {})


def _outputs(op: Op, inputs: Mapping[str, np.ndarray], exact: bool) -> dict[str, Any]:
    types = {t.name: t.dtype for t in op.tensors}
    wide = np.dtype(np.longdouble) if TYPES["f64"] in types.values() else np.dtype("float64")
    held = {n: a.astype(wide) if types[n].kind == "float" else a for n, a in inputs.items()}
    if not exact:
        values = evaluate(op, held, NumpyArithmetic(wide))
        return {t.name: _as_stored(values[t.name], t) for t in op.outputs}

    unrounded = _keep_outputs_exact(op)
    corrected = {name: BoundedArithmetic(wide, corrected=few) for name, few in corrected_sums(unrounded).items()}
    exact_inputs = {n: (a, np.zeros(a.shape)) for n, a in held.items()}
    pairs = evaluate(unrounded, exact_inputs, BoundedArithmetic(wide), corrected)
    out = {}
    for t in op.outputs:
        value, bound = pairs[_exact(t.name)]
        bound = output_rounding(value, bound, t.dtype)
        out[t.name] = np.asarray(value, dtype=np.float64), np.asarray(bound, dtype=np.float64)
    return out


def _as_stored(value: np.ndarray, t: Tensor) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(t.dtype.numpy)  # the store has rounded already


def _exact(name: str) -> str:
    return f"{name}.exact"


def _keep_outputs_exact(op: Op) -> Op:
    """`op` with a twin of each float output, in a type wide enough not to round it; readers still read the rounded one."""
    statements, tensors = [], list(op.tensors)
    outputs = {t.name: t for t in op.outputs}
    for s in op.statements:
        statements.append(s)
        if s.target in outputs:
            t = outputs[s.target]
            wide: DType = TYPES["f64"] if t.dtype.kind == "float" else t.dtype
            tensors.append(replace(t, name=_exact(t.name), dtype=wide, role="intermediate"))
            statements.append(replace(s, target=_exact(s.target)))
    return replace(op, tensors=tuple(tensors), statements=tuple(statements))
