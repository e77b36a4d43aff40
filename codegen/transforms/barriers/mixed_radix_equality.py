"""Equal coordinates, compared digit by digit: most proofs about two accesses need no more.

    8*m + i = 8*m' + i',  0 <= i, i' < 8        =>   m = m', i = i'
    x/c = y/c, x % c = y % c                    =>   x = y            (c any expression)
    x/d % c = y/d % c, x % d = y % d            =>   x % (c*d) = y % (c*d)
    x % (c*d*e) = y % (c*d*e)                   =>   x/d % c = y/d % c
    x/c = y/c                                   =>   x/(c*d) = y/(c*d)
    x/c = k                                     =>   x % c = x - c*k
    x % c = (x + k) % c                         =>   c | k            (rotating stages)
    p xor x = q xor y, x = y                    =>   p = q            (a swizzle: equal rows, equal stored columns)

The range of a digit follows from its variables' intervals and from the conditions of its access (tiles that do not nest).
Every step is exact: each derived equality follows from the given ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ....dsl.index.expr import Atom, Expr, Fn, Var, as_expr
from ....dsl.index.intervals import Interval
from ....dsl.index.simplify import linear_combination, rebuild

Pair = tuple[Expr, Expr]
_ROUNDS = 6  # rounds: of derivation, each of which may enable the next [limit]


class Contradiction(Exception):
    """The equalities hold nowhere."""


class MixedRadixEquality:
    """What follows from equalities, for the values for which all of `facts` are >= 0."""

    def __init__(self, facts: Iterable[Expr]) -> None:
        self.equal: dict[Atom, Expr] = {}  # atoms, and what they are equal to
        self._replaced: dict[Atom, Expr] = {}  # what became of atoms
        self._facts: dict[Atom, list[Expr]] = {}  # by the atoms that they limit
        self._ranges: dict[Expr, Interval] = {}
        self._open: list[Pair] = []  # equalities that do not fall apart
        self._twins: list[tuple[Fn, Fn]] = []  # equal functions
        self._quotients: set[Fn] = set()  # those that the equalities speak of
        self._remainders: set[int] = set()  # by what numbers
        self._spoken: set[tuple[int, int]] = set()  # (d, c) of the digits x/d % c that the equalities speak of
        for f in facts:
            for atom, _ in f.terms:
                self._facts.setdefault(atom, []).append(f)
            if len(f.terms) == 1 and f.terms[0][1] == -1 and f.terms[0][0].interval[0] == f.const:
                self._part(-f + f.const, as_expr(f.const))  # not more than its least value

    def derive(self, equalities: Iterable[Pair], enough: Callable[[], bool] = lambda: False) -> bool:
        """Whether it is `enough`, which ends it. Raises Contradiction."""
        todo = list(equalities)
        if self._take(todo, enough):
            return True
        spoken = {f for pair in todo for e in pair for f in functions(e)}
        self._quotients |= {f for f in spoken if f.kind == "div"}
        self._remainders |= {f.args[1].const for f in spoken if f.kind == "mod" and f.args[1].constant}
        self._spoken |= {_digit(f) for f in spoken if f.kind == "mod" and f.args[1].constant}
        looked = -1  # how much was equal when it was last looked what follows
        for _ in range(_ROUNDS + len(spoken)):  # each round takes a digit off at least, and all are spoken of
            if len(self.equal) == looked:
                break
            looked = len(self.equal)
            todo = [*self._open, *self._renewed(), *self._joined()]
            self._open = []
            if self._take(todo, enough):
                return True
        return enough()

    def _take(self, equalities: Iterable[Pair], enough: Callable[[], bool]) -> bool:
        """Whether it is `enough` after one of them: the first coordinate often tells the unit, and what follows costs more."""
        for x, y in equalities:
            if x is not y:
                self._part(x, y)
                if enough():
                    return True
        return False

    def same(self, x: Expr, y: Expr) -> bool:
        """Whether the two are known to be equal."""
        return x == y or self.plain(x) == self.plain(y)

    def plain(self, e: Expr) -> Expr:
        """With what is known to be equal replaced."""
        return _replaced(e, self.equal, self._replaced)

    def _set(self, atom: Atom, value: Expr) -> None:
        self.equal[atom] = value
        mine = frozenset((atom,)) if isinstance(atom, Var) else atom.variables()
        self._replaced.pop(atom, None)
        self._replaced = {a: e for a, e in self._replaced.items() if not mine <= e.variables()}

    # ------------------------------------------------------------ digits

    def _part(self, x: Expr, y: Expr) -> None:
        """x = y"""
        x, y = self.plain(x), self.plain(y)
        whole = x - y
        mine = {a for a, _ in x.terms}
        left = Expr(tuple(t for t in whole.terms if t[0] in mine), whole.const)
        right = left - whole
        for size in sorted({abs(c) for _, c in whole.terms} - {1}):
            (low, high), (low2, high2) = _split(left, size), _split(right, size)
            if not low.terms and not low2.terms and whole.const % size:
                raise Contradiction
            for rest in (whole.const % size, whole.const % size - size):
                if self._within(low + rest, low2, size):
                    if low.terms or low2.terms:
                        self._part(low + rest, low2)
                    self._part((high + (whole.const - rest)) // size, high2 // size)
                    return
        self._whole(left, right, whole)

    def _within(self, x: Expr, y: Expr, size: int) -> bool:
        """Whether -size < x - y < size: intervals first, then what facts say."""
        return _near(x.interval, y.interval, size) or _near(self._range(x), self._range(y), size)

    def _whole(self, left: Expr, right: Expr, whole: Expr) -> None:
        """left = right, which does not fall apart."""
        if len(whole.terms) <= 1:
            (atom, c) = whole.terms[0] if whole.terms else (None, 0)
            if atom is None:
                if whole.const:
                    raise Contradiction
                return
            if whole.const % c:
                raise Contradiction
            self._set(atom, as_expr(-whole.const // c))
            return
        a, b = self._range(left), self._range(right)
        if _less(a[1], b[0]) or _less(b[1], a[0]):
            raise Contradiction
        if len(whole.terms) == 2:
            (one, c), (two, d) = whole.terms
            if abs(c) == 1 and c == -d:
                if two not in {t for t, _ in right.terms}:
                    one, c, two = two, d, one
                for atom, twin, offset in ((two, one, c * whole.const), (one, two, -c * whole.const)):
                    if not _holds(twin, atom):
                        if isinstance(atom, Fn) and isinstance(twin, Fn) and not offset:
                            self._twins.append((twin, atom))
                        self._set(atom, Expr(((twin, 1),), offset))
                        return
        self._open.append((left, right))

    def _range(self, e: Expr) -> Interval:
        """The interval of `e`, as narrow as any one fact makes it."""
        if e in self._ranges:
            return self._ranges[e]
        low, high = e.interval
        about = dict(e.terms)
        for f in dict.fromkeys(f for atom in about for f in self._facts.get(atom, ())):
            signs = {(c > 0) == (about[a] > 0) for a, c in f.terms if a in about}
            if False in signs:  # f >= 0: e <= e + f
                top = (e + f).interval[1]
                high = top if high is None or _less(top, high) else high
            if True in signs:  # e >= e - f
                bottom = (e - f).interval[0]
                low = bottom if low is None or _less(low, bottom) else low
        self._ranges[e] = low, high
        return low, high

    # ------------------------------------------------------------ joints

    def _renewed(self) -> list[Pair]:
        """What is known of functions, of their arguments as they are now."""
        out: list[Pair] = []
        for atom, value in list(self.equal.items()):
            if isinstance(atom, Fn):
                args = [self.plain(a) for a in atom.args]
                new = rebuild(atom.kind, args)
                if not self.same(new, value):
                    out.append((new, value))
                elif atom.kind == "div" and not value.terms:
                    rest, digit = self.plain(args[0] % args[1]), args[0] - value * args[1]
                    one = rest.atom
                    if isinstance(one, Fn) and one.kind == "mod":
                        self._set(one, digit)
                    elif not self.same(rest, digit):
                        out.append((rest, digit))
        return out

    def _joined(self) -> list[Pair]:
        """Arguments of functions that are equal because the functions are."""
        out: list[Pair] = []
        for f, g in self._twins:
            (x, a), (y, b) = f.args[:2], g.args[:2]
            if f.kind != g.kind:
                continue
            if f.kind == "xor":
                for (p, q), (r, s) in (((x, a), (y, b)), ((x, a), (b, y)), ((a, x), (y, b)), ((a, x), (b, y))):
                    if self.same(q, s) and not self.same(p, r):
                        out.append((p, r))
                        break
            elif f.kind in ("div", "mod") and self.same(a, b) and not self.same(x, y):
                x, y, by = self.plain(x), self.plain(y), self.plain(a)
                step, size = (x - y).constant, by.constant
                if f.kind == "mod" and size and step is not None and step % size:
                    raise Contradiction
                if self.same(x // by, y // by) if f.kind == "mod" else self._same_rest(x, y, by):
                    out.append((x, y))
                elif f.kind == "mod" and by.constant:
                    out += self._finer(x, y, by.const)
                elif f.kind == "div" and by.constant:
                    out += self._coarser(x, y, by.const)
        return out

    def _same_rest(self, x: Expr, y: Expr, by: Expr) -> bool:
        """Whether x % by = y % by, as they are or digit by digit, where the equalities speak of digits of that size."""
        if self.same(x % by, y % by):
            return True
        sizes = (d for d in sorted(self._remainders) if by.constant and d < by.const and not by.const % d)
        return any(self.same(x % d, y % d) and self._same_rest(x // d, y // d, by // d) for d in sizes)

    def _coarser(self, x: Expr, y: Expr, by: int) -> list[Pair]:
        """The quotients by multiples of `by` that are spoken of."""
        spoken = {q.args[1].const for q in self._quotients if q.args[1].constant and self.same(q.args[0], y)}
        return [(x // c, y // c) for c in sorted(spoken) if not c % by and not self.same(x // c, y // c)]

    def _finer(self, x: Expr, y: Expr, by: int) -> list[Pair]:
        """The digits inside of x % `by` = y % `by` that are spoken of."""
        digits = [((x // d) % c, (y // d) % c) for d, c in sorted(self._spoken) if not by % (c * d) and c < by]
        return [pair for pair in digits if not self.same(*pair)]


def _digit(f: Fn) -> tuple[int, int]:
    """(d, c), where `f` is x/d % c; d is 1 where it is x % c."""
    inner = f.args[0].atom
    if isinstance(inner, Fn) and inner.kind == "div" and inner.args[1].constant:
        return inner.args[1].const, f.args[1].const
    return 1, f.args[1].const


def _split(e: Expr, size: int) -> tuple[Expr, Expr]:
    """The terms that are no multiples of `size`, and those that are; without the constant."""
    fine = tuple(t for t in e.terms if t[1] % size)
    return Expr(fine), Expr(tuple(t for t in e.terms if not t[1] % size))


def _near(a: Interval, b: Interval, size: int) -> bool:
    """Whether less than `size` is between any two of the values."""
    return None not in a and None not in b and -size < a[0] - b[1] and a[1] - b[0] < size  # type: ignore[operator]


def never_equal(x: Expr, y: Expr) -> bool:
    """Whether they differ by a number that is not 0, or are remainders of what does, by what does not divide that."""
    f, g = x.atom, y.atom
    if isinstance(f, Fn) and isinstance(g, Fn) and f.kind == g.kind == "mod" and f.args[1] == g.args[1]:
        size, step = f.args[1].constant, (f.args[0] - g.args[0]).constant
        return bool(size and step and step % size)
    return bool((x - y).constant)


def functions(e: Expr) -> Iterator[Fn]:
    """Those in `e`, outer ones before those inside them."""
    for atom, _ in e.terms:
        if isinstance(atom, Fn):
            yield atom
            for a in atom.args:
                yield from functions(a)


def replaced(e: Expr, equal: Mapping[Fn, Expr]) -> Expr:
    """`e` with functions replaced by what they are equal to."""
    return _replaced(e, equal, {})


def _less(x: int | None, y: int | None) -> bool:
    return x is not None and y is not None and x < y


def _holds(atom: Atom, part: Atom) -> bool:
    """Whether `part` occurs in `atom`."""
    if isinstance(atom, Var):
        return atom == part
    return atom == part or any(_holds(a, part) for e in atom.args for a, _ in e.terms)


def _replaced(e: Expr, equal: Mapping[Any, Expr], memo: dict[Atom, Expr]) -> Expr:
    """`e` with its atoms replaced; the same object where there is nothing to replace."""
    changed = False
    for atom, _ in e.terms:
        if atom not in memo:
            memo[atom] = Expr(((atom, 1),))  # while it is being replaced: what comes back to it stays as it is
            memo[atom] = _of_atom(atom, equal, memo)
        changed = changed or memo[atom].atom is not atom
    return linear_combination([(memo[atom], c) for atom, c in e.terms], e.const) if changed else e


def _of_atom(atom: Atom, equal: Mapping[Any, Expr], memo: dict[Atom, Expr]) -> Expr:
    if atom in equal:
        return _replaced(equal[atom], equal, memo)
    low, high = atom.interval
    if low is not None and low == high:
        return as_expr(low)
    if isinstance(atom, Var):
        return memo[atom]
    args = [_replaced(a, equal, memo) for a in atom.args]
    if all(x is y for x, y in zip(args, atom.args, strict=True)):
        return memo[atom]
    new = rebuild(atom.kind, args)
    one = new.atom
    return _replaced(new, equal, memo) if one in equal else new
