"""`tile`: loops (`loops`), or the digits of unit numbers (`onto_units`).

FISSION   works that need a whole result of an earlier work under a tile get nests of their own, one after another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.values import loads
from ..tile import Stmt
from .access import zero_is_neutral
from .axes import Axis, axes_of, clamped, modifier
from .leaf import cell_indices
from .loops import loop_tiles
from .onto_units import onto_units
from .spec import Focus
from .split import splits
from .staging import written_out
from .units import advance
from .work import Work, plain_index

if TYPE_CHECKING:
    from .recursion import Lowering


def lower_tile(low: Lowering, focus: Focus, line: syntax.Tile, rest: tuple) -> list[Stmt]:
    ctx = low.ctx
    mine = [a for a in axes_of(line) if a.index in focus.ranges]
    parts = groups(focus.works, tuple(a.index for a in mine))
    if len(parts) > 1:
        return [s for g in parts for s in low.lower(replace(focus, works=g), (line, *rest))]
    if not splits(ctx, line):
        opened = low.open_accumulators(focus, {a.index for a in mine}, (line, *rest))
        if opened is not None:
            return opened
    if line.level is not None:
        return onto_units(low, focus, line, mine, rest)
    needed = {i for w in focus.works for i in w.all_indices}
    todo = [a for a in mine if a.index in needed]
    for a in mine:
        if a.index not in needed:  # nothing to visit, but lines below count what is left of it
            r = focus.ranges[a.index]
            focus = focus.with_range(a.index, advance(r, clamped(r, a.size), a.every))
    cells = {i for w in focus.works for i in cell_indices(focus, w)}
    unroll = modifier(line, "unroll")

    def go(f: Focus, axes: list[Axis]) -> list[Stmt]:
        if not axes:
            return low.lower(f, rest)
        a = axes[0]
        filled = all(
            zero_is_neutral(w.value, (a.index,), f) for w in f.works if w.reduction is not None and a.index in w.reduced
        )
        cell = a.index in cells or written_out(low, line, rest, f.ranges[a.index], a.size, filled)
        return loop_tiles(ctx, f, a, cell, unroll, lambda g: go(g, axes[1:]), line)

    return go(focus, todo)


def groups(works: tuple[Work, ...], indices: tuple[str, ...]) -> list[tuple[Work, ...]]:
    """Consecutive works that may share the loops of these indices (FISSION)."""
    out: list[list[Work]] = []
    for w in works:
        if out and all(_together(v, w, indices) for v in out[-1]):
            out[-1].append(w)
        else:
            out.append([w])
    return [tuple(g) for g in out]


def _together(first: Work, second: Work, indices: tuple[str, ...]) -> bool:
    for i in indices:
        if (i in first.all_indices) != (i in second.all_indices):
            return False
        for t in first.targets:
            for v in [second.value, *(o.value for o in second.outputs)]:
                for ld in loads(v):
                    if ld.tensor != t:
                        continue
                    if i in first.reduced:
                        return False
                    if i in first.indices and plain_index(ld.indices[first.indices.index(i)]) != i:
                        return False
    return True
