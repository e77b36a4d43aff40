"""Seconds of a blocked product on a CPU, in closed form: arithmetic, traffic of each cache, packing, balance.

The longest of arithmetic and traffic counts whole, a share of the other: what a core fetches ahead hides most of it. Packing
adds to both. Sizes of the device's text; what it does not say is in `cpu_product`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from .cpu_product import WAKE, Processor, Product

# Cycles, of cores that load two vectors and store one in each.
LOAD, STORE = 0.5, 1.0
ENTER = 40.0  # to begin and end a register tile
COPY, TURN, GATHER = 0.15, 1.2, 4.0  # to pack an element whose neighbours stay neighbours, one whose do not, one of a window
SPLIT = 4.0  # one whose neighbours come to lie in several panels
WHOLE, BROKEN = 2.0, 16.0  # of a window, where vectors lie in one line of the image; where they go on in the next one
CROSSED = 1.5  # loads at any place: so many more, as vectors cross from line to line of a cache
COMBINE = 8.0  # to add the lanes of a vector
HIDDEN = 0.3  # of what is not the bound, so much still counts
PAGES, FIND = 64, 7.0  # pages a core finds at once, and to find another
MEET = 1e-6  # seconds for the cores to meet


@dataclass(frozen=True)
class Blocking:
    """Sizes of one way to do a product.

    rows, columns   of the register tile            depth   of a block of k, None: all of it
    high            rows of a block that stays in the inner caches
    tall, across    rows and columns of a core's tile
    lines           of an image in the register tile; `columns` are of each, and `across` counts lines (WINDOWS)
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

    def __str__(self) -> str:
        if self.kind == "few rows":
            return f"few rows: {self.rows} by {self.columns} lines at a time, {self.across} a core"
        packed = " and ".join(x for x, on in (("wide", self.pack_wide), ("narrow", self.pack_narrow)) if on) or "nothing"
        if self.kind == "windows":
            shape = f"{self.rows} x {self.lines} x {self.columns} in registers"
            return f"windows: {shape}, {self.tall} x {self.across} lines a core by {self.depth or 'all'}, image packed"
        block = f"{self.tall} x {self.across} a core by {self.depth or 'all'}, {self.high} rows a block"
        return f"{self.kind}: {self.rows} x {self.columns} in registers, {block}, {packed} packed"


@dataclass(frozen=True)
class Cost:
    seconds: float
    bound: str


