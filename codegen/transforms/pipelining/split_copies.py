"""A copy through registers in two halves: loads, which are issued early, and stores, which wait for the loaded elements.

    for i in 0 .. 4: S[i] = f(A[i])     -->     for i in 0 .. 4: t[i] = A[i]     and     for i in 0 .. 4: S[i] = f(t[i])

LAST_HOP    loaded elements wait in registers: in those of the copy's own last staging step, one set for each iteration of the
            loops around it, else in new ones.
CAPACITY    loops around them are fully unrolled, so they run to their capacity; guards exclude elements that are not live.
OWN_LOOPS   these loops have variables of their own. The whole copy, made before the pipeline, stays in loops; and what a loop
            numbers that is not unrolled would be an array, each element in a word of its own.
AS_LOADED   they wait as they were loaded: what is computed of them, if only a conversion, comes with the stores. Otherwise the
            computation would wait for the loads as soon as they are issued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....dsl.device import Instr
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.types import DType
from ....dsl.values import Cast, Const, Load, Masked, Value, loads, rename_loads, transform, walk
from ...ir.tile_ir import Alloc, Buffer, Call, For, If, Let, Stmt, Store
from ...ir.tile_visitors import buffers_used, map_bodies, map_exprs, map_places, own_expressions, statements, with_bodies

Body = tuple[Stmt, ...]
Loops = tuple[tuple[Var, int], ...]  # those around a statement: variable, how many turns at most


@dataclass(frozen=True)
class CopyHalves:
    early: Body
    late: Body
    held: tuple[Buffer, ...]  # registers that live from the early half to the late one

    @property
    def computes_always(self) -> bool:
        """Whether the late half computes what it stores, and under no condition."""
        stored = [s.value for s in statements(self.late) if isinstance(s, Store)]
        conditions = any(isinstance(s, If) for s in statements(self.late))
        conditions |= any(isinstance(v, Masked) for value in stored for v in walk(value))
        return not conditions and any(not isinstance(value, Load) for value in stored)


@dataclass(frozen=True)
class SplitContext:
    """What splitting needs of the device and the program. `register(name, dtype, shape)` makes a buffer of one unit's own,
    `fresh(name)` a name."""

    instrs: dict[str, Instr]
    private: Callable[[Buffer], bool]
    register: Callable[[str, DType, tuple[int, ...]], Buffer]
    fresh: Callable[[str], str]


class _Whole(Exception):
    """The copy has no halves."""


def split_copy(copy: Body, target: str, machine: SplitContext) -> CopyHalves | None:
    """The halves of the copy that fills `target`; None where it does not pass through registers that could hold it."""
    one = _Split(target, machine)
    try:
        early, late = one.both(copy, ())
    except _Whole:
        return None
    return CopyHalves(prune_empty(early), prune_empty(late), tuple(one.held.values()))


class _Split:
    def __init__(self, target: str, machine: SplitContext) -> None:
        self.target, self.machine = target, machine
        self.own: set[str] = set()  # register buffers of the copy
        self.held: dict[tuple, Buffer] = {}

    def both(self, body: Body, loops: Loops) -> tuple[Body, Body]:
        early: list[Stmt] = []
        late: list[Stmt] = []
        for s in body:
            one, other = self.halves(s, loops)
            early += one
            late += other
        return tuple(early), tuple(late)

    def halves(self, s: Stmt, loops: Loops) -> tuple[list[Stmt], list[Stmt]]:
        match s:
            case Let():
                return [s], [s]
            case For():
                return self.loop(s, loops)
            case If():
                one, other = (tuple(map(prune_empty, self.both(x, loops))) for x in (s.body, s.orelse))
                early: list[Stmt] = [replace(s, body=one[0], orelse=other[0])]
                return early, list(one[1]) if one[1] == other[1] else [replace(s, body=one[1], orelse=other[1])]
            case Alloc():
                return self.hop(s, loops)
            case Store() if s.buffer == self.target and s.atomic is None:
                return self.store(s, loops)
            case Store() if s.buffer in self.own:
                return [s], []
            case Call():
                return self.call(s)
        raise _Whole

    def loop(self, s: For, loops: Loops) -> tuple[list[Stmt], list[Stmt]]:
        """CAPACITY, OWN_LOOPS"""
        most = s.stop.interval[1]
        if s.start.constant != 0 or s.step.constant != 1 or most is None:
            raise _Whole
        if s.unroll != 0:
            before, own = s.var, Var(self.machine.fresh(s.var.name), s.var.lo, s.var.hi)
            s = replace(s, var=own, body=map_exprs(s.body, lambda e: e.renamed({before: own})))
        body = s.body if s.stop.constant is not None else (If((s.stop - s.var - 1,), s.body),)
        early, late = self.both(body, (*loops, (s.var, most)))
        whole = replace(s, stop=as_expr(most), unroll=0)
        return [replace(whole, body=early)], [replace(whole, body=late)]

    def hop(self, s: Alloc, loops: Loops) -> tuple[list[Stmt], list[Stmt]]:
        """LAST_HOP: a register buffer of the copy; where its loads and its stores part, each turn has one of its own."""
        b = s.buffer
        if not self.machine.private(b):
            raise _Whole
        self.own.add(b.name)
        early, late = self.both(s.body, loops)
        if b.name not in buffers_used(late):
            return [replace(s, body=early)], list(late)
        if any(e.constant is None for e in b.shape):
            raise _Whole
        shape = (*(n for _, n in loops), *(e.constant or 0 for e in b.shape))
        held = self.held[b.name, loops] = replace(self.machine.register(b.name, b.dtype, shape), span=b.span)
        at = tuple(as_expr(v) for v, _ in loops)

        def place(name: str, coords: tuple) -> tuple:
            return (*at, *coords) if name == b.name else coords

        renamed = {b.name: held.name}
        return (
            list(_renamed(map_places(early, place), renamed)),
            list(_renamed(map_places(late, place), renamed)),
        )

    def store(self, s: Store, loops: Loops) -> tuple[list[Stmt], list[Stmt]]:
        """AS_LOADED"""
        early: list[Stmt] = []

        def held(v: Value) -> Value | None:
            """Loads wait in registers, and what masks them goes with them; what the hop's registers hold is there already."""
            if not _is_read(v):
                return None
            if all(ld.tensor in self.own for ld in loads(v)):
                return v
            if isinstance(v, Masked) and isinstance(v.otherwise, Const) and not isinstance(v.value, Load | Masked):
                return computed(v, v.otherwise)
            # of two branches each fills the same register, so that they are stored alike
            key = loops, s.coords, len(early), v.dtype
            if key not in self.held:
                self.held[key] = self.machine.register(f"{self.target}_ahead", v.dtype, tuple(n for _, n in loops))
            at = tuple(as_expr(x) for x, _ in loops)
            early.append(Store(self.held[key].name, at, v, span=s.span))
            return Load(self.held[key].name, at, v.dtype)

        def computed(v: Masked, otherwise: Const) -> Value:
            """What is computed where a mask says so: its loads wait under the same mask. The conversion of zero is zero."""
            if isinstance(v.value, Cast) and str(otherwise.value) in ("0", "0.0", "False"):
                return replace(v.value, arg=transform(_masked(v.conds, v.value.arg), held))
            return replace(v, value=transform(v.value, lambda x: held(_masked(v.conds, x)) if _is_read(x) else None))

        late = replace(s, value=transform(s.value, held))
        return early, [late]

    def call(self, s: Call) -> tuple[list[Stmt], list[Stmt]]:
        operands = self.machine.instrs[s.instr].operands
        results = {p.buffer for p, o in zip(s.pieces, operands, strict=True) if o.role != "input"}
        if results <= self.own:
            return [s], []
        given = {p.buffer for p, o in zip(s.pieces, operands, strict=True) if o.role != "output"}
        if results == {self.target} and given <= self.own:
            return [], [s]
        raise _Whole


