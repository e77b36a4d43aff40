"""The accesses of a tile program: which elements of which buffer each statement reads or writes, and for which points.

An access is a place in the program: the loops, names and conditions around it, its coordinates, and its order in the text. No
value is looked at, and nothing of lowering is used. `index_sets` enumerates accesses, `coverage` compares them.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

from ...dsl.device import Instr, Operand
from ...dsl.index.expr import Expr, Var
from ...dsl.values import Apply, Load, Masked, Value, children, walk
from ..ir.program import Program
from ..ir.tile_ir import Alloc, AllReduce, Buffer, Call, For, If, Launch, Let, Piece, Stmt, Store

READ, WRITE, COMBINE = "read", "write", "combine"  # COMBINE: an atomic update, which reads what is there


@dataclass(frozen=True, eq=False)
class Guard:
    """Conditions around an access: all are >= 0, or not all of them where `holds` is False."""

    conds: tuple[Expr, ...]
    holds: bool = True


Step = For | Let | Guard


@dataclass(frozen=True, eq=False)
class Access:
    """`extent` elements from `coords` on, as `Piece` has them.

    path     what is around it, outermost first         scope  how many steps of the path are around the buffer's Alloc
    order    its place among the accesses of the launch: what a statement reads comes before what it writes
    first    levels whose first unit accesses for all
    """

    kind: str
    buffer: Buffer
    coords: tuple[Expr, ...]
    extent: int
    stmt: Stmt
    path: tuple[Step, ...]
    scope: int
    order: int
    first: tuple[Var, ...] = ()


@dataclass
class BufferAccesses:
    """The accesses of one buffer in one launch; of a local one in the body of its Alloc."""

    buffer: Buffer
    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)


def accesses(program: Program, launch: Launch) -> list[BufferAccesses]:
    """By buffer: those of the program first, then local ones in the order of their declarations. Inputs are left out."""
    found = _Collector(program, launch)
    for b in program.buffers:
        if b.kind != "input":
            found.declare(b, 0)
    found.body(launch.body, ())
    return found.found


class _Collector:
    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self.instrs = {i.name: i for i in program.instrs}
        self.found: list[BufferAccesses] = []
        self.known: dict[str, tuple[BufferAccesses, int]] = {}  # in scope: and how many steps are around the declaration
        self.order = 0

    def declare(self, buffer: Buffer, scope: int) -> None:
        of = BufferAccesses(buffer)
        self.found.append(of)
        self.known[buffer.name] = of, scope

    def body(self, body: tuple[Stmt, ...], path: tuple[Step, ...]) -> None:
        for s in body:
            match s:
                case Let():
                    path = (*path, s)
                case For():
                    self.body(s.body, (*path, copy(s)))  # one that stands at two places is two loops
                case If():
                    self.body(s.body, (*path, Guard(s.conds)))
                    self.body(s.orelse, (*path, Guard(s.conds, False)))
                case Alloc():
                    before = self.known.get(s.buffer.name)
                    self.declare(s.buffer, len(path))
                    self.body(s.body, path)
                    if before is not None:
                        self.known[s.buffer.name] = before
                case Store():
                    self.value(s.value, s, path)
                    self.add(WRITE if s.atomic is None else COMBINE, s.buffer, s.coords, 1, s, path)
                case Call():
                    self.call(s, self.instrs[s.instr], path)
                case AllReduce():
                    for kind in (READ, WRITE):
                        for name, coords in s.cells:
                            self.add(kind, name, coords, 1, s, path)

    def add(
        self, kind: str, name: str, coords: tuple[Expr, ...], extent: int, s: Stmt, path: tuple[Step, ...],
        first: tuple[Var, ...] = (),
    ) -> None:  # fmt: skip
        of, scope = self.known.get(name, (None, 0))
        if of is None:  # an input
            return
        self.order += 1
        access = Access(kind, of.buffer, coords, extent, s, path, scope, self.order, first)
        if kind != WRITE:
            of.reads.append(access)
        if kind != READ:
            of.writes.append(access)

    def value(self, value: Value, s: Stmt, path: tuple[Step, ...]) -> None:
        match value:
            case Load():
                self.add(READ, value.tensor, value.indices, 1, s, path)
            case Masked():
                self.value(value.value, s, (*path, Guard(value.conds)))
                self.value(value.otherwise, s, (*path, Guard(value.conds, False)))
            case _:
                for child in children(value):
                    self.value(child, s, path)

    def call(self, s: Call, instr: Instr, path: tuple[Step, ...]) -> None:
        pairs = list(zip(instr.operands, s.pieces, strict=True))
        # Which elements an instruction with a choice reads, its data decide.
        chooses = any(isinstance(v, Apply) and v.fn == "where" for v in walk(instr.statement.value))
        for role, kind in (("output", READ), ("input", WRITE)):
            for o, piece in pairs:
                if o.role != role and not (kind == READ and chooses):
                    self.add(kind, piece.buffer, piece.coords, piece.extent, s, path, self.first(instr, o, piece))

    def first(self, instr: Instr, operand: Operand, piece: Piece) -> tuple[Var, ...]:
        """Without a coordinate for lanes, an operand in a memory is where the first unit says."""
        device = self.program.device
        depth = device.depth(instr.level)
        below = tuple(u.var for u in self.launch.units if device.depth(u.level) > depth)
        alone = all(v.name == "r" for v in operand.coords)
        of = self.known.get(piece.buffer)
        shared = of is None or any(device.depth(u.level) > device.depth(of[0].buffer.level) for u in self.launch.units)
        return below if alone and shared else ()


def different(reads: list[Access]) -> list[Access]:
    """Without those that read the same elements at the same place."""
    found: dict[tuple, Access] = {}
    for r in reads:
        around = tuple((s.conds, s.holds) if type(s) is Guard else id(s) for s in r.path)
        found.setdefault((r.coords, r.extent, around, r.stmt if r.kind == COMBINE else None), r)
    return list(found.values())


def names(*exprs: Expr) -> set[str]:
    return {v.name for e in exprs for v in e.variables()}
