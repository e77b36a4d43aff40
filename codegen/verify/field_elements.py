"""Values that count: each element of an input is a random element of a finite field, and so is every computed value.

A program and its op are polynomials over these elements. Two different ones agree at a random point with a probability of about
degree / p, independently in each of two lanes (Schwartz 1980, Zippel 1979): below 1e-15 for any program here. A term that is
added twice, or never, gives another polynomial, and neither rounding, cancellation nor a maximum hides the difference:

    + - * / fma, sum, prod     are the field's; constants and indices are themselves
    max min or and             are commutative and associative operations of their own that are not idempotent: with e the
                               identity, 1 + s (a op b - e) = (1 + s (a - e)) (1 + s (b - e)) for a random s
    every other function       a random function: equal only for equal arguments
    casts between numbers      are left out: rounding is not checked here

CHOSEN   A choice by data, as in argmax, compares numbers that accompany the field elements (`Points(chooses=True)`): all inputs
         then are small random integers too.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from ...dsl.semantics.numerics import apply
from ...dsl.types import TYPES, DType
from ..interpret.domain import Array

# prime: products of two elements fit 64 bits, and the ends of i32 and i64 are no small elements, as 0 and 1 modulo 2**31 - 1
# [fact: arithmetic]
P = 15 * (1 << 27) + 1
_LANES = 2  # elements: of the field for each value, so that a false match is unlikely [fact: probability]
# values: the work that one operation counts for, besides its values [estimate;
# test_an_operation_costs_as_much_as_some_hundred_values]
_CALL = 200
_TYPE = np.dtype([("at", np.int64, (_LANES,)), ("num", np.float64)])
_INFINITE = 0x2F6E9A31  # field element: that stands for infinity, arbitrary [fact: marker]
_OTHER = 0x1BD1E995  # field element: that stands for NaN, arbitrary [fact: marker]
# field element: that a reduction multiplies by, arbitrary [fact: marker]
_SCALE = {"max": 0x3C6EF372, "min": 0x1A541FF5, "or": 0x510E527F, "and": 0x1F83D9AB}
_IDENTITY = {"or": 0, "and": 1, "max": P - _INFINITE, "min": _INFINITE}  # for all types the same
# What max and min of some type begin with: their results are the other operand.
_LOWEST = (float("-inf"), -8, -(1 << 7), -(1 << 15), -(1 << 31), -(1 << 63))
_HIGHEST = (float("inf"), 7, (1 << 7) - 1, 255, (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1)
_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_OF_CONSTANTS = ("lt", "le", "gt", "ge", "eq", "ne", "not", "floordiv", "mod", "abs", "floor", "ceil", "round", "trunc")


@lru_cache(maxsize=4096)
def field_element(value: int | float | bool) -> int:
    """A number of the language in the field."""
    if value != value:
        return _OTHER
    if value in (float("inf"), float("-inf")):
        return _INFINITE if value > 0 else P - _INFINITE
    exact = Fraction(value)
    return exact.numerator % P * pow(exact.denominator, -1, P) % P


class ValueBudgetExceeded(Exception):
    """More values were computed than was allowed."""

    def __init__(self, spent: int) -> None:
        super().__init__(f"more than {spent} values")
        self.spent = spent


class FieldDomain:
    """The domain (`interpret.domain`). Arrays are of one type, whatever values are: `at`, two elements, and `num`, NaN where no
    number goes along.

    work   values that may be computed, then ValueBudgetExceeded is raised; None: any number        spent   so many were
    """

    def __init__(self, seed: int = 0, chooses: bool = False, work: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.chooses = chooses
        self.work = work
        self.spent = 0

    def _spend(self, values: int) -> None:
        """A call of NumPy takes as long as some hundred values."""
        self.spent += values + _CALL
        if self.work is not None and self.spent > self.work:
            raise ValueBudgetExceeded(self.spent)

    def inputs(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Elements that have nothing to do with each other."""
        out = np.empty(shape, _TYPE)
        out["at"] = self.rng.integers(2, P, (*shape, _LANES))
        out["num"] = np.nan
        if self.chooses:
            low, high = (0, 2) if dtype.kind == "bool" else (1 if dtype.kind == "uint" else -60, 61)
            out["num"] = self.rng.integers(low, high, shape)
        return out

    # ------------------------------------------------------------ storage

    def storage(self, dtype: DType) -> np.dtype:
        return _TYPE

    def poison(self, dtype: DType, count: int) -> Array:
        out = self.inputs(dtype, (count,))
        out["num"] = np.nan
        return out

    def same(self, a: Array, b: Array) -> np.ndarray:
        return (a["at"] == b["at"]).all(-1)

    # ------------------------------------------------------------ values

    def constant(self, value: int | float | bool, dtype: DType) -> Array:
        out = np.empty((), _TYPE)
        out["at"], out["num"] = field_element(value), float(value)
        return out

    def number(self, index: Any, dtype: DType) -> Array:
        whole = np.asarray(index, np.int64)
        out = np.empty(whole.shape, _TYPE)
        out["at"], out["num"] = (whole % P)[..., None], whole
        return out

    def cast(self, x: Array, src: DType, dst: DType) -> Array:
        x = np.asarray(x)
        self._spend(x.size)
        if src == dst or (dst.kind == "float") or (src.kind != "float" and dst.kind != "bool") or src.kind == dst.kind:
            return x
        return self._function("nonzero" if dst.kind == "bool" else "integer", (x,), np.trunc(x["num"]))

    def apply(self, fn: str, args: tuple[Array, ...], dtype: DType) -> Array:
        args = tuple(np.asarray(a) for a in args)
        self._spend(max(a.size for a in args))
        if fn == "where":
            return self._where(*args)
        known: Any = True
        for a in args:
            known = known & ~np.isnan(a["num"])
        num = np.full(np.shape(known), np.nan)
        if np.any(known):
            with np.errstate(all="ignore"):
                num = apply(fn, tuple(a["num"] for a in args), TYPES["bool" if dtype.kind == "bool" else "f64"])
            num = np.where(known, num, np.nan)
        if fn in _SCALE:
            return self._extreme(fn, args[0], args[1], num, dtype)
        exact = _field(fn, [a["at"] for a in args])
        return self._function(fn, args, num) if exact is None else _made(exact, num)

    def choice(self, x: Array) -> np.ndarray:
        """What is read of an instruction's operand: all that a choice by data may want."""
        return np.where(np.isnan(x["num"]), True, x["num"] != 0)

    def reduce(self, kind: str, x: Array, axes: tuple[int, ...], before: Array | None, src: DType, dst: DType) -> Array:
        fn = _COMBINE[kind]
        kept = [d for d in range(x.ndim) if d not in axes]
        flat = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
        parts = [flat[..., i] for i in range(flat.shape[-1])]
        if before is not None:
            parts.append(before)
        out = parts[0]
        for part in parts[1:]:
            out = self.apply(fn, (out, part), src)
        return out

    def better(self, kind: str, value: Array, index: Array, best: Array, where: Array) -> np.ndarray:
        wins = value["num"] > best["num"] if kind == "argmax" else value["num"] < best["num"]
        return wins | ((value["num"] == best["num"]) & (index["num"] < where["num"]))

    def has_unordered(self, values: Array) -> bool:
        """Whether some are no numbers: choices between them are not those of floats, whose first NaN wins."""
        return bool(np.isnan(values["num"]).any())

    # ------------------------------------------------------------ functions

    def _where(self, cond: Array, one: Array, other: Array) -> Array:
        cond, one, other = np.broadcast_arrays(cond, one, other)
        taken = cond["num"]
        out = self._function("where", (cond, one, other), np.full(cond.shape, np.nan))
        yes, no = taken == 1, taken == 0
        out[yes], out[no] = one[yes], other[no]
        return out

    def _extreme(self, fn: str, a: Array, b: Array, num: Array, dtype: DType) -> Array:
        first = _IDENTITY[fn]
        a, b = np.broadcast_arrays(a, b)
        x, y = (a["at"] - first) % P, (b["at"] - first) % P
        out = _made((first + x + y + x * y % P * _SCALE[fn]) % P, num)
        mine, theirs = (_rank(x, _neutral(fn, dtype)) for x in (a, b))
        out[mine > 0], out[theirs > 0] = b[mine > 0], a[theirs > 0]
        both = (mine > 0) & (theirs > 0)
        out[both] = np.where(mine >= theirs, a, b)[both]
        return out

    def _function(self, fn: str, args: tuple[Array, ...], num: Array) -> Array:
        """A random function of this name; of constants, where it is one of whole numbers or says what is true, itself."""
        if fn in ("gt", "ge"):
            fn, args = ("lt" if fn == "gt" else "le"), args[::-1]
        at: Any = np.uint64(crc32(fn.encode()) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
        constant: Any = True
        for a in args:
            at = _mixed(at ^ (a["at"].astype(np.uint64) * np.uint64(0xFF51AFD7ED558CCD)))
            constant = constant & (a["at"] == a["at"][..., :1]).all(-1)
        at = (at % np.uint64(P)).astype(np.int64)
        if fn in (*_OF_CONSTANTS, "integer", "nonzero"):
            number = np.where(np.isfinite(num) & (np.abs(num) < 2**53), num, 0)
            exact = constant & np.isfinite(num) & (np.trunc(number) == number)
            at = np.where(np.asarray(exact)[..., None], (number.astype(np.int64) % P)[..., None], at)
        return _made(at, num)


def _field(fn: str, x: list[np.ndarray]) -> np.ndarray | None:
    match fn:
        case "add":
            return (x[0] + x[1]) % P
        case "sub":
            return (x[0] - x[1]) % P
        case "mul":
            return x[0] * x[1] % P
        case "fma":
            return (x[0] * x[1] + x[2]) % P
        case "neg":
            return -x[0] % P
        case "div":
            return x[0] * _inverse(x[1]) % P
    return None


def _inverse(x: np.ndarray) -> np.ndarray:
    """x to the power of p - 2; of 0 it is 0."""
    out, left = np.ones_like(x), P - 2
    while left:
        if left & 1:
            out = out * x % P
        x, left = x * x % P, left >> 1
    return out


def _mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _made(at: np.ndarray, num: Any) -> Array:
    shape = np.broadcast_shapes(at.shape[:-1], np.shape(num))
    out = np.empty(shape, _TYPE)
    out["at"], out["num"] = at, num
    return out


@lru_cache(maxsize=64)
def _neutral(fn: str, dtype: DType) -> tuple[int | float, ...]:
    """What the operation begins with in some type, the weakest first."""
    if fn in ("or", "and"):
        return (int(fn == "and"),)
    if dtype.kind == "float":
        return (float("-inf" if fn == "max" else "inf"),)
    return tuple(sorted((*_LOWEST, 0)) if fn == "max" else sorted(_HIGHEST, reverse=True))


def _rank(x: Array, numbers: tuple[int | float, ...]) -> np.ndarray:
    """From 1 on, by its place among the numbers; 0 for others.

    An element alone does not tell: other numbers are the same modulo p. The number that goes along alone does not either: an
    input may happen to be this number, and its element is random.
    """
    out = np.zeros(x.shape, np.int64)
    for n, number in enumerate(numbers, 1):
        out[(x["num"] == float(number)) & (x["at"] == field_element(number)).all(-1)] = n
    return out
