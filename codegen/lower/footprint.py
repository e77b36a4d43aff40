"""How far the lines below a focus reach along an index, and how many of its elements a leaf reads at once.

A leaf may run past its tile, up to padding: `tile k: 24` under an instruction of 16 reads 32. Buffers have that size, and
copies fill it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.index.expr import as_expr
from ..plan.computations import Computation
from .copies.pipeline_depth import is_unrolled
from .leaves.match_instr import InstrMatch
from .lowering_context import LoweringContext
from .reductions.split_reduction import tile_splits_reduction
from .spec import ZERO, Focus, Range

if TYPE_CHECKING:
    from .lower_schedule import Lowering


def _instr(low: Lowering, focus: Focus, line) -> tuple[InstrMatch, Computation] | None:
    if isinstance(line, syntax.Compute) and isinstance(line.instr, str):
        for w in focus.computations:
            m = low.find_instr(line.instr, w, line, must=False)
            if m is not None:
                return m, w
    return None


def read_extent(low: Lowering, focus: Focus, index: str, capacity: int, lines: tuple) -> int:
    """The extent, padding included, that the lines read of a range of this capacity."""
    for n, line in enumerate(lines):
        rest = lines[n + 1 :]
        if isinstance(line, syntax.Tile):
            for a in line.axes:
                if a.index != index or not isinstance(a.size, syntax.Num):
                    continue
                size = max(1, min(int(a.size.value), capacity))
                inner = read_extent(low, focus, index, size, rest)
                every = int(a.every.value) if isinstance(a.every, syntax.Num) else None
                if every is not None:
                    runs, chunks = -(-capacity // every), -(-min(every, capacity) // size)
                    return (runs - 1) * every + (chunks - 1) * size + inner
                return (-(-capacity // size) - 1) * size + inner
        found = _instr(low, focus, line)
        if found is not None:
            n = found[0].extent(index)
            return -(-capacity // n) * n
        spread = getattr(line, "fragment", None)
        if spread is not None:
            part = spread.of(index)
            return -(-capacity // part[0]) * part[0] if part else capacity
    return capacity


def counts_by_capacity(ctx: LoweringContext, line: syntax.Tile) -> bool:
    """Are the tiles of this line counted by capacity in a loop, since units are launched for them or parts stored of each?"""
    return line.level is not None and (ctx.device.level(line.level).units == "open" or tile_splits_reduction(ctx.device, line))


def read_grain(
    low: Lowering,
    focus: Focus,
    index: str,
    capacity: int,
    lines: tuple,
    held: bool = False,
    entered: frozenset[str] = frozenset(),
) -> int:
    """The largest extent that is read whole, whatever of it is live.

    `held`: the index numbers registers from here on. `entered`: levels that tiles above were dealt to; more of them onto
    one of these count by capacity, and so do tiles whose number is known before the loop (`counts_by_capacity`).
    """
    entered = entered | {focus.level}
    free = any(index in w.indices and w.reduction is not None for w in focus.computations)
    held = held or any(v.form == "path" and index in v.axes for v in focus.views.values())
    for n, line in enumerate(lines):
        rest = lines[n + 1 :]
        match line:
            case syntax.Keep() if free or any(index in w.indices for w in focus.computations):
                held = held or line.memory is None or low.ctx.register(line.memory)
            case syntax.Move() if line.memory is None or low.ctx.register(line.memory):
                held = True
            case syntax.Tile():
                # a reduction's accumulator opens above its first tile, in registers, where no `keep` says otherwise
                held = held or (free and any(a.index in w.reduced for w in focus.computations for a in line.axes))
                for a in line.axes:
                    if a.index != index or not isinstance(a.size, syntax.Num):
                        continue
                    shaped = line.level is not None and low.ctx.device.level(line.level).units == "shaped"
                    size = max(1, min(int(a.size.value), capacity))
                    ahead = line.level is None and is_unrolled(low, line, rest, Range(ZERO, as_expr(capacity)), size)
                    whole = read_extent(low, focus, index, capacity, lines[n:])
                    if (
                        held
                        or ahead
                        or shaped
                        or line.level in entered
                        or a.every is not None
                        or counts_by_capacity(low.ctx, line)
                    ):
                        return whole
                    inner = read_grain(low, focus, index, size, rest, held, entered | {line.level or focus.level})
                    return inner if size % inner == 0 else whole
                entered = entered | {line.level or focus.level}
        found = _instr(low, focus, line)
        if found is not None:
            return read_extent(low, focus, index, capacity, lines[n:]) if free else found[0].extent(index)
    return capacity if held or free else 1
