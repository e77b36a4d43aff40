"""What a pass does with a partial result b = sum F(x, a) until an element counts for its statistic a.

DEFINED            the correction C is a number for all finite values: it divides by none that may be 0.
BEFORE_THE_FIRST   until an element counts, the statistic is the infinity that it starts from, where F has no value. F is
                   evaluated at 0 in its place. What it adds is 0 then, and so is the correction when the first element arrives
                   that counts. (With 0 in place of the previous value too, the correction might be infinite.)
NO_NUMBER          where an element makes the statistic infinite or no number, so does the correction of all later partial
                   results. The op has the same result only if that element adds what is no number.
NONE_COUNTED       if none counts in the whole range, the result is that of the op: F at the infinity, or at 0, which is no
                   number, or 0.

Terms may divide by the maximum of what is never below 0, as in `sum (x / m)^2` below `m = max abs(x)`:

AT_MOST_ONE        each such quotient is of an element by what is as large as the statistic, or larger. So it is at most 1 for
                   each value that the statistic ever has, and corrections are at most 1: nothing overflows that the op has not.
ALL_COUNT          the maximum is -inf only where there is no element. The partial result is 0 then, and is kept as it is: the
                   correction may be anything.
ABOVE_ZERO         where a divisor may be 0, an element of 0 does not count. Until one does, F is evaluated at 1, and adds 0.
                   The partial result is kept, as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...dsl.values import Apply, Cast, Const, Load, Masked, Value, loads, walk
from .follow import is_nonnegative
from .limits import INF, Kind, Limit, limit


class NotKnown(Exception):
    """The reason in words, as a sentence."""


@dataclass(frozen=True)
class AtTheStart:
    """kept        a partial result of 0 stays, whatever the correction is (ALL_COUNT, ABOVE_ZERO)
    divides     terms divide by the statistic: an element of 0 does not count (ABOVE_ZERO)
    no_number   that is the result where no element counts, and there are elements (NONE_COUNTED)
    """

    kept: bool = False
    divides: bool = False
    no_number: bool = False


@dataclass(frozen=True)
class Followed:
    """A statistic and what follows it.

    body     the elements of the statistic       start         the infinity that it starts from
    value    F, which loads the statistic `now`  factor        C, which loads it `now` and `before`
    names    of both, in reasons: the statistic, and what follows it
    """

    body: Value
    value: Value
    factor: Value
    now: str
    before: str
    start: float
    names: tuple[str, str]

    def at_the_start(self) -> AtTheStart:
        """Raises NotKnown where no way is known to be right."""
        if not any(isinstance(v, Apply) and v.fn == "div" and self._varies(v.args[1]) for v in walk(self.value)):
            return self._corrected_by_zero()
        statistic, follower = self.names
        if self.start > 0 or not is_nonnegative(self.body):
            raise NotKnown(f"`{follower}` divides by `{statistic}`, whose elements are not known to be at least 0")
        if not self._at_most_one(self.value):
            raise NotKnown(f"the terms of `{follower}` are not known to divide an element of `{statistic}` by what is as large")
        for special in (math.nan, INF):  # in either way; at the end of ABOVE_ZERO an infinity is no number, as 0 is
            self._check_no_number(special)
        try:
            return self._all_count()
        except NotKnown:
            return self._above_zero()

    # ------------------------------------------------------------ the ways

    def _corrected_by_zero(self) -> AtTheStart:
        """BEFORE_THE_FIRST"""
        self._check_numbers([(Kind.FINITE, Kind.FINITE)])
        for special in (math.nan, -self.start):
            if self._factor(special, special) != 1.0:
                self._check_no_number(special)
        added = [x for now in (0.0, Kind.FINITE) for x in (*self._terms(now, self.start), self._factor(self.start, now))]
        return AtTheStart(no_number=self._none_counted(added, self.start))

    def _all_count(self) -> AtTheStart:
        """ALL_COUNT"""
        self._check_numbers([(0.0, 0.0), (0.0, Kind.ABOVE_ZERO), (Kind.ABOVE_ZERO, Kind.ABOVE_ZERO)])
        return AtTheStart(kept=True)

    def _above_zero(self) -> AtTheStart:
        """ABOVE_ZERO"""
        self._check_numbers([(Kind.ABOVE_ZERO, Kind.ABOVE_ZERO)])
        return AtTheStart(kept=True, divides=True, no_number=self._none_counted(self._terms(1.0, 0.0), 0.0))

    # ------------------------------------------------------------ quotients

    def _varies(self, v: Value) -> bool:
        return any(load.tensor == self.now for load in loads(v))

    def _at_most_one(self, v: Value) -> bool:
        """AT_MOST_ONE, of a product with such quotients. What does not depend on the statistic is as in the op."""
        if not self._varies(v):
            return True
        match v:
            case Apply(fn="div", args=(u, w)) if self._varies(w):
                return self._is_element(u) and self._as_large(w)
            case Apply(fn="div", args=(u, _)) | Apply(fn="neg", args=(u,)):
                return self._at_most_one(u)
            case Apply(fn="mul" | "add" | "sub" | "fma", args=args):
                return all(map(self._at_most_one, args))
            case Apply(fn="where", args=(cond, *args)):
                return not self._varies(cond) and all(map(self._at_most_one, args))
            case Masked(value=u, otherwise=w):
                return self._at_most_one(u) and self._at_most_one(w)
            case Cast(arg=u):
                return v.dtype.kind == "float" and self._at_most_one(u)
        return False

    def _is_element(self, v: Value) -> bool:
        return any(v == part for part, _ in next(self._elements(0.0)))

    def _as_large(self, v: Value) -> bool:
        """Whether a divisor is at least the statistic, where that is above 0, and grows with it."""
        match v:
            case Load():
                return v.tensor == self.now
            case Cast(arg=u):
                return v.dtype.kind == "float" and v.dtype.bits >= u.dtype.bits and self._as_large(u)
            case Apply(fn="add" | "max", args=(u, w)):
                return any(self._as_large(x) and isinstance(y, Const) and y.value >= 0 for x, y in ((u, w), (w, u)))
            case Apply(fn="where", args=(cond, u, w)):
                above = self._at(cond, Kind.ABOVE_ZERO)
                return isinstance(above, float) and self._as_large(u if above else w)
        return False

    # ------------------------------------------------------------ what they have in common

    def _none_counted(self, added: Sequence[Limit], none: float) -> bool:
        """NONE_COUNTED, where such elements are `none`: whether the result is no number. Raises NotKnown, also where what they
        have `added` is not 0."""
        whole = self._terms(none, none)
        no_number = all(map(_is_nan, whole))
        if any(x != 0.0 for x in added) or not (no_number or all(x == 0.0 for x in whole)):
            statistic, follower = self.names
            raise NotKnown(f"an element that does not count for `{statistic}` ({none}) is not known to add 0 to `{follower}`")
        return no_number

    def _check_numbers(self, pairs: Sequence[tuple[Limit, Limit]]) -> None:
        """DEFINED, for values before and after. Raises NotKnown."""
        statistic, follower = self.names
        if not all(_is_number(self._factor(before, now)) for before, now in pairs):
            raise NotKnown(f"the correction of `{follower}` is not known to be a number for each value of `{statistic}`")

    def _check_no_number(self, special: float) -> None:
        """NO_NUMBER. Raises NotKnown."""
        statistic, follower = self.names
        if not all(map(_is_nan, self._terms(special, special))):
            raise NotKnown(
                f"an element that makes `{statistic}` {special} is not known to make `{follower}` nan, as its correction does"
            )

    def _factor(self, before: Limit, now: Limit) -> Limit:
        return self._at(self.factor, now, before)

    def _at(self, v: Value, now: Limit, before: Limit | None = None) -> Limit:
        by = {self.now: now, self.before: before}
        return limit(v, lambda x: by.get(x.tensor) if isinstance(x, Load) else None)

    def _terms(self, now: Limit, element: float) -> list[Limit]:
        """F where the statistic is `now`, for an element whose body has a value: of a magnitude, either sign."""
        out = []
        for known in self._elements(element):
            out.append(limit(self.value, lambda x, known=known: self._known(x, now, known)))
        return out

    def _known(self, x: Value, now: Limit, elements: Sequence[tuple[Value, float]]) -> Limit | None:
        for value, is_ in elements:
            if x == value:
                return is_
        return now if isinstance(x, Load) and x.tensor == self.now else None

    def _elements(self, element: float) -> Iterator[list[tuple[Value, float]]]:
        """The parts of an element that are known if its body is: `x` where that is `abs(x)`. (`x * x` may be 0 by itself.)"""
        own = (self.body, element)
        match self.body:
            case Apply(fn="abs", args=(u,)) if not element < 0:
                yield from ([own, (u, x)] for x in (element, -element))
            case _:
                yield [own]


def _is_nan(x: Limit) -> bool:
    return isinstance(x, float) and math.isnan(x)


def _is_number(x: Limit) -> bool:
    return math.isfinite(x) if isinstance(x, float) else x is not Kind.ANY
