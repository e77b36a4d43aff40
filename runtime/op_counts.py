"""The least work of an op: operations and bytes of its arguments, for rates like GFLOP/s and GB/s."""

from __future__ import annotations

from collections.abc import Mapping

from ..dsl.index.expr import ONE, ZERO, Expr
from ..dsl.op import Op, Statement, Tensor
from ..dsl.values import Apply, walk

_FREE = {"and", "or", "not", "where", "lt", "le", "gt", "ge", "eq", "ne"}

# Waking threads and meeting them again takes about as long as one core needs for this many picoseconds of work, at 50 GFLOP/s
# and 20 GB/s: some of the slower cores one finds today, so that a faster one loses little.
_WAKE, _PER_FLOP, _PER_BYTE = 30_000_000, 20, 50


def flops(op: Op, sizes: Mapping[str, int]) -> int:
    """Arithmetic operations as the op is written: each function counts one, each reduction one a term.

    A `sum` over k of `A * B` counts 2 M N K, as the field does; pointwise intermediates count once, recomputed or not.
    """
    return int(_flops(op).evaluate(sizes))


def argument_bytes(op: Op, sizes: Mapping[str, int]) -> int:
    """Bytes of all arguments, each counted once: what must cross the outermost memory at least."""
    return int(_bytes(op).evaluate(sizes))


def too_small_for_threads(op: Op) -> Expr:
    """An expression over the sizes, >= 0 where one thread is done before others are awake."""
    return _WAKE - _PER_FLOP * _flops(op) - _PER_BYTE * _bytes(op)


def _flops(op: Op) -> Expr:
    total = ZERO
    for s in op.statements:
        total += _per_point(s) * _product(extent for _, extent in s.ranges)
    return total


def _per_point(s: Statement) -> int:
    counted = sum(1 for v in walk(s.value) if isinstance(v, Apply) and v.fn not in _FREE)
    return counted + (1 if s.reduction else 0)


def _bytes(op: Op) -> Expr:
    total = ZERO
    for t in (*op.inputs, *op.outputs):
        total += _tensor_bytes(t)
    return total


def _tensor_bytes(tensor: Tensor) -> Expr:
    return tensor.dtype.bytes * _product(tensor.shape)


def _product(factors) -> Expr:
    total = ONE
    for factor in factors:
        total = total * factor
    return total
