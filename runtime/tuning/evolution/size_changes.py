"""Mutations of tile sizes.

EVERYWHERE  One index and one size are mostly one choice wherever they stand together, as in `neighbourhood`.
ALIGNED     A size that was a multiple of the vectors' width mostly stays one.
BALANCED    A size that cuts an extent into one tile more, or one less, or into as many that are alike.
"""

from __future__ import annotations

from random import Random

from ....codegen.autoschedule.neighbourhood import Choice, change_text, resized, tile_sizes
from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from .mutation_space import Change, Lines, MutationSpace, head_text, with_line

_ALIGNED = 0.85  # of the draws


def resize_everywhere(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """EVERYWHERE. `tile k: 64` --> `tile k: 128`, and the panels that it reads."""
    sizes = tile_sizes(lines)
    if not sizes:
        return None
    choice = rng.choice(sizes)
    return _resized(lines, sizes, {choice: other_size(choice, space, rng)})


def trade_sizes(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`tile m: 64, n: 32` --> `tile m: 32, n: 64`: a larger size for a smaller one."""
    sizes = tile_sizes(lines)
    if len(sizes) < 2:
        return None
    (i, n), (j, m) = rng.sample(sizes, 2)
    factor = rng.choice((2, 2, 3, 4))
    return _resized(lines, sizes, {(i, n): n * factor, (j, m): max(1, m // factor)})


def resize_one(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`tile k: 1` --> `tile k: 4`, in this line alone. A stride (`every`) may change with it, or instead of it."""
    found = [(n, k) for n, x in enumerate(lines) if isinstance(x, syntax.Tile) for k, a in enumerate(x.axes) if _size(a)]
    if not found:
        return None
    at, number = rng.choice(found)
    line = lines[at]
    assert isinstance(line, syntax.Tile)
    axis = line.axes[number]
    size = other_size((axis.index, _size(axis)), space, rng)
    new = replace(axis, size=syntax.Num(size))
    if isinstance(axis.every, syntax.Num):
        stride = int(axis.every.value)
        kept = rng.random() < 0.5
        scaled = stride * 2 if rng.random() < 0.5 else max(1, stride // 2)
        if kept:
            new = replace(axis, every=syntax.Num(scaled))
        else:
            new = replace(new, every=syntax.Num(max(1, stride * size // _size(axis))))
    made = replace(line, axes=(*line.axes[:number], new, *line.axes[number + 1 :]), span=None)
    return with_line(lines, at, made), f"{head_text(made)} for {head_text(line)}"


def other_size(choice: Choice, space: MutationSpace, rng: Random) -> int:
    """A size near one of an index, or one that fits its extent. BALANCED, ALIGNED"""
    index, size = choice
    extent = space.extents.get(index)
    near = {2 * size, size // 2, size + space.width, size - space.width, size + 1, size - 1, 4 * size, size // 4}
    if extent is not None:
        count = -(-extent // size)
        near |= {-(-extent // n) for n in (count - 1, count, count + 1) if n > 0}
        near = {min(n, extent) for n in near} | {extent}
    found = sorted(n for n in near if n > 0 and n != size)
    aligned = [n for n in found if n % space.width == 0 or n == extent]
    if aligned and size % space.width == 0 and rng.random() < _ALIGNED:
        return rng.choice(aligned)
    return rng.choice(found or [size])


def _resized(lines: Lines, sizes: list[Choice], change: dict[Choice, int]) -> Change:
    return resized(lines, sizes, change), change_text(change)


def _size(axis: syntax.TileAxis) -> int:
    return int(axis.size.value) if isinstance(axis.size, syntax.Num) else 0
