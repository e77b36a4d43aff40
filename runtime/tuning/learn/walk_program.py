"""`walk_program`: the loops of a tile program with how often each statement is executed, and what it accesses.

POINTS    Loops have bounds and conditions that depend on loops around them. Each loop variable takes `_COUNT` values that are
          spread over its range; a count is the mean over the points, so partial tiles and edges count with their share.
ISSUED    Statements are written for one lane. What differs between lanes is issued once for each hardware vector (or subgroup)
          that the lanes fill, what is the same for all lanes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....codegen import abi
from ....codegen.analysis.static_traffic import hold
from ....codegen.autoschedule.access_model import calls
from ....codegen.ir.program import Program
from ....codegen.ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, For, If, Launch, Let, Stmt, Store
from ....dsl.device import Instr
from ....dsl.index.expr import Expr, Fn, Var
from ....dsl.values import Load, Masked, Value, children

_COUNT = 128  # POINTS: points, for each launch
_SPREAD = (np.arange(_COUNT) + 0.5) / _COUNT


@dataclass
class Loop:
    """A loop, or the units of a level. `trips`: iterations of one execution, on average; `unrolled`: it is straight code."""

    var: str
    step: float
    trips: float
    unrolled: bool
    units: bool = False
    body: list[Loop | Access] = field(default_factory=list)


@dataclass(frozen=True)
class Access:
    """An access of memory that is not registers. `times`: how often it is issued in the launch; `stride`: elements between
    neighbouring lanes, None where that is no constant."""

    buffer: Buffer
    coords: tuple[Expr, ...]
    path: tuple[Loop, ...]
    times: float
    stride: int | None
    lanes: float
    written: bool
    extent: int = 1

    @property
    def bytes(self) -> int:
        return self.buffer.dtype.bytes


@dataclass
class Straight:
    """What is executed between two turns of the innermost loop that is one: counts of what is issued in one turn."""

    loop: Loop | None
    times: float
    work: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    sums: float = 0.0
    chain: float = 0.0


@dataclass
class LaunchWalk:
    """A launch. `counts`: what is issued in all, by kind; `top`: its loops and accesses; `tasks`: distributed tiles."""

    top: Loop
    counts: dict[str, float] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    straight: list[Straight] = field(default_factory=list)
    units: float = 1.0
    tasks: float = 1.0

    def add(self, kind: str, n: float) -> None:
        self.counts[kind] = self.counts.get(kind, 0.0) + n


def walk_program(program: Program, sizes: Mapping[str, int], finite: Mapping[str, int]) -> list[LaunchWalk]:
    """The launches of the program for these sizes; `finite`: how many units of each finite level take part."""
    env = program.call_values(sizes, finite)
    program = abi.chosen(program, env, {})
    return [_Walk(program, launch, env).launch for launch in program.launches]


class _Walk:
    def __init__(self, program: Program, launch: Launch, env: Mapping[str, Any]) -> None:
        self.program, self.device = program, program.device
        self.buffers = {b.name: b for b in program.buffers}
        self.instrs: dict[str, Instr] = {i.name: i for i in program.instrs}
        self.register = self.device.memories[-1].name
        self.lets: dict[Var, Expr] = {}
        self.depth = 0
        inner = self.device.levels[-1]
        self.lane: Var | None = None
        self.lanes = 1.0
        top = Loop("", 1.0, 1.0, False)
        self.launch = LaunchWalk(top)
        self.path: list[Loop] = [top]
        self.here = Straight(None, 1.0)
        self.launch.straight.append(self.here)
        points = dict(env)
        for u in launch.units:
            count = int(u.count.evaluate(env))
            points[u.var.name] = self._values(0, count, 1)[0]
            loop = Loop(u.var.name, 1.0, float(count), u.level == inner.name, True)
            self.path[-1].body.append(loop)
            self.path.append(loop)
            if u.level == inner.name:
                self.lane, self.lanes = u.var, float(count)
            else:
                self.launch.units *= count
        self.width = inner.width
        self.vector = inner.bytes
        self.cores = {v.name for _, v in program.finite}
        self.dealt = {u.var for u in launch.units if u.level != inner.name}
        self._body(launch.body, points, np.full(_COUNT, self.launch.units))

    # ------------------------------------------------------------ POINTS

    def _values(self, start: Any, stop: Any, step: Any) -> tuple[np.ndarray, np.ndarray]:
        """Values of a loop variable at the points, and the number of iterations there."""
        trips = np.broadcast_to(np.maximum(0, -(-(np.asarray(stop) - start) // step)), (_COUNT,))
        self.depth += 1
        # Of each loop in another order: an odd factor permutes the points.
        order = (np.arange(_COUNT) * (2 * (self.depth * 37 % 61) + 1) + self.depth) % _COUNT
        turn = np.minimum((_SPREAD[order] * trips).astype(np.int64), np.maximum(trips - 1, 0))
        return start + turn * step, trips.astype(float)

    def _body(self, body: tuple[Stmt, ...], env: dict[str, Any], weight: np.ndarray) -> None:
        for s in body:
            match s:
                case Let():
                    self.lets[s.var] = s.value.subs({v: self.lets[v] for v in s.value.variables() if v in self.lets})
                    env = {**env, s.var.name: s.value.evaluate(env)}
                    self.launch.add("lets", float(weight.mean()))
                case For():
                    self._loop(s, env, weight)
                case If():
                    mask = hold(s.conds, env)
                    self.launch.add("branches", float(weight.mean()))
                    self._body(s.body, env, weight * mask)
                    self._body(s.orelse, env, weight * (1.0 - mask))
                case Alloc():
                    self.buffers[s.buffer.name] = s.buffer
                    if s.buffer.memory == self.register and not s.buffer.passing:
                        self.launch.add("tiles", float(weight.mean()))
                    self._body(s.body, env, weight)
                case Store():
                    self._store(s, env, weight)
                case Call():
                    self._call(s, weight)
                case AllReduce():
                    self.launch.add("combined", float(weight.mean()) * float(np.log2(max(2, s.count))) * self._issued(4))
                case Barrier():
                    self.launch.add("barriers", float(weight.mean()) / self.launch.units)

    def _loop(self, s: For, env: dict[str, Any], weight: np.ndarray) -> None:
        start, stop, step = (e.evaluate(env) for e in (s.start, s.stop, s.step))
        values, trips = self._values(start, stop, step)
        mean = float((weight * trips).sum() / max(weight.sum(), 1e-30)) if weight.any() else float(trips.mean())
        unrolled = s.unroll == 0 or (s.unroll > 1 and mean <= s.unroll)
        loop = Loop(s.var.name, float(np.mean(np.asarray(step))), mean, unrolled)
        inside = weight * trips
        total = float(inside.mean())
        if not unrolled:
            self.launch.add("turns", total / max(1, s.unroll))
        if any(v in self.dealt for v in s.start.variables()):
            self.launch.tasks = max(self.launch.tasks, total)
        self.path[-1].body.append(loop)
        self.path.append(loop)
        outer = self.here
        if not unrolled:
            self.here = Straight(loop, total)
            self.launch.straight.append(self.here)
        self._body(s.body, {**env, s.var.name: values}, inside)
        self.here = outer
        self.path.pop()

    # ------------------------------------------------------------ ISSUED

    def _issued(self, size: int, varying: bool = True) -> float:
        """Hardware vectors, or subgroups, that a statement is executed for."""
        if not varying:
            return 1.0
        if self.vector:
            return max(1.0, self.lanes * size / self.vector)
        return max(1.0, self.lanes / (self.width or 1))

    def _resolved(self, e: Expr) -> Expr:
        mine = {v: self.lets[v] for v in e.variables() if v in self.lets}
        return e.subs(mine) if mine else e

    def _stride(self, coords: tuple[Expr, ...], buffer: Buffer) -> int | None:
        """Elements between neighbouring lanes."""
        lane, total = self.lane, 0
        if lane is None:
            return 0
        for c, stride in zip(coords, buffer.strides, strict=False):
            if lane not in c.variables():
                continue
            if any(isinstance(a, Fn) and lane in a.variables() for a, _ in c.terms) or stride.constant is None:
                return None
            total += c.coefficient(lane) * stride.constant
        return total

    def _access(self, name: str, coords: tuple[Expr, ...], weight: np.ndarray, written: bool, extent: int = 1) -> bool:
        """Counts an access; returns whether lanes access different elements."""
        buffer = self.buffers[name]
        coords = tuple(map(self._resolved, coords))
        stride = self._stride(coords, buffer)
        if buffer.memory == self.register:
            return stride != 0
        size = buffer.dtype.bytes
        issued = self._issued(size, stride != 0)
        times = float(weight.mean()) * issued
        lanes = self.lanes / issued if stride != 0 else 1.0
        access = Access(buffer, coords, tuple(self.path), times, stride, lanes, written, extent)
        self.launch.accesses.append(access)
        self.path[-1].body.append(access)
        kind = "stored" if written else "loaded"
        if stride in (0, 1) or extent > 1:
            self.launch.add(f"{kind} {'alike' if stride == 0 else 'beside'}", times)
        else:
            self.launch.add(f"{kind} {'apart' if stride is not None else 'anywhere'}", times * lanes)
        if written:
            self.here.stores += times / max(self.here.times, 1e-9)
            if buffer.kind in ("local", "workspace"):
                self.launch.add("copied", float(weight.mean()) * (self.lanes if stride != 0 else 1.0) * size)
        else:
            self.here.loads += times / max(self.here.times, 1e-9)
        return stride != 0

    def _value(self, v: Value, env: dict[str, Any], weight: np.ndarray) -> bool:
        varying = False
        if isinstance(v, Masked):
            mask = hold(v.conds, env)
            varying = self.lane is not None and any(self.lane in self._resolved(c).variables() for c in v.conds)
            self.launch.add("masked", float(weight.mean()) * self._issued(4, varying))
            varying |= self._value(v.value, env, weight * mask)
            return varying | self._value(v.otherwise, env, weight * (1.0 - mask))
        if isinstance(v, Load):
            return self._access(v.tensor, v.indices, weight, False)
        for x in children(v):
            varying |= self._value(x, env, weight)
        return varying

    def _store(self, s: Store, env: dict[str, Any], weight: np.ndarray) -> None:
        varying = self._value(s.value, env, weight)
        buffer = self.buffers[s.buffer]
        if s.atomic is not None:
            self._access(s.buffer, s.coords, weight, False)
        varying |= self._access(s.buffer, s.coords, weight, True)
        times = float(weight.mean())
        work = times * sum(c.operations for c in calls(s.value, {})) * self._issued(max(4, buffer.dtype.bytes), varying)
        self.launch.add("operations", work)
        if s.using is not None:
            self.launch.add("past caches", times * self._issued(buffer.dtype.bytes))
        self._straight(times, work, _reads(s.value, s.buffer), s.coords, self._issued(buffer.dtype.bytes, varying))

    def _call(self, s: Call, weight: np.ndarray) -> None:
        instr, times = self.instrs[s.instr], float(weight.mean())
        depth = self.device.depth(instr.level)
        work = times * (instr.cycles or 1.0) * (self._issued(4) if depth == len(self.device.levels) - 1 else 1.0)
        self.launch.add("accumulated" if instr.accumulate else "moved", work)
        for o, piece in zip(instr.operands, s.pieces, strict=True):
            if self.buffers[piece.buffer].memory != self.register:
                self._access(piece.buffer, piece.coords, weight, o.role == "output", piece.extent)
        target = s.pieces[-1]
        self._straight(times, work, bool(instr.accumulate), target.coords, 1.0)

    def _straight(self, times: float, work: float, summed: bool, coords: tuple[Expr, ...], vectors: float) -> None:
        here = self.here
        turn = max(here.times, 1e-9)
        here.work += work / turn
        if summed:
            here.sums += times / turn * vectors
            names = {v.name for c in coords for v in c.variables()}
            again = 1.0
            for loop in reversed(self.path):
                if not loop.unrolled or loop.units:
                    break
                again *= loop.trips if loop.var not in names else 1.0
            here.chain = max(here.chain, again)


def _reads(v: Value, name: str) -> bool:
    return (isinstance(v, Load) and v.tensor == name) or any(_reads(x, name) for x in children(v))