def seconds(p: Product, cpu: Processor, b: Blocking, sizes: Mapping[str, int]) -> Cost:
    """For the extents of all indices; all cores take part, where that is worth waking them."""
    m, n, k = sizes[p.m], sizes[p.n], sizes[p.k]
    count = prod(sizes[i] for i in p.batch)
    if b.kind == "windows":
        cost = _windows(p, cpu, b, sizes)
    else:
        cost = {"dots": _dots, "few rows": _few_rows, "panels": _panels}[b.kind](p, cpu, b, m, n, k)
    arithmetic, traffic, packing, waits = (x * count for x in cost)
    tasks = count * _ceil(m, b.tall) * _ceil(n // (p.image[1] if b.kind == "windows" else 1), b.across)
    busiest = _ceil(tasks, cpu.count) / tasks
    longest, other = max(arithmetic, traffic), min(arithmetic, traffic)
    alone = (longest + HIDDEN * other + packing) / cpu.clock
    together = alone * busiest + WAKE + waits * MEET
    bound = "packing" if packing > longest else "arithmetic" if arithmetic >= traffic else "memory"
    return Cost(min(alone, together), bound)


def _panels(p: Product, cpu: Processor, b: Blocking, m: int, n: int, k: int) -> tuple[float, float, float, float]:
    size, vectors = p.dtype.bytes, b.columns / p.lanes
    depth = min(b.depth or k, k)
    blocks = _ceil(k, depth)
    step = max(b.rows * vectors * (p.instr.cycles or 0.5), (b.rows + vectors) * LOAD, p.instr.latency or 4)
    # Elements of the narrow operand that lie a row apart at each step of k: more rows than pages are found at once.
    scattered = not b.pack_narrow and not p.along(p.narrow, p.k) and p.plain(p.narrow) and depth > PAGES
    step += FIND if scattered else 0.0
    enter = ENTER + b.rows * vectors * (LOAD + STORE)
    tiles = _tiles(m, b.tall, b.rows) * _tiles(n, b.across, b.columns)
    arithmetic = tiles * (k * step + blocks * enter)

    everything = size * (m * k + k * n + m * n)
    cores_m, cores_n = _ceil(m, b.tall), _ceil(n, b.across)
    tall, across, high = min(b.tall, m), min(b.across, n), min(b.high, m)
    # The wide block is read by every block of rows, the narrow one by every panel, results by every block of k.
    wide = k * n * size * _ceil(m, b.high) * _cycles(cpu, depth * across * size)
    narrow = m * k * size * max(0, _ceil(n, b.columns) - cores_n) * _cycles(cpu, (high + b.columns) * depth * size)
    results = 2 * m * n * size * (blocks - 1) * _cycles(cpu, tall * across * size) + 2 * m * n * size * _cycles(cpu, everything)
    first = k * n * size * (_cycles(cpu, everything) + (cores_m - 1) * _cycles(cpu, k * n * size))
    first += m * k * size * (_cycles(cpu, everything) + (cores_n - 1) * _cycles(cpu, tall * k * size))
    # Rows that lie far apart: more of them than pages are found at once are waited for.
    results *= 1.5 if high > PAGES else 1.0
    wide *= 1.0 if b.pack_wide else 2.0
    traffic = wide + narrow + results + first

    packing = k * n * cores_m * _packing(p) if b.pack_wide else 0.0
    whole = COPY if b.rows % p.lanes == 0 else SPLIT
    packing += m * k * cores_n * (TURN if p.along(p.narrow, p.k) else whole) if b.pack_narrow else 0.0
    return arithmetic, traffic, packing, 0.0


def _dots(p: Product, cpu: Processor, b: Blocking, m: int, n: int, k: int) -> tuple[float, float, float, float]:
    size = p.dtype.bytes
    blocks = _ceil(k, b.depth or k)
    step = max(b.rows * b.columns * (p.instr.cycles or 0.5), (b.rows + b.columns) * LOAD, p.instr.latency or 4)
    tiles = _ceil(m, b.rows) * _ceil(n, b.columns)
    arithmetic = tiles * (_ceil(k, p.lanes) * step + blocks * (ENTER + b.rows * b.columns * COMBINE))
    traffic = m * k * size * _cycles(cpu, size * (m * k + k * n)) + tiles * k * b.columns * size * _cycles(
        cpu, min(b.depth or k, k) * b.columns * size
    )
    return arithmetic, traffic, k * n * TURN if b.pack_wide else 0.0, float(blocks if b.pack_wide else 0)


def _few_rows(p: Product, cpu: Processor, b: Blocking, m: int, n: int, k: int) -> tuple[float, float, float, float]:
    size = p.dtype.bytes
    step = max(b.rows * b.columns * (p.instr.cycles or 0.5), (b.rows + b.columns) * LOAD, p.instr.latency or 4)
    tiles = _ceil(m, b.rows) * _ceil(n, b.columns)
    arithmetic = tiles * (_ceil(k, p.lanes) * step + ENTER + b.rows * b.columns * COMBINE)
    wide = n * k * size * _ceil(m, b.rows) * _cycles(cpu, size * (m * k + k * n))
    return arithmetic, wide + tiles * k * b.rows * size * _cycles(cpu, k * b.rows * size), 0.0, 0.0


def _windows(p: Product, cpu: Processor, b: Blocking, sizes: Mapping[str, int]) -> tuple[float, float, float, float]:
    """Lines of the image lie in a cache with their edges; windows are read from there at each place of the filter."""
    size, m, k = p.dtype.bytes, sizes[p.m], sizes[p.k]
    height, width = p.image
    vectors = b.lines * b.columns / p.lanes
    deep = p.deep_extent
    blocks = _ceil(deep, b.depth or deep)
    step = max(b.rows * vectors * (p.instr.cycles or 0.5), (b.rows + CROSSED * vectors) * LOAD, p.instr.latency or 4)
    enter = ENTER + b.rows * vectors * (LOAD + STORE)
    cores_m = _ceil(m, b.tall)
    across = _tiles(height, b.across, b.lines) * _ceil(width, b.columns)
    tiles = _tiles(m, b.tall, b.rows) * across
    arithmetic = tiles * (k * step + blocks * enter)

    held = size * p.window(b.across, width, b.depth)
    near = size * p.window(b.lines, b.columns, b.depth)
    wide = tiles * k * vectors * p.lanes * size * _cycles(cpu, near)
    narrow = m * k * size * across * _cycles(cpu, size * m * k / blocks + near)
    results = 2 * m * height * width * size * (blocks * _cycles(cpu, size * b.tall * b.across * width))
    packed = p.window(b.across, width, b.depth) * blocks * _ceil(height, b.across) * cores_m
    return arithmetic, wide + narrow + results, packed * (COPY + size * _cycles(cpu, 2 * held)), 0.0


def _packing(p: Product) -> float:
    if p.plain(p.wide):
        return TURN if p.wide_transposed else COPY
    width = p.fixed(p.parts(p.n)[-1])
    return GATHER if width is None else BROKEN if width % p.lanes else WHOLE


def _cycles(cpu: Processor, footprint: float) -> float:
    """Cycles to bring a byte of what has this footprint to a core, again: from the innermost cache that holds it."""
    return next(1 / rate for room, rate in cpu.caches if footprint <= room)


def _tiles(size: int, outer: int, inner: int) -> int:
    """Inner tiles of all outer ones, the last of each cut short."""
    return size // outer * _ceil(outer, inner) + _ceil(size % outer, inner)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
