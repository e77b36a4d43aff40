"""The least work of an op: operations and bytes of its arguments, for rates like GFLOP/s and GB/s.

DOMAINS  Terms outside of the domain of a reduction do not count, nor do elements that nothing reads but such terms: a causal
         attention has about half the operations of a full one. For sizes that are not known yet all of them count.
CARRIED  A prefix reduction whose rows go on from those before has each term once, and what each row adds to that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

import numpy as np

from ..dsl.index.expr import ONE, ZERO, Expr, Var, as_expr
from ..dsl.op import Op, Statement, Tensor
from ..dsl.values import Apply, Masked, loads, walk

_FREE = {"and", "or", "not", "where", "lt", "le", "gt", "ge", "eq", "ne"}

# Waking threads and meeting them again takes about as long as one core needs for this many picoseconds of work, at 50 GFLOP/s
# and 20 GB/s: some of the slower cores one finds today, so that a faster one loses little.
_WAKE, _PER_FLOP, _PER_BYTE = 30_000_000, 20, 50
_MOST_POINTS = 1 << 22  # that are looked at to count those of a domain; where there are more of them, all count [limit]


def flops(op: Op, sizes: Mapping[str, int], carried: Collection[str] = ()) -> int:
    """Arithmetic operations as the op is written: each function counts one, each reduction one a term.

    A `sum` over k of `A * B` counts 2 M N K, as the field does; pointwise intermediates count once, recomputed or
    not (DOMAINS). `carried`: targets of statements whose rows go on from those before (CARRIED).
    """
    domains = _domains(op)
    counted = ((s, (_carried_points if s.target in carried else _points)(s, domains[s.target], sizes)) for s in op.statements)
    return sum(_per_point(s) * points for s, points in counted)


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


def _domains(op: Op) -> dict[str, tuple[Expr, ...]]:
    """For each statement by its target the conditions, at least 0 where a point counts: its own, and those that all readers
    have of its indices."""
    found: dict[str, tuple[Expr, ...]] = {}
    told: dict[str, list[frozenset[Expr]]] = {}  # of what is read, by the axes of the statement that makes it
    made = {s.target: s for s in op.statements}
    outputs = {t.name for t in op.outputs}
    for s in reversed(op.statements):
        own = s.value.conds if s.reduction is not None and isinstance(s.value, Masked) else ()
        readers = told.get(s.target, []) if s.target not in outputs else []
        common = sorted(frozenset.intersection(*readers), key=str) if readers else []
        found[s.target] = conditions = tuple(dict.fromkeys((*own, *common)))
        mine = {i for i, _ in s.ranges}
        for load in loads(s.value):
            if load.tensor in made:
                subscripts = dict(zip(load.indices, made[load.tensor].indices, strict=True))
                axes = {Var(i): as_expr(Var(a)) for i in mine if (a := subscripts.get(as_expr(Var(i)))) is not None}
                known = (c for c in conditions if {Var(v.name) for v in c.variables() if v.name in mine} <= axes.keys())
                told.setdefault(load.tensor, []).append(frozenset(c.subs(axes) for c in known))
    return found


def _points(s: Statement, domain: tuple[Expr, ...], sizes: Mapping[str, int]) -> int:
    """Of the statement's ranges, those at which all conditions hold."""
    extents = {i: int(e.evaluate(sizes)) for i, e in s.ranges}
    every = prod(extents.values())
    used = {v.name for c in domain for v in c.variables()} & extents.keys()
    if not used or not every:
        return every
    linear = [
        i for i in used if all(v.name != i for c in domain for v in (c - as_expr(Var(i)) * c.coefficient(Var(i))).variables())
    ]
    along = max(linear, key=lambda i: extents[i], default=None)
    others = sorted(used - {along})
    if prod(extents[i] for i in others) > _MOST_POINTS:
        return every
    grid = np.meshgrid(*(np.arange(extents[i], dtype=np.int64) for i in others), indexing="ij", sparse=True)
    at: dict[str, Any] = dict(sizes) | dict(zip(others, grid, strict=True))
    start, stop = 0, extents[along] if along else 1
    for c in domain:
        k = c.coefficient(Var(along)) if along else 0
        rest = (c - as_expr(Var(along)) * k if along and k else c).evaluate(at)
        if k > 0:
            start = np.maximum(start, -(rest // k))
        else:
            stop = np.minimum(stop, rest // -k + 1 if k else np.where(rest >= 0, stop, 0))
    inside = np.broadcast_to(np.maximum(stop - np.asarray(start), 0), tuple(extents[i] for i in others))
    return int(inside.sum()) * (every // prod(extents[i] for i in used))


def _carried_points(s: Statement, domain: tuple[Expr, ...], sizes: Mapping[str, int]) -> int:
    """CARRIED"""
    extents = {i: int(e.evaluate(sizes)) for i, e in s.ranges}
    rows = {v.name for c in domain for v in c.variables()} & set(s.indices)
    return prod(n for i, n in extents.items() if i not in rows) + prod(extents[i] for i in s.indices)


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
