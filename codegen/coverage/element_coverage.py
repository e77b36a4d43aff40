"""Whether each element that is read was written, and each output is stored, by one unit of those that never meet.

STORED    every element of an output is stored
WRITTEN   every element that is read of a buffer is written before, by units and loops that share the buffer
APART     units that cannot synchronise in a launch, as blocks, do not store the same element, nor read what another stored

The index sets of accesses are compared (`index_sets`). Neither values are looked at, nor the order of a loop's iterations. A
finding is an element, at sizes, for which a rule does not hold. Buffers with more points than allowed are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..ir.program import Program
from ..ir.tile_ir import Buffer, Launch, Units
from .accesses import COMBINE, Access, BufferAccesses, accesses, different
from .index_sets import IndexSet, Plan, PointBudget, PointBudgetExceeded, enumerate_points, plan
from .prove_coverage import Prover
from .proven_buffers import are_reads_proven, is_proven
from .scopes import apart_units, order_of, scope_of
from .symbolic_domain import LaunchDomains

_TABLE = 1 << 22  # keys: that are looked up in a table; more are sorted [limit]
_LARGEST = 1 << 62  # keys: that a word tells apart [fact: i64]
_UNWRITTEN = "{element} is read{by_unit}, and nothing writes it before"
_NOBODY = -1  # unit: no unit stored the element [fact: marker]


# Numbers of places or times: how many there may be, those of each side, and whether the second side has that of the first.
Codes = tuple[int, Any, Any, Any]


@dataclass(frozen=True)
class Finding:
    """An element for which a rule does not hold.

    kind      never-stored | never-written | race
    accesses  the one at fault, and others of the buffer
    """

    kind: str
    buffer: Buffer
    text: str
    accesses: tuple[Access, ...]


class UncoveredElement(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


@dataclass(frozen=True)
class WriteBefore:
    """A write that may come before a read (BEFORE of `scopes`).

    same   roots that both have in common      loops  those around both, outermost first
    here   whether it may be in the same iteration of all loops
    units  those that must be the same too for the loops to have an order; without any, they have one
    """

    plan: Plan
    same: tuple[str, ...]
    loops: tuple[str, ...]
    here: bool
    units: tuple[str, ...]


@dataclass
class _Local:
    """The accesses of a local buffer, with how their points are enumerated. `open`: the sizes that they depend on."""

    launch: Launch
    of: BufferAccesses
    reads: list[tuple[Plan, list[WriteBefore]]]
    open: frozenset[str]


@dataclass
class _Global:
    """The accesses of a buffer of the program in one launch; `apart`: units that cannot synchronise."""

    of: BufferAccesses
    apart: tuple[Units, ...]
    reads: list[Plan]
    writes: list[Plan]


@dataclass
class Coverage:
    """The accesses of a program, to be checked at several sizes.

    proven  buffers of the program for which the rules are proven for all sizes; local ones are not looked at any more
    """

    program: Program
    locals: list[_Local] = field(default_factory=list)
    launches: list[tuple[Launch, list[_Global]]] = field(default_factory=list)
    proven: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        sizes = {v.name for v in self.program.dims} | {v.name for v, _ in self.program.lets}
        sizes |= {v.name for _, v in self.program.finite}
        prover = Prover()
        domains = {x.name: LaunchDomains(x) for x in self.program.launches}
        for launch in self.program.launches:
            found = accesses(self.program, launch)
            shared = [x for x in found if x.buffer.kind != "local" and (x.reads or x.writes)]
            self.launches.append((launch, [_global(self.program, launch, x) for x in shared]))
            for x in found:
                local = x.buffer.kind == "local" and x.reads
                if local and not are_reads_proven(self.program, domains[launch.name], x, prover):
                    self.locals.append(_local(self.program, launch, x, sizes))
        everything = [(domains[launch.name], x.of) for launch, xs in self.launches for x in xs]
        written = [b for b in self.program.buffers if b.kind != "input"]
        self.proven = {b.name for b in written if is_proven(self.program, b, everything, prover)}

    @property
    def not_proven(self) -> tuple[str, ...]:
        """The buffers that are to be checked at sizes."""
        shared = [b.name for b in self.program.buffers if b.kind != "input" and b.name not in self.proven]
        return tuple(dict.fromkeys([x.of.buffer.name for x in self.locals] + shared))

    def check(self, sizes: Mapping[str, int], budget: PointBudget) -> set[str]:
        """The buffers that were checked, and not too large. Raises UncoveredElement.

        sizes   of all dims, those derived from them, and the numbers of finite units
        budget  points, of which this takes its part
        """
        large: set[str] = set()
        for x in self.locals:
            with skipping(x.of.buffer.name, large):
                _check_local(x, sizes, budget)
        _Shared(self, sizes, budget, large).check()
        return set(self.not_proven) - large


@contextmanager
def skipping(buffer: str, large: set[str]) -> Iterator[None]:
    """A buffer that takes more points than there are is among the `large` ones."""
    try:
        yield
    except PointBudgetExceeded:
        large.add(buffer)


# ---------------------------------------------------------------- local buffers


def _local(program: Program, launch: Launch, of: BufferAccesses, sizes: set[str]) -> _Local:
    first = of.reads[0]
    scope = scope_of(program, launch, of.buffer, first.path[: first.scope])
    writes = []
    for w in of.writes:
        p = plan(w, launch, implied=scope.implied)
        writes.append(replace(p, keys=tuple(sorted(p.roots & scope.outer))))
    reads = []
    for r in different(of.reads):
        before = [w for p in writes if (w := _before(program, launch, p, r)) is not None]
        keys = {k for w in before for k in w.plan.keys}
        reads.append((plan(r, launch, sorted(keys)), before))
    relevant = frozenset().union(*(p.relevant for p in writes), *(p.relevant for p, _ in reads))
    return _Local(launch, of, reads, relevant & sizes)


def _before(program: Program, launch: Launch, write: Plan, r: Access) -> WriteBefore | None:
    """None where it cannot."""
    order = order_of(program, launch, write.access, r)
    if not order.possible:
        return None
    loops = [write.access.path[n].var.name for n in order.loops]  # type: ignore[union-attr]
    units = tuple(u.var.name for u in launch.units if u.var.name not in write.keys) if order.one_unit else ()
    ordered = plan(write.access, launch, (*write.keys, *loops, *units), write.implied)
    return WriteBefore(ordered, write.keys, tuple(loops), order.here, units)


def _global(program: Program, launch: Launch, of: BufferAccesses) -> _Global:
    apart = apart_units(program, launch)
    keys = [u.var.name for u in apart]
    return _Global(of, apart, [plan(r, launch, keys) for r in different(of.reads)], [plan(w, launch, keys) for w in of.writes])


def _check_local(x: _Local, sizes: Mapping[str, int], budget: PointBudget) -> None:
    known: dict[tuple, IndexSet] = {}
    for r, writes in x.reads:
        read = enumerate_points(r, sizes, budget)
        missing = np.ones(len(read.address), np.bool_)
        for w in writes:
            if not missing.any():
                break
            key = (id(w.plan.access), w.plan.keys)
            if key not in known:
                known[key] = enumerate_points(w.plan, sizes, budget)
            missing &= ~_written_before(read, known[key], w)
        if missing.any():
            at, roots = read.at(int(np.argmax(missing)))
            buffer = x.of.buffer
            text = _UNWRITTEN.format(element=_element(buffer, at), by_unit=_by(x.launch, roots))
            raise UncoveredElement(Finding("never-written", buffer, text, (r.access, *x.of.writes)))


def _written_before(read: IndexSet, write: IndexSet, w: WriteBefore) -> np.ndarray:
    """For which points of `read` an earlier point of `write` has the same address."""
    if not len(write.address) or not len(read.address):
        return np.zeros(len(read.address), np.bool_)

    def codes(names: tuple[str, ...], both: bool = False) -> Codes:
        return _codes([(read.roots[k], write.roots[k]) for k in names], both)

    place = [(read.roots[k], write.roots[k]) for k in w.same] + [(read.address, write.address)]
    if not w.units:
        return _earlier(_codes(place), codes(w.loops, True), w)
    units = [(read.roots[k], write.roots[k]) for k in w.units]
    return _earlier(_codes([*units, *place]), codes(w.loops, True), w) | _by_another(_codes(place), codes(w.units, True))


def _earlier(place: Codes, time: Codes, w: WriteBefore) -> np.ndarray:
    """Which points of the first side have one of the second at the same place, and before it."""
    size, read_at, written_at, inside = place
    times, now, then, _ = time
    if not w.loops:
        if size <= _TABLE:
            table = np.zeros(size, np.bool_)
            table[written_at] = True
            return inside & table[read_at]
        return inside & np.isin(read_at, written_at)
    if size * times >= _LARGEST:
        raise PointBudgetExceeded
    first = np.unique(written_at * times + then)
    at = np.minimum(np.searchsorted(first, read_at * times), len(first) - 1)
    return inside & (first[at] // times == read_at) & (first[at] % times < now + w.here)


def _by_another(place: Codes, unit: Codes) -> np.ndarray:
    """Which points of the first side have one of the second at the same place, by another unit."""
    _, read_at, written_at, inside = place
    _, own, others, _ = unit
    places, index = np.unique(written_at, return_inverse=True)
    least, most = np.full(len(places), _LARGEST), np.full(len(places), -1)
    np.minimum.at(least, index, others)
    np.maximum.at(most, index, others)
    at = np.minimum(np.searchsorted(places, read_at), len(places) - 1)
    return inside & (places[at] == read_at) & ((least[at] != own) | (most[at] != own))


def _codes(pairs: list[tuple[np.ndarray, np.ndarray]], both: bool = False) -> Codes:
    """One number for each point of both sides, in the order of their columns, and how many there may be. `inside`: which points
    of the first side are within what the second has; of `both`, all have a number."""
    size: int = 1
    read_at: Any = 0
    written_at: Any = 0
    inside: Any = True
    for a, b in pairs:
        low, high = int(b.min()), int(b.max())
        if both:
            low, high = min(low, int(a.min())), max(high, int(a.max()))
        inside = inside & (a >= low) & (a <= high)
        width = high - low + 1
        size *= width
        if size >= _LARGEST:
            raise PointBudgetExceeded
        read_at, written_at = read_at * width + np.clip(a, low, high) - low, written_at * width + b - low
    return size, read_at, written_at, inside


# ---------------------------------------------------------------- buffers of the program


class _Shared:
    """The buffers of the program, from launch to launch."""

    def __init__(self, of: Coverage, sizes: Mapping[str, int], budget: PointBudget, large: set[str]) -> None:
        self.of, self.sizes, self.budget, self.large = of, sizes, budget, large
        self.buffers = {b.name: b for b in of.program.buffers if b.kind != "input" and b.name not in of.proven}
        self.elements = {n: max(0, int(b.size.evaluate(sizes))) for n, b in self.buffers.items()}
        self.written: dict[str, np.ndarray] = {}
        self.writers: dict[str, list[Access]] = {n: [] for n in self.buffers}

    def check(self) -> None:
        for name, size in self.elements.items():
            with skipping(name, self.large):
                self.budget.spend(size)
                self.written[name] = np.zeros(size, np.bool_)
        for launch, found in self.of.launches:
            for x in found:
                name = x.of.buffer.name
                if name in self.buffers and name not in self.large:
                    with skipping(name, self.large):
                        self._launch(launch, x)
        for name, written in self.written.items():
            if name not in self.large and self.buffers[name].kind == "output" and not written.all():
                self._never_stored(self.buffers[name], int(np.argmin(written)))

    def _launch(self, launch: Launch, x: _Global) -> None:
        name = x.of.buffer.name
        before, size = self.written[name], self.elements[name]
        owner = np.full(size, _NOBODY, np.int64)  # APART
        now = before.copy()
        for p in x.writes:
            found, units = self._found(x, p)
            if p.access.kind != COMBINE:
                self._stored(launch, p.access, found, units, owner)
            now[found.address] = True
            self.writers[name].append(p.access)
        for p in x.reads:
            found, units = self._found(x, p)
            old = owner[found.address]
            clash = (old != _NOBODY) & (old != units)
            if clash.any():
                text = "{element} is read{by_unit}, but stored by another that cannot synchronise with it"
                raise self._fault("race", launch, p.access, found, clash, text)
            missing = ~before[found.address]
            if missing.any():
                pairs = [w for w in (_before(self.of.program, launch, replace(w, keys=()), p.access) for w in x.writes) if w]
                keys = dict.fromkeys((*p.keys, *(k for w in pairs for k in w.plan.keys)))
                found, _ = self._found(x, plan(p.access, launch, keys))
                missing = ~before[found.address]
                for w in pairs:
                    missing &= ~_written_before(found, enumerate_points(w.plan, self.sizes, self.budget), w)
            if missing.any():
                raise self._fault("never-written", launch, p.access, found, missing, _UNWRITTEN)
        self.written[name] = now

    def _found(self, x: _Global, p: Plan) -> tuple[IndexSet, np.ndarray]:
        """The addresses within the buffer, and the number of the unit, among those that are apart, for each."""
        found = enumerate_points(p, self.sizes, self.budget).within(self.elements[x.of.buffer.name])
        units: Any = np.zeros(len(found.address), np.int64)
        for u in x.apart:
            units = units * int(u.count.evaluate(self.sizes)) + found.roots[u.var.name]
        return found, units

    def _stored(self, launch: Launch, w: Access, found: IndexSet, units: np.ndarray, owner: np.ndarray) -> None:
        """APART"""
        old = owner[found.address]
        clash = (old != _NOBODY) & (old != units)
        owner[found.address] = units
        clash |= owner[found.address] != units
        if clash.any():
            text = "{element} is stored{by_unit} and by another that cannot synchronise with it"
            raise self._fault("race", launch, w, found, clash, text)

    def _fault(self, kind: str, launch: Launch, a: Access, found: IndexSet, wrong: np.ndarray, text: str) -> UncoveredElement:
        at, roots = found.at(int(np.argmax(wrong)))
        said = text.format(element=_element(a.buffer, at), by_unit=_by(launch, roots))
        return UncoveredElement(Finding(kind, a.buffer, said, (a, *self.writers[a.buffer.name])))

    def _never_stored(self, buffer: Buffer, address: int) -> None:
        shape = tuple(int(e.evaluate(self.sizes)) for e in buffer.shape)
        at = tuple(int(i) for i in np.unravel_index(address, shape))  # arguments are row-major
        text = f"{_element(buffer, at)} is never stored"
        raise UncoveredElement(Finding("never-stored", buffer, text, tuple(reversed(self.writers[buffer.name]))))


def _by(launch: Launch, roots: Mapping[str, int]) -> str:
    """The unit as people call it: ` by block 3, thread 5`; nothing where all units are alike."""
    unit = ", ".join(f"{u.level} {roots[u.var.name]}" for u in launch.units if u.var.name in roots)
    return f" by {unit}" if unit else ""


def _element(buffer: Buffer, at: tuple[int, ...]) -> str:
    return f"`{buffer.name}`[{', '.join(map(str, at))}]"
