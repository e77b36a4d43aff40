"""One typical block of a launch, evaluated point by point: which unit executes a statement, how often, and at which addresses.

TYPICAL   Open sizes are large (`SIZE`, or the nearest within their bounds), so that tiles are whole; the block is in the middle
          of the launch. All units below it are evaluated.
SAMPLED   A loop with more than a few iterations is evaluated at the first, the second (for all in between) and the last; with
          too many points, only at the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ...dsl import syntax
from ...dsl.index.expr import Expr, Var
from ...dsl.source import Span
from ...dsl.values import Load, Masked, Value, children
from ..analysis.loop_iterations import LoopIterations, all_iterations, end_iterations
from ..ir.program import Program
from ..ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, Commit, For, If, Launch, Let, Stmt, Store, Wait

SIZE = 4096  # elements: the value of an open size [estimate; test_a_cliff_is_told_at_its_line]
_WINDOW = 3  # elements: the value of an open size of a window [estimate; test_windows_are_small]
_MOST = 60_000  # points: the most of one statement [limit]
_FEW = 4  # iterations: of a loop that are all evaluated, at most [limit]


@dataclass(frozen=True)
class ExecutionPoints:
    """Points at which a statement is executed: values of variables, the unit of each point, and how often each stands for."""

    env: Mapping[str, Any]
    unit: np.ndarray
    weight: np.ndarray

    def only(self, mask: np.ndarray) -> ExecutionPoints:
        env = {k: v[mask] if np.ndim(v) else v for k, v in self.env.items()}
        return ExecutionPoints(env, self.unit[mask], self.weight[mask])

    def value(self, e: Expr) -> np.ndarray:
        return np.broadcast_to(np.asarray(e.evaluate(self.env)), self.unit.shape)

    def where(self, conds: Iterable[Expr]) -> np.ndarray:
        mask = np.ones(self.unit.shape, bool)
        for c in conds:
            mask &= self.value(c) >= 0
        return mask


@dataclass
class StatementPoints:
    """A statement of the launch with the points that reach it; `inside` those of its body. Statements that nobody reaches are
    left out."""

    stmt: Stmt
    points: ExecutionPoints
    inside: list[StatementPoints] = field(default_factory=list)
    up: StatementPoints | None = None

    def leaves(self) -> Iterator[StatementPoints]:
        """The statements at the ends: those that do something."""
        if isinstance(self.stmt, For | If | Alloc):
            for x in self.inside:
                yield from x.leaves()
        elif isinstance(self.stmt, Store | Call | AllReduce):
            yield self

    def above(self) -> Iterator[StatementPoints]:
        """From the node itself outwards."""
        at: StatementPoints | None = self
        while at is not None:
            yield at
            at = at.up


@dataclass(frozen=True)
class TypicalBlock:
    """A launch's typical block. `units`: how many there are below it; `counts`: of each level."""

    program: Program
    launch: Launch
    counts: Mapping[str, int]
    units: int
    nodes: tuple[StatementPoints, ...]
    buffers: Mapping[str, Buffer]

    def leaves(self) -> Iterator[StatementPoints]:
        for n in self.nodes:
            yield from n.leaves()


def typical_block(program: Program, launch: Launch) -> TypicalBlock | None:
    """None where the launch has no units for typical sizes."""
    env: dict[str, Any] = dict(program.call_values(typical_sizes(program)))
    counts: dict[str, int] = {}
    inner: list[tuple[Var, int]] = []
    for u in launch.units:
        counts[u.level] = n = int(u.count.evaluate(env))
        if n < 1:
            return None
        if program.device.level(u.level).units == "shaped" or u.level == program.device.levels[-1].name:
            inner.append((u.var, n))
        else:
            env[u.var.name] = n // 2
    total = prod(n for _, n in inner)
    unit = np.arange(total)
    left = total
    for var, n in inner:
        left //= n
        env[var.name] = unit // left % n
    walk = _Walk({b.name: b for b in program.buffers})
    nodes = walk.body(launch.body, ExecutionPoints(env, unit, np.ones(total)), None)
    return TypicalBlock(program, launch, counts, total, tuple(nodes), walk.buffers)


