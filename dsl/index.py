"""Quasi-affine integer index expressions with ranges, kept in a canonical form by construction.

An `Expr` is a linear form `sum(coefficient * atom) + const`; an atom is a `Var`, or an `Fn` of other expressions:

    div, mod   floor semantics, as in Python; the divisor is positive: usually a constant, else an expression taken to be > 0
    mul        the product of two non-constant expressions (sums are multiplied out, so equal polynomials are equal)
    xor        on integers in two's complement
    min, max   of two or more

Building an expression simplifies it, and never changes its value for any values of the variables inside their intervals.

BY_NAME: variables are equal when their names are. Intervals are facts about a variable, not part of it; therefore nothing here
may be cached under a key that holds expressions only -- what depends on intervals is cached on the instance.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Any, Union

Interval = tuple[int | None, int | None]


class _Arithmetic:
    """The operators that `Var` and `Expr` share; all of them give an `Expr`."""

    __slots__ = ()

    def __add__(self, other: Index) -> Expr:
        return _add(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    __radd__ = __add__

    def __sub__(self, other: Index) -> Expr:
        return _add(as_expr(self), as_expr(other), -1)  # type: ignore[arg-type]

    def __rsub__(self, other: Index) -> Expr:
        return _add(as_expr(other), as_expr(self), -1)  # type: ignore[arg-type]

    def __neg__(self) -> Expr:
        return _scale(as_expr(self), -1)  # type: ignore[arg-type]

    def __mul__(self, other: Index) -> Expr:
        return _mul(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    __rmul__ = __mul__

    def __floordiv__(self, other: Index) -> Expr:
        return _div(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    def __rfloordiv__(self, other: Index) -> Expr:
        return _div(as_expr(other), as_expr(self))  # type: ignore[arg-type]

    def __mod__(self, other: Index) -> Expr:
        return _mod(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    def __rmod__(self, other: Index) -> Expr:
        return _mod(as_expr(other), as_expr(self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Var(_Arithmetic):
    """An integer variable whose values lie in [lo, hi], both inclusive; None is unbounded. Equal when the names are."""

    name: str
    lo: int | None = 0
    hi: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Var) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    @property
    def interval(self) -> Interval:
        return self.lo, self.hi

    @property
    def _key(self) -> tuple:
        return 0, self.name


class _Cached:
    """Immutable, with the hash, the sort key and whatever depends on them computed once an instance."""

    _key: tuple
    _hash: int

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


class Fn(_Cached):
    """An atom that is a function of expressions. Made by the operators and functions below, which simplify; not by hand."""

    kind: str
    args: tuple[Expr, ...]

    def __init__(self, kind: str, args: tuple[Expr, ...]) -> None:
        d = self.__dict__
        d["kind"], d["args"] = kind, args
        d["_key"] = key = (1, kind, tuple(a._key for a in args))
        d["_hash"] = hash(key)

    def __reduce__(self):
        return Fn, (self.kind, self.args)  # the cached hash is not valid in another process

    def __repr__(self) -> str:
        return f"Fn({self})"

    def __str__(self) -> str:
        if self.kind in _INFIX:
            return _INFIX[self.kind].join(_factor(a, first and self.kind == "mul") for first, a in zip((1, 0), self.args))
        return f"{self.kind}({', '.join(map(str, self.args))})"

    @property
    def interval(self) -> Interval:
        d = self.__dict__
        if "_interval" not in d:
            d["_interval"] = _fn_interval(self.kind, self.args)
        return d["_interval"]


Atom = Union[Var, Fn]  # noqa: UP007 - evaluated at run time
_INFIX = {"div": "/", "mod": " % ", "mul": "*"}


class Expr(_Arithmetic, _Cached):
    """`sum(coefficient * atom) + const`; `terms` are sorted and have no zero coefficient."""

    terms: tuple[tuple[Atom, int], ...]
    const: int

    def __init__(self, terms: tuple[tuple[Atom, int], ...] = (), const: int = 0) -> None:
        d = self.__dict__
        d["terms"], d["const"] = terms, const
        d["_key"] = key = (tuple((a._key, c) for a, c in terms), const)
        d["_hash"] = hash(key)

    def __reduce__(self):
        return Expr, (self.terms, self.const)

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __str__(self) -> str:
        out = ""
        for atom, c in self.terms:
            text = str(atom) if isinstance(atom, Var) or abs(c) == 1 or atom.kind not in ("div", "mod") else f"({atom})"
            out += (" - " if c < 0 else " + ") + (f"{abs(c)}*" if abs(c) != 1 else "") + text
        if self.const or not out:
            out += (" - " if self.const < 0 else " + ") + str(abs(self.const))
        return out[3:] if out.startswith(" + ") else "-" + out[3:]

    @property
    def constant(self) -> int | None:
        """The value when there are no variables, else None."""
        return None if self.terms else self.const

    @property
    def interval(self) -> Interval:
        """(lowest, highest) value, inclusive, None where unbounded. Conservative: it may be wider than what is reached."""
        d = self.__dict__
        if "_interval" not in d:
            d["_interval"] = _linear_interval(self.terms, self.const)
        return d["_interval"]

    def coefficient(self, var: Var) -> int:
        """The coefficient of `var` as a term of the linear form; what stands inside atoms does not count."""
        return next((c for a, c in self.terms if a == var), 0)

    def variables(self) -> frozenset[Var]:
        """All variables, those inside atoms too."""
        d = self.__dict__
        if "_variables" not in d:
            d["_variables"] = frozenset(v for a, _ in self.terms for v in ([a] if isinstance(a, Var) else _fn_variables(a)))
        return d["_variables"]

    def subs(self, mapping: Mapping[Var, Index]) -> Expr:
        """With variables replaced, all at once, and simplified anew."""
        return _subs(self, {v: as_expr(x) for v, x in mapping.items()}, {})

    def evaluate(self, env: Mapping[str, Any]) -> Any:
        """The value for integers, or integer arrays that broadcast, by variable name."""
        total: Any = self.const
        for atom, c in self.terms:
            value = env[atom.name] if isinstance(atom, Var) else _evaluate_fn(atom, env)
            total = total + (value if c == 1 else c * value)
        return total


Index = Union[int, Var, Expr]  # noqa: UP007 - evaluated at run time
ZERO = Expr()
ONE = Expr((), 1)


def as_expr(x: Index) -> Expr:
    """An integer, a variable or an expression as an expression."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, Var):
        return Expr(((x, 1),))
    return Expr((), operator.index(x))


