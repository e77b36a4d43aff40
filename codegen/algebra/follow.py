"""Whether a reduction can follow another one over the same index, and the correction that this takes.

A *statistic* is a reduction a = combine(t) f[t]. A *dependent* reduction reads it: b = sum(t) F(x[t], a). In one pass over t, F
is evaluated at the running value of a. When a becomes a', the partial result b is corrected:

    b' = b * C(a, a')   is right where   F(x, a') = F(x, a) * C(a, a')   for every x

C may not depend on t. Two functions decide this and give C. They call each other:

    scale(v)   c with v' = v * c, where v' is v at the new statistic      shift(v)   c with v' = v + c
    a          a' / a                                                     a          a' - a
    u*w, u/w   scale(u) * scale(w), scale(u) / scale(w)                   u+w, u-w   shift(u) + shift(w), shift(u) - shift(w)
    exp(u)     exp(shift(u))                                              log(u)     log(scale(u))
    pow(u, w)  pow(u, shift(w)), if u is the same for all t
    u+w        scale(u), if it is scale(w)                                u*w        shift(u) * w, if w is the same for all t
    max(u, w)  scale(u), if it is scale(w) and positive                   max(u, w)  shift(u), if it is shift(w)
    else       v' / v, if v is positive, and the same for all t           else       v' - v, as there

A sum is corrected by a factor, a maximum or minimum by a term: addition distributes over these.

The index of a row may have the role of the statistic, as in `exp(g[i] - g[t])`: a' and a are then what two rows read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...dsl.support.fast_replace import replace
from ...dsl.types import DType
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value, children, copied, loads, transform

_ROUNDING = ("floor", "ceil", "round", "trunc")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_POSITIVE = ("exp", "exp2")
_NONNEGATIVE = ("abs", "relu", "sqrt", "sigmoid", "exp", "exp2")


class DoesNotFollow(Exception):
    """The reason in words, as the end of a sentence that begins with the reduction's name."""


class _NotAlike(DoesNotFollow):
    """Of a sum or a difference. Where that is a factor, the sentence says so."""


@dataclass(frozen=True)
class Statistic:
    """The running value of a reduction.

    body       what it combines      nonnegative   whether its value is never below 0
    previous   the load of its value before the new elements, from the load of its value after them
    """

    body: Value
    previous: Callable[[Load], Load]
    nonnegative: bool = False


@dataclass(frozen=True)
class Correction:
    """`fn`: how the partial result takes the value: "mul" or "add"."""

    fn: str
    value: Value


def correction(
    kind: str, value: Value, statistics: dict[str, Statistic], reduced: frozenset[str], noun: str = "running value"
) -> Correction:
    """The correction of a reduction of `value`, as its statistics change. Raises DoesNotFollow.

    kind         of the reduction           reduced   the indices that it goes over, of which the correction is free
    statistics   by the name that `value` loads them by, at indices that are not reduced
    noun         what a statistic is called in reasons
    """
    value = copied(value)
    if kind == "sum":
        found = _Derivation(statistics, reduced, noun).scale(value)
        return Correction("mul", Const(1, value.dtype) if found is None else found)
    if kind in ("max", "min"):
        found = _Derivation(statistics, reduced, noun).shift(value)
        return Correction("add", Const(0, value.dtype) if found is None else found)
    raise DoesNotFollow(f"is a `{kind}`, and partial results of that have no correction")


def is_nonnegative(v: Value, known: Callable[[Load], bool] = lambda load: False) -> bool:
    """Whether a value is never below 0 (NaN aside), by its operators. `known`: loads that are not."""
    match v:
        case Const():
            return v.value >= 0
        case Load():
            return known(v)
        case Cast():
            return is_nonnegative(v.arg, known)
        case Apply() if v.dtype.kind != "float":  # integers wrap
            return False
        case Apply(fn="div", args=(u, w)):  # by -0 it is
            return is_nonnegative(u, known) and isinstance(w, Const) and w.value > 0
        case Apply(fn="where", args=(_, u, w)):
            return is_nonnegative(u, known) and is_nonnegative(w, known)
        case Apply(fn="mul", args=(u, w)) if u == w:
            return True
        case Apply(fn="mul" | "add" | "min", args=(u, w)):
            return is_nonnegative(u, known) and is_nonnegative(w, known)
        case Apply(fn="max", args=(u, w)):
            return is_nonnegative(u, known) or is_nonnegative(w, known)
        case Apply():
            return v.fn in _NONNEGATIVE
    return False


