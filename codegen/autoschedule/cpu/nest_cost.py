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

from ....dsl import syntax
from ....dsl.support.cached import cached_property
from ...lower.lowering_context import LoweringContext
from ..access_model import AccessModel, AccessProblem
from .matmul_cost import HIDDEN, LOAD, STORE, CpuCost
from .matmul_model import WAKE, CpuModel

Lines = tuple[syntax.Line, ...]
PLACES = 8  # operations more of a reduction that finds a place: it compares twice, and chooses both values and places
MERGE = 1.5  # cycles to combine two vectors of a row at its end, or two halves of one: an operation and a shuffle
ISSUE = 4.0  # instructions a cycle
OPERATION = 0.5  # cycles of a vector operation: two ports
CHAIN = 4.0  # cycles from one operation to the next that needs it
TURN, ENTER, TASK = 1.5, 12.0, 10.0  # cycles of a loop's turn, to begin and end a register tile, to take what is dealt
STRIDED, GATHER = 0.45, 0.8  # cycles of an element whose neighbours lie a few further along the lanes, or far apart
MASKED, SEARCHED = 2.0, 27.0  # of a vector at an edge: known at compile time, or not
COUNTED = 6.0  # times as much for one that is computed before it is known whether it is stored: a count for each load
TEST = 1.5  # to ask whether it is one
BRANCHES, CROWDED = 4, 1.4  # registers of more than two rows that such pieces fill at once, and what more of them costs
WINDOWS = 200.0  # to take what is dealt, where it must be told from the edges
SHARE = 0.75  # of a cache that a tile may count on
SHARED = 0.05  # of one that others have as well, from call to call
VICTIMS = 0.15  # of a byte that is fetched: what one does that leaves for an outer cache
PAST = 1.0  # cycles more for a store that goes past the caches where it is worth it
STREAMS, PAGE, RUN, FOLLOWED = 32, 4096, 30.0, 0.25
"""Runs of memory that are followed at once, the bytes of one at most, and cycles until the first lines of one are there (Intel
64 Optimization Reference Manual, "Data prefetching": 32 streams, none across a page).
Cycles a byte at most: short runs overlap."""
STORED, AHEAD = 3.0, 3  # cycles until a run of stores begins, which nobody waits for; lines of a row that are under way


@dataclass(frozen=True)
class CostedLoop:
    """`trips` over tiles of `step` of an axis; a vector's lanes are its last loop, `unrolled` ones are straight code."""

    axis: str
    trips: int
    step: int
    unrolled: bool
    core: bool = False


@dataclass(frozen=True)
class CostedNest:
    loops: tuple[CostedLoop, ...]
    vector: str | None  # the axis along the lanes
    kept: Mapping[str, int]  # result -> loops outside what is kept of it
    streamed: Mapping[str, float]  # result -> bytes from which on it goes past the caches
    staged: frozenset[str]
    cycles: float | None  # of an instruction that is the leaf, and moves squares
    leaf: bool = False  # an instruction is
    extent: int = 1  # of the vector's axis
    free: bool = True  # lanes lie along no reduced axis


