"""The number of units of each shaped level of a launch: a walk over the lines before anything is lowered (UNITS_FIRST).

The first cooperative copy needs the number of units, which tiles further down decide. Trip counts come from capacity, never
from the live extent (CAPACITY_NOT_LIVE), or the tiles of warps would overlap in edge blocks.

MAIN_NEST   the main nest fixes how many units there are. A block adds levels inside of those alone: with more units outside,
            its own lines would count for the others, and a copy that is printed as a block would launch more than it did. A
            finite level is used by all or by none: lines above the one that uses it have to know which of its units they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from ....dsl.device import Level
from ...ir.schedule_tree import Axis, Fuse, Keep, Leaf, Move, Node, Tile
from ..copies.distribute_copy import copy_block
from ..lowering_context import LoweringContext
from ..spec import Range, clamped
from .tile_ranges import ranges_along

Lanes = Callable[[Leaf], tuple[str, int] | None]


def count_units(ctx: LoweringContext, ranges: Mapping[str, Range], tree: Node, lanes: Lanes) -> dict[str, int]:
    """Units of the shaped levels, and 0 for each finite level that is used.

    `lanes(leaf)`: the (level, lanes) of a leaf's instruction, or None.
    """
    main = _walk(ctx, ranges, tree, ctx.outermost, lanes, nested=False)
    inner = _walk(ctx, ranges, tree, ctx.outermost, lanes, nested=True)
    inmost = max((ctx.device.depth(level) for level in main), default=0)
    for level, n in inner.items():
        if ctx.device.depth(level) > inmost or not n:  # MAIN_NEST
            main.setdefault(level, n)
    return main


def combining_levels(ctx: LoweringContext, reduced: set[str], tree: Node) -> frozenset[str]:
    """The levels whose units swap registers and take parts of a reduction: they do it in groups that are powers of two."""
    names = set(reduced)
    found: set[str] = set()
    for x in tree.path():
        match x:
            case Fuse() if names & set(x.indices):
                names.add(x.name)
            case Tile() if x.level is not None and names & {a.index for a in x.axes}:
                if ctx.device.level(x.level).exchanges_registers:
                    found.add(x.level)
            case Keep() if x.block is not None:
                found |= combining_levels(ctx, names, x.block)
    return frozenset(found)


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


def _walk(
    ctx: LoweringContext, ranges: Mapping[str, Range], tree: Node, level: str, lanes: Lanes, nested: bool
) -> dict[str, int]:
    need: dict[str, int] = {}
    start, group = level, 1
    for x, now in ranges_along(ranges, tree):
        match x:
            case Tile() if x.level is not None:
                counts = [_tile_count(ctx, now[a.index], a, x.level) for a in x.axes if a.index in now]
                if x.level != level:
                    start, level, group = level, x.level, 1
                group *= 1 if None in counts else prod(n for n in counts if n is not None) or 1  # of no tiles, one unit
                if ctx.device.level(level).units == "finite":
                    need[level] = 0  # as many as take part
                if ctx.device.level(level).units == "shaped":
                    _spread(ctx, need, ctx.below(start, level), group)
            case Move() | Keep() if nested and x.block is not None:
                block = copy_block(x, x.block) if isinstance(x, Move) else x.block
                for k, n in _walk(ctx, now, block, level, lanes, nested).items():
                    need[k] = max(need.get(k, 1), n) if n else 0
            case Leaf():
                found = lanes(x)
                if found is not None:
                    _spread(ctx, need, ctx.below(found[0], ctx.innermost), found[1])
    return need


def _tile_count(ctx: LoweringContext, r: Range, a: Axis, level: str) -> int | None:
    """Tiles of an axis that go to units of the level; None where there is no bound."""
    capacity = r.capacity if a.every is None else min(a.every, r.capacity or a.every)
    return None if capacity is None else round_for_reduction(ctx, level, -(-capacity // clamped(r, a.size)))


def _spread(ctx: LoweringContext, need: dict[str, int], levels: tuple[str, ...], count: int) -> None:
    """`count` units over several levels: the innermost are filled first."""
    for name in reversed(levels):
        level = ctx.device.level(name)
        if level.units != "shaped":
            continue
        take = min(count, max_units(level) or count)
        need[name] = max(need.get(name, 1), take)
        count = -(-count // take)
