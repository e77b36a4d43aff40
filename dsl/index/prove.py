"""Decides whether an index expression is >= 0 for all values of its variables, if simplification does not.

Conditions are first split into conjuncts (`conjuncts`). Then come intervals, a search for a counterexample (`feasible_point`),
sums of conditions, and `islpy`, exact for affine expressions with constant divisors. Other terms (a product
of variables, a symbolic divisor, xor) become a fresh variable with the facts known about it, so an answer may be "not proven"
although a proof exists. The three answers are separate: True is a proof.

SEEN: the same guard is queried many times with other facts: its last counterexample is tried first.

NEAR: a point that satisfies some facts is often near one that satisfies more: a search starts at the latest point that was
found for facts with the same outermost ones. If it fails there it starts again from the beginning, so no answer depends on
earlier queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd
from typing import Any

from ..support.cached import cached_property
from ..support.memoised import memoised
from .counterexample import all_hold, feasible_point
from .expr import ZERO, Atom, Expr, Fn, Var
from .isl_queries import facts_of, is_empty, text_of

# The latest questions that are not answered again.
_REMEMBERED = 1 << 12

# What was asked: whether a condition always holds, or whether several can hold at once.
Asked = Expr | tuple[Expr, ...]

# The latest point found where a condition is negative, or where several hold (SEEN).
_SEEN: dict[Asked, dict[str, int]] = {}

# A condition that falls into more parts than this stays as it is.
_MOST_CONJUNCTS = 16

# Constraints that are added to another one to refute it.
_MOST_SUMMANDS = 4

# Sums that are tried for that: of many constraints there are more than anyone waits for, and isl is left to ask.
_MOST_SUMS = 4000


class Assumptions:
    """Conditions that all hold (>= 0), and what is asked of them again and again. Equal with equal conditions."""

    def __init__(self, make: Callable[[], Iterable[Expr]] = tuple, outer: Assumptions | None = None) -> None:
        self.make, self.outer = make, outer
        self.near: dict[str, int] = {} if outer is None else outer.near  # by name, shared (NEAR)

    def also(self, *conds: Expr) -> Assumptions:
        return Assumptions(lambda: conds, self)

    def where(self, make: Callable[[], Iterable[Expr]]) -> Assumptions:
        """With conditions that are made when something is asked."""
        return Assumptions(make, self)

    @cached_property
    def new(self) -> tuple[Expr, ...]:
        make = self.make
        made = self.__dict__.get("new")  # by another thread, as soon as `make` is gone
        if made is None:
            made = self.__dict__["new"] = tuple(make())
            self.make = tuple  # with the statement that it is of: questions are remembered for longer than programs
        return made

    @cached_property
    def conds(self) -> tuple[Expr, ...]:
        return self._gathered("conds", lambda f: f.new)

    @cached_property
    def parts(self) -> tuple[Expr, ...]:
        return self._gathered("parts", lambda f: [part for c in f.new for part in conjuncts(c)])

    @cached_property
    def variables(self) -> frozenset[Var]:
        return frozenset(self._gathered("variables", lambda f: variables_of(f.new)))

    def _gathered(self, name: str, own: Callable[[Assumptions], Iterable[Any]]) -> tuple[Any, ...]:
        """What there is of it, outermost first: its own and what those around have, each asked once."""
        levels = []
        outer: Assumptions | None = self
        while outer is not None and name not in outer.__dict__:
            levels.append(own(outer))
            outer = outer.outer
        found = () if outer is None else outer.__dict__[name]
        return (*found, *[x for mine in reversed(levels) for x in mine])

    @cached_property
    def _hash(self) -> int:
        return hash(self.conds)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Assumptions) and self.conds == other.conds)


def always(cond: Expr, context: Sequence[Expr] | Assumptions = ()) -> bool:
    """Whether `cond >= 0` is proven for all integers inside the variables' intervals for which every `context >= 0`."""
    return cond.at_least(0) or _always(cond, _facts_of(context))


def _facts_of(context: Iterable[Expr] | Assumptions) -> Assumptions:
    return context if isinstance(context, Assumptions) else Assumptions(lambda: context)


def without_isl(cond: Expr, context: Sequence[Expr] | Assumptions = ()) -> bool | None:
    """As `always`, but isl is not asked, which may take a thousand times as long as all else: None where neither a proof nor a
    counterexample was found."""
    return cond.at_least(0) or _without_isl(cond, _facts_of(context))


@lru_cache(maxsize=_REMEMBERED)
def _without_isl(cond: Expr, facts: Assumptions) -> bool | None:
    return _answer(cond, facts, False)


@lru_cache(maxsize=_REMEMBERED)
def _always(cond: Expr, facts: Assumptions) -> bool:
    return _answer(cond, facts, True) is True


