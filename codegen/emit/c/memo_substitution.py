"""Substitution in index expressions, memoised by node: unrolled statements differ in few nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ....dsl.index.expr import Atom, Expr, Fn, Var
from ....dsl.index.simplify import merge_terms, rebuild


class MemoSubstitution:
    def __init__(self) -> None:
        self._seen: dict[tuple[Expr | Fn | None, ...], Expr] = {}

    def __call__(self, e: Expr, env: Mapping[Var, Expr]) -> Expr:
        """`e.subs(env)`"""
        return self._once(e, env) or e

    def _once(self, x: Expr | Fn, env: Mapping[Var, Expr]) -> Expr | None:
        """None where nothing of it is known."""
        here = [env.get(v) for v in x._variables]
        if here.count(None) == len(here):
            return None
        key = (x, *here)  # one for each variable, known or not: which of them are known matters
        found = self._seen.get(key)
        if found is None:
            new = self._sum(x, env) if type(x) is Expr else rebuild(x.kind, [self(a, env) for a in x.args])  # type: ignore[union-attr]
            found = self._seen[key] = new
        return found

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
