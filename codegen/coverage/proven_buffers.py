"""Which buffers are proven, for all sizes, to be written where they are read (`prove_coverage`).

FILLED     all of a unit's own buffer is written where what reads it stands, by loops over its dimensions without conditions
WHOLE      a buffer of the program all of which one launch stores is written wherever a later launch reads it
ONE_UNIT   units that cannot synchronise store different elements, where an element determines the unit: all digits of the unit
           are in its coordinates, each larger than all those below it together
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dsl.index.expr import ONE, ZERO, Var
from ..ir.program import Program
from ..ir.tile_ir import Buffer, For, Launch, Let, Units
from ..plan.computations import plain_var
from .accesses import WRITE, Access, BufferAccesses, Guard, different
from .constant_digits import with_constant_digits
from .exactly_once import undetermined
from .prove_coverage import Prover, any_element, is_covered
from .scopes import Order, Scope, apart_units, order_of, scope_of
from .symbolic_domain import BegunDomain, Domain, LaunchDomains, NotSymbolic


def are_reads_proven(program: Program, domains: LaunchDomains, of: BufferAccesses, prover: Prover) -> bool:
    return all(_read_proven(program, domains, of, r, prover) for r in different(of.reads))


def _read_proven(program: Program, domains: LaunchDomains, of: BufferAccesses, r: Access, prover: Prover) -> bool:
    """First by writes of the same iteration of all loops around both, then by those of earlier ones too."""
    launch = domains.launch
    if any(_fills(program, launch, w, r) for w in of.writes):
        return True
    here: list[tuple[Access, Scope, For | None]] = []
    earlier: list[tuple[Access, Scope, For | None]] = []
    for w in of.writes:
        order = order_of(program, launch, w, r)

        def scope(steps: int, w: Access = w, order: Order = order) -> Scope:
            return scope_of(program, launch, of.buffer, w.path[:steps], order.one_unit)

        if order.here:
            here.append((w, scope(order.common), None))
        for n in order.loops:
            loop = w.path[n]
            assert isinstance(loop, For)
            earlier.append((w, scope(n), loop))
    try:
        read = domains.begin(r)
        for writes in [here] if not earlier else [here, here + earlier]:
            begun = _begun(domains, writes)
            wanted = read.domain()
            if is_covered(wanted.coords, wanted.conds, _domains(begun), prover):
                return True
    except NotSymbolic:
        pass
    return False


def _fills(program: Program, launch: Launch, w: Access, r: Access) -> bool:
    """FILLED"""
    depth = program.device.depth(w.buffer.level)
    if any(program.device.depth(u.level) > depth for u in launch.units):
        return False
    order = order_of(program, launch, w, r)
    own = w.path[order.common :]
    if not order.here or any(isinstance(s, Guard) for s in own):
        return False
    ends = {s.var: s.stop if (s.start, s.step) == (ZERO, ONE) else ZERO for s in own if isinstance(s, For)}
    last = len(w.coords) - 1
    row = w.buffer.shape[last].constant if w.extent > 1 else 1
    if not row or w.extent % row:
        return False
    rows = w.extent // row  # whole ones, where it is more than an element
    for d, (c, extent) in enumerate(zip(w.coords, w.buffer.shape, strict=True)):
        v = plain_var(c)
        if w.extent > 1 and d == last:
            if c != ZERO:
                return False
        elif d == last - 1 and rows > 1:
            v = plain_var(c // rows) if c == c // rows * rows else None
            if v is None or extent.constant is None or (ends.pop(v, ZERO) * rows) != extent:
                return False
        elif c == ZERO and extent == ONE:
            continue
        elif v is None or extent.constant is None or ends.pop(v, None) != extent:
            return False
    return all((stop.constant or 0) > 0 for stop in ends.values())


def _begun(domains: LaunchDomains, writes: Sequence[tuple[Access, Scope, For | None]]) -> list[BegunDomain]:
    out = []
    for w, scope, earlier in writes:
        try:
            out.append(domains.begin(w, scope, earlier))
        except NotSymbolic:
            continue
    return out


def _domains(begun: Sequence[BegunDomain]) -> list[Domain]:
    out = []
    for b in begun:
        try:
            out.append(b.domain())
        except NotSymbolic:
            continue
    return out


def is_proven(
    program: Program, buffer: Buffer, launches: Sequence[tuple[LaunchDomains, BufferAccesses]], prover: Prover
) -> bool:
    """WHOLE, ONE_UNIT. `launches`: the accesses of all buffers, in the order of the launches."""
    stored = False
    for domains, of in launches:
        if of.buffer is not buffer:
            continue
        here = not stored and _stored_wholly(domains, of, prover)
        if (of.reads or of.writes) and not stored and not here:
            return False
        if here and not are_reads_proven(program, domains, of, prover):
            return False
        stored = True
        apart = [u for u in apart_units(program, domains.launch) if u.count.constant != 1]
        if of.writes and apart and not _by_one_unit(domains, of, apart):
            return False
    return stored


def _all(launch: Launch) -> Scope:
    """Around a buffer of the program: its elements are the same for all units."""
    return Scope(frozenset(), frozenset(u.var.name for u in launch.units), frozenset(), 0)


def _stored_wholly(domains: LaunchDomains, of: BufferAccesses, prover: Prover) -> bool:
    if not of.writes or any(w.kind != WRITE for w in of.writes):
        return False
    element, facts = any_element(of.buffer.shape)
    begun = _begun(domains, [(w, _all(domains.launch), None) for w in of.writes])
    return is_covered(element, facts, _domains(begun), prover)


def _by_one_unit(domains: LaunchDomains, of: BufferAccesses, apart: Sequence[Units]) -> bool:
    """ONE_UNIT, and the same unit reads it there, in the same iteration."""
    if len(of.writes) != 1:
        return False
    (w,) = of.writes
    if any(r.coords != w.coords or not _around_both(r, w) for r in of.reads):
        return False
    try:
        d = with_constant_digits(domains.begin(w, _all(domains.launch)).domain())
    except NotSymbolic:
        return False
    return all(_unit(v, apart) is None for v in undetermined(d))


def _unit(v: Var, apart: Sequence[Units]) -> str | None:
    """The unit of which the variable is a digit."""
    return next((u.var.name for u in apart if v.name.split("'")[0] == u.var.name), None)


def _around_both(r: Access, w: Access) -> bool:
    """Whether all variables of the coordinates are those of steps around both."""
    shared = {s.var.name for a, s in zip(r.path, w.path, strict=False) if a is s and isinstance(s, For | Let)}
    inner = {s.var.name for s in (*r.path, *w.path) if isinstance(s, For | Let)} - shared
    return not any(v.name in inner for c in w.coords for v in c.variables())
