"""Removes guards from hot loops by two versions of the code.

`version_guards` wraps the largest statement in which the unproven conditions depend on nothing computed inside it, except for
worst cases of unrolled loops and lockstep units:

    for k: if (m + 5 < M) ...      -->      if (all of the tile is inside) { for k: ... } else { for k: if ... }

SOME_LANES      If only a vector's last lanes are beyond an edge, the other conditions may still hold: a third version loads
                masked vectors, and tests nothing else.
WINDOWS         Unrolled loops over a window have a version of their own for windows that are completely inside: compilers then
                see which elements neighbours share, and load these once.
REPEATED        In loops that are not written out, the condition of masks may be a bound: of `64 t + r % 2 + 2 (lane % 4) < T`
                the largest remainders. Such are those of a fragment's elements. Elsewhere a version is made where the worst
                case is exact, since two versions of what is done once, or of copies, save little.
TOGETHER        Units that execute an instruction with each other take the same version, as units in lockstep do.
OWN_REGISTERS   An accumulator in vector registers belongs to one version: the versions differ for the whole lifetime of such
                registers, and the version at the edge is outlined. Otherwise a compiler with too few registers at the edge
                keeps an accumulator in memory in both versions, also in the loop that has enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...dsl.device import Instr
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.support.fast_replace import replace
from ...dsl.support.memoised import IdentityMemo
from ...dsl.values import Masked, Value, loads, transform, walk
from ..analysis.register_buffers import is_register
from ..ir.program import Program
from ..ir.tile_ir import Alloc, Barrier, Call, For, If, Launch, Let, Stmt, Store
from ..ir.tile_visitors import map_bodies, statements, written
from .prove_guards import prove_guards
from .split_loops import split_loops


def version_guards(program: Program) -> Program:
    """Loops then go from one version to the other, where they can, and do not ask in each turn (`split_loops`)."""
    program = split_loops(replace(program, launches=tuple(_version_launch(x, program) for x in program.launches)))
    # What a version was made for is known in it, and what it was not made for in the other one: alike ones differ then.
    return _rejoined_launches(prove_guards(_rejoined_launches(program)))


def _rejoined_launches(program: Program) -> Program:
    return replace(program, launches=tuple(_rejoined_launch(x, program) for x in program.launches))


def _version_launch(launch: Launch, program: Program) -> Launch:
    lanes = _lanes(launch, program)
    vectors = lanes and not _alone(program, launch, lanes)
    register = {m.name for m in program.device.memories if m.registers} if vectors else set()
    buffers = [s.buffer for s in statements(launch.body) if isinstance(s, Alloc)]
    local = frozenset(b.name for b in buffers if b.memory in register)
    variables = frozenset(b.name for b in buffers if is_register(b, program.device))
    return replace(launch, body=_version(launch.body, _Units(lanes, local, variables, program.instrs)))


def _lanes(launch: Launch, program: Program) -> frozenset[Var]:
    """TOGETHER: units in lockstep, and those that execute an instruction of the launch with each other."""
    device, level = program.device, {i.name: i.level for i in program.instrs}
    called = [device.depth(level[s.instr]) for s in statements(launch.body) if isinstance(s, Call)]
    above = min(called, default=len(device.levels))
    together = (u for u in launch.units if device.level(u.level).siblings == "lockstep" or device.depth(u.level) > above)
    return frozenset(u.var for u in together)


def _alone(program: Program, launch: Launch, lanes: frozenset[Var]) -> bool:
    """Whether each lane has the text to itself, and registers of its own: it is no lane of a vector."""
    return any(program.device.level(u.level).width for u in launch.units if u.var in lanes)


def _rejoined_launch(launch: Launch, program: Program) -> Launch:
    lanes = _lanes(launch, program)
    return replace(launch, body=_rejoined(launch.body, lanes)) if _alone(program, launch, lanes) else launch


def _rejoined(body: tuple[Stmt, ...], lanes: frozenset[Var]) -> tuple[Stmt, ...]:
    """Where lanes have the text each to itself, two versions of stores by themselves, which parted no loop, save nothing; nor
    do two versions of what is done in the one case and, under another condition, in the other."""
    out: list[Stmt] = []
    for s in body:
        s = map_bodies(s, lambda x: _rejoined(x, lanes))
        out += s.orelse if isinstance(s, If) and (_same_stores(s, lanes) or _same_work(s)) else (s,)
    return tuple(out)


def _same_work(s: If) -> bool:
    return len(s.orelse) == 1 and isinstance(other := s.orelse[0], If) and not other.orelse and other.body == s.body


def _same_stores(s: If, lanes: frozenset[Var]) -> bool:
    if not s.orelse or not all(isinstance(x, Store) for x in (*s.body, *s.orelse)):
        return False
    return all(_guards(x, lanes, IdentityMemo()).conds == s.conds for x in s.orelse) and _bare_all(s.orelse) == s.body


@dataclass(frozen=True)
class _GuardConditions:
    """The guards in a statement: worst cases in terms of what is outside; `open` where some depend on what is inside.

    of_lanes  those that keep some lanes of a vector out
    """

    conds: tuple[Expr, ...]
    open: bool
    of_lanes: frozenset[Expr] = frozenset()


_NONE: frozenset[Var] = frozenset()

# A guard in a statement: its conditions, the variables bound inside with constant range, others bound inside, and whether it
# is a mask.
_Guard = tuple[tuple[Expr, ...], frozenset[Var], frozenset[Var], bool]

# The guards of statements.
Asked = IdentityMemo[Stmt, list[_Guard]]


@dataclass(frozen=True)
class _Units:
    """Of a launch: its lockstep units, the registers of vectors where those are lanes, all that text has as variables, and the
    guards of its statements. `repeated`: in a loop that is not written out (REPEATED)."""

    lanes: frozenset[Var]
    registers: frozenset[str]
    variables: frozenset[str]
    instrs: tuple[Instr, ...]
    repeated: bool = False
    asked: Asked = field(default_factory=IdentityMemo)


def _version(body: tuple[Stmt, ...], units: _Units) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        found = _guards(s, units.lanes, units.asked, units.repeated)
        if not found.conds and not found.open:
            out.append(s)
        elif conds := _of_registers(s, units):
            out.append(If(conds, (_inside(s, units),), (_outlined(s, units),), span=s.span))
        elif isinstance(s, Alloc) and (window := _of_windows(s, units)) is not None:
            (same, lanes), inner = window, _inside(s, units)
            inside = If(lanes, (inner,), (inner,), span=s.span) if same and lanes else inner
            out.append(If(same or lanes, (inside,), (inner,), span=s.span))
        elif (
            found.open
            or isinstance(s, Alloc)
            or (isinstance(s, If) and (s.orelse or s.turns))
            or not _worth(s, units.lanes)
            or _waits(s)
        ):
            out.append(_inside(s, units))
        else:
            out.append(_versions(s, found, units))
    return tuple(_joined(out))


def _versions(s: Stmt, found: _GuardConditions, units: _Units) -> If:
    """The statement without guards where it has none, and as it is elsewhere. SOME_LANES"""
    span, edge = getattr(s, "span", None), (_outlined(s, units),)
    same = tuple(c for c in found.conds if c not in found.of_lanes)
    if not same or not found.of_lanes or not units.registers or not _loads_some(s, units.lanes):
        return If(found.conds, (_bare(s),), edge, span=span)
    lanes = tuple(c for c in found.conds if c in found.of_lanes)
    return If(same, (If(lanes, (_bare(s),), (s,), span=span),), edge, span=span)


def _loads_some(s: Stmt, lanes: frozenset[Var]) -> bool:
    """Is anything loaded that depends on the lane?"""
    values = (v for x in statements((s,)) if isinstance(x, Store) for v in walk(x.value) if isinstance(v, Masked) and loads(v))
    return any(not lanes.isdisjoint(c.variables()) for v in values for c in v.conds)


def _waits(s: Stmt) -> bool:
    return any(isinstance(x, Barrier) for x in statements((s,)))


def _joined(body: list[Stmt]) -> list[Stmt]:
    """Neighbours under the same condition become one."""
    out: list[Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if isinstance(s, If) and isinstance(last, If) and s.conds == last.conds and s.orelse and last.orelse:
            out[-1] = replace(last, body=(*last.body, *s.body), orelse=(*last.orelse, *s.orelse))
            continue
        out.append(s)
    return out


def _worth(s: Stmt, lanes: frozenset[Var]) -> bool:
    """Is there a loop or a lane-dependent guard to be freed? A single uniform `if` is as good as its two versions."""
    if isinstance(s, If) and not s.orelse:
        varies = any(v in lanes for c in s.conds for v in c.variables())
        return varies or any(isinstance(x, (For, If)) for x in s.body)
    return True


def _inside(s: Stmt, units: _Units) -> Stmt:
    if isinstance(s, For) and not _is_written_out(s):
        units = replace(units, repeated=True)
    return map_bodies(s, lambda body: _version(body, units))


def _of_registers(s: Stmt, units: _Units) -> tuple[Expr, ...]:
    """Conditions that part the life of registers. OWN_REGISTERS"""
    if not isinstance(s, Alloc) or s.buffer.name not in units.registers or _waits(s):
        return ()
    conds = _of_loops(s.body, units)
    bound = {x.var for x in statements(s.body) if isinstance(x, For | Let)}
    return () if any(not bound.isdisjoint(c.variables()) for c in conds) else conds


def _of_windows(s: Alloc, units: _Units) -> tuple[tuple[Expr, ...], tuple[Expr, ...]] | None:
    """WINDOWS: conditions under which all places of a window are inside, for all lanes and of some; None if it has none."""
    if s.buffer.name not in units.registers or _waits(s) or not any(map(_is_unrolled, statements(s.body))):
        return None
    found = _guards(_unrolled(s), units.lanes, IdentityMemo())
    bound = {x.var for x in statements(s.body) if isinstance(x, For | Let)}
    if found.open or not found.conds or any(not bound.isdisjoint(c.variables()) for c in found.conds):
        return None
    return tuple(c for c in found.conds if c not in found.of_lanes), tuple(c for c in found.conds if c in found.of_lanes)


def _is_written_out(s: For) -> bool:
    return s.unroll == 0 and s.var.hi is not None


def _is_unrolled(s: Stmt) -> bool:
    """Is it a loop that compilers write out whole?"""
    if not isinstance(s, For) or s.unroll <= 1:
        return False
    trips = (s.stop - s.start).constant
    return trips is not None and s.step.constant == 1 and 1 < trips <= s.unroll


def _unrolled(s: Stmt) -> Stmt:
    s = map_bodies(s, lambda body: tuple(map(_unrolled, body)))
    return replace(s, unroll=0) if isinstance(s, For) and _is_unrolled(s) else s


def _of_loops(body: tuple[Stmt, ...], units: _Units) -> tuple[Expr, ...]:
    """What loops that are not written out ask in their iterations, where none of it depends on what is inside."""
    conds: list[Expr] = []
    for s in body:
        match s:
            case For() if s.unroll or s.var.hi is None:
                found = _guards(s, units.lanes, units.asked)
                if found.open:
                    return ()
                conds += found.conds
            case For() | Alloc():
                conds += _of_loops(s.body, units)
            case If():
                conds += _of_loops((*s.body, *s.orelse), units)
    return tuple(dict.fromkeys(conds))


def _outlined(s: Stmt, units: _Units) -> Stmt:
    """The version at an edge; it may be a function of its own where it writes no variables but those declared in it."""
    if _of_registers(s, units) and isinstance(s, Alloc):
        own = {s.buffer.name, *(x.buffer.name for x in statements(s.body) if isinstance(x, Alloc))}
        return replace(s, outlined=(written(s.body, units.instrs) & units.variables) <= own)
    return map_bodies(s, lambda body: tuple(_outlined(x, units) for x in body))


def _guards(s: Stmt, lanes: frozenset[Var], asked: Asked, repeated: bool = False) -> _GuardConditions:
    conds: list[Expr] = []
    of_lanes: set[Expr] = set()
    unknown = False
    for guard, bound, dynamic, is_mask in _all_guards(s, asked):
        for c in guard:
            worst = _worst(c, bound | lanes, dynamic)
            worst = _bound(c, bound | lanes, dynamic) if worst is None and repeated and is_mask else worst
            if worst is None or ((most := worst.interval[1]) is not None and most < 0):  # no version is free of it
                unknown = True
            elif worst.interval[0] is None or worst.interval[0] < 0:
                conds.append(worst)
                of_lanes |= {worst} if not lanes.isdisjoint(c.variables()) else set()
    return _GuardConditions(tuple(dict.fromkeys(conds)), unknown, frozenset(of_lanes))


def _all_guards(s: Stmt, asked: Asked) -> list[_Guard]:
    """Every guard in s.

    Only guards that padding asked for: an `if` with an `else` (first and last iterations, two versions), or one about turns of
    loops, is left alone, and so is a choice between two numbers.
    """
    return asked.of(s, lambda s: _found_guards(s, asked))


def _found_guards(s: Stmt, asked: Asked) -> list[_Guard]:
    match s:
        case For():
            inner, own = _in_body(s.body, asked), frozenset((s.var,))
            if _is_written_out(s):
                return [(conds, static | own, dynamic, is_mask) for conds, static, dynamic, is_mask in inner]
            return [(conds, static, dynamic | own, is_mask) for conds, static, dynamic, is_mask in inner]
        case Alloc():
            return _in_body(s.body, asked)
        case If():
            own = [] if s.orelse or s.turns else [(s.conds, _NONE, _NONE, False)]
            return [*own, *_in_body(s.body, asked), *_in_body(s.orelse, asked)]
        case Store():
            return [(v.conds, _NONE, _NONE, True) for v in walk(s.value) if isinstance(v, Masked) and loads(v)]
    return []


def _in_body(body: tuple[Stmt, ...], asked: Asked) -> list[_Guard]:
    found: list[_Guard] = []
    named: frozenset[Var] = _NONE
    for x in body:
        if isinstance(x, Let):
            named |= {x.var}
        else:
            inner = _all_guards(x, asked)
            found += (
                [(conds, static, dynamic | named, is_mask) for conds, static, dynamic, is_mask in inner] if named else inner
            )
    return found


def _worst(c: Expr, static: frozenset[Var], dynamic: frozenset[Var]) -> Expr | None:
    """The least value of the condition over the static variables; None where it depends on dynamic ones."""
    names = c.variables()
    if names & dynamic:
        return None
    least: dict[Var, int] = {}
    for v in names & static:
        k = c.coefficient(v)
        if k == 0 or v.lo is None or v.hi is None or v in (c - k * v).variables():
            return None  # of what is not linear the least value is not at an end
        least[v] = v.lo if k > 0 else v.hi
    return c.subs(least) if least else c


def _bound(c: Expr, static: frozenset[Var], dynamic: frozenset[Var]) -> Expr | None:
    """REPEATED: no more than the condition's least value; None where a term has static variables and others."""
    out = as_expr(c.const)
    for atom, k in c.terms:
        names = frozenset((atom,)) if isinstance(atom, Var) else atom.variables()
        if names & dynamic:
            return None
        if names.isdisjoint(static):
            out += Expr(((atom, k),))
            continue
        low, high = (atom.lo, atom.hi) if isinstance(atom, Var) else atom.interval
        end = low if k > 0 else high
        if end is None or not names <= static:
            return None
        out += k * end
    return out


def _bare(s: Stmt) -> Stmt:
    """The statement without its guards."""
    match s:
        case If(orelse=(), turns=False):
            inner = _bare_all(s.body)
            return inner[0] if len(inner) == 1 else If((), inner, span=s.span)
        case Store():
            return replace(s, value=_bare_value(s.value))
    return map_bodies(s, _bare_all)


def _bare_all(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        b = _bare(s)
        out += b.body if isinstance(b, If) and not b.conds else (b,)
    return tuple(out)


def _bare_value(value: Value) -> Value:
    def step(v: Value) -> Value | None:
        return _bare_value(v.value) if isinstance(v, Masked) and loads(v) else None

    return transform(value, step)
