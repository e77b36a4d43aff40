"""Values that count: each element of an input is a random element of a finite field, and so is every computed value.

A program and its op are polynomials over these elements. Two different ones agree at a random point with a probability of about
degree / p, independently in each of two lanes (Schwartz 1980, Zippel 1979): below 1e-15 for any program here. A term that is
added twice, or never, gives another polynomial, and neither rounding, cancellation nor a maximum hides the difference:

    + - * / fma, sum, prod     are the field's, as is `scaled`; constants and indices are themselves, as is `above_zero`
    max min or and             are commutative and associative operations of their own that are not idempotent: with e the
                               identity, 1 + s (a op b - e) = (1 + s (a - e)) (1 + s (b - e)) for a random s
    exp exp2                   turn sums into products, as they do for numbers (EXPONENTS)
    pow                        of whole numbers the field's; else it turns sums in the exponent into products
    sqrt rsqrt                 those of the field for squares, and of a product the product of those of its factors (ROOTS)
    every other function       a random function: equal only for equal arguments
    casts between numbers      are left out: rounding is not checked here

EXPONENTS   exp(a + b) = exp(a) exp(b), so what is multiplied by a correction equals what was computed at once. The exponents
         of an element of order q count modulo q. So each value is a random element of that field as well, and exp makes a
         power with it (Mirage, OSDI 2025, verifies programs with one exponential in this way). The results of exp have no
         exponent: an exp of them is a random function again. But an extreme of them has one, and its distance to one of them:
         there each has a random one of its own, a function of its element.

SPECIAL  Infinities and NaN are those of numbers, since rows of which nothing counts are made of them (`special_values`).

ROOTS    Modulo a prime p of the form 4 n + 3, x to the power of (p + 1) / 4 is a root of each square x. As a power it is taken
         of each factor of a product, so what a root corrects equals what was computed at once. No more than two elements have
         the same power.

CHOSEN   A choice by data, as in argmax, compares numbers that accompany the field elements (`Points(chooses=True)`): all inputs
         then are small random integers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from ...dsl.semantics.numerics import apply
from ...dsl.types import TYPES, DType
from ...dsl.values import COMPARISONS
from ..interpret.domain import Array, picked, put
from .field_arithmetic import (
    INFINITE,
    LANES,
    NO_EXPONENTS,
    OF_BOTH_FIELDS,
    VALUE,
    P,
    Q,
    exponents_of,
    field_element,
    field_function,
    field_values,
    in_all_lanes,
    in_both_fields,
    is_constant,
    is_element,
    lanes,
    mixed,
    power_of,
    raised_to,
    set_lanes,
    whole_numbers,
)
from .special_values import compared, may_be_special, with_special_values

# field elements: of order Q, of which exp and exp2 make powers [fact: arithmetic]
_BASES = {"exp": 4, "exp2": 9}
# values: the work that one operation counts for, besides its values [estimate;
# test_an_operation_costs_as_much_as_some_hundred_values]
_CALL = 200
# field element: that a reduction multiplies by, arbitrary [fact: marker]
_SCALE = {"max": 0x3C6EF372, "min": 0x1A541FF5, "or": 0x510E527F, "and": 0x1F83D9AB}
_IDENTITY = {"or": 0, "and": 1, "max": P - INFINITE, "min": INFINITE}  # for all types the same
# What max and min of some type begin with: their results are the other operand.
_LOWEST = (float("-inf"), -8, -(1 << 7), -(1 << 15), -(1 << 31), -(1 << 63))
_HIGHEST = (float("inf"), 7, (1 << 7) - 1, 255, (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1)
_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_OF_CONSTANTS = (
    *("lt", "le", "gt", "ge", "eq", "ne", "not", "floordiv", "mod", "abs", "floor", "ceil", "round", "trunc"),
    *("integer", "nonzero"),
)
_NO_NUMBERS = np.array(np.nan)


class ValueBudgetExceeded(Exception):
    """More values were computed than was allowed."""

    def __init__(self, spent: int) -> None:
        super().__init__(f"more than {spent} values")
        self.spent = spent


class FieldDomain:
    """The domain (`interpret.domain`). Arrays are of one type, whatever values are: `at`, two elements; `ex`, two exponents, -1
    for none; and `num`, NaN where no number goes along.

    work   values that may be computed, then ValueBudgetExceeded is raised; None: any number        spent   so many were
    powers   whether something is an exponent: without exponents all else is faster
    strict   whether values that are only stored, units and iterations count as computed values, so that memory is bounded
    """

    def __init__(
        self, seed: int = 0, chooses: bool = False, work: int | None = None, powers: bool = True, strict: bool = False
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.chooses, self.powers = chooses, powers
        self.work = work
        self.spent = 0
        self.strict = strict

    def visit(self, count: int) -> None:
        """See `interpret.domain`. Raises ValueBudgetExceeded before anything is made."""
        if self.strict:
            self.spend(count)

    def spend(self, values: int) -> None:
        """Raises ValueBudgetExceeded before they are computed."""
        self.spent += values
        if self.work is not None and self.spent > self.work:
            raise ValueBudgetExceeded(self.spent)

    def inputs(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Elements that have nothing to do with each other."""
        self.visit(prod(shape))
        at = self.rng.integers(2, P, (*shape, LANES))
        out = field_values(at, np.nan, exponents_of(at))
        if self.chooses:
            low, high = (0, 2) if dtype.kind == "bool" else (1 if dtype.kind == "uint" else -60, 61)
            out["num"] = self.rng.integers(low, high, shape)
        return out

    # ------------------------------------------------------------ storage

    def storage(self, dtype: DType) -> np.dtype:
        return VALUE

    def poison(self, dtype: DType, count: int) -> Array:
        out = self.inputs(dtype, (count,))
        out["num"] = np.nan
        return out

    def same(self, a: Array, b: Array) -> np.ndarray:
        return in_all_lanes(a["at"] == b["at"])

    # ------------------------------------------------------------ values

    def constant(self, value: int | float | bool, dtype: DType) -> Array:
        out = np.empty((), VALUE)
        out["at"], out["ex"], out["num"] = field_element(value), field_element(value, Q), float(value)
        return out

    def number(self, index: Any, dtype: DType) -> Array:
        whole = np.asarray(index, np.int64)
        return whole_numbers(whole, whole)

    def cast(self, x: Array, src: DType, dst: DType) -> Array:
        x = np.asarray(x)
        self.spend(x.size + _CALL)
        if src == dst or (dst.kind == "float") or (src.kind != "float" and dst.kind != "bool") or src.kind == dst.kind:
            return x
        return self._function("nonzero" if dst.kind == "bool" else "integer", (x,), np.trunc(x["num"]))

    def apply(self, fn: str, args: tuple[Array, ...], dtype: DType) -> Array:
        args = tuple(np.asarray(a) for a in args)
        self.spend(max(a.size for a in args) + _CALL)
        if fn == "where":
            return self._where(*args)
        if fn == "fma" and may_be_special(fn, args):  # an infinity may be the product, or what is added
            product = self._value("mul", args[:2], dtype)
            return self._value("add", (product, args[2]), dtype)
        return self._value(fn, args, dtype)

    def choice(self, x: Array) -> np.ndarray:
        """What is read of an instruction's operand: all that a choice by data may want."""
        return np.where(np.isnan(x["num"]), True, x["num"] != 0)

    def reduce(self, kind: str, x: Array, axes: tuple[int, ...], before: Array | None, src: DType, dst: DType) -> Array:
        fn = _COMBINE[kind]
        kept = [d for d in range(x.ndim) if d not in axes]
        reduced_last = x.transpose(*kept, *axes)
        parts = [reduced_last[(..., *at)] for at in np.ndindex(*(x.shape[d] for d in axes))]
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

    def _value(self, fn: str, args: tuple[Array, ...], dtype: DType) -> Array:
        num = _numbers(fn, args, dtype)
        if fn == "sub" and self.powers and any(np.count_nonzero(a["ex"] >= 0) for a in args):
            args = tuple(map(_with_exponents, args))
        if fn in _SCALE:
            out = self._extreme(fn, args[0], args[1], num, dtype)
        elif fn in _BASES:
            out = self._power(fn, args[0], num)
        elif fn == "pow":
            out = self._raised(args[0], args[1], num)
        elif fn in OF_BOTH_FIELDS and self.powers:
            out = in_both_fields(lambda x, p: field_function(fn, x, p), args, num)
            _lose_exponents(args, out)
        elif (exact := field_function(fn, [a["at"] for a in args], P)) is not None:
            out = field_values(exact, num, _exponents(fn, args) if self.powers else NO_EXPONENTS)
        else:
            out = self._function(fn, args, num)
        return with_special_values(fn, args, out) if dtype.kind == "float" else out

    def _power(self, fn: str, x: Array, num: np.ndarray) -> Array:
        """EXPONENTS"""
        exponents = lanes(x, "ex")
        some = in_all_lanes(exponents >= 0)
        if np.count_nonzero(some) == some.size:
            return field_values(power_of(_BASES[fn], exponents), num, NO_EXPONENTS)
        out = self._function(fn, (x,), num)
        if np.count_nonzero(some):
            power = power_of(_BASES[fn], np.maximum(exponents, 0))
            set_lanes(out, "at", np.where(some[..., None], power, lanes(out, "at")))
            set_lanes(out, "ex", np.where(some[..., None], NO_EXPONENTS, lanes(out, "ex")))
        return out

    def _raised(self, x: Array, y: Array, num: np.ndarray) -> Array:
        """`pow`: with EXPONENTS of y, times an exponent that stands for the logarithm of x."""
        out = self._function("pow", (x, y), num)
        exponents = lanes(y, "ex")
        some = in_all_lanes(exponents >= 0)[..., None]
        logarithm = exponents_of(lanes(x, "at"))
        power = power_of(_BASES["exp"], np.maximum(exponents, 0) * logarithm % Q)
        at = np.where(some, power, lanes(out, "at"))
        ex = np.where(some, NO_EXPONENTS, lanes(out, "ex"))
        whole = is_constant(y) & (np.abs(y["num"]) < 2**31) & (y["num"] == np.trunc(y["num"]))
        if whole.any():
            k = np.where(whole, y["num"], 0).astype(np.int64)[..., None]
            own, of_whole = lanes(x, "ex"), whole[..., None]
            at = np.where(of_whole, raised_to(lanes(x, "at"), k, P), at)
            ex = np.where(of_whole, np.where(own >= 0, raised_to(np.maximum(own, 0), k, Q), -1), ex)
        return field_values(at, num, ex)

    def _where(self, cond: Array, one: Array, other: Array) -> Array:
        cond, one, other = _alike(cond, one, other)
        taken = cond["num"]
        yes, no = taken == 1, taken == 0
        if np.count_nonzero(yes) + np.count_nonzero(no) == taken.size:
            out = np.empty(cond.shape, VALUE)
        else:
            out = self._function("where", (cond, one, other), np.full(cond.shape, np.nan))
        put(out, yes, picked(one, yes))
        put(out, no, picked(other, no))
        return out

    def _extreme(self, fn: str, a: Array, b: Array, num: Array, dtype: DType) -> Array:
        a, b = _alike(*(map(_with_exponents, (a, b)) if self.powers else (a, b)))
        if self.powers:
            out = in_both_fields(lambda x, p: _combined(fn, x[0], x[1], p), (a, b), num)
        else:
            out = field_values(_combined(fn, a["at"], b["at"], P), num, NO_EXPONENTS)
        mine, theirs = (_rank(x, _neutral(fn, dtype)) for x in (a, b))
        if np.count_nonzero(mine) or np.count_nonzero(theirs):
            is_a = (theirs > 0) & ((mine == 0) | (mine >= theirs))
            is_b = (mine > 0) & ~is_a
            put(out, is_a, picked(a, is_a))
            put(out, is_b, picked(b, is_b))
        return out

    def _function(self, fn: str, args: tuple[Array, ...], num: Array) -> Array:
        """A random function of this name; of constants, where it is one of whole numbers or says what is true, itself."""
        known: Any = np.False_
        if fn in COMPARISONS:
            num, known = compared(fn, args, num)
        if fn in ("gt", "ge"):
            fn, args = ("lt" if fn == "gt" else "le"), args[::-1]
        said: Any = np.False_
        whole: Any = 0
        if fn in _OF_CONSTANTS and np.count_nonzero(num == num):
            constants: Any = True
            for a in args:
                constants = constants & is_constant(a)
            finite = np.isfinite(num)
            number = np.where(finite & (np.abs(num) < 2**53), num, 0)
            whole = number.astype(np.int64)
            said = (known | constants) & finite & (whole == number)
            if np.count_nonzero(said) == said.size:
                return whole_numbers(*np.broadcast_arrays(whole, num))
        at: Any = _seed(fn)
        for a in args:
            at = mixed(at ^ (a["at"].view(np.uint64) * np.uint64(0xFF51AFD7ED558CCD)))
        at = (at % np.uint64(P)).astype(np.int64)
        out = field_values(at, num, exponents_of(at) if self.powers else NO_EXPONENTS)
        if np.count_nonzero(said):
            put(out, said, picked(whole_numbers(*np.broadcast_arrays(whole, num)), said))
        return out


