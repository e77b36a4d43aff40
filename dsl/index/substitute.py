"""Substitution in index expressions: an expression without the substituted variables stays the same object."""

from __future__ import annotations

from collections.abc import Mapping

from .expr import Atom, Expr, Fn, Var
from .simplify import key_of, merge_terms, product, rebuild


def substituted(e: Expr, mapping: dict[Var, Expr], keys: frozenset[Var], memo: dict[Fn, Expr]) -> Expr:
    """With variables replaced, and functions that `memo` has, see `Expr.subs`; `memo` gets those that are made.

    keys   those of `mapping`: sets know the hashes of what is in them
    """
    if keys.isdisjoint(e._variables):
        return e
    kept: list[tuple[Atom, int]] = []
    came: list[tuple[Atom, int]] = []
    const = e.const
    for atom, c in e.terms:
        if type(atom) is Var:
            new = mapping.get(atom)
        elif keys.isdisjoint(atom._variables):  # type: ignore[union-attr]
            new = None
        elif atom in memo:
            new = memo[atom]  # type: ignore[index]
        else:
            new = memo[atom] = rebuild(atom.kind, [substituted(a, mapping, keys, memo) for a in atom.args])  # type: ignore
        if new is None:
            kept.append((atom, c))
            continue
        const += c * new.const
        came += [(a, c * k) for a, k in new.terms]
    return merge_terms(kept, came, const)


def renamed(e: Expr, names: Mapping[Var, Var], memo: dict[Fn, Fn]) -> Expr:
    """With other variables, see `Expr.renamed`; `memo` gets the functions that are made."""
    terms: list[tuple[Atom, int]] = []
    for atom, c in e.terms:
        if type(atom) is Var:
            new: Atom = names.get(atom, atom)
        elif names.keys().isdisjoint(atom._variables):  # type: ignore[union-attr]
            new = atom
        elif atom in memo:
            new = memo[atom]  # type: ignore[index]
        else:
            new = _of_renamed(atom.kind, [renamed(a, names, memo) for a in atom.args])  # type: ignore[union-attr]
            memo[atom] = new  # type: ignore[index, assignment]
        terms.append((new, c))
    if len(terms) > 1:
        terms.sort(key=key_of)
    return Expr(tuple(terms), e.const)


def _of_renamed(kind: str, args: list[Expr]) -> Fn:
    if kind == "mul":
        return product(args[0].terms[0][0], args[1].terms[0][0])
    return Fn(kind, tuple(args if kind in ("div", "mod") else sorted(args, key=lambda e: e._key)))
