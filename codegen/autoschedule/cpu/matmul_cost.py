"""Seconds of a blocked matrix product on a CPU, in closed form: arithmetic, traffic of each cache, packing, balance.

The larger of arithmetic and traffic counts in full, and a share of the other, because prefetching hides most of it. Packing is
added to both. Sizes come from the device's text; `matmul_model` has the figures that it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ...ir.limits import CACHE_LINE, PAGE
from ...schedule.candidate import Cost
from ..machine_model import WAKE, MachineModel
from .matmul_model import MatmulModel

LOAD = 0.5  # cycles: a vector load, on cores that start two in a cycle [fact: AVX2 and AVX-512 cores; test_first_candidates]
STORE = 1.0  # cycles: a vector store, on cores that start one in a cycle [fact: AVX2 and AVX-512 cores; test_first_candidates]
CROWDED = 0.1  # share: of the time of loads that arithmetic hides, which is added [estimate; test_first_candidates]
ENTER = 40.0  # cycles: to begin and end a register tile [estimate; test_first_candidates]
COPY = 0.15  # cycles: to pack an element that stays beside its neighbours [estimate; test_first_candidates]
TURN = 1.2  # cycles: to pack an element that is transposed [estimate; test_first_candidates]
GATHER = 4.0  # cycles: to pack an element of a window whose lines have an open width [estimate; test_first_candidates]
# cycles: added for an element of a window that comes to lie beside its neighbour along k [estimate; test_first_candidates]
BESIDE = 1.0
APART = 1.5  # cycles: to pack an element whose neighbours come to lie a few elements away [estimate; test_first_candidates]
SPLIT = 4.0  # cycles: to pack an element whose neighbours come to lie in several panels [estimate; test_first_candidates]
# cycles: to pack an element of a window whose vectors lie within one line of the image [estimate; test_first_candidates]
WHOLE = 0.6
BROKEN = 2.0  # cycles: to pack an element of a window whose vectors cross lines of the image [estimate; test_first_candidates]
ASKED = 6.0  # cycles: to pack an element of a window that needs its own bounds check [estimate; test_first_candidates]
CROSSED = 1.5  # times: the cost of an unaligned load, because vectors cross cache lines [estimate; test_first_candidates]
COMBINE = 8.0  # cycles: to add the lanes of a vector [estimate; test_first_candidates]
HIDDEN = 0.3  # share: of the times below the bound, which is added [estimate; test_first_candidates]
PAGES = 64  # pages: in the first level of the TLB [fact: x86 cores since 2013; test_first_candidates]
FIND = 7.0  # cycles: a miss in the first level of the TLB [estimate; test_first_candidates]
# cache lines: that the hardware prefetches beyond the end of a short row [measured: cpu-products; test_first_candidates]
AHEAD = 4
# share: of the time of strided lines in a core's caches, which nothing prefetches [measured: cpu-products;
# test_first_candidates]
STRIDED = 0.2
# cycles: to begin a page beyond a core's caches, because no prefetch crosses its end [measured: cpu-products;
# test_first_candidates]
BEGIN = 10.0
# share: of a cache that a packed block may take to stay there beside what passes through [measured: cpu-products;
# test_a_packed_block_leaves_room_for_what_passes_through]
STAYS = 0.5
# pages: in the second level of the TLB [fact: Intel cores since 2015; test_a_pass_over_many_pages_finds_none_again]
ALL_PAGES = 1536
# cycles: a miss there, in a virtual machine [measured: cpu-products; test_a_pass_over_many_pages_finds_none_again]
WALK = 120.0
MEET = 1e-6  # seconds: a barrier between cores [estimate; test_first_candidates]


@dataclass(frozen=True)
class Blocking:
    """The sizes of one blocking.

    rows, columns   of the register tile            depth   of a block of k, None: all of it
    high            rows of a block that stays in the inner caches
    tall, across    rows and columns of a core's tile
    lines           of an image in the register tile; `columns` are of each, and `across` counts lines (WINDOWS)
    width           columns of a core's tile, None: all of them (WINDOWS)
    """

    kind: str
    rows: int
    columns: int
    depth: int | None
    high: int
    tall: int
    across: int
    pack_wide: bool
    pack_narrow: bool
    lines: int = 1
    width: int | None = None

    def __str__(self) -> str:
        if self.kind == "few rows":
            return f"few rows: {self.rows} by {self.columns} lines at a time, {self.across} a core"
        packed = " and ".join(x for x, on in (("wide", self.pack_wide), ("narrow", self.pack_narrow)) if on) or "nothing"
        if self.kind == "channels last":
            shape = f"{self.rows} x {self.columns} in registers"
            return f"{self.kind}: {shape}, {self.tall} lines of {self.high} by {self.across} a core by {self.depth or 'all'}"
        if self.kind == "windows":
            shape = f"{self.rows} x {self.lines} x {self.columns} in registers"
            lines = f"{self.across} lines" if self.width is None else f"{self.across} lines of {self.width}"
            return f"windows: {shape}, {self.tall} x {lines} a core by {self.depth or 'all'}, image packed"
        block = f"{self.tall} x {self.across} a core by {self.depth or 'all'}, {self.high} rows a block"
        return f"{self.kind}: {self.rows} x {self.columns} in registers, {block}, {packed} packed"


@dataclass(frozen=True)
class CycleCounts:
    """Cycles of one core. `together`: arithmetic and traffic, where they are known to overlap in part; 0: the usual share."""

    arithmetic: float
    traffic: float
    packing: float
    waits: float
    together: float = 0.0


def seconds(p: MatmulModel, cpu: MachineModel, b: Blocking, sizes: Mapping[str, int]) -> Cost:
    """Seconds for the extents of all indices; all cores take part if it is worth waking them."""
    m, n, k = sizes[p.m], sizes[p.n], sizes[p.k]
    count = prod(sizes[i] for i in p.batch)
    if b.kind == "channels last":
        return _in_all(*_channels(p, cpu, b, sizes), cpu)
    if b.kind == "windows":
        cost = _windows(p, cpu, b, sizes)
    else:
        cost = (_panels if b.kind == "panels" else _along_k)(p, cpu, b, m, n, k)
    cost = CycleCounts(*(x * count for x in (cost.arithmetic, cost.traffic, cost.packing, cost.waits, cost.together)))
    tasks = count * _ceil(m, b.tall) * _ceil(n // (p.image[1] if b.kind == "windows" else 1), b.across)
    tasks *= _ceil(p.image[1], b.width) if b.width is not None else 1
    return _in_all(cost, tasks, cpu)


def _in_all(cost: CycleCounts, tasks: int, cpu: MachineModel) -> Cost:
    """Of so many tasks, which one core does alone, or all cores."""
    busiest = _ceil(tasks, cpu.units) / tasks
    longest, other = max(cost.arithmetic, cost.traffic), min(cost.arithmetic, cost.traffic)
    alone = ((cost.together or longest + HIDDEN * other) + cost.packing) / cpu.clock
    shared = alone * busiest + WAKE + cost.waits * MEET
    parts = {"arithmetic": cost.arithmetic, "memory": cost.traffic, "packing": cost.packing}
    return Cost(min(alone, shared), {name: x / cpu.clock for name, x in parts.items()})


def _panels(p: MatmulModel, cpu: MachineModel, b: Blocking, m: int, n: int, k: int) -> CycleCounts:
    """A register tile may be the first to read its panel of the wide operand; for others the panel is near by then."""
    size, vectors = p.dtype.bytes, b.columns / p.lanes
    depth = min(b.depth or k, k)
    blocks = _ceil(k, depth)
    tall, across, high = min(b.tall, m), min(b.across, n), min(b.high, m)
    cores_m, cores_n, flats = _ceil(m, b.tall), _ceil(n, b.across), _ceil(m, b.high)
    everything = size * (m * k + k * n + m * n)

    # Columns of the last tile that are not there are left out where rows ask for nothing.
    whole = n // b.columns if m % b.rows == 0 else _tiles(n, b.across, b.columns)
    rest = _ceil(n % b.columns, p.lanes) if m % b.rows == 0 else 0
    kinds = [(whole, vectors), (1, rest)] if rest else [(whole, vectors)]

    # How far away what a tile reads is, in cycles a byte: the wide operand at first and again, the narrow one.
    stride = size * (p.stride(p.wide, p.k) or n)  # where it is open: of a matrix of this size
    far = _cycles(cpu, everything) if k * n * size > cpu.caches[0][0] else 1 / cpu.caches[0][1]
    if b.pack_wide:
        first = _cycles(cpu, depth * across * size / STAYS)
        again = _cycles(cpu, (depth * (b.columns + b.rows)) * size)
    else:
        again = _near(cpu, depth, b.columns * size, stride, depth * b.rows * size)
        first = max(far, again)
    later = _near(cpu, depth, across * size, stride) if not b.pack_wide else first
    side = size * (p.stride(p.narrow, p.k) or m)
    beside, line, found, began = _cycles(cpu, (high + b.columns) * depth * size), float(size), 0.0, 0.0
    if not b.pack_narrow and not p.is_contiguous_along(
        p.narrow, p.k
    ):  # each step of k reads of another line, maybe of another page
        beside = _near(cpu, depth, max(high, b.rows) * size, side, depth * b.columns * size)
        line, found = float(CACHE_LINE / b.rows), FIND * (1 - cpu.share(0, side, b.rows * size))
        began = BEGIN * min(1.0, side / PAGE) if m * k * size > (cpu.staging.capacity or 1 << 18) else 0.0

    private = 1 / cpu.caches[len(cpu.private) - 1][1]
    arithmetic = traffic = together = 0.0
    tiles_m = _tiles(m, b.tall, b.rows)
    for count, wide in kinds:
        step = _step(p, b.rows, wide, wide) + CROWDED * (b.rows + wide) * LOAD
        busy = _ceil(k, p.step) * step + blocks * (ENTER + b.rows * wide * (LOAD + STORE))
        narrow = k * b.rows * line * beside
        bytes_ = k * wide * p.lanes * size
        for times, near in ((cores_m, first), (max(0, flats - cores_m), later), (max(0, tiles_m - flats), again)):
            moved = narrow + bytes_ * near
            arithmetic += count * times * busy
            traffic += count * times * moved
            # What lies side by side in a core's caches is fetched ahead in time.
            shown = HIDDEN if near > private else 0.0 if b.pack_wide or near <= 1 / cpu.caches[0][1] else STRIDED
            together += count * times * (max(busy, moved) + shown * min(busy, moved))
    waited = tiles_m * k * (sum(count for count, _ in kinds) * found + cores_n * began)
    if p.is_contiguous_along(p.narrow, p.k):  # a block of k is a piece of each row, on a page that the last pass forgot
        apart = min(1.0, size * (p.stride(p.narrow, p.m) or k) / PAGE)
        waited += m * (blocks - 1) * cores_n * apart * WALK if tall * apart > ALL_PAGES else 0.0

    # Results by every block of k; rows that lie far apart, more of them than pages are found at once, are waited for.
    results = 2 * m * n * size * (blocks - 1) * _cycles(cpu, tall * across * size) + 2 * m * n * size * _cycles(cpu, everything)
    results *= 1.5 if high > PAGES else 1.0
    # What is read the first time. Packing waits for it; and of each piece of a row a few lines more than are wanted come along.
    source = m * k * size * (_cycles(cpu, everything) + (cores_n - 1) * _cycles(cpu, tall * k * size))
    fetched = k * n * size * (far + (cores_m - 1) * _cycles(cpu, k * n * size)) if b.pack_wide else 0.0
    begun = k * min(1.0, stride / PAGE) * BEGIN  # pages of a piece of each row
    if not p.wide_transposed and stride > across * size and far > private:
        fetched += k * cores_n * AHEAD * CACHE_LINE * far + (begun * cores_n if b.pack_wide else 0.0)
    if not b.pack_wide and far > private:
        fetched += begun * cores_m * sum(count for count, _ in kinds)
    traffic += results + source + fetched + waited
    together += fetched + waited + (results + source if traffic > arithmetic else HIDDEN * (results + source))

    packing = k * n * cores_m * _packing(p, cpu, b, depth) if b.pack_wide else 0.0
    flat = COPY if b.rows % p.lanes == 0 else SPLIT
    flat = (
        (COPY if p.is_contiguous_along(p.narrow, p.k) else SPLIT)
        if p.step > 1
        else TURN
        if p.is_contiguous_along(p.narrow, p.k)
        else flat
    )
    packing += m * k * cores_n * flat if b.pack_narrow else 0.0
    return CycleCounts(arithmetic, traffic, packing, 0.0, together)


def _along_k(p: MatmulModel, cpu: MachineModel, b: Blocking, m: int, n: int, k: int) -> CycleCounts:
    """DOTS and FEW ROWS: lanes lie along k. One operand passes by once, or once for each tile of rows; a tile of the other one
    is read again for each of its own."""
    size = p.dtype.bytes
    blocks, depth = _ceil(k, b.depth or k), min(b.depth or k, k)
    passes, again = (m, b.columns) if b.kind == "dots" else (n * _ceil(m, b.rows), b.rows)
    tiles = _ceil(m, b.rows) * _ceil(n, b.columns)
    arithmetic = tiles * (
        _ceil(k, p.lanes) * _step(p, b.rows, b.columns, b.columns) + blocks * (ENTER + b.rows * b.columns * COMBINE)
    )
    traffic = passes * k * size * _cycles(cpu, size * (m * k + k * n)) + tiles * k * again * size * _cycles(
        cpu, depth * again * size
    )
    return CycleCounts(arithmetic, traffic, k * n * TURN if b.pack_wide else 0.0, float(blocks if b.pack_wide else 0))


def _step(p: MatmulModel, rows: int, vectors: float, loads: float) -> float:
    """Cycles of a register tile for one step along k: its instructions, its loads of vectors and of rows, or their latency."""
    return max(rows * vectors * (p.instr.cycles or 0.5), (rows + loads) * LOAD, p.instr.latency or 4)


def _windows(p: MatmulModel, cpu: MachineModel, b: Blocking, sizes: Mapping[str, int]) -> CycleCounts:
    """Lines of the image are in a cache with their edges; windows are read from there at each point of the filter."""
    size, m, k = p.dtype.bytes, sizes[p.m], sizes[p.k]
    height, width = p.image
    vectors = b.lines * b.columns / p.lanes
    deep = p.plain_reduced_extent
    blocks = _ceil(deep, b.depth or deep)
    step = _step(p, b.rows, vectors, CROSSED * vectors)
    enter = ENTER + b.rows * vectors * (LOAD + STORE)
    cores_m = _ceil(m, b.tall)
    across = _tiles(height, b.across, b.lines) * _ceil(width, b.columns)
    tiles = _tiles(m, b.tall, b.rows) * across
    arithmetic = tiles * (_ceil(k, p.step) * step + blocks * enter)

    columns = b.width or width
    held = size * p.window(b.across, columns, b.depth)
    near = size * p.window(b.lines, b.columns, b.depth)
    wide = tiles * k * vectors * p.lanes * size * _cycles(cpu, near)
    narrow = m * k * size * across * _cycles(cpu, size * m * k / blocks + near)
    results = 2 * m * height * width * size * (blocks * _cycles(cpu, size * b.tall * b.across * width))
    packed = p.window(b.across, columns, b.depth) * blocks * _ceil(height, b.across) * _ceil(width, columns) * cores_m
    element = COPY if p.step == p.column_step == 1 else APART if p.column_step <= 2 else SPLIT
    packing = packed * (element + size * _cycles(cpu, 2 * held))
    # Several neighbours along k, which filters are packed for: once by each core's tile.
    packing += m * k * TURN * 2 * _ceil(height, b.across) if p.step > 1 else 0.0
    return CycleCounts(arithmetic, wide + narrow + results, packing, 0.0)


def _channels(p: MatmulModel, cpu: MachineModel, b: Blocking, sizes: Mapping[str, int]) -> tuple[CycleCounts, int]:
    """Windows of lines of an image, with channels last, that are in a cache with their edges; filters are packed beside them.

    Also the number of tasks that cores share.
    """
    size, n, m, k = p.dtype.bytes, sizes[p.n], sizes[p.m], sizes[p.k]
    deep = p.plain_reduced_index or ""
    depth, vectors = b.depth or p.plain_reduced_extent, b.columns / p.lanes
    blocks = _ceil(p.plain_reduced_extent, depth)
    step = _step(p, b.rows, vectors, vectors) + CROWDED * (b.rows + vectors) * LOAD
    count = prod(sizes[i] for i in p.batch)
    tasks = count // p.lines * _ceil(p.lines, b.tall) * _ceil(m, b.high) * _ceil(n, b.across)
    tiles = count * _tiles(m, b.high, b.rows) * _tiles(n, b.across, b.columns)
    turns = _ceil(depth, p.step) * (k // p.plain_reduced_extent)
    arithmetic = tiles * blocks * (turns * step + ENTER + b.rows * vectors * (LOAD + STORE))

    filter_ = p.elements_read(p.wide, {p.n: b.columns, deep: depth})
    image = p.elements_read(p.narrow, {p.m: b.high, p.line: b.tall, deep: depth})
    rows = p.elements_read(p.narrow, {p.m: b.rows, deep: depth})
    wide = tiles * blocks * filter_ * size * _cycles(cpu, (filter_ + rows) * size)
    narrow = tiles * blocks * rows * size * _cycles(cpu, image * size)
    results = 2 * count * m * n * size * blocks * _cycles(cpu, size * count * m * n)
    far = size * _cycles(cpu, size * (count * m * k // max(1, k // p.plain_reduced_extent) + n * k))
    packing = tasks * blocks * (image * (COPY + far) + _ceil(min(b.across, n), b.columns) * filter_ * (APART + far))
    return CycleCounts(arithmetic, wide + narrow + results, packing, 0.0), tasks


def _packing(p: MatmulModel, cpu: MachineModel, b: Blocking, depth: int) -> float:
    """Cycles to pack an element of the wide operand."""
    if p.step > 1 and p.plain(p.wide):
        return SPLIT if p.wide_transposed else APART
    if p.plain(p.wide):
        return _turning(p, cpu, b, depth) if p.wide_transposed else COPY
    apart = BESIDE if p.step > 1 else 0.0
    width = p.fixed_extent(p.component_indices(p.n)[-1])
    if width is None or width % p.lanes == 0 or p.stride(p.wide, p.n) == 1:
        return apart + (GATHER if width is None else WHOLE)
    return apart + (BROKEN if p.windows_lie_inside else ASKED)


def _turning(p: MatmulModel, cpu: MachineModel, b: Blocking, depth: int) -> float:
    """By squares, in registers, or element by element: then a column of a panel is written line by line, `depth` of them."""
    if p.turn is not None:
        n, k = p.turn.extent(p.n), p.turn.extent(p.k)
        return ((p.turn.instr.cycles or 0) + (n * LOAD + k * STORE) * max(1.0, max(n, k) / p.lanes)) / (n * k) + COPY
    room = cpu.caches[0][0] * cpu.share(0, b.columns * p.dtype.bytes, p.dtype.bytes)
    return TURN if depth * CACHE_LINE <= room else SPLIT


def _cycles(cpu: MachineModel, footprint: float) -> float:
    """Cycles to load a byte of a footprint again: from the innermost cache that has it."""
    return next(1 / rate for room, rate in cpu.caches if footprint <= room)


def _near(cpu: MachineModel, rows: int, run: float, stride: int, more: float = 0.0) -> float:
    """The same for runs of so many bytes at a stride, and other bytes: they map to few sets of a cache."""
    lines = rows * (_ceil(int(run), CACHE_LINE) + (stride % CACHE_LINE != 0)) * CACHE_LINE
    for level, (room, rate) in enumerate(cpu.caches):
        if lines <= room * cpu.share(level, stride, run) and lines + more <= room:
            return 1 / rate
    return 1 / cpu.caches[-1][1]


def _tiles(size: int, outer: int, inner: int) -> int:
    """Inner tiles of all outer ones, the last of each cut short."""
    return size // outer * _ceil(outer, inner) + _ceil(size % outer, inner)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
