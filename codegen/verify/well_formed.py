"""Whether a tile program is well formed: the rules of its grammar (`codegen.ir.tile_ir`) that can be checked statically.

BOUND_ONCE   a variable is bound before it is named, and not again inside; its interval has all its values, wherever it is named
IN_SCOPE     a buffer is declared around its accesses, which have its rank and its type
THERE        levels, memories, instructions and kinds of asynchronous copies exist, and operands match in number and extent

A violation is the compiler's fault: a `Fault` of kind "malformed", with the statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...dsl.device import AWAITED, GROUPED, Device
from ...dsl.index.expr import Expr, Var
from ...dsl.index.intervals import Interval
from ...dsl.types import TYPES
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value, children
from ..abi import programs
from ..interpret.faults import Fault
from ..ir.printer import DIM, TAKING_PART, interval_of, let_interval
from ..ir.program import Program
from ..ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, Commit, For, If, Launch, Let, Piece, Stmt, Store, Wait

_TRUTH = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not")
# arguments: of a function of the language, where it is not two or three by its kind [fact: the language]
_ARGS = {"fma": 3, "where": 3, "neg": 1, "not": 1, "pow": 2, "atan2": 2, "floordiv": 2, "mod": 2, "and": 2, "or": 2}
_ARGS |= dict.fromkeys(("add", "sub", "mul", "div", "scaled", "min", "max", "lt", "le", "gt", "ge", "eq", "ne"), 2)
_ARGS |= {"divide_by": 3}
_KINDS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")


def check_well_formed(program: Program, staged: bool = True) -> None:
    """Raises a Fault for the first thing that is wrong. `staged`: after `pipeline_copies`, which leaves no `Staging`."""
    first = program
    for p in programs(program):
        _Checker(p, staged).program()
        mine, theirs = map(_arguments, (first, p))
        if mine != theirs:
            raise Fault("malformed", f"{p.name} and its fallback have different arguments")
        if (p.needs is None) != (p.instead is None):
            raise Fault("malformed", f"{p.name} has needs without a fallback, or a fallback without needs")


def _arguments(p: Program) -> tuple[list[tuple[str, ...]], list[str]]:
    """As a caller sees them. The intervals of sizes are those that the program is for."""
    buffers = [(b.name, str(b.dtype), *map(str, b.shape)) for b in p.buffers if b.kind != "workspace"]
    return buffers, [v.name for v in p.dims]


@dataclass
class _Checker:
    p: Program
    staged: bool
    scope: dict[str, Interval] = field(default_factory=dict)
    lets: dict[str, Expr] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    stmt: Stmt | None = None
    launch: Launch | None = None

    @property
    def device(self) -> Device:
        return self.p.device

    def fail(self, message: str, buffer: str = "") -> Fault:
        where = f" (launch {self.launch.name})" if self.launch is not None else ""
        return Fault("malformed", message + where, buffer, self.stmt)

    # ------------------------------------------------------------ the program

    def program(self) -> None:
        p = self.p
        for v in p.dims:
            self.bind(v, DIM)
        for v, e in p.lets:
            self.exprs([e])
            self.bind(v, interval_of(e, self.scope))
        for level, v in p.finite:
            if self.level(level).units != "finite":
                raise self.fail(f"{level} is not a finite level")
            self.bind(v, TAKING_PART)
        self.exprs([e for e, _ in p.conditions])
        for b in p.buffers:
            if b.kind not in ("input", "output", "workspace"):
                raise self.fail(f"{b.name} is {b.kind}, not declared by an Alloc", b.name)
            self.buffer(b)
        if p.needs is not None:
            self.exprs(p.needs.conds)
            if unknown := [name for name, _ in p.needs.aligned if name not in self.buffers]:
                raise self.fail(f"alignment is required of {unknown[0]}, which is not an argument")
        for names, what in (([x.name for x in p.launches], "launches"), ([i.name for i in p.instrs], "instructions")):
            if len(set(names)) < len(names):
                raise self.fail(f"two {what} have the same name: {sorted(names)}")
        for x in p.launches:
            self.launch_of(x)

    def launch_of(self, x: Launch) -> None:
        self.launch, outer = x, dict(self.scope)
        depths = [self.device.depth(self.level(u.level).name) for u in x.units]
        if depths != sorted(set(depths)):
            raise self.fail(f"levels are not in order: {', '.join(u.level for u in x.units)}")
        for u in x.units:
            self.exprs([u.count])
            if self.level(u.level).units == "shaped" and u.count.constant is None:
                raise self.fail(f"the number of {u.level}s, {u.count}, is not constant")
            high = interval_of(u.count, self.scope)[1]
            self.bind(u.var, (0, None if high is None else high - 1))
        self.body(x.body)
        self.scope, self.launch, self.stmt = outer, None, None

    def level(self, name: str):
        if name not in [x.name for x in self.device.levels]:
            raise self.fail(f"{self.device.name} has no level {name}")
        return self.device.level(name)

    def buffer(self, b: Buffer) -> None:
        if b.name in self.buffers:
            raise self.fail(f"{b.name} is declared twice", b.name)
        if b.memory not in [m.name for m in self.device.memories]:
            raise self.fail(f"{self.device.name} has no memory {b.memory}", b.name)
        self.level(b.level)
        if len(b.shape) != len(b.strides):
            raise self.fail(f"{b.name} has {len(b.shape)} axes and {len(b.strides)} strides", b.name)
        self.exprs([*b.shape, *b.strides, b.size])
        self.buffers[b.name] = b

    # ------------------------------------------------------------ variables

    def bind(self, v: Var, expected: Interval) -> None:
        """`expected`: an interval that all of its values are in, where one has any. BOUND_ONCE"""
        if v.name in self.scope:
            raise self.fail(f"{v.name} is bound again inside its own scope")
        if v.lo is not None and v.hi is not None and v.hi < v.lo:
            raise self.fail(f"the interval {v.lo}..{v.hi} of {v.name} is empty")
        (low, high), (lo, hi) = v.interval, expected
        empty = lo is not None and hi is not None and hi < lo
        if not empty and (
            (low is not None and hi is not None and hi < low) or (high is not None and lo is not None and lo > high)
        ):
            raise self.fail(f"{v.name} has the interval {low}..{high}, but values in {lo}..{hi}")
        self.scope[v.name] = v.interval

    def exprs(self, exprs: Iterable[Expr]) -> None:
        for e in exprs:
            for v in e.variables():
                if v.name not in self.scope:
                    raise self.fail(f"{v.name} in {e} is not bound")
                if v.interval != self.scope[v.name]:
                    (low, high), (lo, hi) = v.interval, self.scope[v.name]
                    raise self.fail(f"{v.name} in {e} has the interval {low}..{high}, but is bound in {lo}..{hi}")

    # ------------------------------------------------------------ statements

    def body(self, body: tuple[Stmt, ...]) -> None:
        outer, lets = dict(self.scope), dict(self.lets)
        for s in body:
            self.stmt = s
            self.statement(s)
        self.scope, self.lets = outer, lets

    def statement(self, s: Stmt) -> None:
        match s:
            case For():
                self.exprs([s.start, s.stop, s.step])
                low, high = interval_of(s.step, self.scope)
                if (high is not None and high <= 0) or (low is not None and low < 0):
                    raise self.fail(f"the step {s.step} of {s.var.name} may be negative")
                if s.unroll == 0 and interval_of(s.stop - s.start, self.scope)[1] is None:
                    raise self.fail(f"the loop over {s.var.name} is fully unrolled, but its trip count has no bound")
                outer, last = dict(self.scope), interval_of(s.stop, self.scope)[1]
                self.bind(s.var, (interval_of(s.start, self.scope)[0], None if last is None else last - 1))
                self.body(s.body)
                self.scope = outer
            case Let():
                self.exprs([s.value] if s.extent is None else [s.value, s.extent])
                if s.var.name not in self.scope or self.lets.get(s.var.name) != s.value:
                    self.bind(s.var, let_interval(s, self.scope))
                    self.lets[s.var.name] = s.value
            case If():
                self.exprs(s.conds)
                self.body(s.body)
                self.body(s.orelse)
            case Alloc():
                self.alloc(s)
            case Store():
                self.access(s.buffer, s.coords)
                if self.buffers[s.buffer].kind == "input":
                    raise self.fail(f"{s.buffer} is an input", s.buffer)
                if s.atomic not in (None, "sum", "max", "min"):
                    raise self.fail(f"there is no atomic {s.atomic}", s.buffer)
                if s.using is not None and not self.device.instrs_named(s.using):
                    raise self.fail(f"{self.device.name} has no instruction {s.using}", s.buffer)
                self.value(s.value)
            case Call():
                self.call(s)
            case AllReduce():
                self.all_reduce(s)
            case Barrier():
                self.barrier(s)
            case Commit() | Wait():
                self.awaits(s)

    def alloc(self, s: Alloc) -> None:
        if s.staging is not None and self.staged:
            raise self.fail(f"the copy to {s.buffer.name} is not staged yet", s.buffer.name)
        if s.buffer.kind != "local":
            raise self.fail(f"{s.buffer.name} is {s.buffer.kind}", s.buffer.name)
        memory = s.buffer.memory
        outer = dict(self.buffers)
        self.buffer(s.buffer)
        bounded = self.device.memory(memory).capacity is not None and self.device.memory(memory).backing is None
        if bounded and s.buffer.size.constant is None:
            raise self.fail(f"the size of {s.buffer.name} in {memory}, {s.buffer.size}, is not constant", s.buffer.name)
        self.body(s.body)
        self.buffers = outer

    def access(self, name: str, coords: tuple[Expr, ...]) -> Buffer:
        """IN_SCOPE"""
        b = self.buffers.get(name)
        if b is None:
            raise self.fail(f"{name} is not declared here", name)
        if len(coords) != len(b.shape):
            raise self.fail(f"{name} has {len(b.shape)} axes, but is accessed by {len(coords)} coordinates", name)
        self.exprs(coords)
        return b

    def call(self, s: Call) -> None:
        instr = next((i for i in self.p.instrs if i.name == s.instr), None)
        if instr is None:
            raise self.fail(f"{s.instr} is not among the program's instructions")
        if len(s.pieces) != len(instr.operands):
            raise self.fail(f"{s.instr} has {len(instr.operands)} operands, not {len(s.pieces)}")
        for o, piece in zip(instr.operands, s.pieces, strict=True):
            self.piece(o, piece)

    def piece(self, o, piece: Piece) -> None:
        b = self.access(piece.buffer, piece.coords)
        if o.registers != piece.extent:
            raise self.fail(f"operand {o.name} has {o.registers} elements per unit, {piece.buffer} has {piece.extent}", b.name)
        if o.dtype.bytes != b.dtype.bytes:
            raise self.fail(f"operand {o.name} is {o.dtype}, {b.name} is {b.dtype}", b.name)
        if b.kind == "input" and o.role != "input":
            raise self.fail(f"operand {o.name} is written, but {b.name} is an input", b.name)
        memory = self.device.memory(b.memory)
        if o.memory not in (memory.name, memory.backing):
            raise self.fail(f"operand {o.name} is in {o.memory}, {b.name} is in {b.memory}", b.name)

    def all_reduce(self, s: AllReduce) -> None:
        if self.level(s.level).siblings != "lockstep":
            raise self.fail(f"units of {s.level} do not run in lockstep")
        units = {u.level: u.count.constant for u in self.launch.units} if self.launch is not None else {}
        if s.kind not in _KINDS or len(s.cells) != (2 if s.kind.startswith("arg") else 1):
            raise self.fail(f"{s.kind} of {len(s.cells)} cells")
        if s.stride < 1 or s.count < 1 or s.stride * s.count > (units.get(s.level) or 1):
            raise self.fail(
                f"subgroups of {s.count} at stride {s.stride} do not divide {units.get(s.level)} units of {s.level}"
            )
        for name, coords in s.cells:
            self.access(name, coords)

    def barrier(self, s: Barrier) -> None:
        depth = self.device.depth(self.level(s.level).name)
        units = self.launch.units if self.launch is not None else ()
        if s.level == self.device.levels[-1].name:
            raise self.fail(f"no unit is below a unit of {s.level}")
        for u in units:
            alone = u.count.constant == 1
            if self.device.depth(u.level) > depth and not alone and self.device.level(u.level).siblings == "nothing":
                raise self.fail(f"units of {u.level} cannot synchronise")

    def awaits(self, s: Commit | Wait) -> None:
        """THERE"""
        if s.kind not in AWAITED or s.kind not in [i.awaits[0] for i in self.device.instrs if i.awaits]:
            raise self.fail(f"no instruction of {self.device.name} completes at a wait for {s.kind}")
        if isinstance(s, Commit) and s.kind not in GROUPED:
            raise self.fail(f"copies of kind {s.kind} have no groups")
        if isinstance(s, Wait) and s.pending < 0:
            raise self.fail(f"a wait leaves {s.pending} groups in flight")

    # ------------------------------------------------------------ values

    def value(self, v: Value) -> None:
        match v:
            case Load():
                b = self.access(v.tensor, v.indices)
                if v.dtype != b.dtype:
                    raise self.fail(f"{v.tensor} is {b.dtype}, but is read as {v.dtype}", v.tensor)
                if v.otherwise is not None:
                    raise self.fail(f"{v.tensor} may not be read here", v.tensor)
            case IndexValue():
                self.exprs([v.expr])
            case Masked():
                self.exprs(v.conds)
                if not v.dtype == v.value.dtype == v.otherwise.dtype:
                    raise self.fail(f"a choice between {v.value.dtype} and {v.otherwise.dtype} has type {v.dtype}")
            case Apply():
                self.function(v)
            case Const() | Cast():
                pass
        for child in children(v):
            self.value(child)

    def function(self, v: Apply) -> None:
        types = [a.dtype.compute for a in v.args]
        if len(types) != _ARGS.get(v.fn, 1):
            raise self.fail(f"{v.fn} has {len(types)} arguments")
        if v.fn == "where" and types.pop(0) != TYPES["bool"]:
            raise self.fail("the condition of a choice is not a bool")
        result = TYPES["bool"] if v.fn in _TRUTH else types[0]
        if len(set(types)) != 1 or v.dtype != result:
            raise self.fail(f"{v.fn} of {', '.join(map(str, types))} has type {v.dtype}")
