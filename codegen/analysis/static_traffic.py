"""Traffic of a program, counted without executing it: bytes read and written in each memory, barriers, units.

PRODUCT        if nothing inside a loop depends on its variable, the body counts once for each iteration
POINTS         otherwise the variable takes its values: all of them while there are few, else the first, the second (for all in
               between) and the last. That is exact for tiles of which only the last is partial
AS_WRITTEN     each access counts, also one that a cache would serve; registers are not counted
EACH_ONCE      of what one launch leaves to later ones, each launch reads and writes each element that it needs once at least
ONCE_A_CALL    an instruction accesses each element of an operand once, however many lanes pass its address
ONLY_LIVE      of a copy that fills with zeros, what is read are the live elements
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ...dsl.index.expr import Expr, Var
from ...dsl.values import Const, Load, Masked, Value, children
from ..abi import chosen
from ..ir.program import Program
from ..ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, For, If, Launch, Let, Stmt, Store
from ..ir.tile_visitors import statements
from .loop_iterations import all_iterations, end_iterations
from .vector_instrs import vector_instrs

_POINTS = 300_000  # points: the most at which a launch is evaluated [limit]


@dataclass(frozen=True)
class StaticTraffic:
    """`read` and `written`: bytes by memory, outermost first. `units`: the number of units of each level, for each launch.

    `exact` is False if loops were too long to evaluate every iteration that differs. `handed_over`: for each launch, the bytes
    that it reads of tensors of earlier launches, and those that it writes to workspaces for later ones (EACH_ONCE).
    """

    read: dict[str, int]
    written: dict[str, int]
    launches: int
    barriers: int
    units: tuple[dict[str, int], ...]
    exact: bool
    handed_over: tuple[tuple[int, int], ...] = ()

    def moved(self, memory: str) -> int:
        return self.read.get(memory, 0) + self.written.get(memory, 0)


def static_traffic(program: Program, sizes: Mapping[str, int], finite: Mapping[str, int] | None = None) -> StaticTraffic:
    """The traffic of the variant for these sizes. `sizes` are values of the program's dims;
    `finite` is the number of units of each finite level that take part (default: all).
    """
    env = program.call_values(sizes, finite)
    program = chosen(program, env, {})
    found = _Count(program)
    units = []
    accesses: list[_Accesses] = []
    for launch in program.launches:
        counts = {u.level: int(u.count.evaluate(env)) for u in launch.units}
        units.append(counts)
        found.accesses = _Accesses()
        if all(counts.values()):
            found.launch(launch, env, counts)
        accesses.append(found.accesses)
    order = [m.name for m in program.device.memories if not found.private(m.name)]
    barriers = sum(isinstance(s, Barrier) for x in program.launches for s in statements(x.body))
    read, written = ({m: round(table[m]) for m in order if table.get(m)} for table in (found.read, found.written))
    handed_over = _handed_over(program, env, accesses)
    return StaticTraffic(read, written, len(program.launches), barriers, tuple(units), found.exact, handed_over)


@dataclass
class _Accesses:
    """What a launch reads and writes of each buffer, in bytes."""

    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)


def _handed_over(program: Program, env: Mapping[str, int], accesses: list[_Accesses]) -> tuple[tuple[int, int], ...]:
    """EACH_ONCE: of a tensor that counts as an argument, the write is counted there."""
    out = []
    for n, launch in enumerate(accesses):
        read = written = 0
        for b in program.buffers:
            whole = int(b.size.evaluate(env)) * b.dtype.bytes
            if any(b.name in x.written for x in accesses[:n]):
                read += min(whole, round(launch.read.get(b.name, 0)))
            if b.kind == "workspace" and any(b.name in x.read for x in accesses[n + 1 :]):
                written += min(whole, round(launch.written.get(b.name, 0)))
        out.append((read, written))
    return tuple(out)


@dataclass(frozen=True)
class _Points:
    """Values of variables, as numbers or one a point; `weight` is how often each point stands for."""

    env: dict[str, Any]
    weight: Any  # a number, or one a point

    @property
    def total(self) -> float:
        return float(np.sum(self.weight))

    @property
    def count(self) -> int:
        return int(np.size(self.weight))

    def only(self, mask: Any) -> _Points | None:
        """The points where the mask holds; None where there are none."""
        if isinstance(mask, bool | np.bool_) or np.ndim(mask) == 0:
            return self if bool(mask) else None
        if mask.all():
            return self
        if not mask.any():
            return None
        n = len(mask)
        weight = np.broadcast_to(self.weight, (n,))[mask]
        return _Points({k: v[mask] if np.ndim(v) else v for k, v in self.env.items()}, weight)

    def times(self, n: Any) -> _Points:
        return replace(self, weight=self.weight * n)


@dataclass
class _Count:
    program: Program
    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    exact: bool = True
    accesses: _Accesses = field(default_factory=_Accesses)  # of the launch that is counted

    def __post_init__(self) -> None:
        self.buffers: dict[str, Buffer] = {b.name: b for b in self.program.buffers}
        self.vectors = vector_instrs(self.program.device)
        self.numbers: dict[str, Value] = {}  # what was stored last in registers that are one number
        self.instrs = {i.name: i for i in self.program.instrs}
        self.units: dict[str, int] = {}

    def private(self, memory: str) -> bool:
        device = self.program.device
        return device.memory(memory).level == device.levels[-1].name

    def launch(self, launch: Launch, env: dict[str, Any], counts: dict[str, int]) -> None:
        self.units = counts
        names = _relevant(launch.body)
        points = _Points(dict(env), 1)
        for u in launch.units:
            points = self.values(points, u.var, 0, counts[u.level], 1, u.var.name in names)
        self.body(launch.body, points, names)

    # ------------------------------------------------------------ control flow

    def values(self, points: _Points, var: Var, start: Any, stop: Any, step: Any, matters: bool) -> _Points:
        """The points of a loop over `var`; one for all its trips where the variable does not matter."""
        trips = np.maximum(0, -(-(np.asarray(stop) - start) // step))
        if not matters:
            return points.times(trips if np.ndim(trips) else int(trips))
        n = max(points.count, int(np.size(trips)))
        most = int(np.max(trips, initial=0))
        trips = np.broadcast_to(trips, (n,))
        if n * most > _POINTS and most > 3:
            self.exact, found = False, end_iterations(trips)
        else:
            found = all_iterations(trips)
        return _Points(found.variables(points.env, var.name, start, step), found.at_owner(points.weight) * found.weight)

    def body(self, body: Iterable[Stmt], points: _Points | None, names: frozenset[str]) -> None:
        for s in body:
            if points is None or not points.count:
                return
            match s:
                case Let():
                    if s.var.name in names:
                        points = replace(points, env={**points.env, s.var.name: s.value.evaluate(points.env)})
                case For():
                    start, stop, step = (e.evaluate(points.env) for e in (s.start, s.stop, s.step))
                    self.body(s.body, self.values(points, s.var, start, stop, step, s.var.name in names), names)
                case If():
                    mask = hold(s.conds, points.env)
                    self.body(s.body, points.only(mask), names)
                    if s.orelse:
                        self.body(s.orelse, points.only(np.logical_not(mask)), names)
                case Alloc():
                    self.buffers[s.buffer.name] = s.buffer
                    self.body(s.body, points, names)
                case Store():
                    self.value(s.value, points)
                    if not s.coords:
                        self.numbers[s.buffer] = s.value
                    if s.atomic is not None:
                        self.reads(s.buffer, points.total)
                    self.writes(s.buffer, points.total)
                case Call():
                    self.call(s, points)
                case AllReduce() | Barrier():
                    pass

    # ------------------------------------------------------------ accesses

    def value(self, v: Value, points: _Points | None) -> None:
        if points is None:
            return
        if isinstance(v, Masked):
            mask = hold(v.conds, points.env)
            self.value(v.value, points.only(mask))
            self.value(v.otherwise, points.only(np.logical_not(mask)))
            return
        if isinstance(v, Load):
            self.reads(v.tensor, points.total)
        for x in children(v):
            self.value(x, points)

    def call(self, s: Call, points: _Points) -> None:
        """A unit of the instruction's level executes it with all units below: an operand is accessed once by them together."""
        instr = self.instrs[s.instr]
        depth = self.program.device.depth(instr.level)
        lanes = prod(self.units.get(x.name, 1) for x in self.program.device.levels[depth + 1 :])
        member = self.vectors.of(instr)
        live = next((p for o, p in zip(instr.operands, s.pieces, strict=True) if member and o is member.live), None)
        for o, piece in zip(instr.operands, s.pieces, strict=True):
            elements = points.total / lanes * prod(o.shape)
            if live is not None and member is not None and o is member.source and live.buffer in self.numbers:
                elements = _total(self.numbers[live.buffer], points, elements)
            if o.role != "output":
                self.reads(piece.buffer, elements)
            if o.role != "input":
                self.writes(piece.buffer, elements)

    def reads(self, buffer: str, elements: float) -> None:
        self.add(self.read, self.accesses.read, buffer, elements)

    def writes(self, buffer: str, elements: float) -> None:
        self.add(self.written, self.accesses.written, buffer, elements)

    def add(self, memories: dict[str, float], buffers: dict[str, float], buffer: str, elements: float) -> None:
        b = self.buffers[buffer]
        for table, name in ((memories, b.memory), (buffers, b.name)):
            table[name] = table.get(name, 0) + elements * b.dtype.bytes


