"""Bounds on the error of a correct evaluation of an op: test (c) of the design, |y - ref| <= n u sum|terms|.

`Bounded` computes pairs (value, bound): the value in higher precision, and a bound on the distance to it of any evaluation that
the language allows. These round every operation to its type, and form sums and products in any order. Bounds are first order
and a little generous: they must catch wrong results, and need not be tight. A bound of inf means that the result is not
determined at all (an argmax with a near tie, a float to bool at 0, a sum that overflows in some order). An infinite value and
NaN are determined where all that the bounds of their operands allow gives the same: then their bound is 0. No bound is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..index.expr import Expr
from ..op import Op, Statement
from ..types import DType
from ..values import Apply, IndexValue, Load, Masked, Value, loads, walk
from .evaluate import NumpyArithmetic
from .numerics import largest, round_to

Pair = tuple[Any, Any]

# What a library function may be off, in units in the last place (CUDA's and AMD's documented worst cases for f32 are below).
_FUNCTION_ULPS = 8
_EXACT = {"neg", "abs", "min", "max", "relu", "where", "floor", "ceil", "round", "trunc"}
_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
_UNITS = {
    "f64": 2.0**-53,
    "f32": 2.0**-24,
    "tf32": 2.0**-11,
    "bf16": 2.0**-8,
    "f16": 2.0**-11,
    "f8e4m3": 2.0**-4,
    "f8e5m2": 2.0**-3,
}
_TINY = {"f64": 2.0**-1074, "f32": 2.0**-149, "tf32": 2.0**-136, "bf16": 2.0**-133, "f16": 2.0**-24, "f8e4m3": 2.0**-9}


def corrected_sums(op: Op) -> dict[str, int]:
    """The float sums of an op that a schedule may correct, and how many elements there are for each correction, at least.

    online   they read a maximum or minimum over as many elements
    carry    the row limits what they go over, and their terms depend on it
    """
    rows = {s.target: 1 for s in op.statements if _is_decaying(s)}
    return dict.fromkeys(_following(op), LEAST_ONLINE) | rows


def _is_decaying(s: Statement) -> bool:
    match s.value:
        case Masked(conds=conds, value=term):
            limits = [{v.name for v in c.variables()} for c in conds]
        case Apply(fn="where", args=(cond, term, _)):
            limits = [_indices(cond)]
        case _:
            return False
    reduced = set(s.reduction.indices) if s.reduction is not None and s.reduction.kind == "sum" else set[str]()
    rows = {i for c in limits if c & reduced for i in c & set(s.indices)}
    return s.value.dtype.kind == "float" and not rows.isdisjoint(_indices(term))


def _indices(value: Value) -> set[str]:
    """The names in its subscripts, index terms and conditions."""
    out: set[str] = set()
    for v in walk(value):
        match v:
            case Load(indices=found) | Masked(conds=found):
                out |= {x.name for e in found for x in e.variables()}
            case IndexValue(expr=e):
                out |= {x.name for x in e.variables()}
    return out


def _following(op: Op) -> frozenset[str]:
    extremes: dict[str, frozenset[Expr]] = {}  # tensors that depend on some, and how many elements these are of
    out = set()
    for s in op.statements:
        read = frozenset[Expr]().union(*(extremes.get(ld.tensor, ()) for ld in loads(s.value)))
        reduced = frozenset(s.extent(i) for i in s.reduction.indices) if s.reduction is not None else frozenset[Expr]()
        if s.reduction is None:
            extremes[s.target] = read
        elif s.reduction.kind in ("max", "min"):
            extremes[s.target] = reduced
        elif s.reduction.kind == "sum" and s.value.dtype.kind == "float" and read & reduced:
            out.add(s.target)
    return frozenset(out)


def unit_roundoff(dtype: DType) -> float:
    """The unit roundoff of a float type; 0 for others, which compute exactly."""
    return _UNITS.get(dtype.name, 0.0)


def rounding_bound(value: Any, dtype: DType) -> Any:
    """A bound on what one rounding to `dtype` changes near `value`."""
    if dtype.kind != "float":
        return np.zeros(np.shape(value))
    with np.errstate(all="ignore"):
        return unit_roundoff(dtype) * np.abs(value) + _TINY.get(dtype.name, 2.0**-16)


# elements: of an iteration of an `online` tile, at least, for which a partial sum is corrected once [limit]
LEAST_ONLINE = 8
# roundings: of a correction, by the function that it is a value of and by the product with it [fact: documented worst cases]
_CORRECTION = 9


class BoundedArithmetic:
    """The arithmetic of pairs, for `dsl.semantics.evaluate`. `corrected`: sums may be corrected after so many elements."""

    def __init__(self, wide: np.dtype, corrected: int = 0) -> None:
        self.plain = NumpyArithmetic(wide)
        self.corrected = corrected

    def constant(self, value, dtype) -> Pair:
        return self.plain.constant(value, dtype), 0.0

    def number(self, value) -> Pair:
        return self.plain.number(value), 0.0

    def gather(self, tensor, where) -> Pair:
        return tensor[0][where], tensor[1][where]

    def view(self, tensor, where, order, missing) -> Pair:
        return self.plain.view(tensor[0], where, order, missing), self.plain.view(tensor[1], where, order, missing)

    def expand(self, value, shape) -> Pair:
        return np.broadcast_to(value[0], shape), np.broadcast_to(value[1], shape)

    def choose(self, mask, value, otherwise) -> Pair:
        return np.where(mask, value[0], otherwise[0]), np.where(mask, value[1], otherwise[1])

    def cast(self, value, src, dst) -> Pair:
        x, e = value
        out = self.plain.cast(x, src, dst)
        if dst.kind == "bool":
            return out, np.where((np.abs(_real(x)) <= e) & (e > 0), 1.0, 0.0)
        if dst.kind == "float" and unit_roundoff(dst) <= unit_roundoff(src) and src.kind == "float":
            return out, e
        with np.errstate(all="ignore"):
            if src.kind != "float" and dst.kind != "float":  # it wraps
                return out, np.where((e > 0) & (np.abs(_real(x)) + e > largest(dst)), np.inf, e)
            ends = [_real(x) + sign * e for sign in (-1, 1)]
            if dst.kind != "float":
                off = np.fmax(*(np.abs(_real(self.plain.cast(end, src, dst)) - _real(out)) for end in ends))
            elif src.kind == "float":  # the roundings of two neighbours are one unit further apart
                off = e + 2 * rounding_bound(np.abs(_real(out)) + e, dst)
                off = _determined(off, out, [self.plain.cast(end, src, dst) for end in ends])
            else:
                off = e + 2 * rounding_bound(np.abs(_real(out)) + e, dst)
            return out, np.where(e > 0, np.where(np.isinf(e) & ~np.isfinite(_real(x)), np.inf, off), 0.0)

    def apply(self, fn, args, kind, dtype) -> Pair:
        xs, es = [a[0] for a in args], [np.asarray(a[1], dtype=float) for a in args]
        out = self.plain.apply(fn, xs, kind, dtype)
        with np.errstate(all="ignore"):
            if fn in _COMPARISONS:
                near = es[0] + es[1]
                close = (near > 0) & (np.abs(_real(xs[0]) - _real(xs[1])) <= near)
                return out, np.where(close | np.isinf(near), 1.0, 0.0)
            if fn in ("and", "or", "not"):
                return out, np.where(sum(es) > 0, 1.0, 0.0)
            if fn == "where":
                chosen = np.where(xs[0], es[1], es[2])
                other = np.where(_same(xs[1], xs[2]), 0.0, np.abs(_real(xs[1]) - _real(xs[2]))) + es[1] + es[2]
                return out, np.where(es[0] > 0, np.nan_to_num(other, nan=np.inf, posinf=np.inf), chosen)
            carried = self._carried(fn, xs, es, out, kind, dtype)
            ulps = 0 if fn in _EXACT or dtype.kind != "float" else 1 if fn in _ONE_ULP else _FUNCTION_ULPS
            own = ulps * rounding_bound(np.abs(_real(out)) + carried, dtype) if ulps else 0.0
            bound = _overflowing(carried + own, np.abs(_real(out)), dtype)
            if np.isfinite(_real(out)).all():
                return out, bound
            ends = self._corners(fn, xs, es, kind, dtype) if any(np.any(e > 0) for e in es) else ()
            return out, _determined(bound, out, ends)

    def _carried(self, fn, xs, es, out, kind, dtype) -> Any:
        """What the bounds of the arguments become."""
        if not any(np.any(e > 0) for e in es):
            return np.zeros(np.shape(out))
        a = [np.abs(_real(x)) for x in xs]
        if fn in ("add", "sub"):
            return es[0] + es[1]
        if fn == "mul":
            return a[0] * es[1] + a[1] * es[0] + es[0] * es[1]
        if fn == "fma":
            return a[0] * es[1] + a[1] * es[0] + es[0] * es[1] + es[2]
        if fn == "div":
            rest = a[1] - es[1]
            return np.where(rest > 0, (es[0] + np.abs(_real(out)) * es[1]) / np.where(rest > 0, rest, 1), np.inf)
        if fn in ("neg", "abs", "relu", "sin", "cos"):
            return es[0] + 0.0
        if fn in ("min", "max"):
            return np.maximum(es[0], es[1])
        if fn in ("gelu", "silu"):
            return 1.2 * es[0]
        if fn == "mod":  # not monotone
            return np.where(es[0] + es[1] > 0, a[1] + es[1], 0.0)
        return self._by_ends(fn, xs, es, out, kind, dtype)

    def _by_ends(self, fn, xs, es, out, kind, dtype) -> Any:
        """Of functions monotone in each argument: the largest change at the corners of the box."""
        worst = np.zeros(np.shape(out))
        for there in self._corners(fn, xs, es, kind, dtype):
            worst = np.fmax(worst, np.abs(there - _real(out)))  # outside the domain the other corners decide
        return worst

    def _corners(self, fn, xs, es, kind, dtype) -> Iterator[Any]:
        """The values at the corners of the box of the arguments."""
        for corner in range(1 << len(xs)):
            moved = [_real(x) + (1 if corner >> n & 1 else -1) * e for n, (x, e) in enumerate(zip(xs, es, strict=True))]
            yield _real(self.plain.apply(fn, moved, kind, dtype))

    def fold(self, kind, value, shape, axes, dtype) -> Pair:
        x, e = self.expand(value, shape)
        out = self.plain.fold(kind, x, shape, axes, dtype)
        if kind in ("argmax", "argmin"):
            best = np.expand_dims(np.max(x, axis=axes) if kind == "argmax" else np.min(x, axis=axes), axes) if x.size else x
            with np.errstate(all="ignore"):
                rivals = np.sum((np.abs(_real(x) - best) <= 2 * e) & (e > 0), axis=axes)
            return out, np.where(rivals > 1, np.inf, 0.0)
        if kind == "prod":
            count = int(np.prod([shape[a] for a in axes]))
            return out, _moved(lambda factors: np.prod(factors[0], axis=axes), [(x, e)], dtype, count)
        if kind in ("any", "all"):
            return out, np.max(e, axis=axes, initial=0.0)
        return out, np.max(e, axis=axes, initial=0.0)

    def contract(self, factors, out, sizes, dtype) -> Pair:
        value = self.plain.contract([(f[0], names) for f, names in factors], out, sizes, dtype)
        float64 = np.dtype("float64")

        def total(arrays) -> Any:
            named = [(np.asarray(a, dtype=float64), names) for a, (_, names) in zip(arrays, factors, strict=True)]
            return self.plain.__class__(float64).contract(named, out, sizes, dtype)

        count = 1
        for name, size in sizes.items():
            count *= 1 if name in out else size
        roundings = count + len(factors) + 1
        roundings += -(-count // self.corrected) * _CORRECTION if self.corrected else 0
        bound = _moved(total, [f for f, _ in factors], dtype, roundings)
        if self.corrected:  # a factor that underflows at the end may be infinite or NaN before
            bound = np.where(np.isfinite(value), bound, np.inf)
        return value, bound

    def combine(self, kind, a, b, dtype) -> Pair:
        value = self.plain.combine(kind, a[0], b[0], dtype)
        if kind in ("sum", "prod"):
            return self.apply("add" if kind == "sum" else "mul", [a, b], dtype, dtype)
        return value, np.maximum(a[1], b[1])

    def shape(self, tensor) -> tuple[int, ...]:
        return tensor[0].shape

    def is_finite(self, tensor) -> bool:
        return bool(np.isfinite(tensor[0]).all() and np.isfinite(tensor[1]).all())

    def empty(self, shape, dtype) -> Pair:
        return self.plain.empty(shape, dtype), np.zeros(shape)

    def put(self, tensor, where, value) -> None:
        tensor[0][where] = value[0]
        tensor[1][where] = value[1]


def _moved(total: Callable[[list[Any]], Any], factors: list[Pair], dtype: DType, roundings: int) -> Any:
    """The bound of a sum of products, or of a product. `total`: of magnitudes of the factors, without roundings."""
    sizes, exact = [np.abs(_real(x)) for x, _ in factors], not any(np.any(e) for _, e in factors)
    if exact and dtype.kind != "float":
        return np.zeros(np.shape(total(sizes)))
    with np.errstate(all="ignore"):
        terms = total(sizes)
        most = terms if exact else total([a + e for a, (_, e) in zip(sizes, factors, strict=True)])
        own = roundings * (unit_roundoff(dtype) * most + _TINY.get(dtype.name, 2.0**-16)) if dtype.kind == "float" else 0.0
        bound = _overflowing((most - terms) * 1.01 + own, terms, dtype)
        if np.isfinite(terms).all() or all(np.isfinite(a).all() for a in sizes):
            return bound
        if exact:
            return _determined(bound, terms, ())
        least = total([np.maximum(a - e, 0.0) for a, (_, e) in zip(sizes, factors, strict=True)])
        bound = _determined(bound, terms, (most, least))
        for n, (_, e) in enumerate(factors):
            if np.isinf(e).any():
                ones = [np.ones_like(a) for a in sizes]
                ones[n] = np.broadcast_to(np.isinf(e), np.shape(sizes[n])).astype(float)
                bound = np.where(total(ones) > 0, np.inf, bound)
        return bound


def _overflowing(bound: Any, size: Any, dtype: DType) -> Any:
    """The bound, or inf where the bound is no number, and where a finite value of this size may exceed its type."""
    if dtype.kind == "bool":
        return bound
    beyond = np.isfinite(size) & (size + bound > largest(dtype)) & ((bound > 0) | (dtype.kind == "float"))
    return np.where(beyond | np.isnan(bound), np.inf, bound)


def _determined(bound: Any, value: Any, ends: Iterable[Any]) -> Any:
    """The bound; for infinite values and NaN 0 where all ends of what is allowed are the same, else inf. It is inf as well for
    finite values of which an end is infinite."""
    value = _real(value)
    finite = np.isfinite(value)
    for end in ends:
        bound = np.where(np.where(finite, np.isinf(end), ~_same(value, end)), np.inf, bound)
        finite = finite | ~_same(value, end)
    return np.where(finite, bound, 0.0)


def _same(a: Any, b: Any) -> Any:
    """Whether both are one value, or NaN."""
    a, b = _real(a), _real(b)
    return (a == b) | (np.isnan(a) & np.isnan(b))


_ONE_ULP = {"add", "sub", "mul", "div", "sqrt", "fma"}


def _real(x: Any) -> Any:
    """As a float, whatever it was."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def output_rounding(value: Any, bound: Any, dtype: DType) -> Any:
    """The bound after the store into an output of type `dtype`, against the value before it."""
    if dtype.kind != "float":
        return bound
    with np.errstate(all="ignore"):
        stored, value = round_to(value, dtype), np.asarray(value, dtype=float)
        own = np.maximum(np.abs(stored - value), rounding_bound(np.abs(value) + bound, dtype))
        own = np.where(_same(stored, value) & ~np.isfinite(value), 0.0, own)  # these have no rounding error
        return bound + np.where(np.isfinite(own), own, np.inf)
