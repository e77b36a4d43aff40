"""What an op must do at least: floating operations and bytes of its arguments, for rates like GFLOP/s and GB/s."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..dsl.op import Op, Tensor
from ..dsl.values import Apply, walk

_FREE = {"and", "or", "not", "where", "lt", "le", "gt", "ge", "eq", "ne"}


def flops(op: Op, sizes: Mapping[str, int]) -> int:
    """Arithmetic operations as the op is written: each function counts one, each reduction one a term.

    A `sum` over k of `A * B` counts 2 M N K, as the field does; pointwise intermediates count once, recomputed or not.
    """
    total = 0
    for s in op.statements:
        points = prod(int(extent.evaluate(sizes)) for _, extent in s.ranges)
        per_point = sum(1 for v in walk(s.value) if isinstance(v, Apply) and v.fn not in _FREE)
        total += points * (per_point + (1 if s.reduction else 0))
    return total


def tensor_bytes(tensor: Tensor, sizes: Mapping[str, int]) -> int:
    return tensor.dtype.bytes * prod(int(e.evaluate(sizes)) for e in tensor.shape)


def argument_bytes(op: Op, sizes: Mapping[str, int]) -> int:
    """Bytes of all arguments, each counted once: what must cross the outermost memory at least."""
    return sum(tensor_bytes(t, sizes) for t in (*op.inputs, *op.outputs))
