"""Sizes and inputs for trying an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ..dsl.index.expr import Var
from ..dsl.op import Op, Tensor
from .op_counts import argument_bytes, flops

_BYTES, _FLOPS = 64 << 20, 1 << 30  # what default sizes may cost: small enough for any machine, large enough to time


def default_sizes(
    op: Op, given: Mapping[str, int], accepted: Callable[[dict[str, int]], bool] = lambda sizes: True
) -> dict[str, int]:
    """Sizes for all dims: the given ones, 3 for windows, and for the rest one power of two, the largest up to 512 that stays
    affordable; each within the interval of its variable.

    accepted  whether a kernel takes these sizes, derived ones too; where it takes none that are tried, it is not asked
    """
    return _default_sizes(op, given, accepted) or _default_sizes(op, given) or {d.name: given.get(d.name, 4) for d in op.dims}


def _default_sizes(
    op: Op, given: Mapping[str, int], accepted: Callable[[dict[str, int]], bool] = lambda sizes: True
) -> dict[str, int] | None:
    windows = _windows(op)
    for guess in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        sizes = {d.name: given.get(d.name, _within(d, min(guess, 3) if d.name in windows else guess)) for d in op.dims}
        every = op.all_sizes(sizes)
        allowed = [e.evaluate(every) >= 0 for e, _ in op.conditions] + [every[v.name] >= 0 for v, _ in op.derived]
        if all(allowed) and argument_bytes(op, every) <= _BYTES and flops(op, every) <= _FLOPS and accepted(every):
            return sizes
    return None


def _within(dim: Var, guess: int) -> int:
    lo, hi = dim.interval
    return max(guess if hi is None else min(guess, hi), lo or 0)


def _windows(op: Op) -> set[str]:
    """Sizes that make a derived one smaller, as a convolution's window does its result."""
    plain = {d.name: 64 for d in op.dims}
    made = op.all_sizes(plain)
    found = set()
    for d in op.dims:
        less = op.all_sizes(plain | {d.name: 32})
        if any(less[v.name] > made[v.name] for v, _ in op.derived):
            found.add(d.name)
    return found


def shape_of(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(e.evaluate(sizes)) for e in tensor.shape)


def random_inputs(op: Op, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
    """One array an input: floats uniform in [-1, 1), integers in -8..8 (0..8 unsigned), booleans both alike.

    Raises MemoryError.
    """
    rng = np.random.default_rng(seed)
    every = op.all_sizes(sizes)
    return [_random(rng, t, shape_of(t, every)) for t in op.inputs]


def _random(rng: np.random.Generator, tensor: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    if prod(shape) * 8 >= 1 << 63:  # bytes of the widest array below; NumPy's own error is a ValueError
        raise MemoryError
    match tensor.dtype.kind:
        case "float":
            values: Any = rng.random(shape, dtype=np.float32 if tensor.dtype.bits <= 32 else np.float64)
            values = values * 2 - 1
            if tensor.dtype.name == "tf32":
                values = (np.asarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        case "bool":
            values = rng.integers(0, 2, shape)
        case "uint":
            values = rng.integers(0, 9, shape)
        case _:
            values = rng.integers(-8, 8, shape)
    return np.asarray(values).astype(tensor.dtype.numpy)
