"""The ranges of indices along a tree, before anything is lowered: tiles are counted by what there can be at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Fuse, Node, Tile
from ..spec import ONE, ZERO, Range, RangeStep, clamped


def advance(r: Range, size: int, every: int | None) -> Range:
    """The range after a tile, for counting only (the tile's number is taken as 0)."""
    if r.strided_runs:  # a loop visits the chunks one after another, and a tile is no larger than one of them
        r = replace(r, strided_runs=())
        size = clamped(r, size)
    if every is not None and r.capacity is not None:
        return r.split_strided(size, every, RangeStep(ZERO, ONE, None))
    return r.split(size, RangeStep(ZERO, ONE, None))


def ranges_along(ranges: Mapping[str, Range], node: Node) -> Iterator[tuple[Node, Mapping[str, Range]]]:
    """The node and each below it, with the ranges that it finds. Those of the first are `ranges`."""
    now = dict(ranges)
    for x in node.path():
        yield x, now
        match x:
            case Fuse():
                size = ONE
                for i in x.indices:
                    size = size * now[i].size if i in now else size
                now = {**now, x.name: Range(ZERO, size)}
            case Tile():
                mine = [(a, now[a.index]) for a in x.axes if a.index in now]
                now = now | {a.index: advance(r, clamped(r, a.size), a.every) for a, r in mine}