def typical_sizes(program: Program) -> dict[str, int]:
    """Of the open sizes. Those that make a derived one smaller, as a window does the result, are small."""
    sizes = {v.name: _size(v, SIZE) for v in program.dims}
    for v in program.dims:
        less = sizes | {v.name: _size(v, _WINDOW)}
        if any(_derived(program, less)[name] > n for name, n in _derived(program, sizes).items()):
            sizes = less
    return sizes


def _derived(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    known = program.with_derived(sizes)
    return {var.name: known[var.name] for var, _ in program.lets}


def _size(v: Var, wanted: int) -> int:
    lo, hi = v.interval
    return max(wanted if hi is None else min(wanted, hi), lo or 0)


@dataclass
class _Walk:
    buffers: dict[str, Buffer]

    def body(self, body: Iterable[Stmt], points: ExecutionPoints, up: StatementPoints | None) -> list[StatementPoints]:
        out: list[StatementPoints] = []
        for s in body:
            if not len(points.unit):
                break
            if isinstance(s, Let):
                points = replace(points, env={**points.env, s.var.name: s.value.evaluate(points.env)})
            if isinstance(s, Let | Barrier | Commit | Wait):
                continue
            node = StatementPoints(s, points, up=up)
            match s:
                case For():
                    node.inside = self.body(s.body, loop_points(points, s), node)
                case If():
                    mask = points.where(s.conds)
                    node.inside = self.body(s.body, points.only(mask), node) if mask.any() else []
                    if s.orelse and not mask.all():
                        node.inside += self.body(s.orelse, points.only(~mask), node)
                case Alloc():
                    self.buffers[s.buffer.name] = s.buffer
                    node.inside = self.body(s.body, points, node)
            out.append(node)
        return out


def loop_points(points: ExecutionPoints, loop: For) -> ExecutionPoints:
    """The points of the loop's body (SAMPLED)."""
    start, stop, step = (points.value(e) for e in (loop.start, loop.stop, loop.step))
    trips = np.maximum(0, -(-(stop - start) // np.maximum(step, 1)))
    n, most = len(trips), int(trips.max(initial=0))
    if most <= _FEW and n * most <= _MOST:
        found = all_iterations(trips)
    elif n * 3 <= _MOST:
        found = end_iterations(trips)
    else:
        owner = np.flatnonzero(trips > 0)
        found = LoopIterations(n, owner, np.minimum(1, trips[owner] - 1), trips[owner].astype(float))
    env = found.variables(points.env, loop.var.name, start, step)
    return ExecutionPoints(env, points.unit[found.owner], points.weight[found.owner] * found.weight)


def loads_at(value: Value, points: ExecutionPoints) -> Iterator[tuple[Load, ExecutionPoints]]:
    """The loads of a value, each with the points at which it is made."""
    if not len(points.unit):
        return
    if isinstance(value, Masked):
        mask = points.where(value.conds)
        yield from loads_at(value.value, points.only(mask))
        yield from loads_at(value.otherwise, points.only(~mask))
        return
    if isinstance(value, Load):
        yield value, points
    for x in children(value):
        yield from loads_at(x, points)


def innermost_line(node: StatementPoints, mine: tuple[Span, ...]) -> Span | None:
    """The innermost line of the schedule, of those in `mine`, that a statement comes from."""
    for n in node.above():
        spans = [n.stmt.span, *([n.stmt.buffer.span] if isinstance(n.stmt, Alloc) else [])]
        for span in spans:
            if span is not None and any(span.source is m.source and m.start <= span.start < m.end for m in mine):
                return span
    return None


def distributing_line(decl: syntax.ScheduleDecl, level: str) -> Span | None:
    """The innermost line on the schedule's main path that deals tiles to a level."""
    return next((x.span for x in reversed(decl.lines) if isinstance(x, syntax.Tile) and x.level == level), None)