def xor(a: Index, b: Index) -> Expr:
    """Bitwise exclusive or."""
    x, y = sorted((as_expr(a), as_expr(b)), key=lambda e: e._key)
    if not x.terms and not y.terms:
        return Expr((), x.const ^ y.const)
    if x == y:
        return ZERO
    for one, other in ((x, y), (y, x)):
        if one.constant == 0:
            return other
    return _atom(Fn("xor", (x, y)))


def minimum(*xs: Index) -> Expr:
    return _extreme("min", xs)


def maximum(*xs: Index) -> Expr:
    return _extreme("max", xs)


def ceildiv(a: Index, b: Index) -> Expr:
    """a / b rounded up, for b > 0."""
    return (as_expr(a) + b - 1) // b


# ---------------------------------------------------------------- linear forms


def _atom(atom: Atom, c: int = 1) -> Expr:
    return Expr(((atom, c),))


def _build(terms: dict[Atom, int], const: int) -> Expr:
    """The canonical expression of a sum; merges a quotient and its remainder (see `_merge`)."""
    live = [(a, c) for a, c in terms.items() if c]
    if len(live) > 1:
        if any(type(a) is Fn and a.kind in ("div", "mod") for a, _ in live):
            merged = _merge(dict(live))
            if merged is not None:
                return merged + const
        live.sort(key=lambda t: t[0]._key)
    return Expr(tuple(live), const)


def _add(a: Expr, b: Expr, scale: int = 1) -> Expr:
    if not b.terms:
        return a if not b.const else Expr(a.terms, a.const + scale * b.const)
    if not a.terms and scale == 1:
        return Expr(b.terms, a.const + b.const) if a.const else b
    terms = dict(a.terms)
    for atom, c in b.terms:
        terms[atom] = terms.get(atom, 0) + scale * c
    return _build(terms, a.const + scale * b.const)


def _scale(a: Expr, c: int) -> Expr:
    if c == 1:
        return a
    return Expr(tuple((atom, k * c) for atom, k in a.terms), a.const * c) if c else ZERO