def _answer(cond: Expr, facts: Assumptions, exact: bool) -> bool | None:
    seen = _SEEN.get(cond)
    if seen is not None and _holds_as_seen((-cond - 1, *facts.conds), seen, cond.variables() | facts.variables):
        return False
    parts = [c for c in conjuncts(cond) if not c.at_least(0)]
    quotients = _quotients(cond, facts.parts)
    parts = [c for c in parts if not _follows(c, (*facts.parts, *quotients))]
    unknown = False
    for c in parts:
        solvable = _solvable((-c - 1,), facts, quotients, cond, exact)
        if solvable:
            return False
        unknown |= solvable is None
    return None if unknown else True


def _follows(c: Expr, facts: Iterable[Expr]) -> bool:
    """Whether an interval shows `c >= 0` once a fact is taken off: something of `c` without a lower end goes away."""
    mine, needed = c.variables(), _endless(c)
    some = (f for f in facts if needed <= f.variables() and not mine.isdisjoint(f.variables()))
    return any((c - f).at_least(0) for f in some)


@memoised
def _endless(c: Expr) -> frozenset[Var]:
    """Variables that make `c` as small as one likes, and that no function in it has: they stay in a difference with what lacks
    them."""
    inside = frozenset().union(*[a.variables() for a, _ in c.terms if type(a) is Fn])
    return frozenset([a for a, k in c.terms if type(a) is Var and (a.lo if k > 0 else a.hi) is None]) - inside


def _holds_as_seen(constraints: Sequence[Expr], seen: dict[str, int], variables: frozenset[Var]) -> bool:
    """Whether the constraints hold where others did (SEEN)."""
    at: dict[str, int] = {}
    for v in variables:
        at[v.name] = x = seen.get(v.name, v.lo or 0)  # any value, where the variable made no difference
        if (v.lo is not None and x < v.lo) or (v.hi is not None and x > v.hi):
            return False
    return all_hold(constraints, at)


def _see(asked: Asked, at: dict[str, int]) -> None:
    if len(_SEEN) >= _REMEMBERED:
        _SEEN.clear()
    _SEEN[asked] = at


def _quotients(cond: Expr, facts: Sequence[Expr]) -> list[Expr]:
    """What facts say of the quotients by sizes in `cond`:  x < b*d  =>  x/d < b."""
    out: list[Expr] = []
    for atom in _by_sizes(cond):
        if (by := _divisor(atom)) is None:
            continue
        x = atom.args[0]
        rest = {a: -c for a, c in _apart(x, by).items()}
        for f in (*facts, *out):
            if not by.const and (f.const + x.const + 1 or _apart(f, by) != rest):
                continue  # no multiple of the size
            bound = f + x + 1
            whole = bound // by - ZERO // by  # 0/0 is nothing in particular, so `0/d` is not simplified
            if whole * by == bound:
                out.append(whole - _as(atom) - 1)
    return out


def _apart(e: Expr, by: Expr) -> dict[Var, int]:
    """The terms that are variables, without those of `by`: no product with it has such."""
    own = by.variables()
    return {a: c for a, c in e.terms if isinstance(a, Var) and a not in own}


def _by_sizes(e: Expr) -> Iterator[Fn]:
    """The quotients by what is no number in an expression, inner ones first."""
    for atom, _ in e.terms:
        if type(atom) is Fn:
            for x in atom.args:
                yield from _by_sizes(x)
            if atom.kind == "div" and atom.args[1].terms:
                yield atom


def feasible(constraints: Sequence[Expr], context: Sequence[Expr] | Assumptions = ()) -> bool:
    """False when it is proven that every constraint and every `context` is >= 0 for no integers in the variables' intervals."""
    return _feasible(tuple(constraints), _facts_of(context))


@lru_cache(maxsize=_REMEMBERED)
def _feasible(constraints: tuple[Expr, ...], facts: Assumptions) -> bool:
    seen = _SEEN.get(constraints)
    if seen is not None and _holds_as_seen((*constraints, *facts.conds), seen, variables_of(constraints) | facts.variables):
        return True
    return _solvable(constraints, facts, (), constraints) is not False


def variables_of(expressions: Iterable[Expr]) -> frozenset[Var]:
    """The variables of several expressions."""
    return frozenset().union(*[e.variables() for e in expressions])


