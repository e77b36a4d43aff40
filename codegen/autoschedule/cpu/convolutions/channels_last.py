"""CHANNELS LAST: contractions whose rows are windows of an image with channels last, and whose columns are filters.

    Y[n, p, q, o] = sum(r, s, c) I[n, p + r, q + s, c] * F[o, r, s, c]

Each core has some lines of the image in its cache, with zeros at their edges: no element is copied once for each point of the
filter. The filters of one register tile are packed beside them, a vector for each point and channel. Rows are contiguous along
one line. Sizes may be open, but for those of the filters: the copy of them has room for each point.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .....dsl import syntax
from .....dsl.index.expr import Var
from ...line_builders import Digit, move_with_layout, tile_text
from ...machine_model import MachineModel
from ...tile_space import even_tiles, near_equal_tiles, round_up, rounded_down
from ..matmul_cost import Blocking
from ..matmul_model import MatmulModel

DEPTHS = (64, 128, 256)  # channels: a block of the reduction [tried; test_sizes_tried]
OPEN_LINES = (4, 8)  # lines: of a core's tile where their number is open [tried; test_channels_last]
# output points: of a register tile where lines are open; images often have lines of 7, 14, 28 [tried; test_channels_last]
OPEN_ROWS = 7
ROWS = 12  # output points: the most of a register tile [tried; test_first_candidates]


def channel_blockings(p: MatmulModel, cpu: MachineModel, held: int) -> Iterator[Blocking]:
    """`tall`: lines of results that a core has; `high`: their columns; `across`: filters."""
    sizes = [p.fixed_extent(i) for i in (p.m, p.n, *p.batch, *p.component_indices(p.k))]
    deep = p.plain_reduced_index
    if deep is None or 0 in sizes or not p.filters_are_bounded or p.axes(p.narrow)[-1] != deep or not _has_box(p):
        return
    width, filters = p.fixed_extent(p.m), p.fixed_extent(p.n)
    room = (cpu.staging.capacity or 1 << 18) * 3 // 4 // p.dtype.bytes
    depths = [round_up(even_tiles(p.plain_reduced_extent, d), p.step) for d in DEPTHS]
    for vectors, depth in product((1, 2, 3, 4), dict.fromkeys(depths)):
        columns = vectors * p.lanes
        fit = (cpu.max_registers - p.scratch_registers) // vectors - 1
        most = max(1, min(held // vectors, fit, ROWS))
        rows = min(most, OPEN_ROWS) if width is None else even_tiles(width, min(most, width))
        if vectors > 1 and filters is not None and columns >= filters + p.lanes:
            continue
        filter_ = p.elements_read(p.wide, {p.n: columns, deep: depth})
        acrosses = (
            rounded_down((256, 64), columns) if filters is None else near_equal_tiles(filters, (filters, 256, 64), columns)
        )
        highs = (2 * rows, 4 * rows) if width is None else near_equal_tiles(width, (width, 64, 16), rows)
        for tall, across, high in product(_lines(p, cpu), dict.fromkeys(acrosses), highs):
            if filter_ + p.elements_read(p.narrow, {p.m: high, p.line: tall, deep: depth}) <= room:
                yield Blocking("channels last", rows, columns, depth, high, tall, across, True, True)


def _lines(p: MatmulModel, cpu: MachineModel) -> tuple[int, ...]:
    """Of a core's tile."""
    if p.line and p.fixed_extent(p.line) is None:
        return OPEN_LINES
    return near_equal_tiles(p.lines, (p.lines, -(-p.lines // cpu.units), 1), 1)


def _has_box(p: MatmulModel) -> bool:
    return all(isinstance(a, Var) for e in p.narrow.indices for a, _ in e.terms)


def channel_lines(p: MatmulModel, cpu: MachineModel, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    assert p.plain_reduced_index is not None
    inner, deep = cpu.staging.name, p.plain_reduced_index
    dealt = [(i, b.tall if i == p.line else 1) for i in p.batch]
    lines: list[syntax.Line] = [tile_text(*dealt, (p.m, b.high), (p.n, b.across), level=cpu.outer.name)]
    if b.depth is not None and (p.fixed_extent(deep) is None or b.depth < p.plain_reduced_extent):
        lines.append(tile_text((deep, b.depth)))
    lines += [syntax.Move(p.narrow.tensor, inner), tile_text((p.n, b.columns))]
    places: list[Digit] = [a for a in p.axes(p.wide) if a not in (deep, p.n)]
    pairs: list[Digit] = [(deep, "/", p.step), p.n, (deep, "%", p.step)] if p.step > 1 else [deep, p.n]
    lines.append(move_with_layout(p.wide.tensor, inner, [*places, *pairs]))
    lines += [tile_text((p.line, 1))] if p.line and b.tall > 1 else []
    lines += [tile_text((p.m, b.rows)), keep]
    lines.append(tile_text(*((i, p.step if i == deep else 1) for i in p.component_indices(p.k))))
    return (*lines, syntax.Compute(p.instr.name))