def costed_nest(
    ctx: LoweringContext, lines: Lines, sizes: Mapping[str, int], lanes: int, reduced: frozenset[str]
) -> CostedNest:
    """The loops of a launch. Axes that no line cuts are whole."""
    lane = ctx.device.levels[-1].name
    now = dict(sizes)
    loops: list[CostedLoop] = []
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
                        # Lanes go through more than a level has in turns, but for results that are kept.
                        most = max(1, (ctx.device.levels[-1].most or had) // lanes) * lanes
                        if had > most and (a.index in reduced or not reduced):
                            loops.append(CostedLoop(a.index, -(-had // most), most, False))
                            had = most
                    trips = -(-had // max(1, size))
                    straight = x.level == lane or (isinstance(unroll, syntax.Num) and trips <= unroll.value)
                    loops.append(CostedLoop(a.index, trips, size, straight, x.level is not None and x.level != lane))
                    now[a.index] = size
            case syntax.Keep():
                kept |= dict.fromkeys(x.tensors, len(loops))
                streamed |= {t: _least(ctx, m) for t in x.tensors for m in x.modifiers if m.name == "with"}
            case syntax.Move():
                staged.add(x.tensor)
            case syntax.Compute() if isinstance(x.instr, str):
                instr = ctx.device.instrs_named(x.instr)[0]
                cycles, leaf = None if instr.accumulate else instr.cycles, True
                if cycles is None:
                    vector = max(now, key=lambda a: now[a])
                    loops.append(CostedLoop(vector, -(-now[vector] // lanes), lanes, True))
    extent, free = sizes.get(vector or "", 1), vector not in reduced
    return CostedNest(tuple(loops), vector, kept, streamed, frozenset(staged), cycles, leaf, extent, free)


def _least(ctx: LoweringContext, m: syntax.Modifier) -> float:
    """Bytes of a tensor from which on the instruction that stores it is used."""
    named = [i for i in ctx.device.instrs if set(m.words) & {i.name, i.family}]
    return float(max((o.least for i in named for o in i.operands), default=0))


def seconds(
    ctx: LoweringContext, cpu: CpuModel, problems: Sequence[AccessProblem], lines: Lines, sizes: Mapping[str, int]
) -> CpuCost:
    """Of one launch, whose works share its loops; all cores take part, where that is worth waking them."""
    lane = ctx.device.levels[-1]
    dtype = max(problems, key=lambda p: len(p.axes)).work.value.dtype.compute
    reduced = frozenset(a for p in problems for a in p.reduced)
    nest = costed_nest(ctx, lines, sizes, max(1, (lane.bytes or 1) // dtype.bytes), reduced)
    # Results that are wider than what is computed with, as places are, make vectors of fewer lanes.
    stored = [a.dtype.bytes for p in problems for a in p.writes if nest.vector in a.axes]
    lanes = max(1, (lane.bytes or 1) // max(dtype.bytes, *stored, 1)) if nest.vector else 1
    if stored and max(stored) > dtype.bytes:
        nest = costed_nest(ctx, lines, sizes, lanes, reduced)
    written = {a.tensor: a.footprint(sizes) * a.dtype.bytes for p in problems for a in p.writes}
    past = frozenset(t for t, least in nest.streamed.items() if written.get(t, 0) >= least)
    arithmetic = sum(_cycles(p, nest, lanes, past) for p in problems)
    tasks = prod(x.trips for x in nest.loops if x.core) or 1
    arithmetic += tasks * (WINDOWS if any(_outside(p, a) for p in problems for a in p.inner) else TASK)
    traffic = _traffic(ctx, cpu, problems, nest, sizes)
    longest, other = max(arithmetic, traffic), min(arithmetic, traffic)
    alone = (longest + HIDDEN * other) / cpu.clock
    dealt = any(x.core for x in nest.loops)
    together = alone * -(-tasks // cpu.count) / tasks + WAKE if dealt else alone
    return CpuCost(min(alone, together), "arithmetic" if arithmetic >= traffic else "memory")


# ---------------------------------------------------------------- BODY


def _cycles(p: AccessProblem, nest: CostedNest, lanes: int, past: frozenset[str]) -> float:
    """Cycles of all that one work does, by one core; `past`: what goes past the caches."""
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
    stores = points * (STORE + PAST * (not past.isdisjoint(p.work.targets))) if not p.reduced else 0.0
    chain = CHAIN * summed if p.reduced else 0.0
    every = max(need, work, stores, (need / LOAD + work / OPERATION + stores) / ISSUE, chain)
    total = around * (every + TURN)
    if p.reduced:
        names = (p.work.name.rstrip("@"), *p.work.targets)
        first = next((n for n, x in enumerate(nest.loops) if x.axis in p.reduced), len(nest.loops))
        outside = min((nest.kept[t] for t in names if t in nest.kept), default=first)
        enter = prod(x.trips for x in nest.loops[:outside] if x.axis in p.axes)
        held = free * (2 * LOAD + STORE + post)
        if nest.vector in p.reduced:
            held += free * (points / free - 1 + log2(max(2, lanes))) * MERGE * (PLACES if kind.startswith("arg") else 1)
        total += enter * (ENTER + held)
    return total


def _load(p: AccessProblem, a: AccessModel, nest: CostedNest, lanes: int, known: bool, deep: int) -> float:
    """Cycles for one vector of what is read."""
    if nest.vector is None or nest.vector not in a.axes:
        return LOAD
    stride = a.stride(nest.vector)
    cost = LOAD if stride == 1 else (GATHER if stride is None else STRIDED) * lanes
    if a.tensor in nest.staged:
        cost = min(cost, GATHER * lanes / 2)
    if _outside(p, a):
        cost += _edges(nest, lanes, known, stride == 1, deep)
    cut = _cut(nest, lanes, stride == 1)
    return cost + (COUNTED * _together(nest) * cut if _held(p, nest) else cut)


def _together(nest: CostedNest) -> int:
    """Vectors of the innermost tile."""
    return next((x.trips for x in reversed(nest.loops) if x.axis == nest.vector), 1)


def _held(p: AccessProblem, nest: CostedNest) -> bool:
    """Is it in registers before it is stored? Then all vectors of a tile that is cut are loaded by masks, also whole ones."""
    return not p.reduced and any(t in nest.kept for t in p.work.targets)


def _outside(p: AccessProblem, a: AccessModel) -> bool:
    """May it be read outside of what there is?"""
    return a.tensor in p.guarded


def _cut(nest: CostedNest, lanes: int, near: bool) -> float:
    """Cycles more for a vector, at the mean, where the last one of a row is cut: its count is found, and it goes by a mask;
    what is no run of memory goes by elements, where the row is one tile."""
    mine = [x.trips for x in nest.loops if x.axis == nest.vector]
    if nest.extent % lanes == 0 or nest.leaf or not (near or (nest.free and prod(mine) == mine[-1])):
        return 0.0
    return (MASKED if near else 2 * SEARCHED) / prod(mine)


def _edges(nest: CostedNest, lanes: int, known: bool, near: bool, deep: int) -> float:
    """Cycles more for a vector, at the mean, because the first and the last one of a row may lie across an edge. EDGES"""
    mine = [x for x in nest.loops if x.axis == nest.vector]
    vectors, together = prod(x.trips for x in mine), mine[-1].trips
    share = min(1.0, 2 / vectors)
    if not known:
        return share * SEARCHED / min(2, together)
    return TEST / together + share * (MASKED / (2 if deep > 3 else 1) if near else STRIDED * lanes)


# ---------------------------------------------------------------- REUSE


@dataclass(frozen=True)
class AccessSpans:
    """What accesses of one shape span inside the first 0, 1, 2 .. loops: `bytes` in whole lines, and of each dimension elements
    from the first to the last."""

    size: int
    bytes: list[float]
    reach: list[tuple[int, ...]]

    @cached_property
    def starts(self) -> float:
        """Cycles a byte because runs begin: of what is walked while no more rows are followed than STREAMS."""
        run, whole, last = 1, self.reach[0], None
        for spans in reversed(self.reach):
            if spans is last:
                continue
            last, rows = spans, len(spans) - 1
            side_by_side = spans[rows]
            # Rows that are whole follow each other.
            while rows and side_by_side >= prod(whole[rows:]):
                rows -= 1
                side_by_side *= spans[rows]
            if prod(spans[:rows]) > STREAMS:
                break
            run = side_by_side
        return min(RUN / min(PAGE, run * self.size), FOLLOWED) - RUN / PAGE


@dataclass(frozen=True)
class AccessWalk:
    """An access, and the bytes `of` what it spans; `non_temporal`: written by stores that bypass the caches."""

    access: AccessModel
    written: bool
    non_temporal: bool
    spans: list[float]
    of: AccessSpans


def _traffic(
    ctx: LoweringContext, cpu: CpuModel, problems: Sequence[AccessProblem], nest: CostedNest, sizes: Mapping[str, int]
) -> float:
    """Cycles until what all works read and write has come and gone. SOURCE"""
    line = ctx.device.memories[0].transaction or 64
    inner = {t for p in problems[:-1] for t in (p.work.name.rstrip("@"), *p.work.targets)} if len(problems) > 1 else set()
    tiles = _tiles(nest.loops, sizes)

    known: dict[tuple, AccessSpans] = {}

    def walk(a: AccessModel, written: bool) -> AccessWalk:
        key = a.dims, a.dtype.bytes
        if key not in known:
            known[key] = _spans(a, nest.loops, tiles, line)
        spans = known[key].bytes
        return AccessWalk(a, written, written and spans[0] >= nest.streamed.get(a.tensor, inf), spans, known[key])

    outer = [[(a, out) for accesses, out in ((p.reads, False), (p.writes, True)) for a in accesses] for p in problems]
    every = [[walk(a, out) for a, out in x if a.tensor.rstrip("@") not in inner] for x in outer]
    together = list({w.access.tensor: w for x in every for w in x}.values())
    row = next((n for n, x in enumerate(nest.loops) if x.axis not in problems[0].free), len(nest.loops))
    reads, writes = [], []  # of each cache: bytes that it fetches, and that it writes back
    past = sum(w.spans[0] for w in together if w.non_temporal)
    everything = sum(w.spans[0] for w in together) - past
    for n, (room, _) in enumerate(cpu.caches[:-1]):
        if everything <= (room if n < len(cpu.private) else SHARED * room):
            reads.append(0.0)  # it is there from the last call, or from who made it
            writes.append(0.0)
            continue
        groups = [together] if sum(w.spans[row] for w in together) <= SHARE * room else every
        found = [_fetched([w for w in group if not w.non_temporal], nest, SHARE * room) for group in groups]
        reads.append(sum(x for x, _ in found))
        writes.append(sum(x for _, x in found))
    total, last = 0.0, len(cpu.caches) - 2
    for n, (_, rate) in enumerate(cpu.caches[1:]):
        more = [x[n] - (x[n + 1] if n < last else 0.0) for x in (reads, writes)]
        total += (max(0.0, more[0]) + (1.0 if n == last else VICTIMS) * max(0.0, more[1])) / rate
    total += past / cpu.caches[-1][1]
    # What comes from beyond the caches of a core comes in runs.
    group = [w for w in together if w.access.dims and not w.access.view]
    inside, _ = cpu.caches[len(cpu.private) - 1]
    if sum(w.spans[0] for w in group) <= inside:
        return total
    if nest.cycles is None:
        return total + sum(w.spans[0] * w.of.starts for w in group)
    cores = sum(1 for x in nest.loops if x.core)
    return total + sum(w.spans[0] * _turned(w, cores, inside, line) for w in group)


def _spans(a: AccessModel, loops: Sequence[CostedLoop], tiles: Sequence[Mapping[str, int]], line: int) -> AccessSpans:
    reach = [_reach(a, tiles[0])]
    spans = [_bytes(a, tiles[0], reach[0], line)]
    for x, t in zip(loops, tiles[1:], strict=True):
        same = x.axis not in a.axes
        reach.append(reach[-1] if same else _reach(a, t))
        spans.append(spans[-1] if same else _bytes(a, t, reach[-1], line))
    return AccessSpans(a.dtype.bytes, spans, reach)


def _tiles(loops: Sequence[CostedLoop], sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Extents of all axes inside the first 0, 1, 2 .. loops."""
    out = [dict(sizes)]
    for x in loops:
        out.append({**out[-1], x.axis: x.step})
    return out


def _fetched(group: Sequence[AccessWalk], nest: CostedNest, room: float) -> tuple[float, float]:
    """Bytes that a cache with so much room fetches, and that it writes back. REUSE"""
    count = len(nest.loops)
    depth = next((d for d in range(count + 1) if sum(w.spans[d] for w in group) <= room), count)
    fetched = back = 0.0
    for w in group:
        times, at = 1.0, depth
        for d in range(depth - 1, -1, -1):
            x = nest.loops[d]
            if at < depth:
                times *= x.trips
            elif x.axis in w.access.axes and x.trips > 1:
                at = d
        fetched += times * w.spans[at]
        back += times * w.spans[at] if w.written else 0.0
    return fetched, back


def _turned(w: AccessWalk, cores: int, room: float, line: int) -> float:
    """Cycles a byte because squares are turned: as many rows are read as a block, inside the loops over `cores`, has, a line of
    each, and another one is asked for ahead (`default-nests`). Rows whose distance is a power of two share the sets of a cache:
    it has room for fewer."""
    *rows, run = w.of.reach[cores]
    if w.written:
        return STORED / (run * w.access.dtype.bytes)
    far = max((n for n, x in enumerate(rows) if x > 1), default=len(rows))
    pitch = prod(w.of.reach[0][far + 1 :]) * w.access.dtype.bytes
    lines = pitch // line if pitch % line == 0 else 1
    found = room / line / max(1, lines & -lines)
    return FOLLOWED * max(0.0, 1 - found / (AHEAD * prod(rows)))


def _bytes(a: AccessModel, tile: Mapping[str, int], reach: tuple[int, ...], line: int) -> float:
    """What an access spans, in whole lines."""
    if not a.dims:
        return line
    if a.view:
        return max(line, float(a.footprint(tile)) * a.dtype.bytes)
    last = reach[-1] * a.dtype.bytes
    return prod(reach[:-1]) * (last if last % line == 0 else (last // line + 1) * line)


def _reach(a: AccessModel, tile: Mapping[str, int]) -> tuple[int, ...]:
    """Elements from the first to the last that the subscript of each dimension reaches."""
    out = []
    for dim in a.spread:
        span = 1
        for i, c in dim:
            span += c * (tile.get(i, 1) - 1)
        out.append(span)
    return tuple(out)