def _merge(terms: dict[Atom, int]) -> Expr | None:
    """Joins a quotient with its remainder; None where nothing joins. Each rule holds for all integers, x any expression:

    q*c*(x/c) + q*(x % c)           ->  q*x
    q*c*(x/c % d) + q*(x % c)       ->  q*(x % (c*d))
    q*x - q*c*(x/c)                 ->  q*(x % c)
    """
    fns = [a for a in terms if type(a) is Fn]
    for low in fns:
        c = low.args[1].constant if low.kind == "mod" else None
        if c is None:
            continue
        x, q = low.args[0], terms[low]
        quotient = x // c
        if quotient.terms and all(terms.get(a) == q * c * k for a, k in quotient.terms):
            rest = {a: k for a, k in terms.items() if a is not low and all(a != b for b, _ in quotient.terms)}
            return _build(rest, -q * c * quotient.const) + _scale(x, q)
        for high in fns:
            d = high.args[1].constant if high.kind == "mod" and terms[high] == q * c else None
            if d is None or high is low:
                continue
            delta = high.args[0] - quotient
            if delta.const % d == 0 and all(k % d == 0 for _, k in delta.terms):
                rest = {a: k for a, k in terms.items() if a is not low and a is not high}
                return _build(rest, 0) + _scale(x % (c * d), q)
    for high in fns:
        c = high.args[1].constant if high.kind == "div" else None
        if c is None or terms[high] % c:
            continue
        x, q = high.args[0], -terms[high] // c
        if all(terms.get(a) == q * k for a, k in x.terms):
            rest = {a: k for a, k in terms.items() if a is not high and all(a != b for b, _ in x.terms)}
            return _build(rest, -q * x.const) + _scale(x % c, q)
    return None


def _mul(a: Expr, b: Expr) -> Expr:
    if not b.terms:
        return _scale(a, b.const)
    if not a.terms:
        return _scale(b, a.const)
    terms: dict[Atom, int] = {}
    for x, c in (*a.terms, (None, a.const)):
        for y, d in (*b.terms, (None, b.const)):
            if c * d and (x or y):
                atom = (y if x is None else x) if x is None or y is None else _product(x, y)
                assert atom is not None
                terms[atom] = terms.get(atom, 0) + c * d
    return _build(terms, a.const * b.const)


def _product(x: Atom, y: Atom) -> Fn:
    """The atom x*y: factors in order, nested to the left, two to a node."""
    factors = sorted((*_factors(x), *_factors(y)), key=lambda f: f._key)
    return reduce(lambda f, g: Fn("mul", (_atom(f), _atom(g))), factors)  # type: ignore[return-value]


def _factors(x: Atom) -> tuple[Atom, ...]:
    if type(x) is Fn and x.kind == "mul":
        return tuple(f for a in x.args for f in _factors(a.terms[0][0]))
    return (x,)


# ---------------------------------------------------------------- quotient and remainder


