"""The number of units of each shaped level of a launch: a walk over the lines before anything is lowered (UNITS_FIRST).

The first cooperative copy needs the number of units, which tiles further down decide. Trip counts come from capacity, never
from the live extent (CAPACITY_NOT_LIVE), or the tiles of warps would overlap in edge blocks.
"""

from __future__ import annotations

from ....dsl import syntax
from ....dsl.device import Level
from ....dsl.index.expr import as_expr
from ....dsl.support.fast_replace import replace
from ..copies.distribute_copy import copy_block
from ..lowering_context import LoweringContext
from ..spec import ONE, ZERO, Range, RangeStep
from ..tile_axes import clamped, tile_axes


def advance(r: Range, size: int, every: int | None) -> Range:
    """The range after a tile, for counting only (the tile's number is taken as 0)."""
    if r.strided_runs:  # a loop visits the chunks one after another, and a tile is no larger than one of them
        r = replace(r, strided_runs=())
        size = clamped(r, size)
    if every is not None and r.capacity is not None:
        return r.split_strided(size, every, RangeStep(ZERO, ONE, None))
    return r.split(size, RangeStep(ZERO, ONE, None))


def count_units(ctx: LoweringContext, ranges: dict[str, Range], lines: tuple, lanes) -> dict[str, int]:
    """Units of the shaped levels, and 0 for each finite level that is used.

    `lanes(line)`: the (level, lanes) of an instruction at a `compute` line, or None.
    """
    main = _walk(ctx, dict(ranges), lines, ctx.outermost, lanes, nested=False)
    inner = _walk(ctx, dict(ranges), lines, ctx.outermost, lanes, nested=True)
    for level, n in inner.items():
        main.setdefault(level, n)
    return main


def combining_levels(ctx: LoweringContext, reduced: set[str], lines: tuple) -> frozenset[str]:
    """The levels whose units swap registers and take parts of a reduction: they do it in groups that are powers of two."""
    names = set(reduced)
    found: set[str] = set()
    for line in lines:
        match line:
            case syntax.Fuse() if names & set(line.indices):
                names.add(line.name)
            case syntax.Tile() if line.level is not None and names & {a.index for a in line.axes}:
                if exchanges_registers(ctx.device.level(line.level)):
                    found.add(line.level)
            case syntax.Keep() if line.block:
                found |= combining_levels(ctx, names, line.block)
    return frozenset(found)


def exchanges_registers(level: Level) -> bool:
    """Whether units exchange registers: in lockstep, and a power of two of them. Others pass parts through a memory."""
    width = level.width or 1
    return level.siblings == "lockstep" and width & (width - 1) == 0


def max_units(level: Level) -> int | None:
    """How many units of a shaped level there may be: of lanes that come in powers of two, so many."""
    most = level.most
    if most is None or level.siblings != "lockstep" or level.width is not None:
        return most
    return 1 << (most.bit_length() - 1)


def round_for_reduction(ctx: LoweringContext, level: str | None, count: int) -> int:
    """Units that `count` tiles take of an axis: a power of two where units exchange parts of a reduction; surplus ones idle."""
    return 1 << (count - 1).bit_length() if level in ctx.combining and count > 0 else count


def round_to_groups(level: Level, count: int) -> int:
    """Units in lockstep come in whole groups: as many as one instruction drives, or a power of two; surplus ones idle."""
    if level.siblings != "lockstep" or not count:
        return count
    return level.width or 1 << (count - 1).bit_length()


def _walk(ctx: LoweringContext, ranges: dict[str, Range], lines: tuple, level: str, lanes, nested: bool) -> dict[str, int]:
    need: dict[str, int] = {}
    start, group = level, 1
    for line in lines:
        match line:
            case syntax.Fuse():
                size = ONE
                for i in line.indices:
                    size = size * ranges[i].size if i in ranges else size
                ranges[line.name] = Range(as_expr(0), size)
            case syntax.Tile():
                count: int | None = 1
                for a in tile_axes(line):
                    if a.index not in ranges:
                        continue
                    r = ranges[a.index]
                    size = clamped(r, a.size)
                    cap = r.capacity if a.every is None else min(a.every, r.capacity or a.every)
                    count = (
                        None if count is None or cap is None else count * round_for_reduction(ctx, line.level, -(-cap // size))
                    )
                    ranges[a.index] = advance(r, size, a.every)
                if line.level is None:
                    continue
                if line.level != level:
                    start, level, group = level, line.level, 1
                group = (count or 1) * group
                if ctx.device.level(level).units == "finite":
                    need[level] = 0  # as many as take part
                if ctx.device.level(level).units == "shaped":
                    _spread(ctx, need, ctx.below(start, level), group)
            case syntax.Move() | syntax.Keep() if nested and line.block:
                block = copy_block(line, line.block) if isinstance(line, syntax.Move) else line.block
                for k, n in _walk(ctx, dict(ranges), block, level, lanes, nested).items():
                    need[k] = max(need.get(k, 1), n) if n else 0
            case syntax.Compute():
                found = lanes(line)
                if found is not None:
                    _spread(ctx, need, ctx.below(found[0], ctx.innermost), found[1])
    return need


def _spread(ctx: LoweringContext, need: dict[str, int], levels: tuple[str, ...], count: int) -> None:
    """`count` units over several levels: the innermost are filled first."""
    for name in reversed(levels):
        level = ctx.device.level(name)
        if level.units != "shaped":
            continue
        take = min(count, max_units(level) or count)
        need[name] = max(need.get(name, 1), take)
        count = -(-count // take)
