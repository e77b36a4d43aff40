"""Schedules near a given one: its tile sizes halved, doubled, or a vector more or less; single changes, then pairs of them.

SAME_SIZE    One index and one size are one choice wherever they stand together: a panel's width and the tile that reads it.
MULTIPLES    A size that was a multiple of the next smaller one of its index stays a multiple: it is rounded up.
IN_VAIN      A size beyond the index's extent has the effect of the extent, and is left out.
SINGLE       An index that is distributed in tiles of one element, and not cut again, may get small blocks: a unit shares the
             reads of its block.
TRADES       Pairs make one size larger and another smaller, so that the footprint in a cache stays about the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.support.fast_replace import replace
from .line_builders import resize_line, resize_panels

Choice = tuple[str, int]  # an index and a size
_GROUPS = (4, 2, 8)  # elements: a block that stands for no block [tried; test_sizes_beside_one]
_SMALL = 64  # elements: sizes up to it also change by one step [tried; test_sizes_beside_one]


def neighbouring_schedules(
    decl: syntax.ScheduleDecl, device: Device, extents: Mapping[str, int]
) -> Iterator[tuple[syntax.ScheduleDecl, str]]:
    """Explicit schedules near an explicit one, and in words what is different. What exceeds a limit is found when compiling.

    extents  those that are known, by index
    """
    sizes = tile_sizes(decl.lines)
    width = vector_width(device)
    seen = {resized(decl.lines, sizes, {})}
    moves = {c: _others(c[1], width, extents.get(c[0])) for c in sizes}
    single = [{c: n} for k in range(4) for c in sizes for n in moves[c][k : k + 1]]
    pairs = [
        {a: n, b: m}
        for a, b in combinations(sizes, 2)
        if a[0] != b[0]
        for n in moves[a]
        for m in moves[b]
        if (n > a[1]) != (m > b[1])
    ]
    for change in (*single, *pairs):
        made = resized(decl.lines, sizes, change)
        if made not in seen:
            seen.add(made)
            yield replace(decl, lines=made), change_text(change)


def change_text(change: Mapping[Choice, int]) -> str:
    """Changes of sizes, for people."""
    return ", ".join(f"{i}: {n} for {was}" for (i, was), n in change.items())


def vector_width(device: Device) -> int:
    """How many elements of four bytes a vector of a CPU has; 1 elsewhere."""
    return max(1, (device.levels[-1].bytes or 4) // 4)


def _others(size: int, width: int, extent: int | None) -> list[int]:
    """IN_VAIN"""
    if size == 1:
        return [n for n in _GROUPS if extent is None or n <= extent]
    step = width if size % width == 0 else 2
    near = [2 * size, size // 2 if size % 2 == 0 else (size + 1) // 2]
    if size <= _SMALL:
        near += [size + step, size - step]
    aligned = [n for n in near if n > 0 and (size % width or n % width == 0)]
    if extent is not None:
        aligned = [n for n in aligned if min(n, extent) != min(size, extent)]
    return list(dict.fromkeys(n for n in aligned if n != size))


def _single(lines: tuple[syntax.Line, ...]) -> frozenset[str]:
    """SINGLE"""
    tiles = [x for x in lines if isinstance(x, syntax.Tile)]
    named = [a.index for t in tiles for a in t.axes]
    dealt = {a.index for t in tiles if t.level for a in t.axes if isinstance(a.size, syntax.Num) and a.size.value == 1}
    return frozenset(i for i in dealt if named.count(i) == 1)


def tile_sizes(lines: tuple[syntax.Line, ...]) -> list[Choice]:
    """What can be chosen: an index and a size above 1, or one that is dealt singly, in the order in which they stand first."""
    return _sizes(lines, _single(lines))


def _sizes(lines: tuple[syntax.Line, ...], single: frozenset[str]) -> list[Choice]:
    found: dict[Choice, None] = {}
    for line in lines:
        if isinstance(line, syntax.Tile):
            for a in line.axes:
                if a.every is None and isinstance(a.size, syntax.Num) and (a.size.value > 1 or a.index in single):
                    found[a.index, int(a.size.value)] = None
        for x in _sizes(syntax.block_of(line), frozenset()):
            found[x] = None
    return list(found)


def resized(lines: tuple[syntax.Line, ...], sizes: list[Choice], change: Mapping[Choice, int]) -> tuple[syntax.Line, ...]:
    """Lines with some of their sizes changed: (index, size as it was) -> size. MULTIPLES"""
    new: dict[Choice, int] = {}
    below: dict[str, tuple[int, int]] = {}  # of an index: the next smaller size, as it was and as it is
    for index, was in sorted(sizes, key=lambda c: c[1]):
        n = change.get((index, was), was)
        old_inner, inner = below.get(index, (1, 1))
        if was % old_inner == 0:
            n = max(inner, -(-n // inner) * inner)
        new[index, was] = n
        below[index] = was, n
    return _lines(lines, new)


def _lines(lines: tuple[syntax.Line, ...], new: Mapping[Choice, int]) -> tuple[syntax.Line, ...]:
    return tuple(_line(x, new) for x in lines)


def _line(line: syntax.Line, new: Mapping[Choice, int]) -> syntax.Line:
    """SAME_SIZE"""
    out = line
    if isinstance(out, syntax.Tile):
        axes = (a if a.every is not None else replace(a, size=resize_line(a.index, a.size, new)) for a in out.axes)
        out = replace(out, axes=tuple(axes))
    if isinstance(out, (syntax.Move, syntax.Keep)):
        modifiers = resize_panels(out.modifiers, new)
        out = replace(out, modifiers=modifiers, block=_lines(out.block, new) if out.block is not None else None)
    return replace(out, span=None)
