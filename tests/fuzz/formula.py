"""What an op computes, in NumPy with one explicit array of numbers for each index, and how far from it a kernel may be.

Written from the pages on ops and numbers alone; shares nothing with the compiler's reference evaluator. Each value has a bound.
It is 0 wherever the page on numbers leaves no freedom: elementwise arithmetic is done in the declared type, and a sum whose
terms are small multiples of one power of two is the same in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import erf

import ml_dtypes
import numpy as np

from .model import INTS, Apply, Binary, Expr, Named, Number, Op, Read, Reduce, Statement, computes_in, walk

DTYPES = {
    "f64": np.float64, "f32": np.float32, "tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "i64": np.int64, "i32": np.int32, "i16": np.int16,
    "i8": np.int8, "u8": np.uint8, "i4": np.int8, "bool": np.bool_,
}  # fmt: skip
BITS = {"f64": 53, "f32": 24, "tf32": 11, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}
LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}
SMALLEST = {
    "f16": 2.0**-24,
    "bf16": 2.0**-133,
    "f8e4m3": 2.0**-9,
    "f8e5m2": 2.0**-16,
    "f32": 2.0**-149,
    "f64": 0.0,
    "tf32": 2.0**-136,
}


@dataclass(frozen=True)
class Value:
    """`data` in the type `dtype` (`index`: integers and literals that take the type of what they meet); `bound`: how far a
    correct kernel may be from it, infinite where anything is right."""

    data: np.ndarray
    bound: np.ndarray
    dtype: str

    @property
    def exact(self) -> bool:
        return not self.bound.any()


def evaluate(op: Op, sizes: Mapping[str, int], inputs: Mapping[str, np.ndarray]) -> dict[str, Value]:
    """The outputs of `op`, as stored."""
    known = dict(sizes) | {n: x for n, x, _ in op.params}
    for name, e in op.derived:
        known[name] = size(e, known)
    tensors = {t.name: Value(inputs[t.name], np.zeros(inputs[t.name].shape), t.dtype) for t in op.inputs}
    types = {t.name: t.dtype for t in op.outputs}
    with np.errstate(all="ignore"):
        for s in op.statements:
            v = _statement(s, known, tensors)
            tensors[s.target] = cast(v, types[s.target], store=True) if s.target in types else v
    return {t.name: tensors[t.name] for t in op.outputs}


def size(e: Expr, sizes: Mapping[str, int]) -> int:
    """The number that an expression of sizes is; `/` and `%` are floor."""
    match e:
        case Number(value):
            return int(value)
        case Named(name):
            return sizes[name]
        case Binary(symbol, left, right):
            a, b = size(left, sizes), size(right, sizes)
            return {"+": a + b, "-": a - b, "*": a * b}[symbol] if symbol in "+-*" else a // b if symbol == "/" else a % b
        case Apply("min" | "max" as function, args):
            return (min if function == "min" else max)(size(x, sizes) for x in args)
        case Apply("-", (x,)):
            return -size(x, sizes)
    raise AssertionError(e)


def _statement(s: Statement, sizes: Mapping[str, int], tensors: Mapping[str, Value]) -> Value:
    extents = {i: max(0, size(e, sizes)) for i, e in s.ranges}
    shape = tuple(extents[i] for i in s.indices)
    v = _Frame(extents, sizes, tensors, s.indices).value(s.value)
    if v.dtype == "index":
        v = cast(v, "i32" if v.data.dtype.kind == "i" else "f32")
    data = np.broadcast_to(v.data, shape)
    return Value(np.array(data), np.array(np.broadcast_to(v.bound, shape), dtype=np.float64), v.dtype)


@dataclass(frozen=True)
class _Frame:
    """`axes`: the indices that arrays have an axis for, in order."""

    extents: Mapping[str, int]
    sizes: Mapping[str, int]
    tensors: Mapping[str, Value]
    axes: tuple[str, ...]

    def numbers(self, index: str) -> np.ndarray:
        n = self.axes.index(index)
        return np.arange(self.extents[index]).reshape([-1 if d == n else 1 for d in range(len(self.axes))])

    def value(self, e: Expr) -> Value:
        match e:
            case Number(value):
                return _exact(np.asarray(value), "bool" if isinstance(value, bool) else "index")
            case Named(name):
                return _exact(self.numbers(name) if name in self.axes else np.asarray(self.sizes[name]), "index")
            case Read():
                return self.read(e)
            case Binary(symbol, left, right):
                return binary(symbol, self.value(left), self.value(right))
            case Apply(function, args):
                return apply(function, [self.value(x) for x in args])
            case Reduce(kind, over, body):
                inner = _Frame(self.extents, self.sizes, self.tensors, (*self.axes, *over))
                v = inner.value(body)
                shape = tuple(self.extents[i] for i in inner.axes)
                flat = (*shape[: len(self.axes)], int(np.prod(shape[len(self.axes) :], dtype=np.int64)))
                counts = np.asarray(True)
                for a, sign, b in e.domain:
                    counts = counts & binary(sign, inner.value(a), inner.value(b)).data
                if e.domain:
                    v = Value(np.where(counts, v.data, _neutral(kind, v.data.dtype)), np.where(counts, v.bound, 0.0), v.dtype)
                data, bound = (np.broadcast_to(x, shape).reshape(flat) for x in (v.data, v.bound))
                fused = isinstance(body, Binary) and body.symbol == "*"
                found = reduced(kind, Value(data, bound, v.dtype), fused)
                return _corrected(found, data) if kind == "sum" and _decays(e, self.axes) else found
        raise AssertionError(e)

    def read(self, e: Read) -> Value:
        held = self.tensors[e.tensor]
        dtype = computes_in(held.dtype)
        inside, at = np.asarray(True), []
        for x, n in zip(e.at, held.data.shape, strict=True):
            where = self.value(x).data
            inside = inside & (where >= 0) & (where < n)
            at.append(np.clip(where, 0, max(0, n - 1)))
        if 0 in held.data.shape:
            data = np.zeros(np.broadcast_shapes(*(a.shape for a in at)), DTYPES[dtype])
            bound = np.zeros(data.shape)
        else:
            data, bound = held.data[tuple(at)].astype(DTYPES[dtype]), held.bound[tuple(at)]
        if e.fill is not None:
            fill = _to(self.value(e.fill), dtype)
            data, bound = np.where(inside, data, fill.data), np.where(inside, bound, 0.0)
        else:
            whole = np.broadcast_to(inside, np.broadcast_shapes(inside.shape, *[(self.extents[i],) for i in ()]))
            assert whole.all() or whole.size == 0, f"{e} leaves its tensor"
        return Value(np.asarray(data), np.asarray(bound), dtype)


def _decays(e: Reduce, free: tuple[str, ...]) -> bool:
    """Whether terms depend on the row that limits them: `carry` may multiply sums of rows before it by a correction."""
    limited = {x.name for c in e.domain for x in walk(c) if isinstance(x, Named)} & set(free)
    return not limited.isdisjoint(x.name for x in walk(e.body) if isinstance(x, Named))


def _corrected(v: Value, terms: np.ndarray) -> Value:
    """Nine roundings for each term, and no promise where a term of any row is no number."""
    if v.data.dtype.kind != "f":
        return v
    size_of = np.abs(terms.astype(np.float64)).sum(axis=-1)
    more = v.bound + 9 * terms.shape[-1] * _unit(v.dtype) * (size_of + v.bound)
    return Value(v.data, np.full(more.shape, np.inf) if not np.isfinite(size_of).all() else more, v.dtype)


def _neutral(kind: str, dtype: np.dtype) -> np.ndarray:
    """What a term adds that does not count."""
    ends = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
    return np.asarray({"prod": 1, "max": ends[0], "min": ends[1], "all": 1}.get(kind, 0)).astype(dtype)


def _exact(data: np.ndarray, dtype: str) -> Value:
    return Value(data, np.zeros(data.shape), dtype)


def _to(v: Value, dtype: str) -> Value:
    """A literal, an index or a size in the type of what it meets."""
    return Value(v.data.astype(DTYPES[dtype]), v.bound, dtype) if v.dtype == "index" else v


def _unit(dtype: str) -> float:
    return 2.0 ** -BITS[dtype] if dtype in BITS else 0.0


def _rounded(data: np.ndarray, bound: np.ndarray, dtype: str) -> Value:
    """`bound`: what operands bring along; where that is 0 the result is the machine's own."""
    size_of = np.abs(np.asarray(data, np.float64))
    more = np.where(bound > 0, bound + _unit(dtype) * (size_of + bound) + SMALLEST.get(dtype, 0.0), 0.0)
    return Value(np.asarray(data), np.where(np.isfinite(size_of) | (bound == 0), more, np.inf), dtype)