@cache
def _seed(fn: str) -> np.uint64:
    return np.uint64(crc32(fn.encode()) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)


def _alike(*arrays: Array) -> Sequence[Array]:
    """Broadcast, if need be."""
    return arrays if len({a.shape for a in arrays}) == 1 else np.broadcast_arrays(*arrays)


def _numbers(fn: str, args: tuple[Array, ...], dtype: DType) -> np.ndarray:
    """The number that goes along with a function's value, where all arguments have one; NaN elsewhere."""
    known: Any = True
    for a in args:
        num = a["num"]
        known = known & (num == num)
        if not np.count_nonzero(known):  # of most values
            return _NO_NUMBERS
    return np.where(known, apply(fn, [a["num"] for a in args], TYPES["bool" if dtype.kind == "bool" else "f64"]), np.nan)


def _with_exponents(x: Array) -> Array:
    """EXPONENTS: results of exp with some."""
    exponents = x["ex"]
    if not np.count_nonzero(none := exponents < 0):
        return x
    at = lanes(x, "at")
    return field_values(at, x["num"], np.where(none, exponents_of(at), exponents))


def _lose_exponents(args: tuple[Array, ...], out: Array) -> None:
    """Where an argument has none, its function has none."""
    for a in args:
        if np.count_nonzero(none := a["ex"] < 0):
            np.copyto(out["ex"], -1, where=none)


def _exponents(fn: str, args: tuple[Array, ...]) -> np.ndarray:
    """Those of a function of the field, where all arguments have some; -1 elsewhere."""
    given = [lanes(a, "ex") for a in args]
    some: Any = True
    for exponents in given:
        some = some & (exponents >= 0)
    if not some.any():
        return NO_EXPONENTS
    found: Any = field_function(fn, given, Q)
    return np.where(some, found, -1)


def _combined(fn: str, x: np.ndarray, y: np.ndarray, p: Any) -> np.ndarray:
    """A maximum, minimum, `or` or `and` in the field of p elements."""
    first = _IDENTITY[fn]
    x, y = (x - first) % p, (y - first) % p
    return (first + x + y + x * y % p * _SCALE[fn]) % p


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
        here = x["num"] == float(number)
        if np.count_nonzero(here):
            out[here & is_element(x, field_element(number))] = n
    return out
