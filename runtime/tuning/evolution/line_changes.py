"""Mutations of the order and the number of a block's lines. What is not legal is refused when it is compiled."""

from __future__ import annotations

from random import Random

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from .mutation_space import Change, Lines, MutationSpace, head_text, with_line


def exchange_lines(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """Two loops, or a copy and a loop, change places: a copy moves up or down."""
    if len(lines) < 3:  # the last line computes
        return None
    at = rng.randrange(len(lines) - 2)
    upper, lower = lines[at], lines[at + 1]
    return (*lines[:at], lower, upper, *lines[at + 2 :]), f"{head_text(lower)} above {head_text(upper)}"


def reorder_axes(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`tile m: 4, n: 8` --> `tile n: 8, m: 4`"""
    if (found := _tile_of_several(lines, rng)) is None:
        return None
    at, line = found
    made = replace(line, axes=tuple(rng.sample(line.axes, len(line.axes))), span=None)
    return with_line(lines, at, made), f"{head_text(made)} for {head_text(line)}"


def exchange_levels(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """A loop and a distributed tile, or tiles of two levels, exchange their indices: other units get the parts."""
    found = [n for n, x in enumerate(lines) if isinstance(x, syntax.Tile)]
    if len(found) < 2:
        return None
    a, b = sorted(rng.sample(found, 2))
    upper, lower = lines[a], lines[b]
    assert isinstance(upper, syntax.Tile)
    assert isinstance(lower, syntax.Tile)
    made = with_line(lines, a, replace(upper, axes=lower.axes, span=None))
    made = with_line(made, b, replace(lower, axes=upper.axes, span=None))
    return made, f"the indices of {head_text(upper)} and {head_text(lower)} exchanged"


def split_tile(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """`tile m: 4, n: 8` --> `tile m: 4`, `tile n: 8`"""
    if (found := _tile_of_several(lines, rng)) is None:
        return None
    at, line = found
    axis = rng.choice(line.axes)
    rest = replace(line, axes=tuple(a for a in line.axes if a is not axis), span=None)
    alone = syntax.Tile((axis,), line.level)
    made = (alone, rest) if rng.random() < 0.5 else (rest, alone)
    return with_line(lines, at, *made), f"{head_text(line)} in two lines"


def drop_line(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """Without a copy, a loop, or a line that keeps a tensor."""
    found = [n for n, x in enumerate(lines) if isinstance(x, (syntax.Move, syntax.Keep, syntax.Tile))]
    if len(found) < 2:
        return None
    at = rng.choice(found)
    return with_line(lines, at), f"without {head_text(lines[at])}"


def insert_tile(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """Another loop of an index, in blocks of a multiple of a size that it has."""
    axes = [a for x in lines if isinstance(x, syntax.Tile) for a in x.axes if isinstance(a.size, syntax.Num)]
    if not axes:
        return None
    axis = rng.choice(axes)
    assert isinstance(axis.size, syntax.Num)
    size = int(axis.size.value) * rng.choice((1, 2, 4, 8))
    line = syntax.Tile((syntax.TileAxis(axis.index, syntax.Num(size)),))
    return _inserted(lines, line, rng)


def insert_move(lines: Lines, space: MutationSpace, rng: Random) -> Change | None:
    """A copy of an input, below some tile."""
    if not space.tensors or not space.memories:
        return None
    return _inserted(lines, syntax.Move(rng.choice(space.tensors), rng.choice(space.memories)), rng)


def _tile_of_several(lines: Lines, rng: Random) -> tuple[int, syntax.Tile] | None:
    """A tile of several axes, and its place."""
    found = [(n, x) for n, x in enumerate(lines) if isinstance(x, syntax.Tile) and len(x.axes) > 1]
    return rng.choice(found) if found else None


def _inserted(lines: Lines, line: syntax.Line, rng: Random) -> Change:
    at = rng.randrange(1, len(lines)) if len(lines) > 1 else 0
    return (*lines[:at], line, *lines[at:]), f"{head_text(line)} above {head_text(lines[at])}"
