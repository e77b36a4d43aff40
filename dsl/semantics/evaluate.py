"""Evaluates the statements of a concrete op (all sizes are numbers) over NumPy arrays.

BLOCKWISE: the iteration space of a statement is evaluated in blocks of bounded size, so memory is bounded for all reductions.
A sum of a product is evaluated factor by factor, each over its own indices only, and contracted (`dsl.semantics.einsum_path`).
A domain is a factor 1 or 0, if the others are numbers.

The arithmetic, on plain values or on values with error bounds, is an `Arithmetic`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from ..errors import InternalError
from ..index.expr import Expr, Var, as_expr
from ..op import Op, Statement
from ..types import TYPES, DType
from ..values import Apply, Cast, Const, IndexValue, Load, Masked, Value, walk
from .einsum_path import contract
from .numerics import apply, cast, combine, constant, fold, identity, storage

# The most elements of one array made on the way: 64 MiB of float64.
BLOCK = 1 << 23

Factor = tuple[Any, tuple[str, ...]]  # a value, and the index of each of its axes
Env = dict[str, Any]  # the values of each index in a block, shaped along its axis


class Arithmetic(Protocol):
    """The operations of values; a "tensor" is whatever `store` made, with the named fields of `shape`."""

    def constant(self, value: Any, dtype: DType) -> Any: ...
    def number(self, value: Any) -> Any: ...
    def gather(self, tensor: Any, where: tuple[Any, ...]) -> Any: ...
    def view(self, tensor: Any, where: tuple[slice, ...], order: list[int], missing: tuple[int, ...]) -> Any: ...
    def expand(self, value: Any, shape: tuple[int, ...]) -> Any: ...
    def choose(self, mask: Any, value: Any, otherwise: Any) -> Any: ...
    def cast(self, value: Any, src: DType, dst: DType) -> Any: ...
    def apply(self, fn: str, args: list[Any], kind: DType, dtype: DType) -> Any: ...
    def fold(self, kind: str, value: Any, shape: tuple[int, ...], axes: tuple[int, ...], dtype: DType) -> Any: ...
    def combine(self, kind: str, a: Any, b: Any, dtype: DType) -> Any: ...
    def contract(self, factors: list[Factor], out: tuple[str, ...], sizes: dict[str, int], dtype: DType) -> Any: ...
    def shape(self, tensor: Any) -> tuple[int, ...]: ...
    def is_finite(self, tensor: Any) -> bool: ...
    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any: ...
    def put(self, tensor: Any, where: tuple[slice, ...], value: Any) -> None: ...


class NumpyArithmetic:
    """Values alone, floats held in `wide`."""

    def __init__(self, wide: np.dtype | None) -> None:
        self.wide = wide

    def constant(self, value, dtype):
        return constant(value, dtype, self.wide)

    def number(self, value):
        return np.asarray(value, dtype=np.int64)

    def gather(self, tensor, where):
        return tensor[where]

    def view(self, tensor, where, order, missing):
        return np.expand_dims(tensor[where].transpose(order), missing)

    def expand(self, value, shape):
        return np.broadcast_to(value, shape)

    def choose(self, mask, value, otherwise):
        return np.where(mask, value, otherwise)

    def cast(self, value, src, dst):
        return cast(value, src, dst, self.wide)

    def apply(self, fn, args, kind, dtype):
        return apply(fn, args, dtype, self.wide)

    def fold(self, kind, value, shape, axes, dtype):
        return fold(kind, np.broadcast_to(value, shape), axes, dtype, self.wide)

    def combine(self, kind, a, b, dtype):
        return combine(kind, a, b, dtype, self.wide)

    def contract(self, factors, out, sizes, dtype):
        with np.errstate(all="ignore"):
            return contract(factors, out, sizes, storage(dtype, self.wide))

    def shape(self, tensor):
        return tensor.shape

    def is_finite(self, tensor):
        return bool(np.isfinite(tensor).all())

    def empty(self, shape, dtype):
        return np.zeros(shape, dtype=storage(dtype, self.wide))

    def put(self, tensor, where, value):
        tensor[where] = value


def evaluate(
    op: Op, tensors: Mapping[str, Any], arith: Arithmetic, of_some: Mapping[str, Arithmetic] | None = None
) -> dict[str, Any]:
    """All tensors of `op`, the given inputs included. Sizes and parameters of `op` are numbers.

    of_some   the arithmetic of some statements, by target, in place of `arith`
    """
    known = dict(tensors)
    for s in op.statements:
        t = op.tensor(s.target)
        known[s.target] = _Evaluator(known, (of_some or {}).get(s.target, arith)).statement(s, t.dtype)
    return known


class _Evaluator:
    def __init__(self, tensors: dict[str, Any], arith: Arithmetic) -> None:
        self.tensors, self.arith = tensors, arith

    # -- statements

    def statement(self, s: Statement, dtype: DType) -> Any:
        sizes = {i: _number(e) for i, e in s.ranges}
        body = s.value.dtype
        result = body if s.reduction is None else _result(s.reduction.kind, body)
        shape = tuple(sizes[i] for i in s.indices)
        out = self.arith.empty(shape, dtype)
        reduced = s.reduction.indices if s.reduction else ()
        if 0 in shape:
            return out  # nothing may be read: `X[0]` is inside only because there are indices
        kind = s.reduction.kind if s.reduction else None
        factors = self.factors(s.value) if kind == "sum" else [s.value]
        spaces = [tuple(i for i in sizes if i in used) for used in map(_indices, factors)]
        cost = [*spaces, s.indices] if kind == "sum" else [tuple(sizes)]
        free_blocks = list(_blocks(s.indices, sizes, cost, reduced if kind in ("argmax", "argmin") else ()))
        for free in free_blocks:
            if kind is None:
                value = self.value(s.value, s.indices, free)
            else:
                value = self.reduce(s, kind, factors, spaces, free, sizes, cost, body)
            self.arith.put(out, tuple(free[i] for i in s.indices), self.arith.cast(value, result, dtype))
        return out

    def reduce(self, s: Statement, kind: str, factors, spaces, free, sizes, cost, body: DType) -> Any:
        assert s.reduction is not None
        reduced = s.reduction.indices
        axes = s.indices + reduced
        total = None
        if any(sizes[i] == 0 for i in reduced):
            return self.arith.constant(identity(kind, body).item(), body)
        here = sizes | {i: w.stop - w.start for i, w in free.items()}
        whole = kind in ("argmax", "argmin")
        for part in [_whole(reduced, sizes)] if whole else _blocks(reduced, here, cost, ()):
            block = free | part
            extents = {i: w.stop - w.start for i, w in block.items()}
            if kind == "sum":
                named = [(self.full(f, space, block), space) for f, space in zip(factors, spaces, strict=False)]
                piece = self.arith.contract(named, s.indices, extents, body)
            else:
                shape = tuple(extents[i] for i in axes)
                value = self.value(s.value, axes, block)
                piece = self.arith.fold(kind, value, shape, tuple(range(len(s.indices), len(axes))), body)
            total = piece if total is None else self.arith.combine(kind, total, piece, body)
        return total

    def factors(self, v: Value) -> list[Value]:
        """The factors of a sum's term; of one with a domain as well, if none is nan or infinite where it does not count."""
        if not isinstance(v, Masked) or v.otherwise != Const(0, v.dtype):
            return _factors(v)
        found = _factors(v.value)
        if not all(isinstance(f, Load) and f.otherwise is None and self.arith.is_finite(self.tensors[f.tensor]) for f in found):
            return [v]
        return [Masked(v.conds, Const(1, v.dtype), v.otherwise, v.dtype), *found]

    def full(self, v: Value, axes: tuple[str, ...], block: dict[str, slice]) -> Any:
        shape = tuple(block[i].stop - block[i].start for i in axes)
        return self.arith.expand(self.value(v, axes, block), shape)

    # -- values

    def value(self, v: Value, axes: Sequence[str], block: dict[str, slice]) -> Any:
        """`v` over a block, broadcastable to the block's shape along `axes`."""
        env: Env = {}
        for position, i in enumerate(axes):
            shape = [1] * len(axes)
            shape[position] = -1
            env[i] = np.arange(block[i].start, block[i].stop, dtype=np.int64).reshape(shape)
        return self._value(v, env, tuple(axes), block)

    def _value(self, v: Value, env: Env, axes: tuple[str, ...], block: dict[str, slice]) -> Any:
        match v:
            case Const():
                return self.arith.constant(v.value, v.dtype)
            case IndexValue():
                return self.arith.number(v.expr.evaluate(env))
            case Load():
                return self._load(v, env, axes, block)
            case Cast():
                return self.arith.cast(self._value(v.arg, env, axes, block), v.arg.dtype, v.dtype)
            case Apply():
                args = [self._value(a, env, axes, block) for a in v.args]
                return self.arith.apply(v.fn, args, v.args[-1].dtype, v.dtype)
            case Masked():
                mask = _all([np.asarray(c.evaluate(env)) >= 0 for c in v.conds])
                inside, outside = (self._value(x, env, axes, block) for x in (v.value, v.otherwise))
                return self.arith.choose(mask, inside, outside)

    def _load(self, v: Load, env: Env, axes: tuple[str, ...], block: dict[str, slice]) -> Any:
        tensor = self.tensors[v.tensor]
        shape = self.arith.shape(tensor)
        view = self._view(v, tensor, shape, axes, block)
        if view is not None:
            return view
        where = [np.asarray(e.evaluate(env)) for e in v.indices]
        inside = [(x >= 0) & (x < n) for x, n in zip(where, shape, strict=False)]
        if v.otherwise is None:
            if not all(np.all(m) for m in inside):
                raise InternalError(f"an access to `{v.tensor}` that was proven inside leaves it")
            return self.arith.gather(tensor, tuple(where))
        otherwise = self._value(v.otherwise, env, axes, block)
        if 0 in shape:
            return otherwise
        mask = _all(inside)
        value = self.arith.gather(tensor, tuple(np.clip(x, 0, n - 1) for x, n in zip(where, shape, strict=False)))
        return value if np.all(mask) else self.arith.choose(mask, value, otherwise)

    def _view(self, v: Load, tensor: Any, shape: tuple[int, ...], axes: tuple[str, ...], block: dict[str, slice]) -> Any:
        """The load without copying, where every subscript is another plain index inside its axis; else None."""
        names = {as_expr(Var(i)): i for i in axes}
        plain = [names.get(e) for e in v.indices]
        if None in plain or len(set(plain)) < len(plain):
            return None
        if any(block[i].stop > n for i, n in zip(plain, shape, strict=False)):  # type: ignore[index]
            return None
        order = sorted(range(len(plain)), key=lambda p: axes.index(plain[p]))  # type: ignore[arg-type]
        where = tuple(block[i] for i in plain)  # type: ignore[index]
        missing = tuple(a for a, i in enumerate(axes) if i not in plain)
        return self.arith.view(tensor, where, order, missing)


