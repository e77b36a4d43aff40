"""Looks for integers at which index expressions are all >= 0: where there are some, there is nothing to prove.

All variables start at their least values. Then, a few times, one of the expressions that are negative is mended by the change
of one variable, namely that which leaves the least to mend. So a guard that may fail is found in two steps, two units that meet
in an element in five. Nothing found means nothing. The same question has the same answer every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .index import Expr, Var

_STEPS = 24
_MENDED = 2  # of the negative expressions, those for which changes are tried
_NEGATIVE = 1000  # what a negative expression counts; each one below zero counts 1
_INFINITE = float("inf")


def point(constraints: Sequence[Expr]) -> dict[str, int] | None:
    """Values inside the variables' intervals, by name, at which every constraint is >= 0 and every divisor positive; None where
    none are found."""
    search = _Search(constraints)
    if not search.start():
        return None
    for _ in range(_STEPS):
        negative = [n for n, x in enumerate(search.values) if x < 0]
        if not negative:
            return search.at
        if not search.mend(negative[:_MENDED]):
            break
    return None


def holds(constraints: Sequence[Expr], at: Mapping[str, int]) -> bool:
    """Whether every constraint is >= 0 at these values, and every divisor positive."""
    try:
        return all(c.evaluate(at) >= 0 and all(d.evaluate(at) > 0 for d in _functions(c)[0]) for c in constraints)
    except ZeroDivisionError:
        return False


class _Search:
    def __init__(self, constraints: Sequence[Expr]) -> None:
        divisors: dict[Expr, None] = {}
        self.factors: set[Var] = set()
        for c in constraints:
            by, factors = _functions(c)
            divisors |= by
            self.factors |= factors
        self.wanted = (*constraints, *(d - 1 for d in divisors))

    def start(self) -> bool:
        """Whether there is anything to start with."""
        self.about: dict[Var, dict[int, int | None]] = {}  # what has the variable: by its coefficient, None inside functions
        self.ends: dict[Var, tuple[float, float]] = {}
        for n, c in enumerate(self.wanted):
            for atom, k in c.terms:  # functions come last
                if isinstance(atom, Var):
                    self._known(atom)[n] = k
                else:
                    for v in atom.variables():
                        self._known(v)[n] = None
        self.at = {v.name: int(max(low, min(0, high))) for v, (low, high) in self.ends.items()}
        self.last: Var | None = None  # what was changed last, how many times by now, and whether it became more
        self.times, self.up = 0, False
        try:
            self.values = [c.evaluate(self.at) for c in self.wanted]
        except ZeroDivisionError:
            return False
        return all(low <= high for low, high in self.ends.values())

    def _known(self, v: Var) -> dict[int, int | None]:
        low = -_INFINITE if v.lo is None else v.lo
        if not low and v in self.factors:
            low = 1  # a product with 0 does not tell what changes it
        ends = low, _INFINITE if v.hi is None else v.hi
        if v not in self.ends:
            self.ends[v], self.about[v] = ends, {}
        elif self.ends[v] != ends:  # of equal variables one may tell more than another
            self.ends[v] = max(self.ends[v][0], ends[0]), min(self.ends[v][1], ends[1])
        return self.about[v]

    def mend(self, negative: list[int]) -> bool:
        """Makes the change that is best for one of these. Whether there is one."""
        best: tuple[int, Var, int, dict[int, int]] | None = None
        for n in negative:
            for v, by in _changes(self.wanted[n], -self.values[n], self.at):
                again = v == self.last
                if again and (by > 0) != self.up:
                    continue
                if again:
                    by <<= 2 * self.times  # it was not enough
                old, (low, high) = self.at[v.name], self.ends[v]
                new = int(max(low, min(high, old + by)))
                if new == old or (values := self._values(v, new)) is None:
                    continue
                gain = 0
                for m, x in values.items():
                    y = self.values[m]
                    gain += (x - _NEGATIVE if x < 0 else 0) - (y - _NEGATIVE if y < 0 else 0)
                if best is None or gain > best[0]:
                    best = gain, v, new, values
        if best is None:
            return False
        _, v, new, values = best
        self.times = self.times + 1 if v == self.last else 1
        self.last, self.up = v, new > self.at[v.name]
        self.at[v.name] = new
        for m, x in values.items():
            self.values[m] = x
        return True

    def _values(self, v: Var, new: int) -> dict[int, int] | None:
        """What the constraints become where `v` is `new`; None where they have no values then."""
        old, self.at[v.name] = self.at[v.name], new
        values = self.values
        try:
            return {
                n: self.wanted[n].evaluate(self.at) if k is None else values[n] + k * (new - old)
                for n, k in self.about[v].items()
            }
        except ZeroDivisionError:
            return None
        finally:
            self.at[v.name] = old


def _functions(e: Expr) -> tuple[dict[Expr, None], frozenset[Var]]:
    """What is divided by in `e`, except numbers, and the variables in that and in products."""
    d = e.__dict__
    if "_point" not in d:
        divisors: dict[Expr, None] = {}
        factors: frozenset[Var] = frozenset()
        for atom, _ in e.terms:
            if isinstance(atom, Var):
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
        d["_point"] = divisors, factors
    return d["_point"]


def _changes(e: Expr, more: int, at: dict[str, int]) -> Iterator[tuple[Var, int]]:
    """Variables and what could be added to each to give `e` that much more, or less where it is negative."""
    for atom, c in e.terms:
        by = -(-more // c) if (more > 0) == (c > 0) else more // c  # rounded away from zero
        if isinstance(atom, Var):
            yield atom, by
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
