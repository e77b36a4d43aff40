"""Seconds of a nest on a CPU, in closed form: what its vectors need of the ports, and what its tiles need of each cache.

BODY      what the innermost unrolled loops and the lanes do is one straight piece: loads, operations and stores by their rates,
          and not less than the chain of a reduction takes, whose length is what is summed into one register.
REUSE     bytes that a cache fetches: from the outermost tile that fits it outwards; the next loop that a tensor depends on
          is walked once, all loops further out fetch again. Footprints are polynomials of the extents, in whole lines
          (Narasimhan et al., "A practical tile size selection model for affine loop nests", ICS 2021).
SOURCE    a byte is paid at the rate of the innermost cache that has it.
EDGES     a vector that may meet the edge of a window is loaded by masks where all of it is known at compile time, else one by
          one; which it is must be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log2, prod

from ...dsl import syntax
from ..lower.context import Context
from .cpu_cost import HIDDEN, LOAD, STORE, Cost
from .cpu_product import WAKE, Processor
from .problem import Access, Problem

Lines = tuple[syntax.Line, ...]
PLACES = 6  # operations more of a reduction that finds a place: it compares, and chooses both values and places of 64 bits
ISSUE = 4.0  # instructions a cycle
OPERATION = 0.5  # cycles of a vector operation: two ports
CHAIN = 4.0  # cycles from one operation to the next that needs it
TURN, ENTER, TASK = 1.5, 12.0, 10.0  # cycles of a loop's turn, to begin and end a register tile, to take what is dealt
GATHER = 1.1  # cycles of an element that has no neighbours along the lanes
MASKED, SEARCHED = 4.0, 27.0  # of a vector at an edge: known at compile time, or not
TEST = 3.0  # to ask whether it is one
BRANCHES, CROWDED = 4, 1.4  # registers of more than two rows that such pieces fill at once, and what more of them costs
WINDOWS = 200.0  # to take what is dealt, where it must be told from the edges
SHARE = 0.75  # of a cache that a tile may count on
PAST = 1.0  # cycles more for a store that goes past the caches where it is worth it
STREAMS, PAGE, RUN, FOLLOWED = 32, 4096, 40.0, 0.1
"""Runs of memory that are followed at once, the bytes of one at most, and cycles until the first lines of one are there (Intel
64 Optimization Reference Manual, "Data prefetching": 32 streams, none across a page).
Cycles a byte at most: short runs overlap."""


@dataclass(frozen=True)
class Loop:
    """`trips` over tiles of `step` of an axis; a vector's lanes are its last loop, `unrolled` ones are straight code."""

    axis: str
    trips: int
    step: int
    unrolled: bool
    core: bool = False


@dataclass(frozen=True)
class Nest:
    loops: tuple[Loop, ...]
    vector: str | None  # the axis along the lanes
    kept: Mapping[str, int]  # result -> loops outside what is kept of it
    streamed: Mapping[str, float]  # result -> bytes from which on it goes past the caches
    staged: frozenset[str]
    cycles: float | None  # of an instruction that is the leaf, and moves squares
    leaf: bool = False  # an instruction is
    extent: int = 1  # of the vector's axis
    free: bool = True  # lanes lie along no reduced axis


