"""Whether two accesses need a barrier between them.

    DISJOINT   they never access the same element (rotating stages; complementary guards).
    SAME_UNIT  if they access the same element, one unit (or subgroup) makes both.
    DEALT      in `for i = unit .. by number of units` the same i means the same unit, whatever the number is.

Two units u and v make the accesses: variables that may differ between units are renamed apart, others are common. The question
is whether all coordinates can be equal while u != v. An unknown answer is a conflict.

The two may belong to different iterations (`Access.at`). A property of all iterations holds for each, so another query about
the same two accesses often has the answer. First their stages are compared, for all units (ROTATING); conditions may tell which
argument a minimum of them is. Most of the others never access the same element, whatever the conditions are: one query about
the coordinates that depend on the unit serves all accesses that differ only in names (ALIKE). Otherwise the first method with
an answer decides:

    WITNESS    a search for two units that conflict (`dsl.index.counterexample`): most do, and a failing proof is slow
    DIGITS     a comparison of the coordinates digit by digit (`mixed_radix_equality`)
    PROVER     `dsl.index.prove`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product

from ....dsl.index.counterexample import feasible_point
from ....dsl.index.expr import Expr, Fn
from ....dsl.index.prove import conjuncts, feasible
from ....dsl.support.cached import cached_property
from .access import OLD, AccessShape, Owner, SharedAccess
from .mixed_radix_equality import Contradiction, MixedRadixEquality, Pair, functions, never_equal, replaced

_APART = "'"  # suffix of the later unit's variables

Time = tuple[int, bool]  # of the earlier access, see `Access.at`
_ANY: Time = (0, False)


class ConflictTests:
    """Answers about pairs of accesses, each found once."""

    def __init__(self) -> None:
        self._known: dict[tuple[SharedAccess, SharedAccess], dict[Time, bool]] = {}
        self._renamed: dict[SharedAccess, SharedAccess] = {}

    def between(self, a: SharedAccess, b: SharedAccess, time: Time) -> bool:
        """Whether `a`, made at that time, may need a barrier before `b`, made now."""
        if a.buffer != b.buffer or a.kind == b.kind != "write":
            return False
        if len(a.coords) != len(b.coords):
            return True  # one buffer in another shape
        known = self._known.setdefault((a, b), {})
        if time not in known:
            known[time] = self._found(a, b, time, known)
        return known[time]

    def with_itself(self, a: SharedAccess) -> bool:
        """Whether the access may need a barrier before it is made again."""
        return bool(a.loops) and a.kind == "write" and not self._alike_never_meet(a, a)

    def _found(self, a: SharedAccess, b: SharedAccess, time: Time, known: dict[Time, bool]) -> bool:
        for other, answer in known.items():
            if _within(other, time) if answer else _within(time, other):
                return answer
        stages = _stages(a, b, time)
        if any(never_equal(x, y) for x, y in stages):
            return not self._never(a, b, time)
        if self._alike_never_meet(a, b):
            return not self._never(a, b, _ANY)
        if _in_other_stages_there(stages, a, b, time):
            return not self._never(a, b, time)
        one, two = a.at(*time), self._apart(b)
        proofs = {time: _Meeting.of(one, two)}
        if proofs[time].seen():
            return True
        if proofs[time].by_digits():
            return not self._never(a, b, time)
        if _ANY not in known and time != _ANY:
            proofs = {_ANY: _Meeting.of(a.at(*_ANY), two), **proofs}
            if proofs[_ANY].by_digits():
                return not self._never(a, b, _ANY)
        return not any(self._never(a, b, t) for t, proof in proofs.items() if proof.by_prover())

    def _alike_never_meet(self, a: SharedAccess, b: SharedAccess) -> bool:
        """ALIKE"""
        dims = tuple([n for n in range(len(a.coords)) if n not in a.uniform_coords or n not in b.uniform_coords])
        return _never_meet(a.shape_at(dims), b.shape_at(dims))

    def _never(self, a: SharedAccess, b: SharedAccess, time: Time) -> bool:
        self._known[a, b][time] = False
        if time == _ANY:  # which of the two is the earlier makes no difference
            self._known.setdefault((b, a), {})[time] = False
        return True

    def _apart(self, b: SharedAccess) -> SharedAccess:
        """With the variables of its unit renamed."""
        if b not in self._renamed:
            self._renamed[b] = b.with_own_names(_APART)
        return self._renamed[b]


def _within(narrow: Time, wide: Time) -> bool:
    """Whether all that is of the one time is also of the other."""
    return narrow == wide or (wide[0] <= narrow[0] and not wide[1])


def _stages(a: SharedAccess, b: SharedAccess, time: Time) -> list[Pair]:
    """ROTATING: what both have that tells nothing of the unit."""
    return [(x, b.coords[n]) for n in a.uniform_coords & b.uniform_coords if (x := a.turn(n, *time)) is not None]


def _in_other_stages_there(stages: list[Pair], a: SharedAccess, b: SharedAccess, time: Time) -> bool:
    """The same for stages of the last iterations, min(last, i + 1): where the conditions of both accesses leave one argument.
    Those count that are about what the stages depend on, which is common to the units."""
    for x, y in stages:
        extremes = [f for f in dict.fromkeys((*functions(x), *functions(y))) if f.kind in ("min", "max")]
        if not extremes:
            continue
        about = (x.variables() | y.variables()) - a.varying - b.varying
        facts = [c for c in (*a.at(*time).conds, *b.conds) if c.variables() <= about]
        left = {f: one for f in extremes if (one := _only_one(f, facts)) is not None}
        if left and never_equal(replaced(x, left), replaced(y, left)):
            return True
    return False


def _only_one(extreme: Fn, facts: list[Expr]) -> Expr | None:
    """The argument that it is, where facts say how it compares with the others."""
    sign = 1 if extreme.kind == "min" else -1
    for x in extreme.args:
        beyond = [part for y in extreme.args if y is not x for part in conjuncts(sign * (y - x))]
        if all(any(e.terms == f.terms and e.const >= f.const for f in facts) for e in beyond):
            return x
    return None


@lru_cache(maxsize=1 << 12)
def _never_meet(a: AccessShape, b: AccessShape) -> bool:
    """Whether the two, of units named apart, meet in no element, as far as digits tell."""
    (coords, owners), (coords2, owners2) = a.marked(OLD, ""), b.marked(_APART, _APART)
    return _Meeting(zip(coords, coords2, strict=True), zip(owners, owners2, strict=True)).by_digits()


class _Meeting:
    """Two accesses of units named apart, and what follows where they meet in an element."""

    def __init__(self, coords: Iterable[Pair], owners: Iterable[tuple[Owner, Owner]], facts: tuple[Expr, ...] = ()) -> None:
        self._coords, self._owners, self._facts = list(coords), list(owners), facts

    @cached_property
    def _digits(self) -> MixedRadixEquality:
        return MixedRadixEquality(self._facts)

    @staticmethod
    def of(a: SharedAccess, b: SharedAccess) -> _Meeting:
        coords, owners = zip(a.coords, b.coords, strict=True), zip(a.owners, b.owners, strict=True)
        return _Meeting(coords, owners, (*a.conds, *b.conds))

    def by_digits(self) -> bool:
        """Whether no barrier is needed, as far as digits tell."""
        try:
            return self._digits.derive(self._coords, self._of_one_unit)
        except Contradiction:
            return True

    def _of_one_unit(self) -> bool:
        same = self._digits.same
        return all(
            (dealt is not None and dealt2 is not None and same(dealt, dealt2)) or same(unit, unit2)
            for (unit, dealt), (unit2, dealt2) in self._owners
        )

    def seen(self) -> bool:
        """Whether two units that access one element were found."""
        facts = [*dict.fromkeys(self._facts), *(d for x, y in self._coords for d in (x - y, y - x))]
        return any(feasible_point([*facts, *apart]) is not None for pair in self._owners for apart in _differ(*pair))

    def by_prover(self) -> bool:
        """Whether no barrier is needed, as far as the prover tells; after `by_digits`."""
        if not feasible(self._all()):
            return True
        try:
            self._look_into_functions()
        except Contradiction:
            return True
        facts = self._all()
        return all(
            (dealt is not None and dealt2 is not None and _equal(dealt, dealt2, facts)) or _equal(unit, unit2, facts)
            for (unit, dealt), (unit2, dealt2) in self._owners
        )

    def _all(self) -> list[Expr]:
        """All that holds where the two meet, >= 0."""
        facts = list(self._facts)
        for x, y in (*self._coords, *((Expr(((atom, 1),)), e) for atom, e in self._digits.equal.items())):
            facts += [x - y, y - x]
        return facts

    def _look_into_functions(self) -> None:
        """Functions that only have a name for the prover: where they are equal, more may follow. Raises Contradiction."""
        digits = self._digits
        for x, y in self._coords:
            for f, g in zip(_opaque(x), _opaque(y), strict=False):
                one, two = Expr(((f, 1),)), Expr(((g, 1),))
                if f.kind == g.kind and not digits.same(one, two) and _equal(one, two, self._all()):
                    digits.derive([(one, two)])


def _differ(one: Owner, two: Owner) -> Iterator[tuple[Expr, ...]]:
    """The ways in which units differ, and the variables of their dealt loops with them: expressions that are all >= 0 then."""
    (unit, dealt), (unit2, dealt2) = one, two
    units = (unit - unit2 - 1, unit2 - unit - 1)
    if dealt is None or dealt2 is None:
        yield from product(units)
    else:
        yield from product(units, (dealt - dealt2 - 1, dealt2 - dealt - 1))


def _opaque(e: Expr) -> list[Fn]:
    return [f for f in functions(e) if f.kind == "xor" or (f.kind in ("div", "mod") and f.args[1].constant is None)]


def _equal(x: Expr, y: Expr, facts: list[Expr]) -> bool:
    return not feasible([*facts, x - y - 1]) and not feasible([*facts, y - x - 1])
