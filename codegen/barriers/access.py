"""Accesses of shared buffers, and the proof that two of them need no barrier between.

    LOCKSTEP   units that run in lockstep are ordered by themselves: a buffer is looked at only if others share it.
    DISJOINT   the two accesses never meet in an element (rotating stages; complementary guards).
    SAME_UNIT  where they meet, it is one unit (or lockstep group) that makes both.
    DEALT      in `for i = unit .. by number of units` the same i means the same unit, whatever the number is.
    WITNESS    otherwise: most conflicts are found by looking (`barriers_witness`), before anything is proven.

The two accesses are made by two units u and v: variables that may differ between units are renamed apart, others are common.
What is asked is whether all coordinates can be equal while u != v; `dsl.prove` decides. Unsure is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from ...dsl.index import Expr, Fn, Var, as_expr
from ...dsl.prove import feasible
from .witness import seen

_APART = "'"  # suffix of the later unit's variables
OLD = "~"  # suffix of a loop's variable in an unknown earlier iteration


@dataclass(frozen=True)
class Access:
    """One access by every unit below one unit of `level`, the level whose barrier could order it.

    kind      read | write | combine (atomic)
    coords    what element, with all Lets replaced
    conds     >= 0 wherever the access happens: guards and the bounds of loops
    varying   variables whose values may differ between the units below one unit of `level`, or that are of another time
    owners    for each level below whose units are not in lockstep: its unit's number, and the variable of a dealt loop or None
    text      the statement, for messages
    """

    buffer: str
    level: str
    kind: str
    coords: tuple[Expr, ...]
    conds: tuple[Expr, ...]
    varying: frozenset[Var]
    owners: tuple[tuple[Expr, Expr | None], ...]
    flight: str | None = None  # the kind of asynchronous copy that makes it
    text: str = field(default="", compare=False)

    @cached_property
    def _hash(self) -> int:
        return hash((self.buffer, self.level, self.kind, self.coords, self.conds, self.varying, self.owners, self.flight))

    def __hash__(self) -> int:  # computed once: states are compared and looked up a lot
        return self._hash

    @lru_cache(maxsize=4096)  # noqa: B019 - bounded; the same accesses come back at every turn of the fixed point
    def subs(self, var: Var, value: Expr, differs: bool) -> Access:
        """At another time: `var` is `value`, whose variables are renamed apart if it `differs`."""
        if not any(var in e.variables() for e in self.exprs()):
            return self
        mapping = {var: value}
        return replace(
            self,
            coords=tuple(e.subs(mapping) for e in self.coords),
            conds=tuple(e.subs(mapping) for e in self.conds),
            owners=tuple((u.subs(mapping), None if d is None else d.subs(mapping)) for u, d in self.owners),
            varying=(self.varying | value.variables()) if differs else self.varying,
        )

    def old(self, var: Var) -> Access:
        """The access as made in some earlier iteration of the loop over `var`."""
        return self.subs(var, as_expr(Var(var.name.rstrip(OLD) + OLD, var.lo, var.hi)), True)

    def exprs(self) -> Iterator[Expr]:
        yield from self.coords
        yield from self.conds
        for unit, dealt in self.owners:
            yield unit
            if dealt is not None:
                yield dealt


def conflict(a: Access, b: Access) -> bool:
    """Whether the accesses may need a barrier between them, `a` before `b`."""
    if a.buffer != b.buffer or a.kind == b.kind != "write" or {a.kind, b.kind} == {"read"}:
        return False
    apart = {v: as_expr(Var(v.name + _APART, v.lo, v.hi)) for v in b.varying}
    other = [e.subs(apart) for e in b.coords]
    facts = [*a.conds, *(c.subs(apart) for c in b.conds)]
    if len(a.coords) != len(other):
        return True  # one buffer in another shape
    equalities = list(zip(a.coords, other, strict=True))
    for x, y in equalities:
        facts += [x - y, y - x]
    # Drawing costs as much as a proof; it pays where proofs are slow, and mostly fail.
    if any(True for x, y in equalities for _ in (*_opaque(x), *_opaque(y))) and seen(a, b):
        return True  # WITNESS
    if not feasible(facts):
        return False  # DISJOINT
    facts += _implied(equalities, facts)
    for (unit, dealt), (unit2, dealt2) in zip(a.owners, b.owners, strict=True):
        by_loop = dealt is not None and dealt2 is not None and _equal(dealt, dealt2.subs(apart), facts)  # DEALT
        if not by_loop and not _equal(unit, unit2.subs(apart), facts):
            return True
    return False  # SAME_UNIT


def _equal(x: Expr, y: Expr, facts: list[Expr]) -> bool:
    return not feasible([*facts, x - y - 1]) and not feasible([*facts, y - x - 1])


def _implied(equalities: list[tuple[Expr, Expr]], facts: list[Expr]) -> list[Expr]:
    """Facts (>= 0) that follow from the coordinates' equality by functions that the prover does not look into.

    p xor x = q xor y and x = y give p = q (a swizzle: equal rows, equal stored columns, so equal columns); equal quotients and
    remainders by one symbolic divisor give equal numbers (a dealt loop over tiles in two dimensions).
    """
    out: list[Expr] = []
    for x, y in equalities:
        mine, theirs = list(_opaque(x)), list(_opaque(y))
        for f, g in zip(mine, theirs, strict=False):
            if f.kind != g.kind or not _equal(_as(f), _as(g), facts + out):
                continue
            if f.kind == "xor":
                for one, two in ((0, 1), (1, 0)):
                    if _equal(f.args[one], g.args[one], facts + out):
                        out += _both(f.args[two], g.args[two])
                        break
            elif f.kind == "div" and f.args[1] == g.args[1]:
                rest, rest2 = f.args[0] % f.args[1], g.args[0] % g.args[1]
                if _equal(rest, rest2, facts + out):
                    out += _both(f.args[0], g.args[0])
    return out


def _both(x: Expr, y: Expr) -> list[Expr]:
    return [x - y, y - x]


def _as(f: Fn) -> Expr:
    return Expr(((f, 1),))


def _opaque(e: Expr) -> Iterator[Fn]:
    """Atoms that only have a name for the prover, outermost first."""
    for atom, _ in e.terms:
        if isinstance(atom, Fn):
            if atom.kind == "xor" or (atom.kind == "div" and atom.args[1].constant is None):
                yield atom
            else:
                for arg in atom.args:
                    yield from _opaque(arg)


def conflicts(
    before: Iterable[Access], now: Iterable[Access], memo: dict[tuple[Access, Access], bool]
) -> list[tuple[Access, Access]]:
    """The pairs that need a barrier between them."""
    now = list(now)
    found = []
    for a in before:
        for b in now:
            if a.buffer == b.buffer:
                if (a, b) not in memo:
                    memo[a, b] = conflict(a, b)
                if memo[a, b]:
                    found.append((a, b))
    return found
