"""The contents of a banked memory: for each buffer, the element at each address, the unit that stored it, and the elements that
units read at once. All of it comes from the tile program alone, so it includes every layout, pad and swizzle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from ...codegen.analysis.bank_conflicts import access_cycles
from ...codegen.ir.program import Program
from ...codegen.ir.tile_ir import Alloc, Buffer, Call, For, If, Launch, Let, Piece, Stmt, Store
from ...dsl.device import Memory
from ...dsl.index.expr import Expr
from ...dsl.values import Load, Value, children

_POINTS = 4096  # turns of loops that are looked at, at most


@dataclass(frozen=True)
class GroupRead:
    """The first access of one group of lockstep units: each lane's first address, in elements, and how many it takes.

    `ways`: rounds of the banks for each that so many bytes need at best.
    """

    by: str
    addresses: tuple[int, ...]
    width: int
    ways: float


@dataclass
class StagedBuffer:
    """`held`: address (elements) -> (element of the source, from the first one copied; number of the unit that wrote it).

    source  the buffer it is copied from; "" where it was computed: elements are then the buffer's own coordinates
    lanes   how many units run in lockstep
    """

    buffer: Buffer
    memory: Memory
    lanes: int
    source: str = ""
    held: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    reads: list[GroupRead] = field(default_factory=list)
    slot: int | None = None

    @property
    def banks(self) -> tuple[int, int]:
        return self.memory.banks or (1, 4)

    def bank(self, address: int) -> int:
        count, word = self.banks
        return address * self.buffer.dtype.bytes // word % count


@dataclass(frozen=True)
class _Guard:
    """A branch of an `If`."""

    conds: tuple[Expr, ...]
    holds: bool

    def units(self, env: Mapping[str, Any]) -> Any:
        """Which units take it."""
        return np.logical_and.reduce([np.asarray(e.evaluate(env)) >= 0 for e in self.conds]) == self.holds


_Frame = For | Let | _Guard


def staged_buffers(program: Program, sizes: Mapping[str, int]) -> list[StagedBuffer]:
    """Every buffer of a memory with banks, in the order of the program. `sizes` of all dims of the program."""
    env: dict[str, Any] = dict(program.call_values(sizes))
    found: list[StagedBuffer] = []
    for memory in program.device.memories:
        if memory.banks is not None:
            for launch in program.launches:
                found += _Look(program, memory, launch, env).found()
    return [s for s in found if s.held]


class _Look:
    """One launch, as the units below one unit of the memory's level see it in the first turn of each loop."""

    def __init__(self, program: Program, memory: Memory, launch: Launch, env: Mapping[str, Any]) -> None:
        self.program, self.memory, self.launch = program, memory, launch
        self.instrs = {i.name: i for i in program.instrs}
        self.staged: dict[str, StagedBuffer] = {}
        self.own: dict[str, dict[int, tuple[int, ...]]] = {}  # of each, address -> the buffer's own coordinates
        self.private: set[str] = set()  # buffers that each unit has one of: their coordinates name no element
        self.passing: dict[tuple[str, tuple[Expr, ...]], Piece] = {}  # pieces of those -> what was copied there
        depth = program.device.depth(memory.level)
        self.env = dict(env)
        inner = [u for u in launch.units if program.device.depth(u.level) > depth]
        counts = [int(u.count.evaluate(self.env)) for u in inner]
        self.lanes = counts[-1] if counts else 1
        for u in launch.units:
            self.env[u.var.name] = 0
        numbers = np.indices(counts).reshape(len(counts), -1) if counts else np.zeros((0, 1), int)
        for u, n in zip(inner, numbers, strict=True):
            self.env[u.var.name] = n
        self.units = int(np.prod(counts, dtype=int))

    def found(self) -> list[StagedBuffer]:
        self.body(self.launch.body, dict(self.env), [])
        for name, s in self.staged.items():
            if len({at for at, _ in s.held.values()}) < len(s.held):  # elements that stand there more than once: windows
                s.held = {address: (self.own[name][address], unit) for address, (_, unit) in s.held.items()}
                s.source = ""
        return list(self.staged.values())

    def body(self, body: Iterable[Stmt], env: dict[str, Any], frames: list[_Frame]) -> None:
        """`frames`: loops and names between the nearest buffer of the memory and here."""
        env, frames = dict(env), list(frames)
        for s in body:
            match s:
                case Let():
                    env[s.var.name] = s.value.evaluate(env)
                    frames.append(s)
                case For():
                    self.body(s.body, env | {s.var.name: s.start.evaluate(env)}, [*frames, s])
                case If():
                    self.body(s.body, env, [*frames, _Guard(s.conds, True)])
                    self.body(s.orelse, env, [*frames, _Guard(s.conds, False)])
                case Alloc():
                    ours = s.buffer.memory == self.memory.name
                    if ours:
                        self.staged[s.buffer.name] = StagedBuffer(s.buffer, self.memory, self.lanes)
                        self.own[s.buffer.name] = {}
                    elif self.program.device.depth(s.buffer.level) > self.program.device.depth(self.memory.level):
                        self.private.add(s.buffer.name)
                    self.body(s.body, env, [] if ours and not frames else frames)
                case Store():
                    source = next(iter(_loads(s.value)), None)
                    self.write(Piece(s.buffer, s.coords), source and Piece(source.tensor, source.indices), env, frames)
                    for load in _loads(s.value):
                        self.read(Piece(load.tensor, load.indices), "compute", env)
                case Call():
                    self.call(s, env, frames)
                case _:
                    pass

    def call(self, s: Call, env: dict[str, Any], frames: list[_Frame]) -> None:
        operands = list(zip(s.pieces, self.instrs[s.instr].operands, strict=True))
        source = next((p for p, o in operands if o.role == "input"), None)
        if source is not None:  # what passes through registers of a unit came from where these were loaded
            source = self.passing.get((source.buffer, source.coords), source)
        for piece, operand in operands:
            if operand.role == "input":
                self.read(piece, s.instr, env)
            else:
                self.write(piece, source, env, frames)
                if source is not None and piece.buffer in self.private:
                    self.passing[piece.buffer, piece.coords] = source

    def write(self, to: Piece, source: Piece | None, env: dict[str, Any], frames: list[_Frame]) -> None:
        into = self.staged.get(to.buffer)
        if into is None:
            return
        rotates = len(to.coords) > 1 and any(
            v.name.startswith("slot") for v in to.coords[0].variables()
        )  # named by `pipeline_copies`
        copied = source is not None and source.buffer not in self.staged and source.buffer not in self.private
        if not into.held:
            into.source = source.buffer if copied and source else ""
        for point, taken in _turns(frames, env):
            coords = [self.each(e.evaluate(point)) for e in to.coords]
            if rotates:
                into.slot = int(coords[0][0]) if into.slot is None else into.slot
                if int(coords[0][0]) != into.slot:
                    continue
                coords[0] = coords[0] * 0
            first = sum(c * int(e.evaluate(env)) for c, e in zip(coords, into.buffer.strides, strict=True)) + 0 * coords[-1]
            own = coords[1:] if rotates else coords
            index = [self.each(e.evaluate(point)) for e in source.coords] if copied and source is not None else own
            for unit in np.flatnonzero(np.broadcast_to(taken, (self.units,))).tolist():
                at, here = (tuple(int(i[unit]) for i in where) for where in (index, own))
                for n in range(to.extent):
                    into.held.setdefault(int(first[unit]) + n, (_along(at, n), unit))
                    self.own[to.buffer].setdefault(int(first[unit]) + n, _along(here, n))

    def read(self, piece: Piece, by: str, env: dict[str, Any]) -> None:
        of = self.staged.get(piece.buffer)
        if of is None or any(r.by == by for r in of.reads):
            return
        coords = [self.each(e.evaluate(env)) for e in piece.coords]
        if len(coords) > 1 and any(v.name.startswith("slot") for v in piece.coords[0].variables()):
            coords[0] = coords[0] * 0
        at = sum(c * int(e.evaluate(env)) for c, e in zip(coords, of.buffer.strides, strict=True))
        size = of.buffer.dtype.bytes
        lanes = np.asarray(at)[: self.lanes]
        count, word = of.banks
        apart = lanes[np.sort(np.unique(lanes, return_index=True)[1])]  # what several lanes ask for is served once
        best = max(1, -(-len(apart) * max(piece.extent * size, word) // (count * word)))
        of.reads.append(
            GroupRead(
                by, tuple(lanes.tolist()), piece.extent, access_cycles(apart * size, piece.extent * size, of.banks) / best
            )
        )

    def each(self, value: Any) -> np.ndarray:
        """A value for every unit."""
        return np.broadcast_to(np.asarray(value), (self.units,)).astype(int)


def _along(at: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The element n further along the last axis."""
    return (*at[:-1], at[-1] + n) if at else (n,)


def _turns(frames: list[_Frame], env: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """The variables at each turn of the loops, and which units are there; of long loops the first turn."""
    loops = [f for f in frames if isinstance(f, For)]
    ranges, total = [], 1
    for f in loops:
        stop, step = (int(np.max(e.evaluate(env))) for e in (f.stop, f.step))
        turns = max(1, -(-(stop - int(np.min(f.start.evaluate(env)))) // step))
        total *= turns
        ranges.append(range(turns if total <= _POINTS else 1))
    for point in product(*ranges):
        now, which, taken = dict(env), iter(point), np.asarray(True)
        for f in frames:
            if isinstance(f, _Guard):
                taken = np.logical_and(taken, f.units(now))
            elif isinstance(f, Let):
                now[f.var.name] = f.value.evaluate(now)
            else:
                now[f.var.name] = f.start.evaluate(now) + next(which) * f.step.evaluate(now)
                taken = np.logical_and(taken, now[f.var.name] < f.stop.evaluate(now))
        yield now, taken


def _loads(value: Value) -> Iterator[Load]:
    if isinstance(value, Load):
        yield value
    for v in children(value):
        yield from _loads(v)
