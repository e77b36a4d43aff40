"""The value of an expression where some of its loads are infinite: a number, or what is known of its sign and size.

Other loads are taken as finite. The factor of a running maximum is looked at in this way: before the first element that counts
the maximum is -inf, where `exp(s - m)` is no number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value, copied

INF = float("inf")
_SOME = 1.0  # number: that stands for one above 0, arbitrary [fact: marker]


class Kind(Enum):
    """What is known of a value that is no constant: `POSITIVE` may be infinite, `ANY` may be NaN as well.

    That finite values overflow is not looked at. That products and quotients of those above 0 become 0 is.
    """

    FINITE = "finite"
    NONNEGATIVE = "finite, 0 or more"
    ABOVE_ZERO = "finite, more than 0"
    POSITIVE = "more than 0"
    ANY = "anything"


Limit = float | Kind
_FINITE = (Kind.FINITE, Kind.NONNEGATIVE, Kind.ABOVE_ZERO)


def limit(value: Value, known: Callable[[Value], Limit | None]) -> Limit:
    """`known`: the limit of some parts of the value; None for others."""
    return _limit(copied(value), known)


def _limit(v: Value, known: Callable[[Value], Limit | None]) -> Limit:
    here = known(v)
    if here is not None:
        return here
    match v:
        case Const():
            return float(v.value)
        case IndexValue():
            low, high = v.expr.interval
            return (
                float(low) if low is not None and low == high else Kind.FINITE if low is None or low < 0 else Kind.NONNEGATIVE
            )
        case Load():
            return Kind.FINITE
        case Cast():
            found = _limit(v.arg, known) if v.dtype.kind == "float" else Kind.ANY
            narrows = v.arg.dtype.bits > v.dtype.bits
            return Kind.NONNEGATIVE if found is Kind.ABOVE_ZERO and narrows else found
        case Masked(value=u, otherwise=w):
            return _either(_limit(u, known), _limit(w, known))
        case Apply(fn="where", args=(cond, u, w)):
            chosen = _limit(cond, known)
            if isinstance(chosen, float):
                return _limit(u if chosen else w, known)
            return _either(_limit(u, known), _limit(w, known))
        case Apply():
            args = [_limit(a, known) for a in v.args]
            if any(isinstance(a, float) and math.isnan(a) for a in args):
                return Kind.ANY if v.fn in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not") else math.nan
            found = _FUNCTIONS.get(v.fn)
            return found(*args) if found is not None else Kind.ANY
    return Kind.ANY


def _either(a: Limit, b: Limit) -> Limit:
    same = a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
    return a if same else Kind.ANY


def _infinite(a: Limit) -> bool:
    return isinstance(a, float) and math.isinf(a)


def _all_finite(*args: Limit) -> bool:
    return all(x in _FINITE or (isinstance(x, float) and math.isfinite(x)) for x in args)


def _above_zero(a: Limit) -> bool:
    """Of finite ones."""
    return 0 < a < INF if isinstance(a, float) else a is Kind.ABOVE_ZERO


def _zero_or_more(a: Limit) -> bool:
    """Of finite ones."""
    return 0 <= a < INF if isinstance(a, float) else a in (Kind.NONNEGATIVE, Kind.ABOVE_ZERO)


def _add(a: Limit, b: Limit) -> Limit:
    if isinstance(a, float) and isinstance(b, float):
        return a + b
    if _zero_or_more(a) and _zero_or_more(b):
        return Kind.ABOVE_ZERO if _above_zero(a) or _above_zero(b) else Kind.NONNEGATIVE
    for x, y in ((a, b), (b, a)):
        if _infinite(x):
            return x if y in _FINITE or isinstance(y, float) or (y is Kind.POSITIVE and x == INF) else Kind.ANY
    if Kind.ANY in (a, b):
        return Kind.ANY
    if a in _FINITE or isinstance(a, float):
        return Kind.FINITE if b in _FINITE or isinstance(b, float) else Kind.ANY
    return Kind.POSITIVE if b is Kind.POSITIVE else Kind.ANY


def _neg(a: Limit) -> Limit:
    return -a if isinstance(a, float) else Kind.FINITE if a in _FINITE else Kind.ANY


def _mul(a: Limit, b: Limit) -> Limit:
    if isinstance(a, float) and isinstance(b, float):
        return a * b if not (_infinite(a) and b == 0) and not (_infinite(b) and a == 0) else math.nan
    for x, y in ((a, b), (b, a)):
        if _infinite(x):
            return x if y in (Kind.POSITIVE, Kind.ABOVE_ZERO) else Kind.ANY
        if x == 0.0 and isinstance(x, float):
            return 0.0 if y in _FINITE else Kind.ANY
    positive = [x is Kind.POSITIVE or (isinstance(x, float) and x > 0) for x in (a, b)]
    if all(positive):
        return Kind.POSITIVE
    if _zero_or_more(a) and _zero_or_more(b):
        return Kind.NONNEGATIVE
    return Kind.FINITE if all(x in _FINITE or isinstance(x, float) for x in (a, b)) else Kind.ANY


def _div(a: Limit, b: Limit) -> Limit:
    if isinstance(b, float) and b != 0:
        if math.isinf(b):
            return math.nan if _infinite(a) else 0.0 if isinstance(a, float) or a in _FINITE else Kind.ANY
        return _mul(a, 1 / b)
    if isinstance(a, float) and a == 0 and b in (Kind.POSITIVE, Kind.ABOVE_ZERO):
        return 0.0
    if b is Kind.ABOVE_ZERO and a is not Kind.POSITIVE:
        return a if _infinite(a) or a is Kind.ANY else Kind.NONNEGATIVE if _zero_or_more(a) else Kind.FINITE
    return math.nan if a == b == 0.0 else Kind.ANY


def _exp(base: float) -> Callable[[Limit], Limit]:
    def of(a: Limit) -> Limit:
        if isinstance(a, float):
            return INF if a > 1e4 else 0.0 if a < -1e4 else base**a
        return Kind.ANY if a is Kind.ANY else Kind.POSITIVE

    return of


def _abs(a: Limit) -> Limit:
    return abs(a) if isinstance(a, float) else Kind.NONNEGATIVE if a is Kind.FINITE else a


def _extreme(choose: Callable[[float, float], float], wins: float) -> Callable[[Limit, Limit], Limit]:
    """`wins`: the infinity that is the result whatever the other operand is; the other one never is."""

    def of(a: Limit, b: Limit) -> Limit:
        if isinstance(a, float) and isinstance(b, float):
            return choose(a, b)
        for x, y in ((a, b), (b, a)):
            if _infinite(x) and y is not Kind.ANY:
                return x if x == wins else y
        for known, kind in ((_above_zero, Kind.ABOVE_ZERO), (_zero_or_more, Kind.NONNEGATIVE)):
            if all(map(known, (a, b))) or (wins == INF and any(map(known, (a, b))) and _all_finite(a, b)):
                return kind
        return Kind.FINITE if _all_finite(a, b) else Kind.ANY

    return of


def _compare(holds: Callable[[float, float], bool]) -> Callable[[Limit, Limit], Limit]:
    """With an infinity any finite number will do for the other operand, and one above 0 with what is not above it."""

    def of(a: Limit, b: Limit) -> Limit:
        a, b = (_SOME if x is Kind.ABOVE_ZERO and isinstance(y, float) and y <= 0 else x for x, y in ((a, b), (b, a)))
        if (_infinite(a) and b in _FINITE) or (_infinite(b) and a in _FINITE):
            a, b = (0.0 if x in _FINITE else x for x in (a, b))
        return float(holds(a, b)) if isinstance(a, float) and isinstance(b, float) else Kind.ANY

    return of


def _root(a: Limit) -> Limit:
    if isinstance(a, float):
        return math.sqrt(a) if a >= 0 else math.nan
    return a if a in (Kind.NONNEGATIVE, Kind.ABOVE_ZERO, Kind.POSITIVE) else Kind.ANY


def _rsqrt(a: Limit) -> Limit:
    if _above_zero(a):
        return Kind.ABOVE_ZERO
    if a in (Kind.NONNEGATIVE, Kind.POSITIVE) or (isinstance(a, float) and 0 <= a < INF):
        return Kind.POSITIVE if a is not Kind.POSITIVE else Kind.ANY
    return Kind.ANY


_FUNCTIONS: dict[str, Callable[..., Limit]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "neg": _neg,
    "abs": _abs,
    "mul": _mul,
    "div": _div,
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    "exp": _exp(math.e),
    "exp2": _exp(2.0),
    "max": _extreme(max, INF),
    "min": _extreme(min, -INF),
    "sqrt": _root,
    "rsqrt": _rsqrt,
    "lt": _compare(lambda a, b: a < b),
    "le": _compare(lambda a, b: a <= b),
    "gt": _compare(lambda a, b: a > b),
    "ge": _compare(lambda a, b: a >= b),
    "eq": _compare(lambda a, b: a == b),
    "ne": _compare(lambda a, b: a != b),
}
