"""Searches for integers at which all given index expressions are >= 0: if there are some, there is nothing to prove.

All variables start at their least values, or at a given point nearby. Then, a few times, the search changes one variable to
repair one negative expression: the change that leaves the least to repair. So it finds a guard that may fail in two steps, and
two units that access one element in five. A failed search means nothing. The same query has the same answer every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..support.memoised import memoised
from .expr import OF_INTEGERS, Expr, Fn, Var, evaluated

_STEPS = 24
_STEPS_NEAR = 6  # of a search that starts near a point: it is found in two, or not there
_EVALUATIONS = 2000  # of functions in a search: what is there is found with a few dozen, however many bounds there are
_MENDED = 2  # of the negative expressions, those for which changes are tried
_NEGATIVE = 1000  # what a negative expression counts; each one below zero counts 1
_INFINITE = float("inf")

_NOWHERE: Mapping[str, int] = {}

_NONE: tuple[dict[Expr, None], frozenset[Var]] = {}, frozenset()  # of expressions that have neither; nobody changes it

# A constant, and terms: the number of a variable or function, and its coefficient.
_Sum = tuple[int, list[tuple[int, int]]]


def feasible_point(constraints: Sequence[Expr], near: Mapping[str, int] = _NOWHERE) -> dict[str, int] | None:
    """Values inside the variables' intervals, by name, at which every constraint is >= 0 and every divisor positive; None where
    none are found. `near`: values to start with."""
    search = _Search(constraints)
    if not search.start(near):
        return None
    for _ in range(_STEPS_NEAR if near else _STEPS):
        negative = [n for n, x in enumerate(search.values) if x < 0]
        if not negative:
            return search.at
        if not search.mend(negative[:_MENDED]):
            break
    return None


def all_hold(constraints: Sequence[Expr], at: Mapping[str, int]) -> bool:
    """Whether every constraint is >= 0 at these values, and every divisor positive."""
    try:
        for c in constraints:
            value, functions = c.const, False
            for atom, k in c.terms:
                if type(atom) is Fn:
                    functions = True
                    value += k * evaluated(atom, at)
                else:
                    value += k * at[atom.name]  # type: ignore[union-attr]
            if value < 0 or (functions and any(d.evaluate(at) <= 0 for d in _functions(c)[0])):
                return False
        return True
    except ZeroDivisionError:
        return False


class _Search:
    """Variables and functions are numbered, a function after all that it is of: what a change of one variable leaves as it is
    is not computed anew."""

    def __init__(self, constraints: Sequence[Expr]) -> None:
        divisors: dict[Expr, None] = {}
        self.factors: set[Var] = set()
        for c in constraints:
            by, factors = _functions(c)
            if factors:
                divisors |= by
                self.factors |= factors
        self.wanted = (*constraints, *(d - 1 for d in divisors))
        self.evaluations = 0

    def start(self, near: Mapping[str, int]) -> bool:
        """Whether there is anything to start with."""
        self.numbers: dict[Var, int] = {}
        self.numbers_of_functions: dict[Fn, int] = {}
        self.ends: list[tuple[float, float]] = []  # by number: the interval of a variable
        self.functions: dict[int, tuple[Callable[..., int], list[_Sum]]] = {}  # by number: what is computed of which sums
        self.within: dict[int, list[int]] = {}  # by number: the functions that have the variable
        sums = [self._numbered(c) for c in self.wanted]
        # by number: the constraints that have it as a term, and its coefficient
        self.about: list[list[tuple[int, int]]] = [[] for _ in self.ends]
        for n, (_, terms) in enumerate(sums):
            for a, k in terms:
                self.about[a].append((n, k))
        self.now = [0] * len(self.ends)  # by number: its value
        self.at: dict[str, int] = {}
        for v, a in self.numbers.items():
            low, high = self.ends[a]
            if low > high:
                return False
            x = near.get(v.name, 0)
            self.at[v.name] = self.now[a] = int(low if low > x else high if high < x else x)
        self.last: Var | None = None  # what was changed last, how many times by now, and whether it became more
        self.times, self.up = 0, False
        try:
            for f in self.functions:
                self.now[f] = self._value(f)
        except ZeroDivisionError:
            return False
        self.values = self._sums(sums)
        return True

    def _numbered(self, e: Expr) -> _Sum:
        terms: list[tuple[int, int]] = []
        for atom, k in e.terms:
            if type(atom) is Var:
                if (a := self.numbers.get(atom, -1)) < 0:
                    self.numbers[atom] = a = len(self.ends)
                    self.ends.append(self._ends_of(atom))
            elif (a := self.numbers_of_functions.get(atom, -1)) < 0:  # type: ignore[arg-type]
                self.numbers_of_functions[atom] = a = self._function(atom)  # type: ignore[arg-type, index]
            terms.append((a, k))
        return e.const, terms

    def _ends_of(self, v: Var) -> tuple[float, float]:
        low = -_INFINITE if v.lo is None else v.lo
        if not low and v in self.factors:
            low = 1  # a product with 0 does not tell what changes it
        return low, _INFINITE if v.hi is None else v.hi

    def _function(self, f: Fn) -> int:
        computed = OF_INTEGERS[f.kind], [self._numbered(x) for x in f.args]
        a = len(self.ends)
        self.ends.append((-_INFINITE, _INFINITE))
        self.functions[a] = computed
        for v in f.variables():
            self.within.setdefault(self.numbers[v], []).append(a)
        return a

    def _sums(self, sums: list[_Sum]) -> list[int]:
        values: list[int] = []
        now = self.now
        for total, terms in sums:
            for a, k in terms:
                total += k * now[a]
            values.append(total)
        return values

    def _value(self, f: int) -> int:
        compute, args = self.functions[f]
        return compute(*self._sums(args))

    def mend(self, negative: list[int]) -> bool:
        """Makes the change that is best for one of these. Whether there is one, and it does not take too long to find."""
        best: tuple[int, Var, list[tuple[int, int]], dict[int, int]] | None = None
        for n in negative:
            for v, by in _changes(self.wanted[n], -self.values[n], self.at):
                if self.evaluations > _EVALUATIONS:
                    return False
                again = v == self.last
                if again and (by > 0) != self.up:
                    continue
                if again:
                    by <<= 2 * self.times  # it was not enough
                a = self.numbers[v]
                low, high = self.ends[a]
                new = self.now[a] + by
                new = int(low if new < low else high if new > high else new)
                if new == self.now[a] or (changed := self._changed(a, new)) is None:
                    continue
                values: dict[int, int] = {}
                for a, x in changed:
                    more = x - self.now[a]
                    for m, k in self.about[a]:
                        values[m] = (values[m] if m in values else self.values[m]) + k * more
                gain = 0
                for m, x in values.items():
                    y = self.values[m]
                    gain += (x - _NEGATIVE if x < 0 else 0) - (y - _NEGATIVE if y < 0 else 0)
                if best is None or gain > best[0]:
                    best = gain, v, changed, values
        if best is None:
            return False
        _, v, changed, values = best
        self.times = self.times + 1 if v == self.last else 1
        self.last, self.up = v, changed[0][1] > self.at[v.name]
        self.at[v.name] = changed[0][1]
        for a, x in changed:
            self.now[a] = x
        for m, x in values.items():
            self.values[m] = x
        return True

    def _changed(self, variable: int, new: int) -> list[tuple[int, int]] | None:
        """What becomes another value, and which, where the variable is `new`; None where something has no value then."""
        if variable not in self.within:
            return [(variable, new)]
        now = self.now
        before = [(variable, now[variable])]
        now[variable] = new
        self.evaluations += len(self.within[variable])
        try:
            for f in self.within[variable]:
                if (x := self._value(f)) != now[f]:
                    before.append((f, now[f]))
                    now[f] = x
            return [(a, now[a]) for a, _ in before]
        except ZeroDivisionError:
            return None
        finally:
            for a, x in before:
                now[a] = x


@memoised
def _functions(e: Expr) -> tuple[dict[Expr, None], frozenset[Var]]:
    """What is divided by in `e`, except numbers, and the variables in that and in products."""
    divisors: dict[Expr, None] = {}
    factors: frozenset[Var] = frozenset()
    for atom, _ in e.terms:
        if type(atom) is not Fn:
            continue
        by = atom.args[1]
        if atom.kind == "mul":
            factors |= atom.variables()
        elif atom.kind in ("div", "mod") and by.terms:
            divisors[by] = None
            factors |= by.variables()
        for x in atom.args:
            inner, among = _functions(x)
            divisors |= inner
            factors |= among
    return (divisors, factors) if factors else _NONE


def _changes(e: Expr, more: int, at: dict[str, int]) -> Iterator[tuple[Var, int]]:
    """Variables and what could be added to each to give `e` that much more, or less where it is negative."""
    for atom, c in e.terms:
        by = -(-more // c) if (more > 0) == (c > 0) else more // c  # rounded away from zero
        if type(atom) is not Fn:
            yield atom, by  # type: ignore[misc]
            continue
        x, y = atom.args[:2]
        match atom.kind:
            case "div":
                yield from _changes(x, by * y.evaluate(at), at)
                if y.terms:
                    yield from _changes(y, -by, at)
            case "mul":
                for f, g in ((x, y), (y, x)):
                    if (k := g.evaluate(at)) > 0:
                        yield from _changes(f, -(-by // k) if by > 0 else by // k, at)
            case "mod" if not y.terms:
                yield from _changes(x, by, at)
                yield from _changes(x, by - y.const if by > 0 else by + y.const, at)  # the other way round
            case _:
                for z in atom.args:
                    yield from _changes(z, by, at)
