"""Substitution in index expressions, memoised by node: unrolled statements differ in few nodes.

The memo goes by identity: equal expressions may differ in their variables' intervals. So a number is substituted as the same
object each time, and expressions of the same objects in the same form share one result.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....dsl.index.expr import ZERO, Atom, Expr, Fn, Var
from ....dsl.index.simplify import merge_terms, rebuild


class MemoSubstitution:
    def __init__(self) -> None:
        self._seen: dict[tuple[int, ...], tuple[Expr, object, list[Expr | None]]] = {}
        self._firsts: dict[int, tuple[Expr | Fn, Expr | Fn]] = {}  # what the key names is the second
        self._made: dict[tuple, Expr | Fn] = {}

    def __call__(self, e: Expr, env: Mapping[Var, Expr]) -> Expr:
        """`e.subs(env)`"""
        return self._once(e, env) or e

    def _once(self, x: Expr | Fn, env: Mapping[Var, Expr]) -> Expr | None:
        """None where nothing of it is known."""
        here = [env.get(v) for v in x._variables]
        if here.count(None) == len(here):
            return None
        key = (id(x), *map(id, here))  # one for each variable, known or not: which of them are known matters
        found = self._seen.get(key)
        if found is None:
            if type(x) is Expr:
                new = self._sum(x, env)
            elif (first := self._first(x)) is not x:
                new = self._once(first, env) or ZERO  # it has the same variables
            else:
                new = rebuild(x.kind, [self(a, env) for a in x.args])  # type: ignore[union-attr]
            found = self._seen[key] = (new, x, here)  # what the key names stays alive
        return found[0]

    def _first(self, x: Expr | Fn) -> Expr | Fn:
        """The first of all expressions of the same form in the same variables with the same intervals."""
        found = self._firsts.get(id(x))
        if found is None:
            if type(x) is Expr:
                made = (x.const, *[(id(a if type(a) is Var else self._first(a)), c) for a, c in x.terms])  # type: ignore[arg-type]
            else:
                made = (x.kind, *[id(self._first(a)) for a in x.args])  # type: ignore[union-attr]
            found = self._firsts[id(x)] = (self._made.setdefault(made, x), x)
        return found[0]

    def _sum(self, e: Expr, env: Mapping[Var, Expr]) -> Expr:
        kept: list[tuple[Atom, int]] = []
        came: list[tuple[Atom, int]] = []
        const = e.const
        for term in e.terms:
            atom, c = term
            new = env.get(atom) if type(atom) is Var else self._once(atom, env)  # type: ignore[arg-type]
            if new is None:
                kept.append(term)
                continue
            const += c * new.const
            came += [(a, c * k) for a, k in new.terms]
        return merge_terms(kept, came, const)
