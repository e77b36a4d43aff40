"""Proofs for all sizes that each point contributes once: for an element that is read and a point, what adds it.

PHASES     what starts an accumulator, what adds to it, what combines the parts of units, and what reads it stand one after
           another in the body of the loops around all of them. Then one iteration of these loops is one sum
ONCE       for each point there is an iteration that adds it (`prove_coverage`), and its loops and units are determined by the
           point and the element: there is no other one
IN_RANGE   no iteration adds another point, unless lowering says that such points add the identity (they are filled with zeros)
COUNTING   where a domain says which points count, these are added, and no other ones
COMBINED   units whose parts are combined have the points together: their numbers are determined as those of loops are. Each
           digit of a unit is combined once
RESUMED    with `if` the first iteration of loops start, `else` resume what the iteration before stored, these loops have the
           points together: the element that is stored is the same in all of them, and of one accumulator
LATER      units that store parts of a result as elements of their own have the points together, too
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...dsl.index.expr import ONE, ZERO, Expr, Var, as_expr
from ...dsl.index.prove import Assumptions
from ..ir.program import Program
from ..ir.tile_ir import AllReduce, Contribution, For, Launch, Let
from ..plan.computations import plain_var
from .accesses import Access, BufferAccesses, Guard, Step, different
from .accumulators import Accumulator, accumulators, chosen, contribution_of, copied, copied_from, guarded, masks, neutral_mask
from .constant_digits import with_constant_digits
from .exactly_once import exactly_once, undetermined
from .prove_coverage import Prover, any_element, is_covered, unproven_conditions
from .scopes import Scope, scope_with
from .symbolic_domain import BegunDomain, LaunchDomains, NotSymbolic


def unproven_results(
    program: Program, domains: LaunchDomains, found: Sequence[BufferAccesses], prover: Prover
) -> Iterator[tuple[str, list[Access]]]:
    """The results whose accumulators the launch has, each with what adds to an accumulator for which there is no proof."""
    for acc in accumulators(program, found):
        try:
            proven = not acc.foreign and all(_Reading(program, domains, found, acc, r, prover).proven() for r in acc.reads)
        except NotSymbolic:
            proven = False
        for name in dict.fromkeys(c.result for w in acc.of.writes if (c := contribution_of(w)) is not None):
            yield name, [] if proven else [*acc.role("add"), *acc.of.writes]


@dataclass
class _Reading:
    """One place where the value of an accumulator is read."""

    program: Program
    domains: LaunchDomains
    found: Sequence[BufferAccesses]
    acc: Accumulator
    read: Access
    prover: Prover

    @property
    def launch(self) -> Launch:
        return self.domains.launch

    def proven(self) -> bool:
        acc = self.acc
        phases = self._phases()
        if phases is None or not acc.role("add") or acc.role("scale"):  # by how much, is not looked at
            return False
        path = _common([self.read, *(a for p in phases for a in p)])
        if not all(_apart(p, q, len(path)) for p, q in zip(phases, [*phases[1:], [self.read]], strict=True)):
            return False
        depth = self.program.device.depth(acc.of.buffer.level)
        shared = {u.var.name for u in self.launch.units if self.program.device.depth(u.level) > depth}
        combined = self._combined()
        loops = self._resumed_loops(path)
        if combined is None or loops is None or (loops and combined[0]):
            return False
        same = scope_with(self.launch, path, shared)
        if not self._each_once(acc.role("combine"), same) or not self._exchanges_proven(same):
            return False
        if not self._starts_proven(same) or (loops and not self._resumes(loops)):
            return False
        own = {*shared, *combined[0], *(s.var.name for s in loops), *self._roots_of_parts(path)}
        return self._adds_proven(scope_with(self.launch, path, own), combined[1])

    # ------------------------------------------------------------ PHASES

    def _phases(self) -> list[list[Access]] | None:
        acc = self.acc
        out = [[*acc.role("start"), *acc.role("resume")], acc.role("add")]
        after = [[a] for a in acc.role("combine")]
        if len(acc.role("gather")) != len(acc.parts) or len(acc.role("restart")) != len(acc.parts):
            return None
        for n, (part, _) in enumerate(acc.parts):
            after.append([part, acc.role("restart")[n], acc.role("gather")[n]])
        return out + [[a] for steps in sorted(after, key=lambda p: p[0].order) for a in steps]

    # ------------------------------------------------------------ ONCE, IN_RANGE, COUNTING

    def _adds_proven(self, scope: Scope, same: Sequence[Expr]) -> bool:
        """`same`: expressions over units, of which what adds has the value that what reads has."""
        adds, known = [], dict(_free(self.read))
        for a in self.acc.role("add"):
            counted = self._in_range(a)
            if counted is None:
                return False
            adds.append(counted)
        first = contribution_of(adds[0])
        assert first is not None
        points, inside = any_element([e for _, _, e in first.reduced])
        names = [i for i, _ in first.free if i in known]
        begun = []
        for a in adds:
            c = contribution_of(a)
            if c is None or (c.domain, [e for _, _, e in c.reduced]) != (first.domain, [e for _, _, e in first.reduced]):
                return False
            also = [*same, *(e for e, _, _ in c.reduced), *(dict(c.free)[i] for i in names)]
            begun.append(_boxed(self.domains.begin(a, scope, also=also), len(a.coords) + len(same), c))
        wanted = self.domains.begin(self.read, also=[*same, *(known[i] for i in names)])
        w = wanted.domain()
        n = len(self.read.coords) + len(same)
        element = [*w.coords[:n], *points, *w.coords[n:]]
        counting = self._counting(first, dict(zip((*names, *first.indices), (*w.coords[n:], *points), strict=True)))
        return exactly_once(element, [*w.conds, *inside, *counting], [b.domain() for b in begun], self.prover)

    def _in_range(self, a: Access) -> Access | None:
        """The access where it adds points of the op; None where it may add others."""
        c, a = contribution_of(a), chosen(a)
        if c is None or not self._counts(a, c):
            return None
        neutral = neutral_mask(a)
        if not self._ends(a, c) and not (c.neutral if neutral is None else self._ends(guarded(a, neutral), c)):
            return None
        return a if c.padded else guarded(a, masks(a))

    def _ends(self, a: Access, c: Contribution) -> bool:
        d = self.domains.begin(a, also=[e for e, _, _ in c.reduced]).domain()
        facts = Assumptions(lambda: tuple(d.conds))
        coords = d.coords[len(a.coords) :]
        return all(
            self.prover.shows(x, facts) and self.prover.shows(extent - box - x, facts)
            for x, (_, box, extent) in zip(coords, c.reduced, strict=True)
        )

    def _counts(self, a: Access, c: Contribution) -> bool:
        """Whether all points that it adds count."""
        conds = self._counting(
            c, {**dict(c.free), **{i: e for i, (e, box, _) in zip(c.indices, c.reduced, strict=True) if box == 1}}
        )
        d = self.domains.begin(a, also=conds).domain()
        facts = Assumptions(lambda: tuple(d.conds))
        return all(self.prover.shows(x, facts) for x in d.coords[len(a.coords) :])

    def _counting(self, c: Contribution, at: Mapping[str, Expr]) -> list[Expr]:
        """The conditions for a point to count, by where each index is. Raises NotSymbolic."""
        sizes = {v.name for v in (*self.program.dims, *(v for v, _ in self.program.lets))}
        indices = {v for x in c.domain for v in x.variables() if v.name not in sizes}
        if not {v.name for v in indices} <= at.keys():
            raise NotSymbolic
        return [x.subs({v: at[v.name] for v in indices}) for x in c.domain]

    def _starts_proven(self, scope: Scope) -> bool:
        """What is read was started in the same iteration, or resumed."""
        starts = [*self.acc.role("start"), *(guarded(a, masks(a)) for a in self.acc.role("resume"))]
        return self._covers(starts, scope, once=False)

    def _each_once(self, phases: Iterable[Access], scope: Scope) -> bool:
        return all(self._covers([a], scope) for a in phases)

    def _covers(self, accesses: Sequence[Access], scope: Scope, once: bool = True) -> bool:
        """Whether, for each element that is read, one of these does something to it (once)."""
        begun = [self.domains.begin(a, scope) for a in accesses]
        wanted = self.domains.begin(self.read).domain()
        writers = [b.domain() for b in begun]
        if once:
            return exactly_once(wanted.coords, wanted.conds, writers, self.prover)
        return is_covered(wanted.coords, wanted.conds, writers, self.prover)

    # ------------------------------------------------------------ COMBINED, LATER

    def _combined(self) -> tuple[set[str], list[Expr]] | None:
        """The units whose parts are combined, and the digits of their numbers that are the same for all of these; None where a
        digit is combined twice."""
        digits: dict[str, list[tuple[int, int]]] = {}
        for a in self.acc.role("combine"):
            s = a.stmt
            assert isinstance(s, AllReduce)
            digits.setdefault(s.level, []).append((s.stride, s.count))
        for a in self.acc.role("gather"):
            c = contribution_of(a)
            assert c is not None
            digits.setdefault(c.level, []).append((c.stride, c.count))
        own: set[str] = set()
        same: list[Expr] = []
        for level, found in digits.items():
            unit = next((u for u in self.launch.units if u.level == level), None)
            if unit is None:
                return None
            own.add(unit.var.name)
            reach, number = 1, as_expr(unit.var)
            for stride, count in sorted(found) if found != [(1, 0)] else ():
                if stride % reach or not count:
                    return None
                same.append(number // reach % (stride // reach))
                reach = stride * count
            if reach > 1:
                same.append(number // reach)
        return own, [e for e in same if e != ZERO]

    def _exchanges_proven(self, scope: Scope) -> bool:
        """Each unit stores its part, then each reads those of all units of its group."""
        return all(
            self._covers([restart], scope, once=False) and self._gathers(part, of, gather, scope)
            for (part, of), restart, gather in zip(
                self.acc.parts, self.acc.role("restart"), self.acc.role("gather"), strict=True
            )
        )

    def _gathers(self, part: Access, of: BufferAccesses, gather: Access, scope: Scope) -> bool:
        c, source = contribution_of(gather), copied(part)
        unit = next((u for u in self.launch.units if c is not None and u.level == c.level), None)
        theirs = [r for r in different(of.reads) if r.stmt is gather.stmt and r.path == gather.path]
        if c is None or source is None or unit is None or len(theirs) != 1 or len(of.writes) != 1:
            return False
        me, n = as_expr(unit.var), len(gather.coords)
        if part.coords[0] != me or part.coords[len(part.coords) - n :] != source.indices:
            return False
        lanes = part.coords[1 : len(part.coords) - n]
        if unit.var in {v for e in lanes for v in e.variables()}:
            return False
        # the part of another unit with the same number below, of the same element
        own = self.domains.begin(replace(part, coords=source.indices, buffer=gather.buffer, extent=1), scope)
        begun = self.domains.begin(gather, scope, also=theirs[0].coords[:1])
        w = self.domains.begin(self.read).domain()
        if not exactly_once(w.coords, w.conds, [own.domain()], self.prover):
            return False
        if theirs[0].coords[1:] != (*lanes, *gather.coords):
            return False
        count = as_expr(c.count) if c.count else unit.count
        number = Var("@", 0, None if count.constant is None else count.constant - 1)
        first = me - me // c.stride % count * c.stride if c.count else ZERO
        other = first + c.stride * as_expr(number)
        return exactly_once([*w.coords, other], [*w.conds, count - 1 - number], [begun.domain()], self.prover)

    def _roots_of_parts(self, path: tuple[Step, ...]) -> set[str]:
        """LATER: the units and loops that decide which part of a result is stored."""
        c, values = contribution_of(self.read), _values(self.read.path)
        if c is None:
            return set()
        found = {v.name for i, e in c.free if i in c.parts for v in e.subs(values).variables()}
        roots = {u.var.name for u in self.launch.units} | {s.var.name for s in path if isinstance(s, For)}
        dealt = {v.name for s in path if isinstance(s, For) and s.var.name in found for v in s.start.variables()}
        return (found | dealt) & roots

    # ------------------------------------------------------------ RESUMED

    def _resumed_loops(self, path: tuple[Step, ...]) -> list[For] | None:
        """The loops that go on from what was stored before; none where nothing is resumed."""
        loops: list[For] = []
        for a in self.acc.role("resume"):
            guard = next((s for s in reversed(a.path) if isinstance(s, Guard) and not s.holds), None)
            if guard is None:
                return None
            alike = [s for w in self.acc.role("start") for s in w.path if isinstance(s, Guard) and s.conds == guard.conds]
            variables = [plain_var(-c) for c in guard.conds]
            found = [s for s in path if isinstance(s, For) and s.var in variables and (s.start, s.step) == (ZERO, ONE)]
            if not any(s.holds for s in alike) or len(found) < len(variables) or (loops and found != loops):
                return None
            loops = found
        return loops

    def _resumes(self, loops: list[For]) -> bool:
        """Whether what is resumed is what the iteration before stored of the same element, and the last one is read."""
        acc, names = self.acc, {s.var.name for s in loops}
        if len(acc.role("resume")) != 1:
            return False
        (resume,) = acc.role("resume")
        source = copied(resume)
        home = next((x for x in self.found if source is not None and x.buffer.name == source.tensor), None)
        if source is None or home is None or len(home.writes) != 1:
            return False
        (store,) = home.writes
        kept = copied(store)
        if kept is None or copied_from(store) != acc.of.buffer.name or store.kind != "write":
            return False
        if any(r.stmt is not resume.stmt and any(s in r.path for s in loops) for r in home.reads):
            return False
        last = [s.var - s.stop + 1 for s in loops]
        for s in store.path:
            turns = isinstance(s, Guard) and not s.holds and set(s.conds) == set(last)
            exprs = s.conds if isinstance(s, Guard) else (s.start, s.stop, s.step) if isinstance(s, For) else ()
            values = _values(store.path)
            if not turns and any(v.name in names for e in exprs for v in e.subs(values).variables()):
                return False  # not in each iteration
        ends = any(isinstance(s, Guard) and s.holds and set(last) <= set(s.conds) for s in self.read.path)
        if self.read.stmt is not store.stmt and not ends:
            return False
        own = Scope(frozenset(), frozenset(u.var.name for u in self.launch.units), frozenset(), 0)
        d = with_constant_digits(self.domains.begin(store, own).domain())
        open_ = {v for v in undetermined(d) if v.name.split("'")[0] not in names}
        if open_ or any(v.name.split("'")[0] in names for c in d.coords for v in c.variables()):
            return False
        n = len(resume.coords)
        path = _common([resume, store])
        cell = replace(store, buffer=acc.of.buffer, coords=kept.indices)
        begun = self.domains.begin(cell, scope_with(self.launch, path, set()), also=store.coords)
        w = self.domains.begin(resume, also=source.indices).domain()
        try:
            unproven_conditions(w.coords, Assumptions(lambda: tuple(w.conds)), begun.domain(), self.prover)
        except NotSymbolic:
            return False
        return n <= len(w.coords) and not any(v.name in names for c in w.coords[n:] for v in c.variables())


def _free(a: Access) -> tuple[tuple[str, Expr], ...]:
    c = contribution_of(a)
    return () if c is None or c.role not in ("add", "result") else c.free


def _values(path: tuple[Step, ...]) -> dict[Var, Expr]:
    """What names stand for, in terms of units and loops."""
    values: dict[Var, Expr] = {}
    for s in path:
        if isinstance(s, Let):
            values[s.var] = s.value.subs(values)
    return values


def _common(accesses: Sequence[Access]) -> tuple[Step, ...]:
    """The steps around all of them."""
    path = accesses[0].path
    for a in accesses[1:]:
        n = 0
        while n < min(len(path), len(a.path)) and path[n] is a.path[n]:
            n += 1
        path = path[:n]
    return path


def _apart(before: Sequence[Access], after: Sequence[Access], start: int) -> bool:
    """Whether all of the one stand before all of the other, in one iteration of the loops around both."""
    for a in before:
        for b in after:
            both = _common([a, b])
            if a.order > b.order or any(isinstance(s, For) and not _has_element(s, a, b) for s in both[start:]):
                return False
    return True


def _has_element(loop: For, a: Access, b: Access) -> bool:
    """Whether each iteration has an element of its own: what both do to one element they do in one iteration."""
    return a.buffer is b.buffer and a.coords == b.coords and as_expr(loop.var) in a.coords


def _boxed(b: BegunDomain, start: int, c: Contribution) -> BegunDomain:
    """With the points that an instruction adds from the first one on."""
    d = b.begun
    coords = list(d.coords)
    free, conds = dict(d.free), list(d.conds)
    for n, (_, box, _) in enumerate(c.reduced):
        if box > 1:
            r = Var(f"#{n}'", 0, box - 1)
            coords[start + n] = coords[start + n] + r
            free[r] = ZERO
            conds += [as_expr(r), box - 1 - r]
    return replace(b, begun=replace(d, coords=tuple(coords), free=free, conds=conds))
