"""DIGITS by numbers (`symbolic_domain`): a variable has a digit for each of several divisors. Each divides the next."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ...dsl.index.expr import ZERO, Atom, Expr, Fn, Var, as_expr
from ..plan.computations import plain_var
from .symbolic_domain import Domain, NotSymbolic, function_of


def with_constant_digits(d: Domain) -> Domain:
    """With digits by numbers in place of free variables (DIGITS)."""
    divisors: dict[Var, set[int]] = {}
    for e in d.exprs:
        for atom, _ in e.terms:
            _divisors(atom, d.free, divisors)
    values: dict[Var, Expr] = {}
    free: dict[Var, Expr] = {}
    conds: list[Expr] = []
    for x, by in divisors.items():
        chain = [1, *sorted(by)]
        if any(b % a for a, b in pairwise(chain)):
            raise NotSymbolic
        value, digits = ZERO, {}
        for n, a in enumerate(chain):
            last = n == len(chain) - 1
            high = (None if x.hi is None else x.hi // a) if last else chain[n + 1] // a - 1
            digit = Var(f"{x.name}.{n}", 0, high)
            value, digits[digit] = value + a * digit, ZERO
        if d.free[x] != ZERO:
            raise NotSymbolic
        values[x] = value
        conds += [c for v in digits for c in (as_expr(v), *([] if v.hi is None else [v.hi - v]))]
        free |= digits
    if not values:
        return d
    d = d.subs(values)
    d.free |= free
    d.conds += conds
    return d


def _divisors(atom: Atom, free: Mapping[Var, Expr], found: dict[Var, set[int]]) -> None:
    if not isinstance(atom, Fn):
        return
    by = atom.args[1].constant if atom.kind in ("div", "mod") else None
    inner, scale = atom.args[0], 1
    f = function_of(inner)
    while by is not None and f is not None and f.kind == "div" and f.args[1].constant:
        inner, scale = f.args[0], scale * f.args[1].constant
        f = function_of(inner)
    x = plain_var(inner)
    if by is not None and x is not None and x in free:
        found.setdefault(x, set()).update({scale, scale * by} - {1})
        return
    for a in atom.args:
        for inner_atom, _ in a.terms:
            _divisors(inner_atom, free, found)