def _all(masks: list[Any]) -> Any:
    out: Any = np.True_
    for m in masks:
        out = out & m
    return out


def _result(kind: str, body: DType) -> DType:
    return TYPES["i64"] if kind in ("argmax", "argmin") else body


def _number(e: Expr) -> int:
    if e.constant is None:
        raise InternalError(f"the extent {e} is not a number")
    return e.constant


def _indices(v: Value) -> set[str]:
    out: set[str] = set()
    for n in walk(v):
        exprs = (n.expr,) if isinstance(n, IndexValue) else n.indices if isinstance(n, Load) else ()
        exprs = n.conds if isinstance(n, Masked) else exprs
        out |= {x.name for e in exprs for x in e.variables()}
    return out


def _factors(v: Value) -> list[Value]:
    if isinstance(v, Apply) and v.fn == "mul":
        return [f for a in v.args for f in _factors(a)]
    return [v]


def _whole(names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, slice]:
    return {i: slice(0, sizes[i]) for i in names}


def _blocks(
    names: Sequence[str], sizes: Mapping[str, int], cost: Sequence[tuple[str, ...]], fixed: Sequence[str]
) -> Iterator[dict[str, slice]]:
    """Blocks of the space of `names` such that every space in `cost` is small, as far as splitting these names can do that."""
    step = dict(sizes)
    for i in names:
        while max(prod(step[j] for j in space) for space in cost) > BLOCK and step[i] > 1 and i not in fixed:
            if not any(i in space for space in cost if prod(step[j] for j in space) > BLOCK):
                break
            step[i] = (step[i] + 1) // 2

    def walk_names(left: Sequence[str]) -> Iterator[dict[str, slice]]:
        if not left:
            yield {}
            return
        i, size = left[0], sizes[left[0]]
        for start in range(0, size, max(1, step[i])) if size else [0]:
            for rest in walk_names(left[1:]):
                yield {i: slice(start, min(size, start + step[i])), **rest}

    yield from walk_names(names)
