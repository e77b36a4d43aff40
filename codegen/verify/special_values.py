"""Infinities, NaN and zeros among values that count: they are what they are for numbers, as far as that is known.

INFINITE   an infinity absorbs what is finite in a sum. Elements that are no constants are finite, and of unknown sign.
NO_NUMBER  what is no number for numbers is NaN (inf - inf, inf * 0, 0 / 0), and stays it. Else a row in which nothing counts
           would have a value in the field, and a pass, which gives NaN for it, would be wrong.
ZERO       what has a factor 0 is 0: the field says so, and the number that goes along as well.
EXTREMES   a maximum with inf counts its parts as any other, and the number that goes along is inf.
OVERFLOW   numbers of which a finite result is too large: the field counts on, the number is not known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dsl.semantics.numerics import apply
from ...dsl.types import TYPES
from ..interpret.domain import Array
from .field_arithmetic import NO_NUMBER, P, Q, field_element, is_constant, is_element

_AT_ZERO = ("div", "reciprocal", "rsqrt", "log", "log2", "above_zero")  # another formula holds where their last argument is 0
_PRODUCTS = ("mul", "div", "scaled")
_OF_ZERO = {*_AT_ZERO, *_PRODUCTS, "fma"}
_FEW = 64  # constants: of which looking for the distinct ones would take longer than to compute each [limit]
_SOME = 2.0  # number: that stands for one that is finite and not known, arbitrary [fact: marker]
_ABSORBS = {"max": np.inf, "min": -np.inf}


def with_special_values(fn: str, args: tuple[Array, ...], out: Array) -> Array:
    """`out`, the value of a function of floats, where the arguments make it infinite, NaN or 0. Changes it in place."""
    if not may_be_special(fn, args) and not np.count_nonzero(np.isinf(out["num"])):
        return out
    given = [_Kinds(a) for a in args]
    infinite = _any([g.infinite for g in given])
    if fn in _PRODUCTS:
        _zeros(fn, given, out)
    some_infinite = np.count_nonzero(infinite)
    if some_infinite and fn in _ABSORBS:
        known = _any([g.num == _ABSORBS[fn] for g in given])
        out["num"][np.broadcast_to(known, out.shape)] = _ABSORBS[fn]
    elif some_infinite and fn in ("add", "sub"):
        _absorbed(fn, given, out)
    poles = given[-1].zero if fn in _AT_ZERO else np.False_
    if fn not in _ABSORBS and (some_infinite or np.count_nonzero(poles)):
        _set(out, (infinite | poles) & ~_any([g.no_number for g in given]), out["num"].copy())
    if np.count_nonzero(too_large := np.isinf(out["num"]) & ~infinite & ~poles):  # OVERFLOW
        out["num"][too_large & is_constant(out)] = np.nan
    nothing = _any([g.nan for g in given])
    if np.count_nonzero(nothing):
        _set(out, nothing & np.isnan(_number(fn, given, "f64")), np.nan)
    return out


def may_be_special(fn: str, args: tuple[Array, ...]) -> bool:
    """Whether some argument is infinite, NaN or a 0 that matters, or looks so: most are not, and the rest here takes long."""
    for a in args:
        num = a["num"]
        if np.count_nonzero(a["at"][..., 0] == NO_NUMBER):
            return True
        if np.count_nonzero(num == num) and (
            np.count_nonzero(np.isinf(num)) or (fn in _OF_ZERO and np.count_nonzero(num == 0))
        ):
            return True
    return False


class _Kinds:
    """Which values of an argument are infinite, NaN, 0, or finite ones of which no number is known (`unknown`)."""

    def __init__(self, x: Array) -> None:
        self.num = x["num"]
        self.infinite = np.isinf(self.num)
        self.no_number = self.unknown = np.isnan(self.num)
        self.nan: Any = np.False_
        if np.count_nonzero(x["at"][..., 0] == NO_NUMBER):
            # An element alone does not tell, as it may be one by chance: a number that goes along tells that it is none.
            self.nan = is_element(x, NO_NUMBER) & self.no_number
            self.unknown = self.no_number & ~self.nan
        self._value = x

    @property
    def zero(self) -> np.ndarray:
        return (self.num == 0) & is_element(self._value, 0)


def compared(fn: str, args: tuple[Array, ...], num: np.ndarray) -> tuple[np.ndarray, Any]:
    """What a comparison says, also of an infinity and what is finite, and of NaN; and where this needs no constants."""
    if not may_be_special(fn, args):
        return num, np.False_
    given = [_Kinds(a) for a in args]
    known = _with_infinity(given) | _any([g.nan for g in given])
    return (np.where(known, _number(fn, given, "bool"), num) if np.count_nonzero(known) else num), known


def _with_infinity(given: list[_Kinds]) -> np.ndarray:
    """Where one of two arguments is infinite, and the other one is no number that is known: it is finite."""
    a, b = given
    return (a.infinite & b.unknown) | (b.infinite & a.unknown)


def _number(fn: str, given: list[_Kinds], dtype: str) -> np.ndarray:
    """The number that the function gives, where those that are not known are some finite ones."""
    return apply(fn, tuple(np.where(g.unknown, _SOME, g.num) for g in given), TYPES[dtype])


def _any(masks: list[np.ndarray]) -> np.ndarray:
    out: Any = masks[0]
    for mask in masks[1:]:
        out = out | mask
    return out


def _zeros(fn: str, given: list[_Kinds], out: Array) -> None:
    """ZERO, where the other argument is finite and not known, or is a correction."""
    a, b = given
    zero = a.zero if fn == "scaled" else a.zero & b.unknown
    if fn == "mul":
        zero = zero | (b.zero & a.unknown)
    _set(out, zero, 0.0)


def _absorbed(fn: str, given: list[_Kinds], out: Array) -> None:
    where = _with_infinity(given)
    if not np.count_nonzero(where):
        return
    mine, its = (np.where(g.infinite, g.num, 0.0) for g in given)
    with np.errstate(invalid="ignore"):
        _set(out, where, mine - its if fn == "sub" else mine + its)


def _set(out: Array, where: np.ndarray, numbers: Any) -> None:
    """Constants in some places; both are broadcast. There may be many, of few numbers: NaN, infinities and zeros."""
    if not np.count_nonzero(where):
        return
    where = np.broadcast_to(where, out.shape)
    constants = np.broadcast_to(numbers, out.shape)[where]
    few = len(constants) <= _FEW
    distinct, which = (constants, slice(None)) if few else np.unique(constants, return_inverse=True)
    for name, p in (("at", P), ("ex", Q)):
        out[name][where] = np.array([field_element(x, p) for x in distinct.tolist()])[which, None]
    out["num"][where] = constants
