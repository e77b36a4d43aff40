"""Copies that turn a tile on its way: each unit turns a small rectangle in registers, so that both sides are vectors.

    move B -> shared layout (n, k):
        tile n: 4, k: 4 -> thread
        move B -> register                 four loads of four neighbours along n
        compute                            four stores of four neighbours along k

The source has its neighbours along one axis, and the copy along another. Without the rectangle either the loads or the stores
would be of single elements.

WORTH   Rectangles and plain runs (`copy_width`) are compared by one cost: the memory instructions of a unit, and bank cycles.
WHOLE   Units that an instruction drives read whole transactions, or whole rows.
SMALL   A rectangle has as many bytes as a few registers.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from ....dsl.layout import Layout
from ....dsl.values import Load, loads
from ...analysis.vector_instrs import vector_instrs
from ...ir.schedule_tree import Move
from ..lowering_context import LoweringContext
from ..spec import Focus
from .copy_width import Axes, CopySource, CopyTarget, run_along

MOST = 64  # bytes: of a rectangle, SMALL [estimate; test_rectangles_are_small]

Rectangle = tuple[tuple[str, int], ...]  # its extents along two axes: neighbouring units are neighbours along the last


def rectangle(ctx: LoweringContext, focus: Focus, axes: Axes, fastest: str, layout: Layout, move: Move) -> Rectangle | None:
    """The rectangle that each unit turns; None where the tile is not turned, or plain runs are as good.

    `focus`: of the copy; `fastest`: the axis along which the source has its neighbours.
    """
    (computation,) = focus.computations
    value, memory = computation.value, move.memory or ctx.device.memories[-1].name
    if not isinstance(getattr(value, "value", value), Load) or len(loads(value)) != 1 or not prod(e for _, e in axes):
        return None
    source = CopySource(ctx, focus, tuple(axes), fastest)
    target = CopyTarget(ctx, focus, tuple(axes), fastest, layout, memory)
    near = _contiguous(target)
    if near is None or near == fastest or len(source.reads) != 1 or not source.runs:
        return None
    buffer, _ = source.reads[0]
    whole = ctx.device.memory(buffer.memory).transaction or 1
    dtype, members = ctx.dtypes[computation.name], vector_instrs(ctx.device)
    counts = {m.count for m in members.fitting("store", members.register, memory, dtype)} - {1}
    heights = [n for n in sorted(counts) if dict(axes)[near] % n == 0 and target.stored(n, near) == n]
    sizes = [((near, h), (fastest, w)) for h, w in product(heights, source.runs) if h * w * target.size <= MOST]
    row = min(whole, dict(axes)[fastest] * target.size)
    units = {x: _first_units(target, x) for pair in sizes for x in (pair, pair[::-1])}
    found = [(_cost(target, x, first), x) for x, first in units.items() if _run(target, x, first) >= row]
    runs = min(target.cost(n, 1) for n in (1, *source.runs))
    best = min(found, default=None)
    return best[1] if best is not None and best[0] < runs else None


def _contiguous(target: CopyTarget) -> str | None:
    """The axis along which the copy has its neighbours."""
    for a, extent in target.axes:
        found = run_along(target.axes, a, target.address, 2) if extent > 1 else None
        if found is not None and found[1] == 1:
            return a
    return None


def _first_units(target: CopyTarget, tile: Rectangle) -> dict[str, np.ndarray]:
    """Where the rectangles of the units begin that an instruction drives, by axis."""
    sizes, extents = dict(tile), dict(target.axes)
    order = [*(a for a in extents if a not in sizes), *sizes]
    shape = [extents[a] // sizes.get(a, 1) for a in order]
    lanes = min(prod(shape), target.ctx.device.levels[-1].width or 1)
    at = np.unravel_index(np.arange(lanes), shape)
    return {a: x * sizes.get(a, 1) for a, x in zip(order, at, strict=True)}


def _run(target: CopyTarget, tile: Rectangle, first: dict[str, np.ndarray]) -> float:
    """Bytes of a row of the source that one load of all these units reads."""
    rows = {*zip(*(x.tolist() for a, x in first.items() if a != target.fastest), strict=True)}
    return len(first[target.fastest]) * dict(tile)[target.fastest] * target.size / len(rows)


def _cost(target: CopyTarget, tile: Rectangle, first: dict[str, np.ndarray]) -> int:
    """WORTH: of a unit that has most to do."""
    sizes = dict(tile)
    width = sizes.pop(target.fastest)
    (height,) = sizes.values()
    begin, lanes = first[target.fastest], len(first[target.fastest])
    columns = (target.address.evaluate(first | {target.fastest: begin + n}) for n in range(width))
    each = height + width + target.bank_cycles((np.broadcast_to(x, lanes) for x in columns), height)
    return -(-prod(e for _, e in target.axes) // (height * width * target.units)) * each
