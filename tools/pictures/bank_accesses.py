"""The contents of a banked memory: for each buffer, the element at each address, the unit that stored it, and the elements that
units read at once. All of it comes from the tile program alone, so it includes every layout, pad and swizzle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
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
        return reduce(np.logical_and, (np.asarray(e.evaluate(env)) >= 0 for e in self.conds), True) == self.holds


_Frame = For | Let | _Guard
_Element = tuple[np.ndarray, ...]  # its index along each axis, for every unit


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
        self.passing: dict[str, tuple[str, dict[tuple, _Element]]] = {}  # those with copies: of which tensor, place -> element
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
        for piece, operand in operands:
            if operand.role == "input":
                self.read(piece, s.instr, env)
            else:
                self.write(piece, source, env, frames)
                if source is not None and piece.buffer in self.private:
                    self.pass_on(piece, source, env, frames)

    def pass_on(self, to: Piece, source: Piece, env: dict[str, Any], frames: list[_Frame]) -> None:
        """What is loaded to registers of a unit, another loop may store. The first turn in which a place is loaded counts."""
        tensor = self.origin(source)
        if tensor is None:
            return
        elements = self.passing.setdefault(to.buffer, (tensor, {}))[1]
        for point, _ in _turns(frames, env):
            place = self.coords(to, point)
            for n, element in enumerate(self.elements(source, to.extent, point)):
                if element is not None:
                    elements.setdefault(_key(_along(place, n)), element)

    def origin(self, source: Piece) -> str | None:
        """The tensor whose elements it has; None: these were computed, or copied within the memory."""
        if source.buffer in self.private:
            return self.passing[source.buffer][0] if source.buffer in self.passing else None
        return None if source.buffer in self.staged else source.buffer

    def elements(self, source: Piece, count: int, point: Mapping[str, Any]) -> list[_Element | None]:
        """Which elements of that tensor its first ones are, for every unit."""
        first = self.coords(source, point)
        places = [_along(first, n) for n in range(count)]
        if source.buffer not in self.private:
            return list(places)
        known = self.passing[source.buffer][1]
        return [known.get(_key(at)) for at in places]

    def write(self, to: Piece, source: Piece | None, env: dict[str, Any], frames: list[_Frame]) -> None:
        into = self.staged.get(to.buffer)
        if into is None:
            return
        rotates = len(to.coords) > 1 and any(
            v.name.startswith("slot") for v in to.coords[0].variables()
        )  # named by `pipeline_copies`
        tensor = source and self.origin(source)
        if not into.held:
            into.source = tensor or ""
        strides = into.buffer.strides[1:] if rotates else into.buffer.strides
        for point, taken in _turns(frames, env):
            own = self.coords(to, point)
            if rotates:
                into.slot = int(own[0][0]) if into.slot is None else into.slot
                if int(own[0][0]) != into.slot:
                    continue
                own = own[1:]
            first = sum(c * int(e.evaluate(env)) for c, e in zip(own, strides, strict=True)) + 0 * own[-1]
            units = np.flatnonzero(np.broadcast_to(taken, (self.units,))).tolist()
            for n, at in enumerate(self.elements(source, to.extent, point) if tensor and source else [None] * to.extent):
                here = _along(own, n)
                for unit in units:
                    address = int(first[unit]) + n
                    into.held.setdefault(address, (_of_unit(here if at is None else at, unit), unit))
                    self.own[to.buffer].setdefault(address, _of_unit(here, unit))

    def read(self, piece: Piece, by: str, env: dict[str, Any]) -> None:
        of = self.staged.get(piece.buffer)
        if of is None or any(r.by == by for r in of.reads):
            return
        coords = self.coords(piece, env)
        if len(coords) > 1 and any(v.name.startswith("slot") for v in piece.coords[0].variables()):
            coords = (coords[0] * 0, *coords[1:])
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

    def coords(self, piece: Piece, point: Mapping[str, Any]) -> _Element:
        """Of its first element, for every unit."""
        return tuple([np.broadcast_to(np.asarray(e.evaluate(point)), (self.units,)).astype(int) for e in piece.coords])


def _key(at: _Element) -> tuple[bytes, ...]:
    return tuple([x.tobytes() for x in at])


def _of_unit(at: _Element, unit: int) -> tuple[int, ...]:
    return tuple([int(x[unit]) for x in at])


def _along(at: _Element, n: int) -> _Element:
    """The element n further along the last axis."""
    return (*at[:-1], at[-1] + n) if at else at


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
