"""Quotients and remainders by sizes, which are computed once before the loops that do not change them.

    for c: if (16*c < C) copy(I + (8*b + t)/Q*W + 16*c)   -->   q = (8*b + t)/Q; for c: if (16*c < C) copy(I + q*W + 16*c)

POSITIVE  Compilers leave a division under a condition where it is, in case the divisor is 0 where that does not hold. A launch
          knows sizes that are positive wherever its text runs. Only quotients by products of these are moved.
ARRAYS    Of a loop that compilers unroll wholly, quotients that depend on its variable are an array, one for each iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.index.expr import Atom, Fn, Var
from ....dsl.support.memoised import memoised
from ...analysis.divisibility import factors
from .c_tree import Declaration

if TYPE_CHECKING:
    from .text_builder import SourceText, UnrolledLoop

MOST_QUOTIENTS = 4  # quotients: of an array, a register each; more leave too few to those that are in flight [limit]


class EarlyQuotients:
    """Those of a growing text. `positive`: POSITIVE."""

    def __init__(self, text: SourceText) -> None:
        self.text = text
        self.positive: frozenset[Var] = frozenset()

    def name(self, f: Fn) -> str | None:
        """The name that it has outside of the loops that do not change it; None: it is printed where it is used."""
        place = self._place(f) if f.kind in ("div", "mod") and f.args[1].terms else None
        if place is None:
            return None
        depth, loop = place
        text, scope, key = self.text, self.text.scopes[depth], (f, loop.turns if loop is not None else 0)
        if key not in scope.quotients:
            value, kind = text.index.unnamed(f), text.index.integer(f)
            name = scope.quotients[key] = text.fresh("quotient" if f.kind == "div" else "remainder", depth)
            made = (
                (Declaration(kind, name, value, const=True),) if loop is None else text.filled(kind, name, depth, value, loop)
            )
            scope.decls += map(text.here, made)
        name = scope.quotients[key]
        return name if loop is None else f"{name}[{text.name_of(loop.var)}]"

    def has_all_of(self, atom: Atom) -> bool:
        """Whether all in it that may divide by zero has a name."""
        assert isinstance(atom, Fn)
        if atom.kind in ("div", "mod") and atom.args[1].terms:
            return self._place(atom) is not None
        return all(self.has_all_of(a) for e in atom.args for a, _ in e.terms if is_risky(a))

    def _place(self, f: Fn) -> tuple[int, UnrolledLoop | None] | None:
        """The scope that has all of its variables, and the unrolled loop inside of it that it needs an array for (ARRAYS)."""
        if (sizes := _divisors(f)) is None or not sizes <= self.positive:
            return None
        scopes = self.text.scopes
        depths = {v: self.text.depth(v) for v in f.variables()}
        inner = {v: loop for v, at in depths.items() if (loop := scopes[at].unrolled) is not None and loop.var == v}
        if len(inner) > 1 or any(loop.turns > MOST_QUOTIENTS for loop in inner.values()):
            return None
        own = max((at for v, at in depths.items() if v not in inner), default=0)
        last = min((depths[v] for v in inner), default=len(scopes))
        if not any(x.repeats and x.unrolled is None for x in scopes[own + 1 : last]):
            return None
        return own, next(iter(inner.values()), None)


def is_risky(atom: Atom) -> bool:
    """Whether it may divide by zero."""
    return isinstance(atom, Fn) and _may_divide_by_zero(atom)


@memoised
def _may_divide_by_zero(f: Fn) -> bool:
    return (f.kind in ("div", "mod") and bool(f.args[1].terms)) or any(is_risky(a) for e in f.args for a, _ in e.terms)


@memoised
def _divisors(f: Fn) -> frozenset[Var] | None:
    """The sizes that all that it divides by are products of, numbers besides; None: it divides by something else."""
    found: set[Var] = set()
    by = f.args[1]
    if f.kind in ("div", "mod") and by.terms:
        parts = factors(by.terms[0][0]) if len(by.terms) == 1 and by.terms[0][1] > 0 and not by.const else (f,)
        if not all(isinstance(x, Var) for x in parts):
            return None
        found |= by.variables()
    for inner in (a for e in f.args for a, _ in e.terms if isinstance(a, Fn)):
        if (own := _divisors(inner)) is None:
            return None
        found |= own
    return frozenset(found)
