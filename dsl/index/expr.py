"""Quasi-affine integer index expressions with ranges, in a canonical form by construction.

An `Expr` is a linear form `sum(coefficient * atom) + const`; an atom is a `Var`, or an `Fn` of other expressions:

    div, mod   floor semantics, as in Python; the divisor is positive: usually a constant, else an expression taken to be > 0
    mul        the product of two non-constant expressions (sums are multiplied out, so equal polynomials are equal)
    xor        on integers in two's complement
    min, max   of two or more

Building an expression simplifies it, and never changes its value for any values of the variables inside their intervals.

ONE_OBJECT: there is one object for each variable, function and expression, as long as anything refers to it. Equal means
identical, so a dictionary by expression may keep anything. The interval of a variable is part of it: variables of one name and
different intervals are different.

FREED: the table's key of an object has its parts. So a part must not keep what it is part of: that would never be freed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Union
from weakref import ref

from ..support.cached import cached_value
from ..support.weak_table import WeakTable
from . import intervals
from .intervals import Interval


class _Arithmetic:
    """The operators that `Var` and `Expr` share; all of them give an `Expr`."""

    __slots__ = ()

    def __add__(self, other: Index) -> Expr:
        return rules.add(as_expr(self), other if type(other) is Expr else as_expr(other))  # type: ignore[arg-type]

    __radd__ = __add__

    def __sub__(self, other: Index) -> Expr:
        return rules.add(as_expr(self), other if type(other) is Expr else as_expr(other), -1)  # type: ignore[arg-type]

    def __rsub__(self, other: Index) -> Expr:
        return rules.add(as_expr(other), as_expr(self), -1)  # type: ignore[arg-type]

    def __neg__(self) -> Expr:
        return rules.scale(as_expr(self), -1)  # type: ignore[arg-type]

    def __mul__(self, other: Index) -> Expr:
        return rules.mul(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    __rmul__ = __mul__

    def __floordiv__(self, other: Index) -> Expr:
        return rules.div(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    def __rfloordiv__(self, other: Index) -> Expr:
        return rules.div(as_expr(other), as_expr(self))  # type: ignore[arg-type]

    def __mod__(self, other: Index) -> Expr:
        return rules.mod(as_expr(self), as_expr(other))  # type: ignore[arg-type]

    def __rmod__(self, other: Index) -> Expr:
        return rules.mod(as_expr(other), as_expr(self))  # type: ignore[arg-type]


_TABLE: WeakTable[Any] = WeakTable()  # ONE_OBJECT: by what each object is made of
_reference, _only, _new = _TABLE.reference, _TABLE.only, object.__new__


def _none() -> None:
    """What an object that was freed leaves."""


class _Node:
    """Immutable; what is asked of it is computed once."""

    @cached_value
    def _key(self) -> tuple:
        raise NotImplementedError

    @cached_value
    def memos(self) -> dict[Callable[..., Any], Any]:
        """What functions keep of it, see `memoised`."""
        return {}


class Var(_Arithmetic):
    """An integer variable whose values lie in [lo, hi], both inclusive; None is unbounded."""

    name: str
    lo: int | None
    hi: int | None
    interval: Interval
    _key: tuple  # the order of terms: by name
    _expr: Callable[[], Expr | None]  # as an expression, if there is one; weak, see FREED

    __match_args__ = ("name", "lo", "hi")

    def __new__(cls, name: str, lo: int | None = 0, hi: int | None = None) -> Var:
        key = name, lo, hi
        known = _reference(key)
        if known is not None and (found := known()) is not None:
            return found
        self = _new(cls)
        self.name, self.lo, self.hi = key
        self.interval = lo, hi
        self._expr = _none
        self._key = 0, name, -math.inf if lo is None else lo, math.inf if hi is None else hi
        return _only(key, self)

    def __reduce__(self):
        return Var, (self.name, self.lo, self.hi)

    def __lt__(self, other: Var) -> bool:
        return self._key < other._key

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Var(name={self.name!r}, lo={self.lo!r}, hi={self.hi!r})"


class Fn(_Node):
    """An atom that is a function of expressions. Made by the operators and functions below, which simplify; not by hand."""

    kind: str
    args: tuple[Expr, ...]

    def __new__(cls, kind: str, args: tuple[Expr, ...]) -> Fn:
        key = kind, args
        known = _reference(key)
        if known is not None and (found := known()) is not None:
            return found
        self = _new(cls)
        self.kind, self.args = key
        return _only(key, self)

    @cached_value
    def _key(self) -> tuple:
        return 1, self.kind, tuple([a._key for a in self.args])

    def __reduce__(self):
        return Fn, (self.kind, self.args)

    def __repr__(self) -> str:
        return f"Fn({self})"

    def __str__(self) -> str:
        return shown.function(self)

    def variables(self) -> frozenset[Var]:
        """All variables of the arguments."""
        return self._variables

    @cached_value
    def _variables(self) -> frozenset[Var]:
        first, *others = [mine for a in self.args if (mine := a._variables)]
        return first.union(*others) if others else first

    @cached_value
    def remainders(self) -> tuple[Fn, ...]:
        """Factors of a product that are remainders by expressions; of such a remainder itself."""
        if self.kind == "mul":
            return tuple([f for a in self.args if type(m := a.terms[0][0]) is Fn for f in m.remainders])
        return (self,) if self.kind == "mod" and self.args[1].terms else ()

    @cached_value
    def interval(self) -> Interval:
        square = self.kind == "mul" and self.args[0] == self.args[1]
        return intervals.function(self.kind, tuple([a.interval for a in self.args]), square)


Atom = Union[Var, Fn]  # noqa: UP007 - evaluated at run time
# What each function is of integers.
OF_INTEGERS: dict[str, Callable[..., int]] = {
    "div": operator.floordiv,
    "mod": operator.mod,
    "mul": operator.mul,
    "xor": operator.xor,
    "min": min,
    "max": max,
}


class Expr(_Arithmetic, _Node):
    """`sum(coefficient * atom) + const`; `terms` are sorted and have no zero coefficient."""

    terms: tuple[tuple[Atom, int], ...]
    const: int

    def __new__(cls, terms: tuple[tuple[Atom, int], ...] = (), const: int = 0) -> Expr:
        key = terms, const
        known = _reference(key)
        if known is not None and (found := known()) is not None:
            return found
        self = _new(cls)
        self.terms, self.const = key
        return _only(key, self)

    # The same as `_Arithmetic`'s, for what most sums are of.

    def __add__(self, other: Index) -> Expr:
        if type(other) is int:
            return Expr(self.terms, self.const + other) if other else self
        return rules.add(self, other if type(other) is Expr else as_expr(other))  # type: ignore[arg-type]

    __radd__ = __add__

    def __sub__(self, other: Index) -> Expr:
        if type(other) is int:
            return Expr(self.terms, self.const - other) if other else self
        return rules.add(self, other if type(other) is Expr else as_expr(other), -1)  # type: ignore[arg-type]

    def __mul__(self, other: Index) -> Expr:
        if type(other) is int:
            return rules.scale(self, other)
        return rules.mul(self, as_expr(other))

    __rmul__ = __mul__

    @cached_value
    def _key(self) -> tuple:
        return tuple([(a._key, c) for a, c in self.terms]), self.const

    def __reduce__(self):
        return Expr, (self.terms, self.const)

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __str__(self) -> str:
        return shown.linear(self)

    @property
    def constant(self) -> int | None:
        """The value when there are no variables, else None."""
        return None if self.terms else self.const

    @property
    def atom(self) -> Atom | None:
        """The variable or the function that the expression is, without a factor or another term; else None."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 and not self.const else None

    @cached_value
    def interval(self) -> Interval:
        """(lowest, highest) value, inclusive, None where unbounded. Conservative: it may be wider than what is reached."""
        return intervals.linear(self.terms, self.const)

    def at_least(self, n: int) -> bool:
        """Whether the interval says that it is n or more."""
        low = self.interval[0]
        return low is not None and low >= n

    def is_multiple_of(self, n: int) -> bool:
        """Whether the coefficients say so."""
        return self.const % n == 0 and all(c % n == 0 for _, c in self.terms)

    def coefficient(self, var: Var) -> int:
        """The coefficient of `var` as a term of the linear form; what stands inside atoms does not count."""
        return next((c for a, c in self.terms if a == var), 0)

    def variables(self) -> frozenset[Var]:
        """All variables, those inside atoms too."""
        return self._variables

    @cached_value
    def _variables(self) -> frozenset[Var]:
        terms = self.terms
        if len(terms) == 1 and type(terms[0][0]) is Fn:
            return terms[0][0]._variables
        found: list[Var] = []
        for a, _ in terms:
            if type(a) is Var:
                found.append(a)
            else:
                found += a._variables  # type: ignore[union-attr]
        return frozenset(found)

    def subs(self, mapping: Mapping[Var, Index], functions: Mapping[Fn, Index] | None = None) -> Expr:
        """With variables replaced, all at once, and simplified anew.

        functions   atoms that are replaced whole; each has one of the variables
        """
        if not self.terms:
            return self
        mine = self._variables
        given = {v: as_expr(mapping[v]) for v in mine if v in mapping}
        if not given:
            return self
        if not functions and len(given) == len(mine) and not any(x.terms for x in given.values()):
            return number(self.evaluate({v.name: x.const for v, x in given.items()}))
        return put_in.substituted(self, given, frozenset(given), {f: as_expr(x) for f, x in (functions or {}).items()})

    def renamed(self, names: Mapping[Var, Var]) -> Expr:
        """With other variables, none of which it has, each in the interval of the one before: nothing is to be simplified."""
        return self if names.keys().isdisjoint(self._variables) else put_in.renamed(self, names, {})

    def evaluate(self, env: Mapping[str, Any]) -> Any:
        """The value for integers, or integer arrays that broadcast, by variable name. It may be one of these arrays itself."""
        total: Any = self.const
        for atom, c in self.terms:
            value = env[atom.name] if type(atom) is Var else evaluated(atom, env)  # type: ignore[arg-type]
            if c != 1:
                value = c * value
            total = total + value if type(total) is not int or total else value
        return total