def nest_of(ctx: Context, lines: Lines, sizes: Mapping[str, int], lanes: int, reduced: frozenset[str]) -> Nest:
    """The loops of a launch. Axes that no line cuts are whole."""
    lane = ctx.device.levels[-1].name
    now = dict(sizes)
    loops: list[Loop] = []
    vector, cycles, leaf = None, None, False
    kept: dict[str, int] = {}
    streamed: dict[str, float] = {}
    staged: set[str] = set()
    for x in lines:
        match x:
            case syntax.Tile():
                unroll = next((m.values[0] for m in x.modifiers if m.name == "unroll" and m.values), None)
                for a in x.axes:
                    had = now.get(a.index, 1)
                    size = min(had, int(a.size.value)) if isinstance(a.size, syntax.Num) else had
                    if x.level == lane:
                        vector, size = a.index, min(had, lanes)
                    trips = -(-had // max(1, size))
                    straight = x.level == lane or (isinstance(unroll, syntax.Num) and trips <= unroll.value)
                    loops.append(Loop(a.index, trips, size, straight, x.level is not None and x.level != lane))
                    now[a.index] = size
            case syntax.Keep():
                kept |= dict.fromkeys(x.tensors, len(loops))
                streamed |= {t: _least(ctx, m) for t in x.tensors for m in x.modifiers if m.name == "with"}
            case syntax.Move():
                staged.add(x.tensor)
            case syntax.Compute() if isinstance(x.instr, str):
                instr = next(i for i in ctx.device.instrs if x.instr in (i.name, i.family))
                cycles, leaf = None if instr.accumulate else instr.cycles, True
                if cycles is None:
                    vector = max(now, key=lambda a: now[a])
                    loops.append(Loop(vector, -(-now[vector] // lanes), lanes, True))
    extent, free = sizes.get(vector or "", 1), vector not in reduced
    return Nest(tuple(loops), vector, kept, streamed, frozenset(staged), cycles, leaf, extent, free)


def _least(ctx: Context, m: syntax.Modifier) -> float:
    """Bytes of a tensor from which on the instruction that stores it is used."""
    named = [i for i in ctx.device.instrs if set(m.words) & {i.name, i.family}]
    return float(max((o.least for i in named for o in i.operands), default=0))


def seconds(ctx: Context, cpu: Processor, problems: Sequence[Problem], lines: Lines, sizes: Mapping[str, int]) -> Cost:
    """Of one launch, whose works share its loops; all cores take part, where that is worth waking them."""
    lane = ctx.device.levels[-1]
    dtype = max(problems, key=lambda p: len(p.axes)).work.value.dtype.compute
    reduced = frozenset(a for p in problems for a in p.reduced)
    nest = nest_of(ctx, lines, sizes, max(1, (lane.bytes or 1) // dtype.bytes), reduced)
    lanes = max(1, (lane.bytes or 1) // dtype.bytes) if nest.vector else 1
    arithmetic = sum(_cycles(p, nest, lanes) for p in problems)
    tasks = prod(x.trips for x in nest.loops if x.core) or 1
    arithmetic += tasks * (WINDOWS if any(_outside(p, a) for p in problems for a in p.inner) else TASK)
    traffic = _traffic(ctx, cpu, problems, nest, sizes)
    longest, other = max(arithmetic, traffic), min(arithmetic, traffic)
    alone = (longest + HIDDEN * other) / cpu.clock
    dealt = any(x.core for x in nest.loops)
    together = alone * -(-tasks // cpu.count) / tasks + WAKE if dealt else alone
    return Cost(min(alone, together), "arithmetic" if arithmetic >= traffic else "memory")


# ---------------------------------------------------------------- BODY


def _cycles(p: Problem, nest: Nest, lanes: int) -> float:
    """Cycles of all that one work does, by one core."""
    loops = [x for x in nest.loops if x.axis in p.axes]
    inside = len(loops)
    while inside and loops[inside - 1].unrolled:
        inside -= 1
    body, around = loops[inside:], prod(x.trips for x in loops[:inside])
    points = prod(x.trips for x in body)
    if nest.cycles is not None:
        return around * points * (nest.cycles + TURN)
    value = {a.tensor for a in p.inner}
    free = prod(x.trips for x in body if x.axis in p.free)
    summed = prod(x.trips for x in body if x.axis in p.reduced and x.axis != nest.vector)
    known = not any(x.trips > 1 and x.axis in p.reduced and x.axis != nest.vector for x in loops[:inside])
    deep = sum(1 for x in body if x.trips > 1)
    rows = prod(x.trips for x in body if x.axis in p.free and x.axis != nest.vector)
    crowded = free > BRANCHES and rows > 2
    need = 0.0
    for a in p.inner:
        turns = prod(x.trips for x in body if x.axis in a.axes) * (CROWDED if crowded and _outside(p, a) else 1.0)
        need += turns * _load(p, a, nest, lanes, known, deep)
    post = sum(LOAD for a in p.reads if a.tensor not in value)
    kind = p.work.reduction.kind if p.work.reduction is not None else ""
    work = points * (p.operations + (PLACES if kind.startswith("arg") else 0)) * OPERATION
    stores = points * (STORE + PAST * (not nest.streamed.keys().isdisjoint(p.work.targets))) if not p.reduced else 0.0
    chain = CHAIN * summed if p.reduced else 0.0
    every = max(need, work, stores, (need / LOAD + work / OPERATION + stores) / ISSUE, chain)
    total = around * (every + TURN)
    if p.reduced:
        names = (p.work.name.rstrip("@"), *p.work.targets)
        outside = min((nest.kept[t] for t in names if t in nest.kept), default=len(nest.loops))
        enter = prod(x.trips for x in nest.loops[:outside] if x.axis in p.axes)
        held = free * (2 * LOAD + STORE + post)
        if nest.vector in p.reduced:
            held += free * 4 * log2(max(2, lanes)) + points
        total += enter * (ENTER + held)
    return total


def _load(p: Problem, a: Access, nest: Nest, lanes: int, known: bool, deep: int) -> float:
    """Cycles for one vector of what is read."""
    if nest.vector is None or nest.vector not in a.axes:
        return LOAD
    stride = a.stride(nest.vector)
    cost = LOAD if stride == 1 else GATHER * lanes
    if a.tensor in nest.staged:
        cost = min(cost, GATHER * lanes / 2)
    if _outside(p, a):
        cost += _edges(nest, lanes, known, stride == 1, deep)
    return cost + _cut(nest, lanes)


def _outside(p: Problem, a: Access) -> bool:
    """May it be read outside of what there is?"""
    return a.tensor in p.guarded


def _cut(nest: Nest, lanes: int) -> float:
    """Cycles more for a vector, at the mean, where the last one of a row is cut and a row is one tile: it goes by elements."""
    mine = [x.trips for x in nest.loops if x.axis == nest.vector]
    return 2 * SEARCHED / prod(mine) if nest.extent % lanes and prod(mine) == mine[-1] and not nest.leaf and nest.free else 0.0


def _edges(nest: Nest, lanes: int, known: bool, near: bool, deep: int) -> float:
    """Cycles more for a vector, at the mean, because the first and the last one of a row may lie across an edge. EDGES"""
    mine = [x for x in nest.loops if x.axis == nest.vector]
    vectors, together = prod(x.trips for x in mine), mine[-1].trips
    share = min(1.0, 2 / vectors)
    if not known:
        return share * SEARCHED / min(2, together)
    return TEST / together + share * (MASKED / (2 if deep > 3 else 1) if near else GATHER * lanes)


# ---------------------------------------------------------------- REUSE


@dataclass(frozen=True)
class Walk:
    """An access, the bytes it spans inside the first 0, 1, 2 .. loops; `times`: 2 for what is fetched and written back."""

    access: Access
    times: float
    spans: list[float]


def _traffic(ctx: Context, cpu: Processor, problems: Sequence[Problem], nest: Nest, sizes: Mapping[str, int]) -> float:
    """Cycles until what all works read and write has come and gone. SOURCE"""
    line = ctx.device.memories[0].transaction or 64
    inner = {t for p in problems[:-1] for t in (p.work.name.rstrip("@"), *p.work.targets)} if len(problems) > 1 else set()
    tiles = _tiles(nest.loops, sizes)

    def walk(a: Access, times: float) -> Walk:
        spans = [_bytes(a, tiles[0], line)]
        for x, t in zip(nest.loops, tiles[1:], strict=True):
            spans.append(_bytes(a, t, line) if x.axis in a.axes else spans[-1])
        past = times > 1 and spans[0] >= nest.streamed.get(a.tensor, inf)
        return Walk(a, 1.0 if past else times, spans)

    outer = [[(a, n) for accesses, n in ((p.reads, 1.0), (p.writes, 2.0)) for a in accesses] for p in problems]
    every = [[walk(a, n) for a, n in x if a.tensor.rstrip("@") not in inner] for x in outer]
    together = list({w.access.tensor: w for x in every for w in x}.values())
    row = next((n for n, x in enumerate(nest.loops) if x.axis not in problems[0].free), len(nest.loops))
    fetched = []
    for room, _ in cpu.caches[:-1]:
        groups = [together] if sum(w.spans[row] for w in together) <= SHARE * room else every
        fetched.append(sum(_fetched(group, nest, SHARE * room) for group in groups))
    total, beyond = 0.0, [*fetched[1:], 0.0]
    for have, come, (_, rate) in zip(fetched, beyond, cpu.caches[1:], strict=True):
        total += max(0.0, have - come) / rate
    # What comes from beyond the caches of a core comes in runs. Squares are asked for ahead (`default-nests`).
    group = [w for w in together if w.access.dims and not w.access.view and nest.cycles is None]
    if sum(w.spans[0] for w in group) > cpu.caches[len(cpu.private) - 1][0]:
        total += sum(w.spans[0] * _starts(w.access, tiles) for w in group)
    return total


def _tiles(loops: Sequence[Loop], sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Extents of all axes inside the first 0, 1, 2 .. loops."""
    out = [dict(sizes)]
    for x in loops:
        out.append({**out[-1], x.axis: x.step})
    return out


def _fetched(group: Sequence[Walk], nest: Nest, room: float) -> float:
    """Bytes that a cache with so much room fetches and writes back. REUSE"""
    count = len(nest.loops)
    depth = next((d for d in range(count + 1) if sum(w.spans[d] for w in group) <= room), count)
    total = 0.0
    for w in group:
        times, at = 1.0, depth
        for d in range(depth - 1, -1, -1):
            x = nest.loops[d]
            if at < depth:
                times *= x.trips
            elif x.axis in w.access.axes and x.trips > 1:
                at = d
        total += times * w.spans[at] * w.times
    return total


def _starts(a: Access, tiles: list[dict[str, int]]) -> float:
    """Cycles a byte because runs begin: of what is walked while no more rows are followed than STREAMS."""
    run = 1
    for t in tiles[::-1]:
        if prod(_span(d, t) for d in a.dims[:-1]) > STREAMS:
            break
        run = _span(a.dims[-1], t)
    return min(RUN / min(PAGE, run * a.dtype.bytes), FOLLOWED) - RUN / PAGE


def _bytes(a: Access, tile: Mapping[str, int], line: int) -> float:
    """What an access spans, in whole lines."""
    if not a.dims:
        return line
    if a.view:
        return max(line, float(a.footprint(tile)) * a.dtype.bytes)
    last = _span(a.dims[-1], tile) * a.dtype.bytes
    return prod(_span(d, tile) for d in a.dims[:-1]) * (last if last % line == 0 else (last // line + 1) * line)


def _span(dim: tuple[tuple[str, int], ...], tile: Mapping[str, int]) -> int:
    """Elements from the first to the last that a subscript reaches."""
    return 1 + sum(max(1, abs(c)) * (tile.get(i, 1) - 1) for i, c in dim)
