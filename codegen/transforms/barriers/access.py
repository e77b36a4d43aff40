"""Accesses of shared buffers, as every unit makes them, in any iteration of the loops around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.index.prove import conjuncts
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ....dsl.support.memoised import memoised
from ...ir.printer import show_statement
from ...ir.tile_ir import Call, Store
from .mixed_radix_equality import functions

OLD = "~"  # suffix of a loop's variable in another iteration


@dataclass(frozen=True, eq=False)
class AccessLoop:
    """A loop, as the accesses in it see it. `depends`: the depth of the innermost level whose units its bounds depend on."""

    var: Var
    step: Expr
    depends: int


Owner = tuple[Expr, Expr | None]  # see `Access.owners`


@dataclass(frozen=True, eq=False)
class AccessShape:
    """An access without names and conditions: all that are alike are one object (ALIKE).

    numbered    the variables of loops and of the statement itself; their names are numbers
    varying     the other ones that may differ between units
    """

    coords: tuple[Expr, ...]
    owners: tuple[Owner, ...]
    numbered: tuple[Var, ...]
    varying: frozenset[Var]

    def marked(self, mark: str, apart: str) -> tuple[tuple[Expr, ...], tuple[Owner, ...]]:
        """Coordinates and owners; `mark`: before the numbers, `apart`: after the names of variables that may differ."""
        names = {v: Var(v.name + apart, v.lo, v.hi) for v in self.varying} if apart else {}
        names |= {v: Var(mark + v.name, v.lo, v.hi) for v in self.numbered}
        return tuple([e.renamed(names) for e in self.coords]), _renamed(self.owners, names)


@lru_cache(maxsize=1 << 12)
def _interned(
    coords: tuple[Expr, ...], owners: tuple[Owner, ...], numbered: tuple[Var, ...], varying: frozenset[Var]
) -> AccessShape:
    return AccessShape(coords, owners, numbered, varying)


@dataclass(frozen=True, eq=False)
class SharedAccess:
    """One access by every unit below one unit of `level`, the level whose barrier could order it.

    depth     that of `level`
    kind      read | write | combine (atomic)
    coords    what element, with all Lets replaced
    conds     >= 0 wherever the access happens: guards and the bounds of loops
    varying   variables whose values may differ between the units below one unit of `level`, or that are of another time
    owners    for each level below whose units are not in lockstep: its unit's number, and the variable of a dealt loop or None
    loops     those around it, outermost first
    flight    the kind of asynchronous copy that makes it
    """

    buffer: str
    level: str
    depth: int
    kind: str
    coords: tuple[Expr, ...]
    conds: tuple[Expr, ...]
    varying: frozenset[Var]
    owners: tuple[Owner, ...]
    loops: tuple[AccessLoop, ...]
    statement: Store | Call
    flight: str | None = None
    times: dict[tuple[int, bool], SharedAccess] = field(default_factory=dict, repr=False)  # made once, see `at`
    bares: dict[tuple[int, ...], AccessShape] = field(default_factory=dict, repr=False)  # as well

    @property
    def text(self) -> str:
        return show_statement(self.statement)

    def common_loops(self, other: SharedAccess) -> int:
        """How many loops are around both."""
        n = 0
        for mine, theirs in zip(self.loops, other.loops, strict=False):
            if mine is not theirs:
                break
            n += 1
        return n

    def steps(self, number: int) -> bool:
        """Whether all units are in one iteration of that loop at a time, and `var - step` is the iteration before."""
        turns = self.loops[number]
        return turns.step.constant is not None and turns.depends <= self.depth

    def at(self, same: int, before: bool) -> SharedAccess:
        """The access in the present iteration of the first `same` loops and any one of those below, whose variables are
        renamed; `before`: in the iteration just before the present one of the loop below the first `same`.
        """
        if (same, before) not in self.times:
            mapping: dict[Var, Expr] = {}
            other: set[Var] = set()
            facts: list[Expr] = []
            for number, turns in enumerate(self.loops[same:], same):
                if before and number == same:
                    mapping[turns.var] = value = turns.var - turns.step
                    # that there was one: a variable's own interval says nothing of the iteration before
                    facts += [] if turns.var.lo is None else [value - turns.var.lo]
                    facts += [] if turns.var.hi is None else [turns.var.hi - value]
                    continue
                old = Var(turns.var.name + OLD, turns.var.lo, turns.var.hi)
                mapping[turns.var] = as_expr(old)
                other.add(old)
            self.times[same, before] = self._subs(mapping, other, facts)
        return self.times[same, before]

    def turn(self, n: int, same: int, before: bool) -> Expr | None:
        """A coordinate, as `at` has it; None where it is one of any iteration of a loop."""
        e = self.coords[n]
        names = e.variables()
        for number, turns in enumerate(self.loops[same:], same):
            if turns.var in names:
                if not before or number > same:
                    return None
                e = e.subs({turns.var: turns.var - turns.step})
        return e

    @cached_property
    def uniform_coords(self) -> frozenset[int]:
        """Coordinates that tell nothing of the unit, and share no variable with one that does: as that of a rotating stage."""
        used = [e.variables() for e in self.coords]
        bound = frozenset().union(*(vs for vs in used if not vs.isdisjoint(self.varying)))
        return frozenset(n for n, vs in enumerate(used) if vs.isdisjoint(bound))

    def shape_at(self, dims: tuple[int, ...]) -> AccessShape:
        """These coordinates of the access at any time, and its owners, without names."""
        if dims not in self.bares:
            coords = [self.coords[n] for n in dims]
            of = [*coords, *[e for pair in self.owners for e in pair if e is not None]]
            there = {v.name: v for e in of for v in e.variables()}
            own = [*[t.var.name for t in self.loops], *sorted([name for name in there if name.startswith("$")])]
            names = {v: Var(str(n), v.lo, v.hi) for n, v in enumerate([there[x] for x in own if x in there])}
            varying = frozenset([v for v in there.values() if v in self.varying and v not in names])
            coords = tuple([e.renamed(names) for e in coords])
            self.bares[dims] = _interned(coords, _renamed(self.owners, names), tuple(names.values()), varying)
        return self.bares[dims]

    def with_own_names(self, suffix: str) -> SharedAccess:
        """The access with the variables of its unit renamed."""
        names = {v: Var(v.name + suffix, v.lo, v.hi) for v in self.varying}
        return replace(
            self,
            coords=tuple(e.renamed(names) for e in self.coords),
            conds=tuple(c.renamed(names) for c in self.conds),
            owners=_renamed(self.owners, names),
            varying=frozenset(names.values()),
            times={},
            bares={},
        )

    def where(self, var: Var, value: Expr) -> SharedAccess:
        """The access where a variable has that value."""
        return self._subs({var: value}, set(), [])

    def _subs(self, mapping: dict[Var, Expr], other: set[Var], facts: list[Expr]) -> SharedAccess:
        return replace(
            self,
            coords=tuple(e.subs(mapping) for e in self.coords),
            conds=tuple(
                dict.fromkeys(part for e in (*facts, *(c.subs(mapping) for c in self.conds)) for part in condition_parts(e))
            ),
            owners=tuple((u.subs(mapping), None if d is None else d.subs(mapping)) for u, d in self.owners),
            varying=self.varying | other,
            times={},
            bares={},
        )


def _renamed(owners: tuple[Owner, ...], names: dict[Var, Var]) -> tuple[Owner, ...]:
    return tuple([(u.renamed(names), None if d is None else d.renamed(names)) for u, d in owners])


@memoised
def condition_parts(cond: Expr) -> tuple[Expr, ...]:
    """A condition taken apart for proofs, without what always holds; one that has a quotient also as it is, because
    coordinates may have the same."""
    return () if cond.at_least(0) else tuple(_parts(cond))


def _parts(cond: Expr) -> Iterator[Expr]:
    found = conjuncts(cond)
    if cond not in found and not any(f.kind in ("min", "max") for f in functions(cond)):
        yield cond
    for part in found:
        if not part.at_least(0):
            yield part