Index = Union[int, Var, Expr]  # noqa: UP007 - evaluated at run time

ZERO = Expr()
ONE = Expr((), 1)


def as_expr(x: Index) -> Expr:
    """An integer, a variable or an expression as an expression."""
    if type(x) is Expr:
        return x
    if type(x) is Var:
        found = x._expr()
        if found is None:
            found = Expr(((x, 1),))
            x._expr = ref(found)
        return found
    return number(x)  # type: ignore[arg-type]


def number(n: int) -> Expr:
    """An integer as an expression."""
    return _NUMBERS.get(n) or Expr((), operator.index(n))


_NUMBERS = {n: Expr((), n) for n in range(-256, 1025)}  # small ones stay


def xor(a: Index, b: Index) -> Expr:
    """Bitwise exclusive or, in two's complement."""
    return rules.xor(as_expr(a), as_expr(b))


def minimum(*xs: Index) -> Expr:
    return rules.simplify_extreme("min", map(as_expr, xs))


def maximum(*xs: Index) -> Expr:
    return rules.simplify_extreme("max", map(as_expr, xs))


def ceildiv(a: Index, b: Index) -> Expr:
    """a / b rounded up, for b > 0."""
    return (as_expr(a) + b - 1) // b


def evaluated(f: Fn, env: Mapping[str, Any]) -> Any:
    """The value of a function, see `Expr.evaluate`."""
    values = [a.evaluate(env) for a in f.args]
    if f.kind in ("min", "max") and not all(isinstance(v, int) for v in values):
        import numpy as np

        return reduce(np.minimum if f.kind == "min" else np.maximum, values)
    return OF_INTEGERS[f.kind](*values)


# Last, because these build on the classes above.
from . import print_index as shown  # noqa: E402
from . import simplify as rules  # noqa: E402
from . import substitute as put_in  # noqa: E402
