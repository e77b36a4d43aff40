"""The interpreter of tile programs: their meaning, slow and simple.

    outputs = interpret(program, {"A": a, "B": b})

A launch is executed statement by statement for all of its units at once, with one NumPy entry a unit. Where units diverge
(an `If`, a `For` whose bounds differ, a `Masked` value) each side is executed for its units. That is one legal order of
execution, so a result alone would prove little: the checks find results that depend on the order.

ITERATIONS_AT_ONCE: independent iterations of a loop are executed together, with one entry for each unit and iteration
(`separate_iterations`).
AT_ONCE: a launch is complete before the next one starts; it orders everything.
VISIBLE_AT_WAIT: a unit may use the results of an asynchronous instruction after it has waited for it, others after a barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ...dsl.device import GROUPED
from ...dsl.index.expr import Expr, Var
from ...dsl.support.memoised import IdentityMemo
from ...dsl.values import Load, Value
from ..abi import chosen
from ..ir.program import Program
from ..ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, Commit, For, If, Launch, Let, Stmt, Store, Wait
from ..ir.tile_visitors import written, written_atomically
from .call import Landing, all_reduce, call
from .domain import NUMBERS, Domain, picked
from .faults import Fault, Reports
from .frame import Frame, UnitTree, UnitVariables, units_at_once
from .memory import Memory, Site
from .race_shadow import Clock, Shadow
from .separate_iterations import iterations_together, same_iteration, stored_separately
from .value import evaluate

__all__ = ["Fault", "interpret"]

_COMBINE = {"sum": "add", "max": "max", "min": "min"}


def interpret(
    program: Program,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int] | None = None,
    finite: Mapping[str, int] | None = None,
    *,
    checks: bool = True,
    on_fault: Literal["raise"] | list[Fault] = "raise",
    traffic: dict[tuple[str, str], int] | None = None,
    addresses: Mapping[str, int] | None = None,
    domain: Domain = NUMBERS,
    log: dict[str, Memory] | None = None,
) -> dict[str, np.ndarray]:
    """Runs `program` on the inputs `arrays` and gives its outputs by name.

    sizes     the program's dims; those left out are inferred from the shapes of the inputs
    finite    how many units of each finite level take part, by level; default: at most 3 (an odd number finds more)
    checks    races and reads of memory never written are looked for; bounds always are
    traffic   gets the bytes by (memory, "read" or "written") that were accessed
    addresses where arguments begin, in bytes, of which only the remainder by a power of two matters; default: aligned to any
    domain    what is computed with; arrays are of its values
    log       gets the outputs' memories, each with a `log` of who stored where
    on_fault  "raise" at the first fault, or a list that collects one fault of each kind, buffer and statement

    Raises Fault (an InternalError: lowering was wrong), ValueError for arrays or sizes that do not fit.
    """
    env = _sizes(program, arrays, sizes or {}, finite or {})
    program = chosen(program, env, addresses or {})
    reports = Reports(on_fault)
    memories: dict[str, Memory] = {}
    for buffer in program.buffers:
        memory = memories[buffer.name] = Memory(buffer, env, 1, 0, 1, domain=domain)
        memory.base = (addresses or {}).get(buffer.name, 0)
        if buffer.kind == "input":
            if arrays[buffer.name].shape != memory.shape:
                raise ValueError(f"{buffer.name} has shape {arrays[buffer.name].shape}, needs {memory.shape}")
            memory.fill(arrays[buffer.name])
        elif not checks:
            memory.defined = None
        if log is not None and buffer.kind == "output":
            log[buffer.name], memory.log = memory, []
    with np.errstate(all="ignore"):
        for launch in program.launches:
            _run_launch(program, launch, env, memories, checks, reports, domain, traffic)
    return {b.name: _result(memories[b.name], reports) for b in program.buffers if b.kind == "output"}


def _sizes(
    program: Program, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], finite: Mapping[str, int]
) -> UnitVariables:
    env = UnitVariables()
    env.update({name: int(n) for name, n in sizes.items()})
    for buffer in program.buffers:
        if buffer.kind != "input":
            continue
        if buffer.name not in arrays:
            raise ValueError(f"no array for input {buffer.name}")
        for extent, n in zip(buffer.shape, arrays[buffer.name].shape, strict=False):
            if len(extent.terms) == 1 and isinstance(var := extent.terms[0][0], Var) and extent == Expr(((var, 1),)):
                env.setdefault(var.name, n)
    for level, var in program.finite:
        env[var.name] = finite.get(level) or finite.get(var.name) or min(program.device.level(level).most or 3, 3)
    missing = [v.name for v in program.dims if v.name not in env]
    if missing:
        raise ValueError(f"no size for {', '.join(missing)}")
    env.update(program.with_derived(env))
    for cond, text in program.conditions:
        if cond.evaluate(env) < 0:
            raise ValueError(text)
    return env


def _result(memory: Memory, reports: Reports) -> np.ndarray:
    """The output as a dense array. Every element of it must have been written."""
    at = np.zeros(memory.shape, np.int64)
    if not at.size:  # its other axes may be of any length
        return picked(memory.data, at)
    for axis, stride in zip(np.indices(memory.shape, sparse=True), memory.strides, strict=True):
        at = at + axis * stride
    if memory.defined is not None and not memory.defined[at].all():
        index = [int(i) for i in np.unravel_index(int(np.argmin(memory.defined[at])), memory.shape)]
        reports.add(Fault("never-written", f"`{memory.buffer.name}`{index} was never written", memory.buffer.name))
    return picked(memory.data, at)


def _run_launch(
    program: Program,
    launch: Launch,
    sizes: UnitVariables,
    memories: dict[str, Memory],
    checks: bool,
    reports: Reports,
    domain: Domain,
    traffic: dict[tuple[str, str], int] | None = None,
) -> None:
    counts = tuple(int(u.count.evaluate(sizes)) for u in launch.units)
    tree = UnitTree(program.device, launch, counts)
    domain.visit(tree.total)
    site = Site(reports, tree, Clock(tree), [], domain, traffic)
    stores, atomics = written(launch.body, program.instrs), written_atomically(launch.body)
    machine = _Machine(program, site, dict(memories), atomics, checks)
    for buffer in program.buffers:
        memory = memories[buffer.name]
        memory.below, memory.shadow = max(1, tree.total), None
        grains = tree.grains(buffer.level)
        if checks and buffer.name in stores:  # what is only read cannot race
            memory.shadow = Shadow(site.clock, memory.elements, grains, buffer.name in atomics)
    if not tree.total:
        return
    chunk = units_at_once(program.device, launch, tree)
    for start in range(0, tree.total, chunk):
        ids = np.arange(start, min(start + chunk, tree.total))
        env = UnitVariables(sizes)
        for unit in launch.units:
            number = ids // tree.size(unit.level) % tree.count(unit.level)
            machine.bind(env, unit.var, number if tree.count(unit.level) > 1 else 0)
        machine.run(launch.body, Frame(ids, env), start, len(ids))


@dataclass
class _Flight:
    """Asynchronous copies of one kind: how many groups each unit has committed, and what is under way."""

    groups: np.ndarray
    under_way: list[tuple[np.ndarray, np.ndarray, list[Landing]]] = field(default_factory=list)  # units, their groups, writes


@dataclass
class _Machine:
    program: Program
    site: Site
    memories: dict[str, Memory]
    atomics: frozenset[str]
    checks: bool
    flights: dict[str, _Flight] = field(default_factory=dict)
    stored: IdentityMemo[For, dict[str, bool] | None] = field(default_factory=IdentityMemo)
    locals: dict[str, Memory] = field(default_factory=dict)  # by name, kept between lifetimes: the place is the same
    start: int = 0
    units: int = 0

    def run(self, body: tuple[Stmt, ...], frame: Frame, start: int, units: int) -> None:
        """The launch's body for the chunk of `units` innermost units from `start` on, all of them active."""
        self.start, self.units = start, units
        self.locals.clear()
        self.block(body, frame)

    def bind(self, env: UnitVariables, var: Var, value: Any) -> None:
        """A variable's value; its interval, which simplification trusted, must hold it."""
        low, high = (value.min(), value.max()) if isinstance(value, np.ndarray) else (value, value)
        if (var.lo is not None and low < var.lo) or (var.hi is not None and high > var.hi):
            self.site.report("interval", f"{var.name} has values {low}..{high}, declared {var.lo}..{var.hi}")
        env[var.name] = value

    def let(self, s: Let, frame: Frame) -> None:
        value = s.value.evaluate(frame.env)
        self.bind(frame.env, s.var, value)
        if s.extent is not None and np.any((value < 0) | (value >= s.extent.evaluate(frame.env))):
            self.site.report("interval", f"{s.var.name} is not always within the extent {s.extent} that it is said to have")

    def block(self, body: tuple[Stmt, ...], frame: Frame) -> None:
        self.statements(body, frame.sub())

    def statements(self, body: tuple[Stmt, ...], scope: Frame) -> None:
        """A block whose scope nothing else uses."""
        for s in body:
            self.statement(s, scope)

    def statement(self, s: Stmt, frame: Frame) -> None:
        match s:
            case Let():
                self.let(s, frame)
            case For():
                self.loop(s, frame)
            case If():
                mask = frame.hold(s.conds)
                if isinstance(mask, bool):
                    self.block(s.body if mask else s.orelse, frame)
                else:
                    self.statements(s.body, frame.sub(mask))
                    if s.orelse:
                        self.statements(s.orelse, frame.sub(~mask))
            case Alloc():
                self.alloc(s, frame)
            case _:
                self.site.enter(s)
                self.leaf(s, frame)

    def leaf(self, s: Stmt, frame: Frame) -> None:
        match s:
            case Store():
                self.store(s, frame)
            case Call():
                self.call(s, frame)
            case AllReduce():
                all_reduce(s, frame, self.memories, self.site)
            case Barrier():
                self.barrier(s, frame)
            case Commit():
                self.flight(s.kind).groups[frame.ids] += 1
            case Wait():
                self.wait(s, frame)
            case _:
                raise AssertionError(s)

    def loop(self, s: For, frame: Frame) -> None:
        start, stop, step = (e.evaluate(frame.env) for e in (s.start, s.stop, s.step))
        if np.any(step <= 0):
            self.site.enter(s)
            self.site.report("malformed", f"step {s.step} of {s.var.name} is not positive")
            return
        if self.apart(s, start, step):
            for units, values in iterations_together(len(frame.ids), start, stop, step):
                self.site.domain.visit(len(units))
                inner = frame.sub(units)
                self.bind(inner.env, s.var, values)
                self.statements(s.body, inner)
            return
        if not any(isinstance(x, np.ndarray) for x in (start, stop, step)):
            for i in range(start, stop, step):
                self.site.domain.visit(len(frame.ids))
                inner = frame.sub()
                self.bind(inner.env, s.var, i)
                self.statements(s.body, inner)
            return
        at = np.broadcast_to(start, frame.ids.shape)
        while (active := at < stop).any():
            self.site.domain.visit(len(at))
            inner = frame.sub(None if active.all() else active)
            self.bind(inner.env, s.var, at if active.all() else at[active])
            self.statements(s.body, inner)
            at = at + step

    def apart(self, s: For, start: Any, step: Any) -> bool:
        """ITERATIONS_AT_ONCE: iterations are independent, also those of all units that share what is stored."""
        stored = self.stored.of(s, stored_separately)
        if stored is None:
            return False
        shared = [tells for name, tells in stored.items() if self.memories[name].below > 1]
        return all(shared) and (not shared or same_iteration(start, step))

    def alloc(self, s: Alloc, frame: Frame) -> None:
        name = s.buffer.name
        outer = self.memories.get(name)
        memory = self.locals.get(name)
        if memory is not None and memory.buffer == s.buffer and memory is not outer:
            memory.forget()
        else:
            memory = self.locals[name] = self.local(s.buffer, frame)
        if not self.checks:
            memory.defined = None
        self.memories[name] = memory
        self.block(s.body, frame)
        if memory.flying is not None and memory.flying.any():
            self.site.enter(s)
            self.site.report("in-flight", f"`{name}` is given up with a copy under way to it", name)
        if outer is None:
            del self.memories[name]
        else:
            self.memories[name] = outer

    def local(self, buffer: Buffer, frame: Frame) -> Memory:
        tree, below = self.site.tree, self.site.tree.size(buffer.level)
        slices = max(1, tree.size(self.program.device.memory(buffer.memory).level) // below)
        memory = Memory(buffer, frame.env, below, self.start, self.units, slices, self.site.domain)
        if self.checks and below > 1:
            memory.shadow = Shadow(self.site.clock, memory.elements, tree.grains(buffer.level), buffer.name in self.atomics)
        return memory

    def load(self, at: Load, frame: Frame) -> np.ndarray:
        return self.memories[at.tensor].load(self.site, frame.ids, [e.evaluate(frame.env) for e in at.indices])

    def value(self, value: Value, frame: Frame) -> np.ndarray:
        return evaluate(value, frame, self.load, self.site.domain)

    def store(self, s: Store, frame: Frame) -> None:
        memory = self.memories[s.buffer]
        coords = [e.evaluate(frame.env) for e in s.coords]
        value = self.value(s.value, frame)
        if s.atomic is not None:
            compute = memory.buffer.dtype.compute
            value = np.broadcast_to(self.site.domain.cast(value, s.value.dtype, compute), frame.ids.shape)
            memory.combine(self.site, frame.ids, coords, value, compute, _COMBINE[s.atomic])
            return
        rounded = self.site.domain.cast(value, s.value.dtype, memory.buffer.dtype)
        if rounded.shape != frame.ids.shape:
            rounded = np.broadcast_to(rounded, frame.ids.shape)
        memory.store(self.site, frame.ids, coords, rounded)

    def call(self, s: Call, frame: Frame) -> None:
        instr = next(i for i in self.program.instrs if i.name == s.instr)
        landing = call(s, instr, frame, self.memories, self.site)
        if instr.awaits:
            flight = self.flight(instr.awaits[0])
            flight.under_way.append((frame.ids, flight.groups[frame.ids] + 1, landing))
            if instr.awaits[0] not in GROUPED:
                flight.groups[frame.ids] += 1

    def flight(self, kind: str) -> _Flight:
        return self.flights.setdefault(kind, _Flight(np.zeros(self.site.tree.total, np.int64)))

    def wait(self, s: Wait, frame: Frame) -> None:
        """VISIBLE_AT_WAIT: each unit's groups but its latest `pending` are complete."""
        flight = self.flights.get(s.kind)
        if flight is None:
            return
        waiting = np.zeros(self.site.tree.total, np.bool_)
        waiting[frame.ids] = True
        done = np.where(waiting, flight.groups - s.pending, 0)  # groups up to this number are complete, by unit
        still = []
        for units, numbers, landing in flight.under_way:
            complete = np.zeros(self.site.tree.total, np.bool_)
            complete[units[numbers <= done[units]]] = True
            rest = []
            for memory, where, ids in landing:
                now = complete[ids]
                if now.any():
                    memory.land(where[now], ids[now])
                if not now.all():
                    rest.append((memory, where[~now], ids[~now]))
            if rest:
                still.append((units, numbers, rest))
        flight.under_way = still

    def barrier(self, s: Barrier, frame: Frame) -> None:
        tree = self.site.tree
        size = tree.size(s.level)
        apart = [v for v in tree.levels if tree.size(v) < size and tree.count(v) > 1 and _never_meet(tree, v)]
        if apart:
            self.site.report("malformed", f"units of {apart[0]} cannot synchronise: no barrier of {s.level}")
        groups, counts = np.unique(frame.ids // size, return_counts=True)
        if (counts != size).any():
            at = int(np.argmax(counts != size))
            who = tree.name(int(groups[at]) * size)
            text = f"only {counts[at]} of {size} units reach the barrier of the {s.level} of {who}"
            self.site.report("divergent-barrier", text)
        self.site.clock.meet(size, frame.ids)


def _never_meet(tree: UnitTree, level: str) -> bool:
    return tree.device.level(level).siblings == "nothing"
