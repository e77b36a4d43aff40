"""`tile`: loops (`loops`), or the digits of unit numbers (`onto_units`).

FISSION      works that need a whole result of an earlier work under a tile get nests of their own, one after another.
MADE_BELOW   so do works that do not share the tile's indices; but what is kept below the tile is made there, for each tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.errors.schedule import CannotMeet
from ...dsl.frozen import replace
from ...dsl.values import loads
from ..tile import Stmt
from .access import zero_is_neutral
from .axes import Axis, axes_of, clamped, modifier
from .leaf import cell_indices
from .loops import loop_tiles
from .onto_units import onto_units
from .spec import Focus
from .split import splits
from .staging import depth_of, moves_below, written_out
from .units import advance
from .work import Work, plain_index

if TYPE_CHECKING:
    from .recursion import Lowering


def lower_tile(low: Lowering, focus: Focus, line: syntax.Tile, rest: tuple) -> list[Stmt]:
    ctx = low.ctx
    mine = [a for a in axes_of(line) if a.index in focus.ranges]
    below = held_in(rest)
    parts = groups(focus.works, tuple(a.index for a in mine), below)
    if len(parts) > 1:
        _must_meet(low, focus, parts, (line, *rest))
        return [s for g in parts for s in low.lower(replace(focus, works=g), (line, *rest))]
    if not splits(ctx.device, line):
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
    ahead = any(depth_of(x, depth_of(line, 1)) > 1 for x in moves_below(rest))

    def nest(f: Focus, a: Axis, inside: Callable[[Focus], list[Stmt]]) -> list[Stmt]:
        filled = all(
            zero_is_neutral(w.value, (a.index,), f) for w in f.works if w.reduction is not None and a.index in w.reduced
        )
        cell = a.index in cells or written_out(low, line, rest, f.ranges[a.index], a.size, filled)
        return loop_tiles(ctx, f, a, cell, unroll, inside, line, ahead)

    return _nested(focus, todo, nest, lambda f: low.lower(f, rest))


def _nested(
    focus: Focus, axes: list[Axis], nest: Callable[..., list[Stmt]], inmost: Callable[[Focus], list[Stmt]]
) -> list[Stmt]:
    """One loop in the other, the first axis outermost."""
    if not axes:
        return inmost(focus)
    return nest(focus, axes[0], lambda f: _nested(f, axes[1:], nest, inmost))


def held_in(lines: Iterable[syntax.Line]) -> frozenset[str]:
    """The tensors that lines keep or move."""
    held: set[str] = set()
    for x in lines:
        held |= {*x.tensors} if isinstance(x, syntax.Keep) else {x.tensor} if isinstance(x, syntax.Move) else set()
    return frozenset(held)


def _must_meet(low: Lowering, focus: Focus, parts: list[tuple[Work, ...]], lines: tuple) -> None:
    """Refuses nests one after another (FISSION) on units of which none waits for another, where the later one needs it."""
    pairs = [(v, w) for n, later in enumerate(parts) for earlier in parts[:n] for v in earlier for w in later]
    for x in lines:
        if not isinstance(x, syntax.Tile) or x.level is None or low.ctx.device.level(x.level).siblings != "nothing":
            continue
        for a in axes_of(x):
            capacity = focus.ranges[a.index].capacity if a.index in focus.ranges else 1
            if capacity is not None and capacity <= a.size:
                continue  # one tile: one unit
            for v, w in pairs:
                if _needs_more(v, w, a.index):
                    first, then = v.name.rstrip("@"), w.name.rstrip("@")
                    raise CannotMeet(
                        f"`{then}` needs what every {x.level} makes of `{first}`, and none waits for another",
                        x.span,
                        help=f"leave the `keep` that holds them in one launch out, or do all of it in one {x.level}",
                    )


def groups(works: tuple[Work, ...], indices: tuple[str, ...], below: frozenset[str] = frozenset()) -> list[tuple[Work, ...]]:
    """Consecutive works that may share the loops of these indices (FISSION). `below`: what lines below keep (MADE_BELOW)."""
    out: list[list[Work]] = []
    for w in works:
        if out and all(_together(v, w, indices, below) for v in out[-1]):
            out[-1].append(w)
        else:
            out.append([w])
    return [tuple(g) for g in out]


def _together(first: Work, second: Work, indices: tuple[str, ...], below: frozenset[str]) -> bool:
    def again(w: Work) -> bool:
        return w.reduction is None and not below.isdisjoint(w.targets)

    def fits(i: str) -> bool:
        having = (i in first.all_indices, i in second.all_indices)
        return having[0] == having[1] or (again(first) and (again(second) or not having[0]))

    alike = all(map(fits, indices))
    return alike and not any(_needs_more(first, second, i) for i in indices)


def _needs_more(first: Work, second: Work, i: str) -> bool:
    """Whether one tile of `i` in the second work reads what more than that tile makes in the first."""
    for v in [second.value, *(o.value for o in second.outputs)]:
        for ld in loads(v):
            if ld.tensor not in first.targets:
                continue
            if i in first.reduced:
                return True
            at = next((o.indices for o in first.outputs if o.tensor == ld.tensor), first.subscripts or first.indices)
            here = zip(at, ld.indices, strict=True)  # components of fused indices by their own names
            if any(first.alias.get(c, c) == i and plain_index(e) != c for c, e in here):
                return True
    return False