def _is_read(v: Value) -> bool:
    return isinstance(v, Load | Masked)


def _masked(conds: tuple[Expr, ...], v: Value) -> Masked:
    """The value where these conditions hold as well; elsewhere nobody looks."""
    if isinstance(v, Masked):
        return replace(v, conds=(*conds, *v.conds)) if isinstance(v.otherwise, Const) else Masked(conds, v, _zero(v), v.dtype)
    return Masked(conds, v, _zero(v), v.dtype)


def _zero(v: Value) -> Const:
    return Const(False if v.dtype.kind == "bool" else 0, v.dtype)


def _renamed(body: Body, names: dict[str, str]) -> Body:
    """The statements with buffers called otherwise."""

    def one(s: Stmt) -> Stmt:
        match s:
            case Store():
                return replace(s, buffer=names.get(s.buffer, s.buffer), value=rename_loads(s.value, names))
            case Call():
                return replace(s, pieces=tuple(replace(p, buffer=names.get(p.buffer, p.buffer)) for p in s.pieces))
        return map_bodies(s, lambda inner: _renamed(inner, names))

    return tuple(map(one, body))


def prune_empty(body: Body) -> Body:
    """Without Lets that nothing uses, and what is empty then."""
    return _pruned(body)[0]


def _pruned(body: Body) -> tuple[Body, set[Var]]:
    """And the variables that are left in it."""
    out: list[Stmt] = []
    needed: set[Var] = set()
    for s in reversed(body):
        match s:
            case Let():
                if s.var not in needed:
                    continue
            case For() | Alloc():
                inner, names = _pruned(s.body)
                if not inner:
                    continue
                s, needed = with_bodies(s, inner), needed | names
            case If():
                (inner, names), (orelse, others) = _pruned(s.body), _pruned(s.orelse)
                if not inner and not orelse:
                    continue
                s, needed = with_bodies(s, inner, orelse), needed | names | others
        needed = needed.union(*[e.variables() for e in own_expressions(s)])
        out.append(s)
    return tuple(reversed(out)), needed
