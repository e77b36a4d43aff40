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

_AT_ZERO = ("div", "reciprocal", "rsqrt", "log", "log2")  # they have no finite value where their last argument is 0
_SOME = 2.0  # number: that stands for one that is finite and not known, arbitrary [fact: marker]
_ABSORBS = {"max": np.inf, "min": -np.inf}


def with_special_values(fn: str, args: tuple[Array, ...], out: Array) -> Array:
    """`out`, the value of a function of floats, where the arguments make it infinite, NaN or 0. Changes it in place."""
    if not may_be_special(args) and not np.isinf(out["num"]).any():
        return out
    infinite = _any([np.isinf(a["num"]) for a in args])
    if fn in ("mul", "div", "scaled"):
        _zeros(fn, args, out)
    if infinite.any():
        if fn in _ABSORBS:
            known = _any([a["num"] == _ABSORBS[fn] for a in args])
            out["num"][np.broadcast_to(known, out.shape)] = _ABSORBS[fn]
        elif fn in ("add", "sub"):
            _absorbed(fn, args, out)
    poles = _is_zero(args[-1]) if fn in _AT_ZERO else np.False_
    some = (infinite | poles) & ~_any([np.isnan(a["num"]) for a in args])
    if fn not in _ABSORBS and some.any():
        _set(out, np.broadcast_to(some, out.shape), out["num"].copy())
    out["num"][np.isinf(out["num"]) & ~infinite & ~poles & is_constant(out)] = np.nan  # OVERFLOW
    nothing = _any([is_nan(a) for a in args])
    if nothing.any():
        _set(out, np.broadcast_to(nothing & np.isnan(_number(fn, args, "f64")), out.shape), np.full(out.shape, np.nan))
    return out


def may_be_special(args: tuple[Array, ...]) -> bool:
    """Whether some argument is infinite, NaN or 0, or looks so: most have none, and the rest of this file takes long."""
    for a in args:
        num = a["num"]
        if ((num == 0) | np.isinf(num) | (a["at"][..., 0] == NO_NUMBER)).any():
            return True
    return False


def compared(fn: str, args: tuple[Array, ...], num: np.ndarray) -> tuple[np.ndarray, Any]:
    """What a comparison says, also of an infinity and what is finite, and of NaN; and where this needs no constants."""
    known = with_infinity(args) | _any([is_nan(a) for a in args])
    return (np.where(known, _number(fn, args, "bool"), num) if known.any() else num), known


def with_infinity(args: tuple[Array, ...]) -> np.ndarray:
    """Where one of two arguments is infinite, and the other one is no number that is known: it is finite."""
    mine, theirs = (np.isinf(a["num"]) for a in args)
    unknown, its = (np.isnan(a["num"]) & ~is_nan(a) for a in args)
    return (mine & its) | (theirs & unknown)


def is_nan(x: Array) -> np.ndarray:
    """An element alone does not tell, as it may be one by chance: a number that goes along tells that it is."""
    return is_element(x, NO_NUMBER) & np.isnan(x["num"])


def _number(fn: str, args: tuple[Array, ...], dtype: str) -> np.ndarray:
    """The number that the function gives, where those that are not known are some finite ones."""
    some = (np.where(np.isnan(a["num"]) & ~is_nan(a), _SOME, a["num"]) for a in args)
    return apply(fn, tuple(some), TYPES[dtype])


def _any(masks: list[np.ndarray]) -> np.ndarray:
    out: Any = masks[0]
    for mask in masks[1:]:
        out = out | mask
    return out


def _is_zero(x: Array) -> np.ndarray:
    return (x["num"] == 0) & is_element(x, 0)


def _zeros(fn: str, args: tuple[Array, ...], out: Array) -> None:
    """ZERO, where the other argument is finite and not known, or is a correction."""
    a, b = args
    zero = _is_zero(a) & np.isnan(b["num"]) & ~is_nan(b)
    if fn == "scaled":
        zero = _is_zero(a)
    if fn == "mul":
        zero = zero | (_is_zero(b) & np.isnan(a["num"]) & ~is_nan(a))
    if zero.any():
        _set(out, np.broadcast_to(zero, out.shape), np.zeros(out.shape))


def _absorbed(fn: str, args: tuple[Array, ...], out: Array) -> None:
    mine, its = (np.where(np.isinf(a["num"]), a["num"], 0.0) for a in args)
    with np.errstate(invalid="ignore"):
        total = np.broadcast_to(mine - its if fn == "sub" else mine + its, out.shape)
    _set(out, np.broadcast_to(with_infinity(args), out.shape), total)


def _set(out: Array, where: np.ndarray, numbers: np.ndarray) -> None:
    """Constants in some places. There may be many, of few numbers: NaN, infinities and zeros."""
    if not where.any():
        return
    constants = numbers[where]
    distinct, which = np.unique(constants, return_inverse=True)
    for name, p in (("at", P), ("ex", Q)):
        out[name][where] = np.array([field_element(float(x), p) for x in distinct])[which, None]
    out["num"][where] = constants
