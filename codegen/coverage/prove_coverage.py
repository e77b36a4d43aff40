"""Proofs for all sizes that what is read was written: for a point that reads, a point that writes the same element.

The point is found by digits. Where a writer's coordinate is  a*v + b*w + ... + u  with a > b > ... > 1, an element e has
v = e/a, w = e%a/b, and so on: then the writer reaches e, whatever the ranges of its variables are. That these values are in the
ranges, and satisfy all conditions, is left to prove (`dsl.index.prove`). The choice of the point proves nothing.

SWIZZLED    xor(v, g) = z  has  v = xor(z, g)
FUSED       x / d = e  and  x % d = r  have  x = d*e + r, where r is from 0 on and below d
BOTH_WAYS   a condition that is not proven is no loss, where another writer reaches the element if it does not hold
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from ...dsl.index.expr import ONE, ZERO, Atom, Expr, Fn, Var, as_expr, xor
from ...dsl.index.prove import Assumptions, always, without_isl
from ..plan.computations import plain_var
from .constant_digits import with_constant_digits
from .symbolic_domain import Domain, NotSymbolic, function_of

_EXACT = 8  # questions: to isl, for one program [limit]


@dataclass(frozen=True)
class Remaining:
    """Conditions that were not proven: all of them, or not all of them, must hold."""

    conds: frozenset[Expr]
    holds: bool = True

    def complements(self, other: Remaining) -> bool:
        """Whether one of the two is always so. BOTH_WAYS"""
        if self.holds != other.holds:
            return self.conds == other.conds
        if not self.holds or len(self.conds) != 1 or len(other.conds) != 1:
            return False
        (a,), (b,) = self.conds, other.conds
        return a + b + 1 == ZERO


class Prover:
    """Answers questions. isl is asked so many times in all, which is no clock."""

    def __init__(self) -> None:
        self.left = _EXACT

    def shows(self, cond: Expr, facts: Assumptions) -> bool:
        shown = without_isl(cond, facts)
        if shown is None and any(without_isl(c, facts) for c in _with_less(cond)):
            return True
        if shown is None and self.left and not _has_product(cond):
            self.left -= 1
            return always(cond, facts)
        return shown is True


def _with_less(cond: Expr) -> Iterator[Expr]:
    """What is no more than the expression: with an operand in place of a maximum."""
    for a, k in cond.terms:
        if isinstance(a, Fn) and a.kind == "max" and k > 0:
            yield from (cond - k * Expr(((a, 1),)) + k * x for x in a.args)


def _has_product(e: Expr) -> bool:
    """For isl a product is any number, and a question about it a long one."""
    return any(isinstance(a, Fn) and (a.kind == "mul" or any(map(_has_product, a.args))) for a, _ in e.terms)


def is_covered(element: Sequence[Expr], facts: Iterable[Expr], writers: Iterable[Domain], prover: Prover) -> bool:
    """Whether each element is proven to be written, by one writer or by two (BOTH_WAYS). `facts`: >= 0 where it is wanted."""
    known = tuple(facts)
    assumed = Assumptions(lambda: known)
    remaining: list[Remaining] = []
    for w in writers:
        try:
            open_ = unproven_conditions(element, assumed, w, prover)
        except NotSymbolic:
            continue
        if not open_:
            return True
        if len(open_) == 1:
            if any(open_[0].complements(x) for x in remaining):
                return True
            remaining.append(open_[0])
    return False


def unproven_conditions(element: Sequence[Expr], facts: Assumptions, w: Domain, prover: Prover) -> list[Remaining]:
    """What is to be proven that the writer reaches the element: none where all was proven."""
    element, facts, w = _fused(element, facts, with_constant_digits(w), prover)
    values = _solved(element, w)
    rest = [v for v in w.free if v not in values]
    first = _unproven(element, facts, w, _completed(values, w, w.free), prover)
    if not first or not any(v in w.last for v in rest):
        return first
    return first if _unproven(element, facts, w, _completed(values, w, w.free | w.last), prover) else []


def _fused(
    element: Sequence[Expr], facts: Assumptions, w: Domain, prover: Prover
) -> tuple[Sequence[Expr], Assumptions, Domain]:
    """With one coordinate x for two that are x / d and x % d (FUSED)."""
    element, coords = list(element), list(w.coords)
    while (pair := fused_pair(coords)) is not None:
        high, low = pair
        e, r = element[high], element[low]
        x, by = function_of(coords[high]).args  # type: ignore[union-attr]
        if not (prover.shows(r, facts) and prover.shows(by - 1 - r, facts)):
            raise NotSymbolic
        if (by.interval[0] or 0) >= 0:  # what x is below, from what e is below
            own = e.variables()
            facts = facts.also(*[by * c + by - 1 - r for c in facts.conds if own.isdisjoint((c + e).variables())])
        element[high], coords[high] = by * e + r, x
        del element[low], coords[low]
    return element, facts, replace(w, coords=tuple(coords))


def fused_pair(coords: Sequence[Expr]) -> tuple[int, int] | None:
    """The places of two coordinates that are x / d and x % d."""
    functions = [function_of(c) for c in coords]
    for n, f in enumerate(functions):
        for m, g in enumerate(functions):
            if f is not None and g is not None and (f.kind, g.kind) == ("div", "mod") and f.args == g.args:
                return n, m
    return None


def _completed(values: dict[Var, Expr], w: Domain, others: Mapping[Var, Expr]) -> dict[Var, Expr]:
    """With values for variables that the element does not determine."""
    out = dict(values)
    for v in w.free:
        if v not in out:
            out[v] = others[v].subs(out)
    return out


def _unproven(
    element: Sequence[Expr], facts: Assumptions, w: Domain, values: dict[Var, Expr], prover: Prover
) -> list[Remaining]:
    known = list(_known_coordinates(element, w))
    asked = (_reduced(c, known, w, values) for c in w.conds if not _in_range(c, values))
    conds = [c for c in asked if not prover.shows(c, facts)]
    out = [Remaining(frozenset(conds))] if conds else []
    for cs in w.unless:
        rest = [x for c in cs if not prover.shows(x := _reduced(c, known, w, values), facts)]
        if not any(prover.shows(-c - 1, facts) for c in rest):
            out.append(Remaining(frozenset(rest), False))
    return out


def _in_range(c: Expr, values: dict[Var, Expr]) -> bool:
    """Whether intervals show a condition on one variable."""
    if len(c.terms) != 1:
        return False
    ((atom, k),) = c.terms
    if not isinstance(atom, Var) or atom not in values:
        return False
    end = values[atom].interval[0 if k > 0 else 1]
    return end is not None and c.const + k * end >= 0


def _solved(element: Sequence[Expr], w: Domain) -> dict[Var, Expr]:
    """Values of free variables with which the coordinates are the element. Raises NotSymbolic."""
    values: dict[Var, Expr] = {}
    for e, c in zip(element, w.coords, strict=True):
        c = c.subs(values)
        terms = [(k, term) for a, k in c.terms if (term := _unknown(a, w)) is not None]
        left = e - (c - sum((k * x for k, (x, _, _) in terms), ZERO))
        if not w.free.keys().isdisjoint(left.variables()) or any(k < 0 for k, _ in terms):
            raise NotSymbolic
        for k, (_, v, mask) in sorted(terms, key=lambda t: -t[0]):
            if v in values:
                raise NotSymbolic
            values[v] = left // k if mask is None else xor(left // k, mask)
            left = left % k
        if left != ZERO:
            raise NotSymbolic
    return values


def _unknown(a: Atom, w: Domain) -> tuple[Expr, Var, Expr | None] | None:
    """A free variable, or one in an `xor` with what is known (SWIZZLED): the term, the variable, what it is masked by."""
    if isinstance(a, Var):
        return (as_expr(a), a, None) if a in w.free else None
    if a.kind == "xor":
        for x, mask in (a.args, a.args[::-1]):
            v = plain_var(x)
            if v is not None and v in w.free and w.free.keys().isdisjoint(mask.variables()):
                return Expr(((a, 1),)), v, mask
    return None


def _known_coordinates(element: Sequence[Expr], w: Domain) -> Iterator[tuple[Var, int, Expr]]:
    """Of each coordinate that has free variables: the one with the largest coefficient, that, and what is 0 at the point."""
    for e, x in zip(element, w.coords, strict=True):
        free = [(a, k) for a, k in x.terms if a in w.free]
        if free:
            first, most = max(free, key=itemgetter(1))
            yield first, most, x - e  # type: ignore[misc]


def _reduced(c: Expr, known: Sequence[tuple[Var, int, Expr]], w: Domain, values: dict[Var, Expr]) -> Expr:
    """A condition at the point: with the element in place of a coordinate that it has."""
    for first, most, nothing in known:
        times = c.coefficient(first)
        if times and times % most == 0:
            less = c - (times // most) * nothing
            if len(w.free.keys() & less.variables()) < len(w.free.keys() & c.variables()):
                c = less
    return c.subs(values)


def any_element(shape: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Any element of a shape, and what is known of it."""
    element = [
        ZERO if e == ONE else as_expr(Var(f"@{n}", 0, None if e.interval[1] is None else e.interval[1] - 1))
        for n, e in enumerate(shape)
    ]
    return element, [e - 1 - v for v, e in zip(element, shape, strict=True)]