def _total(v: Value, points: _Points | None, other: float) -> float:
    """The sum of a number over the points; `other` where it is not known."""
    match v:
        case _ if points is None:
            return 0.0
        case Const():
            return v.value * points.total
        case Masked():
            mask = hold(v.conds, points.env)
            parts = (v.value, points.only(mask)), (v.otherwise, points.only(np.logical_not(mask)))
            return sum(_total(x, p, p.total / points.total * other if p else 0.0) for x, p in parts)
    return other


def hold(conds: Iterable[Expr], env: Mapping[str, Any]) -> Any:
    """Where the conditions hold: one answer, or one a point where variables have a value a point."""
    mask: Any = True
    for c in conds:
        mask = mask & np.asarray(c.evaluate(env) >= 0)
    return mask


def _relevant(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The variables that decide which statements are executed: those in bounds and conditions, through `Let`s."""
    names: set[str] = set()
    lets: list[tuple[str, frozenset[Var]]] = []

    def note(exprs: Iterable[Expr]) -> None:
        names.update(v.name for e in exprs for v in e.variables())

    def conditions(v: Value) -> None:
        if isinstance(v, Masked):
            note(v.conds)
        for x in children(v):
            conditions(x)

    for s in statements(body):
        match s:
            case For():
                note((s.start, s.stop, s.step))
            case If():
                note(s.conds)
            case Let():
                lets.append((s.var.name, s.value.variables()))
            case Store():
                conditions(s.value)
    for name, used in reversed(lets):
        if name in names:
            names.update(v.name for v in used)
    return frozenset(names)