class _Derivation:
    """`None` stands for what does not change: the factor 1, the term 0."""

    def __init__(self, statistics: dict[str, Statistic], reduced: frozenset[str], noun: str) -> None:
        self.statistics, self.reduced, self.noun = statistics, reduced, noun

    # ------------------------------------------------------------ what varies

    def varies(self, v: Value) -> bool:
        """Whether the value reads a statistic."""
        return any(load.tensor in self.statistics for load in loads(v))

    def _indices(self, v: Value) -> set[str]:
        match v:
            case Load():
                own = {x.name for e in v.indices for x in e.variables()}
            case IndexValue():
                own = {x.name for x in v.expr.variables()}
            case Masked():
                own = {x.name for c in v.conds for x in c.variables()}
            case _:
                own = set()
        return own.union(*map(self._indices, children(v)))

    def _statistic(self, load: Load) -> Statistic:
        both = self._indices(load) & self.reduced
        if both:
            index = sorted(both)[0]
            raise DoesNotFollow(f"reads a {self.noun} at each `{index}`, over which it goes itself")
        return self.statistics[load.tensor]

    def _free(self, v: Value) -> None:
        both = self._indices(v) & self.reduced
        if both:
            raise DoesNotFollow(f"shifts the {self.noun} by a factor that varies with `{sorted(both)[0]}`")

    def _positive(self, c: Value | None) -> bool:
        """Whether a value is more than 0, where it is a number at all, and where running values are not 0."""
        match c:
            case None:
                return True
            case Const():
                return c.value > 0
            case Load():
                known = self.statistics.get(c.tensor) or next(
                    (s for name, s in self.statistics.items() if s.previous(replace(c, tensor=name)).tensor == c.tensor), None
                )
                return known is not None and known.nonnegative
            case Apply(fn="mul" | "div" | "add", args=args):
                return all(map(self._positive, args))
            case Apply(fn="sqrt" | "rsqrt", args=(u,)):
                return self._positive(u)
            case Apply(fn="where", args=(_, u, w)):
                return self._positive(u) and self._positive(w)
            case Apply(fn="max", args=args):
                return any(map(self._positive, args))
        return isinstance(c, Apply) and c.fn in _POSITIVE

    def _changed(self, v: Value, change: Callable[[Value], Value | None], fn: str) -> Value | None:
        """By the operator of the value; else by `fn` of it and its value before, if it is the same for all elements."""
        try:
            return change(v)
        except DoesNotFollow:
            if self._indices(v) & self.reduced or not self._positive(v):  # the root of what may be negative is no number
                raise
            return Apply(fn, (v, self._before(v)), v.dtype)

    def _before(self, v: Value) -> Value:
        def step(x: Value) -> Value | None:
            return self._statistic(x).previous(x) if isinstance(x, Load) and x.tensor in self.statistics else None

        return transform(v, step)

    # ------------------------------------------------------------ factors

    def scale(self, v: Value) -> Value | None:
        """c with v' = v * c. Raises DoesNotFollow."""
        if not self.varies(v):
            return None
        return self._changed(v, self._scale, "div")

    def _scale(self, v: Value) -> Value | None:
        match v:
            case Load():
                before = self._statistic(v).previous(v)
                return Apply("div", (v, before), v.dtype)
            case Cast():
                return self._through_cast(v, self.scale)
            case Masked(value=u, otherwise=w):
                return self._either(u, w)
            case Apply(fn="where", args=(cond, u, w)):
                self._same_choice(cond)
                return self._either(u, w)
            case Apply(fn="mul", args=(u, w)):
                return _mul(self._of_factor(u), self._of_factor(w), v.dtype)
            case Apply(fn="div", args=(u, w)):
                return _div(self._of_factor(u), self._of_factor(w), v.dtype)
            case Apply(fn="neg", args=(u,)):
                return self.scale(u)
            case Apply(fn="fma", args=(u, w, x)):
                return self.scale(Apply("add", (Apply("mul", (u, w), v.dtype), x), v.dtype))
            case Apply(fn="exp" | "exp2", args=(u,)):
                c = self.shift(u)
                return None if c is None else Apply(v.fn, (c,), v.dtype)
            case Apply(fn="add" | "sub", args=(u, w)):
                c = self.scale(u) if self.varies(u) else None
                if c != (self.scale(w) if self.varies(w) else None):
                    raise _NotAlike(f"{_adds(v)} what the {self.noun} scales and what it does not scale alike")
                return c
            case Apply(fn="pow", args=(u, Const() as k)):
                c = self.scale(u)
                self._must_be_positive(c, v, needed=k.value != int(k.value))
                return c if c is None else Apply("pow", (c, k), v.dtype)
            case Apply(fn="pow", args=(u, w)) if not self.varies(u):
                self._free(u)
                c = self.shift(w)
                return None if c is None else Apply("pow", (u, c), v.dtype)
            case Apply(fn="sqrt" | "rsqrt", args=(u,)):
                c = self.scale(u)
                self._must_be_positive(c, v)
                return c if c is None else Apply(v.fn, (c,), v.dtype)
            case Apply(fn="abs" | "relu", args=(u,)):
                c = self.scale(u)
                self._must_be_positive(c, v)
                return c
            case Apply(fn="max" | "min", args=(u, w)):
                c = self.scale(u)
                if c != self.scale(w):
                    raise DoesNotFollow(f"takes the `{v.fn}` of what the {self.noun} scales and what it does not scale alike")
                self._must_be_positive(c, v)
                return c
        raise self._refusal(v)

    def _of_factor(self, v: Value) -> Value | None:
        try:
            return self.scale(v)
        except _NotAlike as reason:
            raise DoesNotFollow(f"has a factor that {reason}") from None

    def _either(self, u: Value, w: Value) -> Value | None:
        """Of a choice that the statistic does not change; zero stays zero."""
        some = [x for x in (u, w) if not _is(x, 0)]
        found = [self.scale(x) for x in some]
        if any(c != found[0] for c in found):
            raise DoesNotFollow(f"chooses between what the {self.noun} scales and what it does not scale alike")
        return found[0]

    def _must_be_positive(self, c: Value | None, v: Apply, needed: bool = True) -> None:
        if needed and not self._positive(c):
            raise DoesNotFollow(f"takes `{v.fn}` of what the {self.noun} scales, perhaps by a negative factor")

    # ------------------------------------------------------------ terms

    def shift(self, v: Value) -> Value | None:
        """c with v' = v + c. Raises DoesNotFollow."""
        if not self.varies(v):
            return None
        return self._changed(v, self._shift, "sub")

    def _shift(self, v: Value) -> Value | None:
        match v:
            case Load():
                before = self._statistic(v).previous(v)
                return Apply("sub", (v, before), v.dtype)
            case Cast():
                return self._through_cast(v, self.shift)
            case Masked(value=u, otherwise=w):
                return self._either_term(u, w)
            case Apply(fn="where", args=(cond, u, w)):
                self._same_choice(cond)
                return self._either_term(u, w)
            case Apply(fn="add", args=(u, w)):
                return _add(self.shift(u), self.shift(w), v.dtype)
            case Apply(fn="sub", args=(u, w)):
                return _sub(self.shift(u), self.shift(w), v.dtype)
            case Apply(fn="neg", args=(u,)):
                return _sub(None, self.shift(u), v.dtype)
            case Apply(fn="fma", args=(u, w, x)):
                return self.shift(Apply("add", (Apply("mul", (u, w), v.dtype), x), v.dtype))
            case Apply(fn="mul" | "div", args=(u, w)) if not self.varies(w):
                self._free(w)
                c = self.shift(u)
                return None if c is None else Apply(v.fn, (c, w), v.dtype)
            case Apply(fn="mul", args=(u, w)) if not self.varies(u):
                self._free(u)
                c = self.shift(w)
                return None if c is None else Apply("mul", (c, u), v.dtype)
            case Apply(fn="log" | "log2", args=(u,)):
                c = self.scale(u)
                return None if c is None else Apply(v.fn, (c,), v.dtype)
            case Apply(fn="max" | "min", args=(u, w)):
                c = self.shift(u)
                if c != self.shift(w):
                    raise DoesNotFollow(f"takes the `{v.fn}` of what the {self.noun} shifts and what it does not shift alike")
                return c
        raise self._refusal(v)

    def _either_term(self, u: Value, w: Value) -> Value | None:
        """Of a choice that the statistic does not change; infinities stay what they are."""
        some = [x for x in (u, w) if not (_is(x, float("inf")) or _is(x, float("-inf")))]
        found = [self.shift(x) for x in some]
        if any(c != found[0] for c in found):
            raise DoesNotFollow(f"chooses between what the {self.noun} shifts and what it does not shift alike")
        return found[0]

    # ------------------------------------------------------------ both

    def _same_choice(self, cond: Value) -> None:
        if self.varies(cond):
            raise DoesNotFollow(f"makes a choice by the {self.noun}")

    def _through_cast(self, v: Cast, change: Callable[[Value], Value | None]) -> Value | None:
        if v.dtype.kind != "float":
            raise DoesNotFollow(f"rounds a {self.noun} to {v.dtype}")
        c = change(v.arg)
        wide = v.dtype.compute
        return c if c is None or c.dtype == wide else Cast(c, wide)

    def _refusal(self, v: Value) -> DoesNotFollow:
        if not isinstance(v, Apply):
            return DoesNotFollow(f"reads a {self.noun} in a way that has no correction")
        if v.fn in _ROUNDING:
            return DoesNotFollow(f"rounds a {self.noun} (`{v.fn}`)")
        if v.fn in _COMPARISONS:
            return DoesNotFollow(f"compares a {self.noun}")
        if v.fn in ("mul", "div"):
            return DoesNotFollow(f"shifts a {self.noun} by a factor that is a {self.noun} itself")
        return DoesNotFollow(f"takes `{v.fn}` of a {self.noun}, which neither scales nor shifts the result")