def _solvable(
    constraints: Iterable[Expr], facts: Assumptions, more: Iterable[Expr], asked: Asked, exact: bool = True
) -> bool | None:
    """Whether there may be values for which all are >= 0; None where only isl, which is asked if `exact`, could tell.

    asked   the condition that fails there, or those that hold there
    """
    rest = []
    parts = [part for whole in constraints for part in conjuncts(whole)]
    for c in dict.fromkeys((*parts, *facts.parts, *[part for whole in more for part in conjuncts(whole)])):
        low, high = c.interval
        if high is not None and high < 0:
            return False
        if low is None or low < 0:
            rest.append(c)
    near = facts.near
    if (found := (near and feasible_point(rest, near)) or feasible_point(rest)) is not None:
        near.update(found)
        _see(asked, found)
        return True
    if _contradicts(rest[0], rest[1:]):
        return False
    if not exact:
        return None
    groups = _groups(rest)
    return not any(is_empty(text_of(group)) for group in groups if len(groups) == 1 or feasible_point(group) is None)


def _contradicts(e: Expr, others: Sequence[Expr]) -> bool:
    """Whether `e` is negative where the others are >= 0, as a sum of positive multiples of it and of a few of them shows: each
    one is added because it rids the sum of what may be the largest."""
    left = _MOST_SUMS

    def shows(e: Expr, most: int) -> bool:
        nonlocal left
        left -= 1
        high = e.interval[1]
        if high is not None and high < 0:
            return True
        if not most or not e.terms:
            return False
        atom, c = max(e.terms, key=_largest)
        for f in others if isinstance(atom, Var) else (*facts_of(atom, _as(atom)), *others):
            k = next((k for a, k in f.terms if a == atom), 0)
            if k * c < 0 and left > 0:
                common = gcd(k, c)
                if shows(e * (abs(k) // common) + f * (abs(c) // common), most - 1):
                    return True
        return False

    return shows(e, _MOST_SUMMANDS)


def _largest(term: tuple[Atom, int]) -> float:
    """The largest value of a term."""
    atom, c = term
    end = atom.interval[1 if c > 0 else 0]
    return float("inf") if end is None else c * end


@memoised
def conjuncts(cond: Expr) -> tuple[Expr, ...]:
    """Expressions that are all >= 0 exactly where `cond` is, without the functions that a condition can do without:

    min(x, y) + r >= 0            <=>   x + r >= 0 and y + r >= 0
    c*(x/d) + r >= 0,  c | r      <=>   x + d*(r/c) >= 0
    -c*(x/d) + r >= 0,  c | r     <=>   d*(r/c) + d - 1 - x >= 0      (the last two for any d that is at least 1)
    c*x + k >= 0                  <=>   x + k/c >= 0

    (c | r: apart from its constant.) isl branches on each such function that is left.
    """
    found = dict.fromkeys(_conjuncts(cond))
    return tuple(found) if len(found) <= _MOST_CONJUNCTS else (cond,)


def _conjuncts(cond: Expr) -> Iterator[Expr]:
    for atom, c in cond.terms:
        if type(atom) is not Fn:
            continue
        if atom.kind == ("min" if c > 0 else "max"):
            rest = cond - c * _as(atom)
            for x in atom.args:
                yield from conjuncts(rest + c * x)
            return
        by = _divisor(atom) if atom.kind == "div" else None
        others = [(a, k) for a, k in cond.terms if a is not atom]
        if by is not None and by.constant is None and any(isinstance(a, Fn) and a.kind != "mul" for a, _ in others):
            continue  # a product of functions is more than isl can do with
        if by is not None and all(k % c == 0 for _, k in others):
            rest = (cond - c * _as(atom)) // abs(c)
            yield from conjuncts(atom.args[0] + by * rest if c > 0 else by * rest + (by - 1) - atom.args[0])
            return
    common = gcd(*[c for _, c in cond.terms])
    yield cond // common if common > 1 else cond


def _divisor(quotient: Fn) -> Expr | None:
    """What is divided by, if it is positive wherever there is a quotient at all: sizes are never negative."""
    by = quotient.args[1]
    return by if by.at_least(0) else None


def _as(atom: Fn) -> Expr:
    return Expr(((atom, 1),))


def equal(a: Expr, b: Expr, context: Sequence[Expr] = ()) -> bool:
    """Whether `a == b` is proven for all values (as in `always`)."""
    difference = a - b
    return difference == ZERO or (always(difference, context) and always(-difference, context))


def _groups(constraints: Iterable[Expr]) -> list[list[Expr]]:
    """The constraints by connected variables: groups without a common variable are feasible apart from each other."""
    groups: list[tuple[set[Var], list[Expr]]] = []
    for c in constraints:
        names, members = set(c.variables()), [c]
        apart = []
        for group in groups:
            if names.isdisjoint(group[0]):
                apart.append(group)
            else:
                names |= group[0]
                members = group[1] + members
        groups = [*apart, (names, members)]
    return [members for _, members in groups]
