"""`tile`: loops (`sequential_tiles`), or the digits of unit numbers (`distribute_tiles`).

FISSION      computations that need a whole result of an earlier one under a tile get nests of their own, one after another.
SIBLINGS     reductions over the tile's index share its loop, also where the write-back of one reads the result of another: it
             comes after the loop, or in its last iteration, when the other one is finished.
MADE_BELOW   so do computations that lack the tile's indices. Exceptions: a pointwise intermediate that is kept below the tile
             is computed there, for each tile; so are the scores of a tile that carries. Units that cannot synchronise each
             compute all that is kept. Several nests each compute it for themselves, those alone that read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dsl.support.fast_replace import replace
from ...dsl.values import loads
from ..ir.schedule_tree import Axis, Tile
from ..ir.tile_ir import Stmt
from ..plan.computations import Computation
from .addressing import zero_is_neutral
from .copies.pipeline_depth import depth_of, is_unrolled, moves_below
from .intermediates.obeyed_lines import obeyed
from .intermediates.readers import is_read_elsewhere, reads_beyond_tile, stored_by_others
from .intermediates.rims import has_rim, with_rims
from .leaves.scalar_leaf import cell_indices
from .reductions.accumulator_computations import RunningUpdate
from .reductions.dependent_reductions import Dependence
from .reductions.lower_carry import lower_carry, prefixes
from .reductions.scores_in_tile import scores_below
from .reductions.split_reduction import SplitChain, are_split_alike, tile_splits_reduction
from .shared_loops.lower_online import finished_later, lower_online, online_chain, online_parts
from .shared_loops.siblings import finished_when_read, joins_earlier
from .spec import Focus, clamped
from .tiling.distribute_tiles import distribute_tiles
from .tiling.domain_bounds import UNBOUNDED, domain_bounds
from .tiling.sequential_tiles import sequential_tiles
from .tiling.tile_ranges import advance

if TYPE_CHECKING:
    from .lower_schedule import Lowering


def lower_tile(low: Lowering, focus: Focus, tile: Tile) -> list[Stmt]:
    ctx = low.ctx
    mine = [a for a in tile.axes if a.index in focus.ranges]
    below = tile.below.staged
    indices = tuple(a.index for a in mine)
    alone = tile.level is not None and ctx.device.level(tile.level).siblings == "nothing"
    scores = scores_below(low, focus, tile)

    def again(w: Computation) -> bool:
        """MADE_BELOW"""
        each = w.reduction is None or alone or has_rim(w) or w.name in scores
        return each and not below.isdisjoint(w.targets)

    def together(v: Computation, w: Computation) -> bool:
        made_below = v.reduction is None and not below.isdisjoint(v.targets)  # for each part, by the lines below
        alike = made_below or not tile_splits_reduction(ctx.device, tile) or are_split_alike(focus, v, w, mine)
        return alike and _together(v, w, indices, again, finished_when_read(low, focus, tile, v, w))

    focus = _with_rims_of_one_loop(low, focus, tile, together)
    chain = online_chain(low, focus, tile)
    if chain and tile_splits_reduction(ctx.device, tile):
        return _split_chain(low, focus, tile, mine, chain)
    if chain:
        parts = online_parts(low, focus, tile, chain)
    else:
        parts = shared_loop_groups(focus.computations, together, joins_earlier(focus, indices))
    parts = [p for p in parts if p]
    if len(parts) > 1:
        parts = _read_parts(low, focus, split_producers(low, parts, together, below), tile)
        stored_by_others(low, focus, parts, tile)
        return [s for g in parts for s in low.lower(replace(focus, computations=g), tile)]
    if chain:
        return lower_online(low, focus, tile, chain, lambda f: _tiles(low, f, tile, mine))
    if carried := prefixes(low, focus, tile):
        return lower_carry(low, focus, tile, carried, lambda f, inside: _tiles(low, f, tile, mine, inside))
    if not tile_splits_reduction(ctx.device, tile):
        opened = low.open_accumulators(focus, tile)
        if opened is not None:
            return opened
    return _tiles(low, focus, tile, mine)


def _with_rims_of_one_loop(
    low: Lowering, focus: Focus, tile: Tile, together: Callable[[Computation, Computation], bool]
) -> Focus:
    """The focus `with_rims`, where each tensor that has one, and all its readers, share the loops of the tile.

    Raises CannotMeet where a rim is made of what units store in an earlier nest that those of the tile cannot wait for."""
    rims = with_rims(low, focus, tile)
    if rims is focus:
        return focus
    groups = shared_loop_groups(rims.computations, together, joins_earlier(rims, tuple(a.index for a in tile.axes)))
    for w in rims.computations:
        here = {w, *(x for x in rims.computations if not x.reads.isdisjoint(w.targets))} if has_rim(w) else {w}
        if not any(here.issubset(g) for g in groups):
            return focus
    names = {w.name for w in rims.computations}
    stored_by_others(low, rims, [tuple(v for v in low.computations if v.name not in names), rims.computations], tile)
    return rims


def _split_chain(low: Lowering, focus: Focus, tile: Tile, mine: list[Axis], chain: tuple[Dependence, ...]) -> list[Stmt]:
    """The tiles of a pass whose parts a later launch combines, after what the pass does not have."""
    first, inside, later = online_parts(low, focus, tile, chain)
    stored_by_others(low, focus, [first, inside], tile)
    before = low.lower(replace(focus, computations=first), tile)
    low.split_chains[tile.key] = SplitChain(chain, finished_later(focus, tile, chain, later))
    return [*before, *_tiles(low, replace(focus, computations=inside), tile, mine)]


def _tiles(
    low: Lowering, focus: Focus, tile: Tile, mine: list[Axis], inside: Callable[[Focus], Focus] = lambda f: f
) -> list[Stmt]:
    """Units, or loops. `inside`: the focus of a tile in a loop."""
    ctx = low.ctx
    needed = {i for w in focus.computations for i in w.all_indices}
    todo = [a for a in mine if a.index in needed]
    for a in todo:
        obeyed(low, tile, a.index)
    if tile.level is not None:
        return distribute_tiles(low, focus, tile, mine)
    for a in mine:
        if a.index not in needed:  # nothing to visit, but lines below count what is left of it
            r = focus.ranges[a.index]
            focus = focus.with_range(a.index, advance(r, clamped(r, a.size), a.every))
    cells = {i for w in focus.computations for i in cell_indices(focus, w)}
    ahead = any(depth_of(x, depth_of(tile, 1)) > 1 for x in moves_below(tile))

    def nest(f: Focus, a: Axis, inner: Callable[[Focus], list[Stmt]]) -> list[Stmt]:
        filled = all(
            zero_is_neutral(w.value, (a.index,), f) for w in f.computations if w.reduction is not None and a.index in w.reduced
        )
        cell = a.index in cells or is_unrolled(low, tile, f.ranges[a.index], a.size, filled)
        bounds = domain_bounds(ctx, f, a.index) if _is_skippable(low, f, a.index, tile) else UNBOUNDED
        return sequential_tiles(ctx, f, a, cell, tile.unroll, inner, tile, ahead, bounds)

    return _nested(focus, todo, nest, lambda f: low.lower(inside(f), tile.below))


def _is_skippable(low: Lowering, focus: Focus, index: str, tile: Tile) -> bool:
    """Whether iterations of a loop over an index have no effect but through the reductions over it (SKIPPABLE)."""
    below = tile.below.staged

    def serves(w: Computation) -> bool:
        made_below = index in w.indices and not below.isdisjoint(w.targets)
        return made_below and not any(is_read_elsewhere(low, focus, t) for t in w.targets)

    return all(index in w.reduced or isinstance(w, RunningUpdate) or serves(w) for w in focus.computations)


def _nested(
    focus: Focus, axes: list[Axis], nest: Callable[..., list[Stmt]], inmost: Callable[[Focus], list[Stmt]]
) -> list[Stmt]:
    """One loop in the other, the first axis outermost."""
    if not axes:
        return inmost(focus)
    return nest(focus, axes[0], lambda f: _nested(f, axes[1:], nest, inmost))


def shared_loop_groups(
    computations: tuple[Computation, ...],
    together: Callable[[Computation, Computation], bool],
    may_precede: Callable[[Computation, Computation], bool],
) -> list[tuple[Computation, ...]]:
    """Computations that may share loops (FISSION): consecutive ones, and those that `may_precede` all that stands between."""
    out: list[list[Computation]] = []
    for w in computations:
        for n in reversed(range(len(out))):
            if all(together(v, w) for v in out[n]):
                out[n].append(w)
                break
            if not all(may_precede(w, v) for v in out[n]):
                out.append([w])
                break
        else:
            out.append([w])
    return [tuple(g) for g in out]


def split_producers(
    low: Lowering,
    parts: list[tuple[Computation, ...]],
    together: Callable[[Computation, Computation], bool],
    below: frozenset[str],
) -> list[tuple[Computation, ...]]:
    """The parts, where each that reads what is made below the tile (MADE_BELOW) makes it for itself, if it can."""
    outputs = {b.name for b in low.ctx.buffers if b.kind == "output"}
    made = [w for part in parts for w in part if not below.isdisjoint(w.targets) and outputs.isdisjoint(w.targets)]
    out: list[tuple[Computation, ...]] = []
    for part in parts:
        here = list(part)
        for v in reversed(made):  # what they read of each other is made before it
            readers = {w.name for w in here if not w.reads.isdisjoint(v.targets)}
            if not readers or v in part:
                continue
            joins = all(together(v, w) for w in here)
            if joins:
                here = [v, *here]
                low.read_again |= v.reads
            for t in v.targets:
                served = low.served.setdefault(t, set())
                low.served[t] = served | readers if joins else served - readers
        out.append(tuple(here))
    return out


def _read_parts(low: Lowering, focus: Focus, parts: list[tuple[Computation, ...]], tile: Tile) -> list[tuple[Computation, ...]]:
    """The parts, without what is made below the tile and only read in others, which make it for themselves (MADE_BELOW)."""
    below, out = tile.below.staged, []
    for part in parts:
        here = list(part)
        for v in (v for v in reversed(part) if v.reduction is None and not below.isdisjoint(v.targets)):
            rest = replace(focus, computations=tuple(w for w in here if w is not v))
            elsewhere = (is_read_elsewhere(low, rest, t) or low.read_afterwards(rest, t, tile.below) for t in v.targets)
            if all(w.reads.isdisjoint(v.targets) for w in rest.computations) and not any(elsewhere):
                here.remove(v)
        out.append(tuple(here))
    return [part for part in out if part]


def _together(
    first: Computation,
    second: Computation,
    indices: tuple[str, ...],
    again: Callable[[Computation], bool],
    finished: frozenset[str],
) -> bool:
    """Whether an earlier and a later work may share the loops of these indices.

    again     whether each of several tiles makes it for itself (MADE_BELOW)
    finished  indices over which the first is finished where the write-back of the second reads it (SIBLINGS)
    """

    def fits(i: str) -> bool:
        having = (i in first.all_indices, i in second.all_indices)
        return having[0] == having[1] or again(second if having[0] else first)  # the one without it is made in each tile

    # The accumulator of the second opens above these tiles: what its write-back reads is there no more if made below them.
    at_the_end = any(ld.tensor in first.targets for o in second.outputs for ld in loads(o.value))
    if at_the_end and not set(second.reduced).isdisjoint(indices) and set(first.all_indices).isdisjoint(indices):
        return False
    body = replace(second, outputs=())
    return all(map(fits, indices)) and not any(reads_beyond_tile(first, body if i in finished else second, i) for i in indices)