def _div(e: Expr, by: Expr) -> Expr:
    if by.terms:
        whole, rest = _split_symbolic(e, by)
        return whole if rest is None else whole + _atom(Fn("div", (rest, by)))
    c = by.const
    if c <= 0:
        if not c:
            raise ZeroDivisionError(f"({e}) / 0")
        e, c = -e, -c
    if c == 1 or not e.terms:
        return e if c == 1 else Expr((), e.const // c)
    whole = Expr(tuple((a, k // c) for a, k in e.terms if not k % c), e.const // c)
    rest = Expr(tuple((a, k) for a, k in e.terms if k % c), e.const % c)
    return whole + _small_div(rest, c) if whole.terms or whole.const else _small_div(rest, c)


def _small_div(e: Expr, c: int) -> Expr:
    """e / c where no coefficient is divisible by c."""
    if (q := _one_quotient(e, c)) is not None:
        return Expr((), q)
    if (split := _coarser(e, c)) is not None:
        g, coarse, _ = split
        return coarse // (c // g)
    if len(e.terms) == 1 and type(atom := e.terms[0][0]) is Fn and e.terms[0][1] == 1:
        if atom.kind == "div" and (a := atom.args[1].constant):  # (x/a + r)/c
            return (atom.args[0] + a * e.const) // (a * c)
        if atom.kind == "mod" and not e.const and (a := atom.args[1].constant) and not a % c:  # (x % a)/c
            return (atom.args[0] // c) % (a // c)
    return _atom(Fn("div", (e, Expr((), c))))


def _mod(e: Expr, by: Expr) -> Expr:
    if by.terms:
        whole, rest = _split_symbolic(e, by)
        return e - whole * by if rest is None else _atom(Fn("mod", (rest, by)))
    c = by.const
    if c <= 0:
        if not c:
            raise ZeroDivisionError(f"({e}) % 0")
        return -_mod(-e, Expr((), -c))
    if c == 1 or not e.terms:
        return Expr((), e.const % c)
    plain = Expr(tuple((a, k) for a, k in e.terms if k % c), e.const % c)
    if (q := _one_quotient(plain, c)) is not None:
        return plain - q * c
    terms: dict[Atom, int] = {}
    inner = ZERO
    for a, k in plain.terms:
        if type(a) is Fn and a.kind == "mod" and (m := a.args[1].constant) and not k * m % c:  # (k*(x % m)) % c, c | k*m
            inner = inner + k * a.args[0]
        else:
            k %= c
            terms[a] = k if 2 * k <= c else k - c
    if inner.terms:
        return (_build(terms, plain.const) + inner) % c
    e = _build(terms, plain.const)
    if (q := _one_quotient(e, c)) is not None:
        return e - q * c
    if (split := _coarser(e, c)) is not None:
        g, coarse, fine = split
        return g * (coarse % (c // g)) + fine
    return _atom(Fn("mod", (e, Expr((), c))))


def _one_quotient(e: Expr, c: int) -> int | None:
    """q when e / c is q for all values of e, by its interval."""
    lo, hi = e.interval
    return lo // c if lo is not None and hi is not None and lo // c == hi // c else None


def _coarser(e: Expr, c: int) -> tuple[int, Expr, Expr] | None:
    """(g, x, y) with e = g*x + y, 0 <= y < g, g > 1 a divisor of c: what is finer than g does not reach c."""
    for g in sorted({gcd(k, c) for _, k in e.terms}, reverse=True):
        if g == 1:
            return None
        fine = Expr(tuple((a, k) for a, k in e.terms if k % g), e.const)
        q = _one_quotient(fine, g)
        if q is not None:
            return g, Expr(tuple((a, k // g) for a, k in e.terms if not k % g), q), fine - q * g
    return None


def _split_symbolic(e: Expr, by: Expr) -> tuple[Expr, Expr | None]:
    """(q, r) with e = q*by + r; r is None when it is known to lie in [0, by)."""
    whole = ZERO
    if len(by.terms) == 1 and by.terms[0][1] == 1 and not by.const:
        divisor = list(_factors(by.terms[0][0]))
        for atom, k in e.terms:
            factors = list(_factors(atom))
            if all(factors.count(f) >= divisor.count(f) for f in divisor):
                for f in divisor:
                    factors.remove(f)
                whole = whole + k * reduce(operator.mul, (_atom(f) for f in factors), ONE)
    else:
        atom, k = by.terms[0]
        c = e.coefficient(atom) if isinstance(atom, Var) else next((c for a, c in e.terms if a == atom), 0)
        if c % k == 0 and all((a, c // k * d) in e.terms for a, d in by.terms):
            whole = Expr((), c // k)
    rest = e - whole * by
    inside = (rest.interval[0] or 0) >= 0 and rest.interval[0] is not None and ((by - rest).interval[0] or 0) >= 1
    return whole, None if inside else rest


def _extreme(kind: str, xs: Iterable[Index]) -> Expr:
    flat: list[Expr] = []
    for x in map(as_expr, xs):
        nested = x.terms[0][0] if len(x.terms) == 1 and x.terms[0][1] == 1 and not x.const else None
        flat.extend(nested.args if type(nested) is Fn and nested.kind == kind else (x,))
    kept: list[Expr] = []
    for x in sorted(set(flat), key=lambda e: e._key):
        if any(_beats(kind, y, x) for y in kept):
            continue
        kept = [y for y in kept if not _beats(kind, x, y)] + [x]
    if not kept:
        raise ValueError(f"{kind} of nothing")
    return kept[0] if len(kept) == 1 else _atom(Fn(kind, tuple(kept)))


def _beats(kind: str, x: Expr, y: Expr) -> bool:
    """Whether x makes y superfluous in a min or max."""
    low = ((y - x) if kind == "min" else (x - y)).interval[0]
    return low is not None and low >= 0


# ---------------------------------------------------------------- intervals


def _linear_interval(terms: tuple[tuple[Atom, int], ...], const: int) -> Interval:
    lo: int | None = const
    hi: int | None = const
    for atom, c in terms:
        a, b = atom.interval
        if c < 0:
            a, b = b, a
        lo = None if lo is None or a is None else lo + c * a
        hi = None if hi is None or b is None else hi + c * b
    return lo, hi


def _fn_interval(kind: str, args: tuple[Expr, ...]) -> Interval:
    (xl, xh), (yl, yh) = args[0].interval, args[1].interval
    if kind == "div":
        yl = max(1, yl or 1)
        lo = None if xl is None else (0 if yh is None else xl // yh) if xl >= 0 else xl // yl
        hi = None if xh is None else xh // yl if xh >= 0 else (-1 if yh is None else xh // yh)
        return lo, hi
    if kind == "mod":
        top = None if yh is None else yh - 1
        if xl is not None and xl >= 0 and xh is not None:
            top = xh if top is None else min(top, xh)
        return 0, top
    if kind == "mul":
        return _mul_interval((xl, xh), (yl, yh), args[0] == args[1])
    if kind == "xor":
        if xl is None or yl is None or xl < 0 or yl < 0:
            return None, None
        return 0, None if xh is None or yh is None else (1 << max(xh, yh).bit_length()) - 1
    lows, highs = [a.interval[0] for a in args], [a.interval[1] for a in args]
    if kind == "min":
        known = [h for h in highs if h is not None]
        return None if None in lows else min(lows), min(known) if known else None  # type: ignore[type-var]
    known = [x for x in lows if x is not None]
    return max(known) if known else None, None if None in highs else max(highs)  # type: ignore[type-var]


def _mul_interval(x: Interval, y: Interval, square: bool) -> Interval:
    inf = float("inf")  # only as a marker: finite ends stay integers
    corners = []
    for a in (-inf if x[0] is None else x[0], inf if x[1] is None else x[1]):
        for b in (-inf if y[0] is None else y[0], inf if y[1] is None else y[1]):
            corners.append(0 if a == 0 or b == 0 else a * b)
    lo, hi = min(corners), max(corners)
    lo = max(lo, 0) if square else lo
    return None if lo == -inf else int(lo), None if hi == inf else int(hi)


# ---------------------------------------------------------------- traversal


def _fn_variables(f: Fn) -> frozenset[Var]:
    return frozenset().union(*(a.variables() for a in f.args))


_REBUILD = {"div": _div, "mod": _mod, "mul": _mul, "xor": xor, "min": minimum, "max": maximum}


def _subs(e: Expr, mapping: dict[Var, Expr], memo: dict[Fn, Expr]) -> Expr:
    if mapping.keys().isdisjoint(e.variables()):
        return e
    same: dict[Atom, int] = {}
    out = ZERO
    for atom, c in e.terms:
        if isinstance(atom, Var):
            new = mapping.get(atom)
        elif atom in memo:
            new = memo[atom]
        else:
            new = memo[atom] = _REBUILD[atom.kind](*(_subs(a, mapping, memo) for a in atom.args))
        if new is None:
            same[atom] = c
        else:
            out = out + _scale(new, c)
    return out + _build(same, e.const)


def _evaluate_fn(f: Fn, env: Mapping[str, Any]) -> Any:
    values = [a.evaluate(env) for a in f.args]
    if f.kind in ("min", "max"):
        if all(isinstance(v, int) for v in values):
            return min(values) if f.kind == "min" else max(values)
        import numpy as np

        return reduce(np.minimum if f.kind == "min" else np.maximum, values)
    plain = {"div": operator.floordiv, "mod": operator.mod, "mul": operator.mul, "xor": operator.xor}
    return plain[f.kind](*values)


def _factor(e: Expr, product: bool) -> str:
    """An operand of an infix operator, in parentheses unless it binds at least as tightly."""
    text = str(e)
    if not e.terms:
        return text if e.const >= 0 else f"({text})"
    atom, c = e.terms[0]
    simple = len(e.terms) == 1 and not e.const and c == 1
    bare = simple and (isinstance(atom, Var) or atom.kind not in _INFIX or (product and atom.kind == "mul"))
    return text if bare else f"({text})"
