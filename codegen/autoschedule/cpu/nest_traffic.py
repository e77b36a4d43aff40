"""Cycles that a nest on a CPU waits for its caches and memory, in closed form.

REUSE     bytes that a cache fetches: begin at the outermost tile that fits it. The next loop that a tensor depends on is
          walked once; all loops further out fetch again. Footprints are polynomials of the extents, in whole cache lines
          (Narasimhan et al., "A practical tile size selection model for affine loop nests", ICS 2021).
SOURCE    a byte costs the rate of the innermost cache that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

from ....dsl.support.cached import cached_property
from ...ir.limits import PAGE
from ...lower.lowering_context import LoweringContext
from ...plan.derived_names import result_of
from ..access_model import AccessModel, AccessProblem
from ..machine_model import MachineModel
from .nest_loops import CostedLoop, CostedNest

SHARE = 0.75  # share: of a cache that one tile may count on [measured: cpu-nests; test_first_candidates]
# share: of a cache of several cores that keeps its lines from call to call [measured: cpu-nests; test_first_candidates]
SHARED = 0.05
# share: of the cost of a fetched byte, for a byte that leaves for an outer cache [measured: cpu-nests; test_first_candidates]
VICTIMS = 0.15
STREAMS = 16  # streams: that the hardware prefetches at once [measured: cpu-nests; test_few_rows_are_followed_at_once]
RUN = 30.0  # cycles: until the first cache lines of a stream arrive [measured: cpu-nests; test_first_candidates]
# cycles per byte: the most that beginning streams costs, because short ones overlap [measured: cpu-nests;
# test_first_candidates]
FOLLOWED = 0.25
STORED = 3.0  # cycles: until a run of stores begins, for which nothing waits [measured: cpu-nests; test_first_candidates]
AHEAD = 3  # cache lines: of a row that are in flight [measured: cpu-nests; test_first_candidates]


@dataclass(frozen=True)
class AccessSpans:
    """Footprints of accesses of one shape inside the first 0, 1, 2 .. loops: `bytes` in whole lines, and for each dimension the
    elements from the first to the last."""

    size: int
    bytes: list[float]
    reach: list[tuple[int, ...]]

    @cached_property
    def starts(self) -> float:
        """Cycles per byte for the beginnings of runs, while at most STREAMS rows are followed."""
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


def traffic_cycles(
    ctx: LoweringContext, cpu: MachineModel, problems: Sequence[AccessProblem], nest: CostedNest, sizes: Mapping[str, int]
) -> float:
    """Cycles for all reads and writes of the computations. SOURCE"""
    line = ctx.device.memories[0].transaction or 64
    inner = {t for p in problems[:-1] for t in p.computation.names} if len(problems) > 1 else set()
    tiles = _tiles(nest.loops, sizes)

    known: dict[tuple, AccessSpans] = {}

    def walk(a: AccessModel, written: bool) -> AccessWalk:
        key = a.dims, a.dtype.bytes
        if key not in known:
            known[key] = _spans(a, nest.loops, tiles, line)
        spans = known[key].bytes
        return AccessWalk(a, written, written and spans[0] >= nest.streamed.get(a.tensor, inf), spans, known[key])

    outer = [[(a, out) for accesses, out in ((p.reads, False), (p.writes, True)) for a in accesses] for p in problems]
    every = [[walk(a, out) for a, out in x if result_of(a.tensor) not in inner] for x in outer]
    together = list({w.access.tensor: w for x in every for w in x}.values())
    row = next((n for n, x in enumerate(nest.loops) if x.axis not in problems[0].free), len(nest.loops))
    reads, writes = [], []  # of each cache: bytes that it fetches, and that it writes back
    past = sum(w.spans[0] for w in together if w.non_temporal)
    everything = sum(w.spans[0] for w in together) - past
    for n, (room, _) in enumerate(cpu.caches[:-1]):
        if everything <= (room if n < len(cpu.private) else SHARED * room):
            reads.append(0.0)  # it is there from the last call, or from its producer
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
    # Memory beyond the caches of a core is read in runs.
    group = [w for w in together if w.access.dims and not w.access.view]
    inside, _ = cpu.caches[len(cpu.private) - 1]
    if sum(w.spans[0] for w in group) <= inside:
        return total
    if nest.cycles is None:
        return total + sum(w.spans[0] * w.of.starts for w in group)
    cores = sum(1 for x in nest.loops if x.core)
    return total + sum(w.spans[0] * _turned(w, cores, inside, line) for w in group)


def _spans(a: AccessModel, loops: Sequence[CostedLoop], tiles: Sequence[Mapping[str, int]], line: int) -> AccessSpans:
    reach = [a.reach(tiles[0])]
    spans = [_bytes(a, tiles[0], reach[0], line)]
    for x, t in zip(loops, tiles[1:], strict=True):
        same = x.axis not in a.axes
        reach.append(reach[-1] if same else a.reach(t))
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
    """Cycles per byte because squares are transposed: inside the loops over `cores`, one line is read of each of a block's
    rows, and another one is prefetched (`default-nests`). Rows whose distance is a power of two share the sets of a cache:
    fewer fit."""
    *rows, run = w.of.reach[cores]
    if w.written:
        return STORED / (run * w.access.dtype.bytes)
    far = max((n for n, x in enumerate(rows) if x > 1), default=len(rows))
    pitch = prod(w.of.reach[0][far + 1 :]) * w.access.dtype.bytes
    lines = pitch // line if pitch % line == 0 else 1
    found = room / line / max(1, lines & -lines)
    return FOLLOWED * max(0.0, 1 - found / (AHEAD * prod(rows)))


def _bytes(a: AccessModel, tile: Mapping[str, int], reach: tuple[int, ...], line: int) -> float:
    """The footprint of an access, in whole lines."""
    if not a.dims:
        return line
    if a.view:
        return max(line, float(a.footprint(tile)) * a.dtype.bytes)
    last = reach[-1] * a.dtype.bytes
    return prod(reach[:-1]) * (last if last % line == 0 else (last // line + 1) * line)