def _adds(v: Apply) -> str:
    return "adds" if v.fn == "add" else "subtracts"


def _is(v: Value, number: float) -> bool:
    while isinstance(v, Cast) and v.dtype.kind == "float":
        v = v.arg
    if isinstance(v, Apply) and v.fn == "neg":
        return _is(v.args[0], -number)
    return isinstance(v, Const) and not isinstance(v.value, bool) and v.value == number


# ---------------------------------------------------------------- factors and terms, where None is 1 or 0


def _mul(a: Value | None, b: Value | None, dtype: DType) -> Value | None:
    return b if a is None else a if b is None else Apply("mul", (a, b), dtype)


def _div(a: Value | None, b: Value | None, dtype: DType) -> Value | None:
    if b is None:
        return a
    if a == b:
        return None
    if a is None and isinstance(b, Apply) and b.fn == "div":  # 1 / (a' / a)
        return Apply("div", (b.args[1], b.args[0]), dtype)
    return Apply("div", (Const(1, dtype) if a is None else a, b), dtype)


def _add(a: Value | None, b: Value | None, dtype: DType) -> Value | None:
    return b if a is None else a if b is None else Apply("add", (a, b), dtype)


def _sub(a: Value | None, b: Value | None, dtype: DType) -> Value | None:
    if b is None:
        return a
    if a is not None:
        return Apply("sub", (a, b), dtype)
    if isinstance(b, Apply) and b.fn == "sub":  # 0 - (a' - a)
        return Apply("sub", (b.args[1], b.args[0]), dtype)
    return Apply("neg", (b,), dtype)
