"""CHANNELS LAST: contractions whose rows are windows of an image with channels last, and whose columns are filters.

    Y[n, p, q, o] = sum(r, s, c) I[n, p + r, q + s, c] * F[o, r, s, c]

Each core has some lines of the image in its cache, with zeros at their edges: no element is copied once for each point of the
filter. The filters of one register tile are packed beside them, a vector for each point and channel. Rows are contiguous along
one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .....dsl import syntax
from .....dsl.index.expr import Var
from ...line_builders import Digit, move_with_layout, tile_text
from ...machine_model import MachineModel
from ...tile_space import even_tiles, near_equal_tiles
from ..matmul_cost import Blocking
from ..matmul_model import MatmulModel

DEPTHS = (64, 128, 256)  # channels: a block of the reduction [tried; test_sizes_tried]
ROWS = 12  # output points: the most of a register tile [tried; test_first_candidates]


def channel_blockings(p: MatmulModel, cpu: MachineModel, held: int) -> Iterator[Blocking]:
    """`tall`: lines of results that a core has; `high`: their columns; `across`: filters."""
    known = [p.fixed_extent(i) for i in (p.m, p.n, *p.batch, *p.component_indices(p.k))]
    if (
        p.plain_reduced_index is None
        or None in known
        or 0 in known
        or p.axes(p.narrow)[-1] != p.plain_reduced_index
        or not _has_box(p)
    ):
        return
    lines, width, filters = p.lines, p.fixed_extent(p.m) or 1, p.fixed_extent(p.n) or 1
    room = (cpu.staging.capacity or 1 << 18) * 3 // 4 // p.dtype.bytes
    deep = [-(-even_tiles(p.plain_reduced_extent, d) // p.step) * p.step for d in DEPTHS]
    for vectors, depth in product((1, 2, 3, 4), dict.fromkeys(deep)):
        columns = vectors * p.lanes
        fit = (cpu.max_registers - p.scratch_registers) // vectors - 1
        rows = even_tiles(width, max(1, min(held // vectors, fit, ROWS, width)))
        if vectors > 1 and columns >= filters + p.lanes:
            continue
        filter_ = p.elements_read(p.wide, {p.n: columns, p.plain_reduced_index: depth})
        talls, acrosses = (
            near_equal_tiles(lines, (lines, -(-lines // cpu.units), 1), 1),
            near_equal_tiles(filters, (filters, 256, 64), columns),
        )
        for tall, across, high in product(talls, acrosses, near_equal_tiles(width, (width, 64, 16), rows)):
            if filter_ + p.elements_read(p.narrow, {p.m: high, p.line: tall, p.plain_reduced_index: depth}) <= room:
                yield Blocking("channels last", rows, columns, depth, high, tall, across, True, True)


def _has_box(p: MatmulModel) -> bool:
    return all(isinstance(a, Var) for e in p.narrow.indices for a, _ in e.terms)


def channel_lines(p: MatmulModel, cpu: MachineModel, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    assert p.plain_reduced_index is not None
    inner, deep = cpu.staging.name, p.plain_reduced_index
    dealt = [(i, b.tall if i == p.line else 1) for i in p.batch]
    lines: list[syntax.Line] = [tile_text(*dealt, (p.m, b.high), (p.n, b.across), level=cpu.outer.name)]
    if b.depth is not None and b.depth < p.plain_reduced_extent:
        lines.append(tile_text((deep, b.depth)))
    lines += [syntax.Move(p.narrow.tensor, inner), tile_text((p.n, b.columns))]
    places: list[Digit] = [a for a in p.axes(p.wide) if a not in (deep, p.n)]
    pairs: list[Digit] = [(deep, "/", p.step), p.n, (deep, "%", p.step)] if p.step > 1 else [deep, p.n]
    lines.append(move_with_layout(p.wide.tensor, inner, [*places, *pairs]))
    lines += [tile_text((p.line, 1))] if p.line and b.tall > 1 else []
    lines += [tile_text((p.m, b.rows)), keep]
    lines.append(tile_text(*((i, p.step if i == deep else 1) for i in p.component_indices(p.k))))
    return (*lines, syntax.Compute(p.instr.name))
