"""CHANNELS LAST: contractions whose rows are windows of an image with channels last, and whose columns are filters.

    Y[n, p, q, o] = sum(r, s, c) I[n, p + r, q + s, c] * F[o, r, s, c]

A core has some lines of the image in its cache, with zeros at their edges: nothing is copied once for each place of the filter.
The filters of one register tile are packed beside them, each place and channel a vector. Rows are neighbours along one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ....dsl import syntax
from ....dsl.index.expr import Var
from ..line_builders import Digit, laid_out, tile
from .matmul_cost import Blocking
from .matmul_model import Processor, Product
from .tile_sizes import even, parts, scratch

DEPTHS = (64, 128, 256)  # channels at a time
ROWS = 12  # at most


def channel_blockings(p: Product, cpu: Processor, held: int) -> Iterator[Blocking]:
    """`tall`: lines of results that a core has; `high`: their columns; `across`: filters."""
    known = [p.fixed(i) for i in (p.m, p.n, *p.batch, *p.parts(p.k))]
    if p.deep is None or None in known or 0 in known or p.axes(p.narrow)[-1] != p.deep or not _has_box(p):
        return
    lines, width, filters = p.lines, p.fixed(p.m) or 1, p.fixed(p.n) or 1
    room = (cpu.private[-1].capacity or 1 << 18) * 3 // 4 // p.dtype.bytes
    deep = [-(-even(p.deep_extent, d) // p.step) * p.step for d in DEPTHS]
    for vectors, depth in product((1, 2, 3, 4), dict.fromkeys(deep)):
        columns = vectors * p.lanes
        fit = (cpu.registers - scratch(p)) // vectors - 1
        rows = even(width, max(1, min(held // vectors, fit, ROWS, width)))
        if vectors > 1 and columns >= filters + p.lanes:
            continue
        filter_ = p.taken(p.wide, {p.n: columns, p.deep: depth})
        talls, acrosses = parts(lines, (lines, -(-lines // cpu.count), 1), 1), parts(filters, (filters, 256, 64), columns)
        for tall, across, high in product(talls, acrosses, parts(width, (width, 64, 16), rows)):
            if filter_ + p.taken(p.narrow, {p.m: high, p.line: tall, p.deep: depth}) <= room:
                yield Blocking("channels last", rows, columns, depth, high, tall, across, True, True)


def _has_box(p: Product) -> bool:
    return all(isinstance(a, Var) for e in p.narrow.indices for a, _ in e.terms)


def channel_lines(p: Product, cpu: Processor, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    assert p.deep is not None
    inner, deep = cpu.private[-1].name, p.deep
    dealt = [(i, b.tall if i == p.line else 1) for i in p.batch]
    lines: list[syntax.Line] = [tile(*dealt, (p.m, b.high), (p.n, b.across), level=cpu.cores.name)]
    if b.depth is not None and b.depth < p.deep_extent:
        lines.append(tile((deep, b.depth)))
    lines += [syntax.Move(p.narrow.tensor, inner), tile((p.n, b.columns))]
    places: list[Digit] = [a for a in p.axes(p.wide) if a not in (deep, p.n)]
    pairs: list[Digit] = [(deep, "/", p.step), p.n, (deep, "%", p.step)] if p.step > 1 else [deep, p.n]
    lines.append(laid_out(p.wide.tensor, inner, [*places, *pairs]))
    lines += [tile((p.line, 1))] if p.line and b.tall > 1 else []
    lines += [tile((p.m, b.rows)), keep]
    lines.append(tile(*((i, p.step if i == deep else 1) for i in p.parts(p.k))))
    return (*lines, syntax.Compute(p.instr.name))
