"""Matches the arguments of a call with the declaration of the op: their number, their names, their arrays, and `out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...dsl.errors import did_you_mean
from ...dsl.errors.run import ArgumentCount, ArgumentShape, OutputOverlap, SizeRefused
from ...dsl.op import Op, Tensor
from .bind_sizes import bind_sizes, tensor_text
from .convert import Back, result_converter, to_numpy, writable


def by_position(op: Op, fixed: Mapping[str, int], args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The inputs of a call in the order of the declaration; `fixed`: sizes given at compile time. Raises ArgumentCount."""
    names = [t.name for t in op.inputs]
    wanted = f"{op.name} takes {_arrays(len(names))}: {', '.join(map(tensor_text, op.inputs))}"
    if len(args) > len(names):
        raise ArgumentCount(f"{len(args)} were given; {wanted}", help="results are returned; `out=` gives memory for them")
    values = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name in values:
            raise ArgumentCount(f"{name} is given twice")
        if name not in names:
            when_compiling = name in dict(op.params) or name in fixed or any(d.name == name for d in op.dims)
            way_out = (
                f"`{name}` is fixed when compiling: andiron.compile(..., {name}=...)"
                if when_compiling
                else did_you_mean(name, names)
            )
            raise ArgumentCount(f"no input `{name}`; {wanted}", help=way_out)
        values[name] = value
    lacking = [n for n in names if n not in values]
    if lacking:
        raise ArgumentCount(f"{', '.join(lacking)} not given; {wanted}")
    return tuple(values[n] for n in names)


def contiguous_inputs(
    op: Op, fixed: Mapping[str, int], args: tuple[Any, ...]
) -> tuple[list[np.ndarray], Back | None, tuple[str, ...]]:
    """Arrays as kernels take them, how results become the family of those given, and the names of copied inputs."""
    arrays, copied = [], []
    views = [to_numpy(x, tensor) for x, tensor in zip(args, op.inputs, strict=True)]
    for array, tensor in zip(views, op.inputs, strict=True):
        if array.ndim != len(tensor.shape):
            bind_sizes(op, [a.shape for a in views], fixed)  # says what is wrong, before any copy
        if not (array.flags.c_contiguous and array.flags.aligned):
            copied.append(tensor.name)
            try:
                # `require` and not `ascontiguousarray`, which makes a rank of 0 into 1.
                array = np.require(array, requirements=["C", "A"]).reshape(array.shape)
            except (MemoryError, ValueError):
                raise SizeRefused(f"no memory for a contiguous copy of {tensor.name}, of shape {array.shape}") from None
        arrays.append(array)
    return arrays, result_converter(args), tuple(copied)


def writable_outputs(op: Op, out: Any, expected: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """`out` as arrays of the `expected` shapes and types, which can be written.

    Raises ArgumentCount, ArgumentShape, OutputOverlap, and what `writable` raises.
    """
    given = list(out) if isinstance(out, (tuple, list)) else [out]
    if len(given) != len(op.outputs):
        raise wrong_count(op, len(given))
    written = []
    for x, tensor, (shape, dtype) in zip(given, op.outputs, expected, strict=True):
        plain = type(x) is np.ndarray and x.dtype == dtype and x.flags.writeable
        array = x if plain else writable(x, tensor)
        if array.shape != shape:
            raise ArgumentShape(f"out `{tensor.name}` has shape {array.shape}; expected {shape}: {tensor_text(tensor)}")
        if not array.flags.c_contiguous:
            refuse_shared_elements(tensor, array.shape, array.strides, array.itemsize)
        written.append(array)
    return written


def refuse_shared_elements(tensor: Tensor, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> None:
    """Raises OutputOverlap where elements of an `out` share memory. `strides` and `itemsize`: in bytes."""
    if _overlaps_itself(shape, strides, itemsize):
        raise OutputOverlap(f"elements of out `{tensor.name}` share memory", help="pass an array whose elements are apart")


def _overlaps_itself(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Do elements of an array share memory? True also for axes whose strides interleave without a collision."""
    end = itemsize
    for stride, extent in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride < end:
            return 0 not in shape
        end += stride * (extent - 1)
    return False


def _arrays(count: int) -> str:
    return f"{count} array" + "s" * (count != 1)


def wrong_count(op: Op, given: int) -> ArgumentCount:
    """For `out` with another number of arrays than the op has outputs."""
    outputs = len(op.outputs)
    return ArgumentCount(f"out has {_arrays(given)}; {op.name} has {outputs} output" + "s" * (outputs != 1))
