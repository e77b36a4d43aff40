"""WINDOWS: convolutions whose columns are columns of an image.

    Y[n, o, p, q] = sum(c, r, s) I[n, c, p + r, q + s] * F[o, c, r, s]

A block of the image, some lines of some channels, is copied as it is into a cache of the core, with zeros at its edges. Windows
are vectors that begin anywhere in its lines. No element is copied once for each point of the filter.

APART    windows that take each second column (`q*2 + s`) read a copy in which the columns of one remainder are contiguous.
POINTS   filters of one element that skip columns have windows that share nothing: the copy has no more than them.
OPEN     sizes may be open, but filters need bounds, because the copy does (`filter_sizes`). A core's tile is some columns of
         some lines, and nothing in the loops tells whether they are there: what is missing is zero in the copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .....dsl import syntax
from .....dsl.index.expr import Var
from ...line_builders import Digit, move_in_panels, move_with_layout, tile_text
from ...machine_model import MachineModel
from ...tile_space import even_tiles, near_equal_tiles, round_up
from ..matmul_cost import Blocking
from ..matmul_model import MatmulModel

# filters: the most of a register tile of a convolution; more were slower wherever measured [measured: cpu-convolutions;
# test_sizes_tried]
ROWS = 8
DEPTHS = (16, 32, 64, 128, 256)  # channels: a block of the reduction [tried; test_sizes_tried]
OPEN_LINES = (4, 7, 14)  # lines: of a core's tile where their number is open [tried; test_open_sizes_of_filters]
OPEN_ROWS = 64  # filters: of a core's tile where their number is open [tried; test_open_sizes_of_filters]


def window_blockings(p: MatmulModel, cpu: MachineModel, held: int) -> Iterator[Blocking]:
    """For an image whose columns are also columns of the results, and filters of known or bounded size."""
    *others, last = p.component_indices(p.n)
    sizes = [p.fixed_extent(i) for i in (p.m, last, *others, *p.component_indices(p.k))]
    if p.plain(p.wide) or 0 in sizes or not p.filters_are_bounded or not _fits(p):
        return
    # what is copied stays in a cache of the core, with room for what passes by
    room = (cpu.staging.capacity or 1 << 18) // p.dtype.bytes
    depths = tuple(dict.fromkeys(round_up(even_tiles(p.plain_reduced_extent, d), p.step) for d in DEPTHS))
    most = held if p.step == 1 else cpu.max_registers // 2  # where the filter's columns are written out, sums of several wait
    for vectors, lines in product((1, 2, 3, 4), (1, 2, 3, 4)):
        wide = vectors * p.lanes
        if lines > p.image[0] or vectors * lines > 4 or not _suits(p, last, wide, lines):
            continue
        rows, talls = _rows(p, cpu, max(1, min(most // (vectors * lines), ROWS)))
        width = wide if p.fixed_extent(last) is None else None
        for tall, across, depth in product(talls, _lines(p, cpu, others, lines), depths):
            columns = width or round_up(p.image[1], wide)
            held_there = p.largest_window(across, columns, depth) + (p.largest_filters(tall, depth) if p.step > 1 else 0)
            if p.window(across, columns, depth) <= room // 6 and held_there <= room // 2:
                yield Blocking("windows", rows, wide, depth, rows, tall, across, True, False, lines, width)


def _fits(p: MatmulModel) -> bool:
    """Whether columns of the image are columns of the results, or some of them, and the copy is a box."""
    step = p.column_step
    if step < 1 or not all(isinstance(a, Var) for e in p.wide.indices for a, _ in e.terms):
        return False
    return p.step == 1 or (step == 1 and p.plain_reduced_index is not None)


def _suits(p: MatmulModel, last: str, wide: int, lines: int) -> bool:
    """Whether a register tile of so many columns and lines suits the width: no line is cut where it can have all of it."""
    width, least = p.image[1], 2 * p.lanes
    if p.fixed_extent(last) is not None:
        cut = width > wide if p.step > 1 else width > 4 * p.lanes > wide
        return width <= wide < width + p.lanes or (cut and wide >= least)
    known = p.largest_extent(last)
    return wide == least and lines == 1 if known is None else known <= wide < known + p.lanes


def _rows(p: MatmulModel, cpu: MachineModel, most: int) -> tuple[int, tuple[int, ...]]:
    """Filters of a register tile, and of a core's tile."""
    m = p.fixed_extent(p.m)
    if m is None:
        return most, (OPEN_ROWS // most * most,)
    rows = even_tiles(m, min(most, m))
    return rows, near_equal_tiles(m, (m, -(-m // cpu.units)), rows)


def _lines(p: MatmulModel, cpu: MachineModel, others: list[str], lines: int) -> tuple[int, ...]:
    """Lines of a core's tile."""
    if others and p.fixed_extent(others[-1]) is None:
        return tuple(dict.fromkeys(round_up(n, lines) for n in OPEN_LINES))
    height = p.image[0]
    return near_equal_tiles(height, (height, -(-height // cpu.units), -(-height // (2 * cpu.units))), lines)


def window_lines(p: MatmulModel, cpu: MachineModel, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    *others, last = p.component_indices(p.n)
    deep = p.plain_reduced_index
    shared = [*((i, 1) for i in (*p.batch, *others[:-1])), (p.m, b.tall), *((i, b.across) for i in others[-1:])]
    shared += [(last, b.width)] if b.width is not None else []
    lines: list[syntax.Line] = [tile_text(*shared, level=cpu.outer.name)]
    if deep is not None and b.depth is not None and (p.fixed_extent(deep) is None or b.depth < p.plain_reduced_extent):
        lines.append(tile_text((deep, b.depth)))
    lines += _copies(p, cpu)
    lines += [tile_text((i, b.lines)) for i in others[-1:]]
    lines += [tile_text((last, b.columns))] if b.columns < (b.width or p.image[1]) else []
    lines += [tile_text((p.m, b.rows)), keep]
    lines.append(tile_text(*((i, p.step if i == deep else 1) for i in p.component_indices(p.k))))
    return (*lines, syntax.Compute(p.instr.name))


def _copies(p: MatmulModel, cpu: MachineModel) -> Iterator[syntax.Line]:
    inner, deep, tensor = cpu.staging.name, p.plain_reduced_index, p.wide.tensor
    if p.step > 1 and deep is not None:  # SEVERAL
        yield move_in_panels(tensor, inner, deep, p.step)
        axes = [*(a for a in p.axes(p.narrow) if a != deep), deep]
        lane = tile_text((deep, 1), level=cpu.device.levels[-1].name)
        yield move_with_layout(p.narrow.tensor, inner, axes, (*(tile_text((a, 1)) for a in axes[:-1]), lane, syntax.Compute()))
    elif p.column_step == 1:
        yield syntax.Move(tensor, inner)
    elif p.windows_are_points:  # POINTS
        *others, last = p.component_indices(p.n)
        names = dict.fromkeys(v.name for e in p.wide.indices for v in sorted(e.variables(), key=str))
        view = (*(a for a in names if a not in (*others, last)), *others, last)
        yield syntax.Move(tensor, inner, view)
    else:  # APART
        *axes, columns = p.axes(p.wide)
        digits: list[Digit] = [*axes, (columns, "%", p.column_step), (columns, "/", p.column_step)]
        yield move_with_layout(tensor, inner, digits)