def _met(a: Value, b: Value) -> tuple[Value, Value, str]:
    dtype = b.dtype if a.dtype == "index" else a.dtype
    a, b = (a, b) if dtype == "index" else (_to(a, dtype), _to(b, dtype))
    assert a.dtype == b.dtype, f"{a.dtype} meets {b.dtype}"
    return a, b, dtype


def binary(symbol: str, a: Value, b: Value) -> Value:
    a, b, dtype = _met(a, b)
    x, y = a.data, b.data
    if symbol in ("and", "or"):
        return Value(x & y if symbol == "and" else x | y, np.maximum(a.bound, b.bound), "bool")
    if symbol in ("<", "<=", ">", ">=", "==", "!="):
        data = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal}.get(
            symbol, np.not_equal
        )(x, y)
        near = a.bound + b.bound
        gap = np.abs(x.astype(np.float64) - y.astype(np.float64)) if dtype != "bool" else (x != y).astype(np.float64)
        return Value(data, np.where((near > 0) & ~(gap > near), np.inf, 0.0), "bool")
    whole = dtype in INTS or (dtype == "index" and x.dtype.kind in "iu" and y.dtype.kind in "iu")
    if symbol in "/%" and whole:
        safe = np.where(y == 0, 1, y)
        return Value(np.where(y == 0, 0, x // safe if symbol == "/" else x % safe).astype(x.dtype), a.bound + b.bound, dtype)
    data = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[symbol](x, y)
    if dtype == "index" or whole:
        return Value(data, np.where(a.bound + b.bound > 0, np.inf, 0.0), dtype)
    u, v = np.abs(x.astype(np.float64)), np.abs(y.astype(np.float64))
    if symbol in "+-":
        bound = a.bound + b.bound
    elif symbol == "*":
        bound = np.where(a.bound > 0, a.bound * (v + b.bound), 0) + np.where(b.bound > 0, u * b.bound, 0)
    else:
        least = v - b.bound
        bound = np.where(a.bound + b.bound > 0, np.where(least > 0, (a.bound + u / v * b.bound) / least, np.inf), 0)
    return _rounded(data, np.where(np.isnan(bound), np.inf, bound), dtype)


def cast(v: Value, to: str, store: bool = False) -> Value:
    """A cast by name, or (`store`) the rounding of an output: integers wrap, floats saturate where the page says so."""
    x, bound = v.data, v.bound
    if to == "bool" or v.dtype == to:
        return Value(x.astype(DTYPES[to]), bound, to)
    if to in INTS:
        if x.dtype.kind == "f":
            info = np.iinfo(DTYPES[to])
            low, high = (-8, 7) if to == "i4" else (int(info.min), int(info.max))
            near = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
            data = np.where(near >= high, high, np.where(near <= low, low, np.clip(near, -(2.0**62), 2.0**62).astype(np.int64)))
            return Value(data.astype(DTYPES[to]), np.where(bound > 0, np.inf, 0.0), to)
        if to == "i4":
            return Value(((x.astype(np.int64) + 8) % 16 - 8).astype(np.int8), bound, to)
        return Value(x.astype(np.int64).astype(DTYPES[to]), bound, to)
    wide = x.astype(np.float64)
    if to in LARGEST:
        wide = np.clip(wide, -LARGEST[to], LARGEST[to])
    if to == "tf32":
        bits = np.ascontiguousarray(x.astype(np.float32)).view(np.int32)
        data = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(np.float32).reshape(x.shape)
    else:
        data = wide.astype(np.float32).astype(DTYPES[to]) if to not in ("f64", "f16") else wide.astype(DTYPES[to])
        data = x.astype(DTYPES[to]) if x.dtype.kind in "iu" and to in ("f32", "f64") else data
    near = np.where(bound > 0, bound + 2 * _unit(to) * (np.abs(wide) + bound) + SMALLEST[to], 0.0)
    return Value(data, near, to if store else computes_in(to)) if store else _narrowed(Value(data, near, to))


def _narrowed(v: Value) -> Value:
    """What a cast gives computes on in the wider type."""
    return Value(v.data.astype(DTYPES[computes_in(v.dtype)]), v.bound, computes_in(v.dtype))


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "log1p": np.log1p, "expm1": np.expm1,
    "sqrt": np.sqrt, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)), "atan": np.arctan,
    "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh, "tan": np.tan, "log": np.log, "log2": np.log2,
    "rsqrt": lambda x: 1 / np.sqrt(x), "erf": np.vectorize(erf, otypes=[float]),
    "gelu": lambda x: x * (1 + FUNCTIONS["erf"](x / np.sqrt(2))) / 2,
}  # fmt: skip
SEVERAL = {"fma": lambda a, b, c: a * b + c, "atan2": np.arctan2, "pow": np.power}
STEPS = {"abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}


def apply(function: str, args: list[Value]) -> Value:
    if function in DTYPES:
        return cast(args[0], function)
    if function == "not":
        return Value(~args[0].data, args[0].bound, "bool")
    if function == "-":
        return Value(-args[0].data, args[0].bound, args[0].dtype)
    if function in SEVERAL:
        return _several(function, args)
    if function == "where":
        c, a, b = args
        a, b, dtype = _met(a, b)
        return Value(np.where(c.data, a.data, b.data), np.where(c.bound > 0, np.inf, np.where(c.data, a.bound, b.bound)), dtype)
    if function in ("max", "min"):
        pick = np.maximum if function == "max" else np.minimum
        return reduce(lambda a, b: _lesser(pick, a, b), args)
    (v,) = args
    x = v.data
    if function == "relu":
        return Value(np.maximum(x, x.dtype.type(0)), v.bound, v.dtype)
    if function == "abs":
        return Value(np.abs(x), v.bound, v.dtype)
    if function in STEPS:
        return Value(STEPS[function](x), np.where(v.bound > 0, np.inf, 0.0), v.dtype)
    wide = x.astype(np.float64)
    data = FUNCTIONS[function](wide)
    ends = [FUNCTIONS[function](wide + s * v.bound) for s in (-1, 1)]
    spread = np.maximum(*(np.abs(e - data) for e in ends))
    bound = 1.5 * spread + 16 * _unit(v.dtype) * (np.abs(data) + 2.0**-20)
    return Value(data.astype(x.dtype), np.where(np.isnan(bound) & ~np.isnan(data), np.inf, bound), v.dtype)


def _several(function: str, args: list[Value]) -> Value:
    """A rounding function of several values."""
    first = next(a for a in args if a.dtype != "index")
    args = [_to(a, first.dtype) for a in args]
    wide = [a.data.astype(np.longdouble) for a in args]
    data = SEVERAL[function](*wide)
    ends = [
        SEVERAL[function](*(w + s * a.bound for w, a, s in zip(wide, args, signs, strict=True))) for signs in _signs(len(args))
    ]
    spread = reduce(np.maximum, (np.abs(e - data) for e in ends)).astype(np.float64)
    free = np.where((data == np.rint(data)) & (spread == 0) & (function == "fma"), 0, 16 * _unit(first.dtype))
    bound = 1.5 * spread + free * (np.abs(data) + 2.0**-20).astype(np.float64)
    return Value(data.astype(first.data.dtype), np.where(np.isnan(bound) & ~np.isnan(data), np.inf, bound), first.dtype)


def _signs(n: int) -> list[tuple[int, ...]]:
    return list(product((-1, 1), repeat=n))


def _lesser(pick: np.ufunc, a: Value, b: Value) -> Value:
    a, b, dtype = _met(a, b)
    return Value(pick(a.data, b.data), np.maximum(a.bound, b.bound), dtype)


def reduced(kind: str, v: Value, fused: bool) -> Value:
    """Reduces the last axis."""
    x, bound, n = v.data, v.bound, v.data.shape[-1]
    if kind in ("any", "all"):
        return Value((np.any if kind == "any" else np.all)(x, axis=-1), bound.max(axis=-1, initial=0.0), "bool")
    if kind in ("argmax", "argmin"):
        return Value(_first(x, kind), np.where(bound.max(axis=-1, initial=0.0) > 0, np.inf, 0.0), "i64")
    if kind in ("max", "min"):
        low = {"max": -np.inf, "min": np.inf}[kind]
        if x.dtype.kind in "iu":
            low = {"max": np.iinfo(x.dtype).min, "min": np.iinfo(x.dtype).max}[kind]
        return Value((np.max if kind == "max" else np.min)(x, axis=-1, initial=low), bound.max(axis=-1, initial=0.0), v.dtype)
    if x.dtype.kind in "iu":
        data = (np.sum if kind == "sum" else np.prod)(x, axis=-1, dtype=np.int64)
        return Value(data.astype(x.dtype), np.where(bound.max(axis=-1, initial=0.0) > 0, np.inf, 0.0), v.dtype)
    wide, u = x.astype(np.longdouble), _unit(v.dtype)
    size_of = np.abs(wide)
    if kind == "sum":
        data, total = wide.sum(axis=-1), size_of.sum(axis=-1)
        free = (total > 2.0 ** BITS[v.dtype] * _grain(wide)) | (fused & (total > 2.0 ** (BITS[v.dtype] - 1) * _grain(wide)))
        carried = bound.sum(axis=-1)
        terms = total + carried
    else:
        data, terms = wide.prod(axis=-1), (size_of + bound).prod(axis=-1)
        carried = terms - size_of.prod(axis=-1)
        free = (np.maximum(size_of, 1).prod(axis=-1) > 2.0 ** BITS[v.dtype]) | (wide % 1 != 0).any(axis=-1)
    off = np.where(free | (carried > 0), carried + (n + 2) * u * terms + SMALLEST[v.dtype] * (n + 1), 0.0).astype(np.float64)
    data = data.astype(x.dtype)
    largest, least = float(np.finfo(x.dtype).max), float(np.finfo(x.dtype).tiny)
    if kind == "prod":  # some orders pass infinity or 0 on the way
        small = np.where(size_of > 0, np.minimum(size_of, 1), 1).prod(axis=-1)
        off = np.where((np.maximum(size_of, 1).prod(axis=-1) > largest) | (small < least), np.inf, off)
    off = np.where((off > 0) & (~np.isfinite(terms.astype(np.float64)) | (terms > largest)) & ~np.isnan(data), np.inf, off)
    return Value(data, np.where(np.isnan(data), 0.0, off), v.dtype)


def _grain(x: np.ndarray) -> np.ndarray:
    """The largest power of two, from 2**-40 to 1, that all numbers along the last axis are multiples of."""
    grain = np.full(x.shape[:-1], 2.0**-60)
    for k in range(40, -1, -1):
        y = x * 2.0**k
        grain = np.where((np.isinf(y) | (y == np.floor(y))).all(axis=-1), 2.0**-k, grain)
    return grain


def _first(x: np.ndarray, kind: str) -> np.ndarray:
    """The place of the first of the largest; NaN wins."""
    out = np.zeros(x.shape[:-1], np.int64)
    for at in product(*map(range, out.shape)):
        row = [float(y) for y in x[at]] if x.dtype.kind == "f" else [int(y) for y in x[at]]
        nan = [n for n, y in enumerate(row) if y != y]
        best = max(row, default=0) if kind == "argmax" else min(row, default=0)
        out[at] = nan[0] if nan else next((n for n, y in enumerate(row) if y == best), 0)
    return out
