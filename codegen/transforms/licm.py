"""Loop-invariant code motion: values that a loop does not change are computed before it, into a register.

for j: Y[i, j] = X[i, j] * rsqrt(variance + eps)      -->      h = rsqrt(variance + eps); for j: Y[i, j] = X[i, j] * h

C compilers do not see it: `eps` may be where `Y` is stored, for all they know.

A division by such a value becomes multiply-adds, where the device says that divisions cost more. The quotients are the same
(docs/decisions/division.md).

for j: Y[j] = e[j] / total      -->      r = reciprocal(total); for j: Y[j] = divide_by(e[j], total, r)

NOTHING_NEW   only values of registers and of tensors without an index move: they can be read if a loop runs zero times.
ONCE          a function that costs more than a read, as an exponential, leaves a loop that is known to run, whatever it reads.
              Where the loop is written out, the text shows it once. C compilers compute it again after a masked load. A loop
              that waits for others may not be known to read what was there before.
WRITTEN       a register is read before a loop only if it was stored under conditions that hold there: idle units, and units
              beyond an edge, do not read registers that they never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...dsl.index.expr import ONE, Expr, Var
from ...dsl.support.fast_replace import replace
from ...dsl.values import Apply, IndexValue, Load, Masked, Value, is_expensive, loads, rename_loads, transform, walk
from ..ir.free_names import names_of, numbered_name
from ..ir.program import Program
from ..ir.tile_ir import Alloc, Barrier, Buffer, For, If, Launch, Let, Stmt, Store, Wait
from ..ir.tile_visitors import map_bodies, mapped, statements, with_bodies, with_buffers, written

# What holds around a statement: conditions (>= 0), and of an `else` those that do not all hold.
Conds = frozenset[Expr | tuple[Expr, ...]]

_TYPES = ("f32", "f64", "i32", "i64")
# cycles: of a division by a reciprocal that is there, as a device states those of a division [measured: rows-2026-11; test_not]
_BY_RECIPROCAL = 8
_LEAST_TURNS = 4  # turns: of a loop, for which its reciprocal pays; it takes a division and a check [estimate; test_not]


def hoist_invariants(program: Program) -> Program:
    names = names_of(program)
    return replace(program, launches=tuple(_Hoister(program, names).launch(x) for x in program.launches))


class _Hoister:
    def __init__(self, program: Program, names: set[str]) -> None:
        self.program, self.names = program, names
        self.made: set[str] = set()  # registers of our own
        self.memory = program.device.memories[-1].name
        self.level = program.device.levels[-1].name
        self.still = {b.name for b in program.buffers if b.kind == "input" and not b.shape}  # as it was when the call began
        self.written: dict[str, frozenset[Conds]] = {}  # registers without an index, and around which stores; WRITTEN
        self.conds: Conds = frozenset()
        division = program.device.function("div")
        self.divides = division is not None and (division.cycles or 0) > _BY_RECIPROCAL

    def launch(self, launch: Launch) -> Launch:
        values = [s.value for s in statements(launch.body) if isinstance(s, Store)]
        if all(ld.indices for v in values for ld in loads(v)) and not any(map(is_expensive, values)):
            return launch  # NOTHING_NEW, ONCE
        return replace(launch, body=self.body(launch.body))

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self.statement(s) for s in body)

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case For():
                before = self.written
                body = self.body(s.body)  # inner loops first: what leaves them may leave this one too
                self.written = before  # it may run zero times
                return self.loop(with_bodies(s, body))
            case Alloc():
                if s.buffer.memory == self.memory and not s.buffer.shape:
                    self.written = {**self.written, s.buffer.name: frozenset()}
                return with_bodies(s, self.body(s.body))
            case If():
                outside, held, failed = self.conds, self.conds | set(s.conds), self.conds | {s.conds}
                self.conds = held
                body = self.body(s.body)
                self.conds = failed
                orelse = self.body(s.orelse)
                self.conds = outside
                for name in self.written:
                    if self.stored(name, held) and self.stored(name, failed):
                        self.store(name)
                return with_bodies(s, body, orelse)
            case Store() if s.buffer in self.written:
                self.store(s.buffer)
        return s

    def store(self, name: str) -> None:
        self.written = {**self.written, name: self.written[name] | {self.conds}}

    def stored(self, name: str, conds: Conds) -> bool:
        """Whether the register was stored wherever `conds` hold."""
        return any(around <= conds for around in self.written.get(name, ()))

    def loop(self, s: For) -> Stmt:
        changed = written(s.body, self.program.instrs) | {x.buffer.name for x in statements(s.body) if isinstance(x, Alloc)}
        moved: dict[Value, Buffer] = {}
        turns = (s.stop - s.start).constant
        names = {s.var, *(x.var for x in statements(s.body) if isinstance(x, For | Let))}
        once = (turns or 0) > 0 and not any(isinstance(x, If | Barrier | Wait) for x in statements(s.body))
        divides = self.divides and (turns is None or s.step.constant is None or turns >= _LEAST_TURNS * s.step.constant)

        def before(v: Apply) -> Load:
            if v not in moved:
                moved[v] = self.register(v)
            return Load(moved[v].name, (), v.dtype)

        def step(v: Value) -> Value | None:
            match v:
                case Masked():
                    return v
                case Apply() if self.moves(v, changed) or (once and _is_same(v, names, changed)):
                    return before(v)
                case Apply(fn="div", args=(x, d)) if divides and v.dtype.name == "f32" and self.moves(d, changed):
                    d = transform(d, step)
                    return Apply("divide_by", (transform(x, step), d, before(Apply("reciprocal", (d,), d.dtype))), v.dtype)
            return None

        inner = _stored(s.body, partial(transform, f=step))
        if not moved:
            return s
        inner = self.without_copies(inner)
        stores = [Store(b.name, (), v, span=s.span) for v, b in moved.items()]
        return with_buffers(moved.values(), (*stores, replace(s, body=inner)), s.span)[0]

    def without_copies(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """A register of ours that left an inner loop and whose value now leaves this one is the register out there."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Alloc) and s.buffer.name in self.made:
                first, *rest = s.body
                if isinstance(first, Store) and first.buffer == s.buffer.name and isinstance(first.value, Load):
                    out += self.without_copies(
                        _stored(tuple(rest), partial(rename_loads, names={s.buffer.name: first.value.tensor}))
                    )
                    continue
            out.append(map_bodies(s, self.without_copies))
        return tuple(out)

    def moves(self, v: Value, changed: frozenset[str]) -> bool:
        """NOTHING_NEW, WRITTEN"""
        if v.dtype.name not in _TYPES or not loads(v):
            return False
        for x in walk(v):
            match x:
                case Load():
                    known = x.tensor in self.still or self.stored(x.tensor, self.conds)
                    if x.indices or not known or x.tensor in changed:
                        return False
                case IndexValue():
                    if not x.expr.variables() <= set(self.program.dims):
                        return False
                case Masked():
                    return False
        return True

    def register(self, v: Value) -> Buffer:
        name = numbered_name("invariant", self.names)
        self.names.add(name)
        self.made.add(name)
        return Buffer(name, v.dtype, "local", self.memory, self.level, (), (), ONE, passing=True)


def _is_same(v: Apply, names: set[Var], changed: frozenset[str]) -> bool:
    """ONCE: whether it is costly, and has one value wherever these variables are bound and these buffers are written."""
    if v.dtype.name not in _TYPES or not loads(v) or not is_expensive(v):
        return False
    read = {x.tensor for x in loads(v)}
    exprs = [e for x in walk(v) for e in (x.indices if isinstance(x, Load) else (x.expr,) if isinstance(x, IndexValue) else ())]
    masked = any(isinstance(x, Masked) for x in walk(v))
    return not masked and read.isdisjoint(changed) and all(names.isdisjoint(e.variables()) for e in exprs)


def _stored(body: tuple[Stmt, ...], f: Callable[[Value], Value]) -> tuple[Stmt, ...]:
    """The statements with `f` applied to all that is stored."""

    def one(s: Stmt) -> Stmt:
        if not isinstance(s, Store):
            return map_bodies(s, lambda inner: _stored(inner, f))
        value = f(s.value)
        return s if value is s.value else replace(s, value=value)

    return mapped(body, one)
