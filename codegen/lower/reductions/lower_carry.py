"""`tile i: 64 carry`: prefix reductions go on from one tile of rows to the next, so each term is added once or twice, not for
each row.

P[i] = sum(j where j <= i) X[j]      -->      carried = 0
                                              for each tile of i, in order
                                                before = carried
                                                P[i] = before + (sum(j in the tile where j <= i) X[j])
                                                carried = before + (sum(j in the tile) X[j])

IN_ORDER      the loop over tiles is one unit's, and has all rows: a tile goes on from what those before it have added.
OWN_TERMS     in the loop, the range of the reduced index is what the tile adds (`prefixes`, NEW_TERMS). So all computations
              in the loop that have the index are such reductions, with one shift, or what they read of each tile.
OF_ITS_ROW    where terms depend on the row (`decays`), the total is that of the last row of the tile, and what is before a tile
              is multiplied by the correction from there. So all values are those that the op has for some row.
ALL_HAVE_IT   the total is a reduction of its own over the same terms, without rows. Units that have rows of a tile each compute
              it, or have parts of it and combine these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ....dsl.errors.online import CarryMismatch
from ....dsl.errors.schedule import NotYet, UnboundedTile
from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Fuse, Tile, fragment_of
from ...ir.tile_ir import Stmt
from ...ir.tile_visitors import with_buffers
from ...plan.computations import Computation
from ...plan.derived_names import buffer_name, tensor_of
from ...schedule.build_tree import modifier_span
from ..leaves.instr_leaf import register_buffer
from ..leaves.owner_tree import owner_tree
from ..other_launches import in_other_launches
from ..spec import ONE, ZERO, Focus, Range, RangeStep, View, clamped
from ..tiling.prefixes import APART, Prefix, new_terms, prefix_along, prefix_of
from .carried_totals import carried_computations, rows_around, shown_corrections
from .open_accumulators import accumulates_at_leaf
from .scores_in_tile import scores_of, with_scores
from .split_reduction import tile_splits_reduction

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def prefixes(low: Lowering, focus: Focus, tile: Tile) -> list[Prefix]:
    """The reductions in focus that go on from tile to tile; none where it is a tile like others."""
    if not tile.carry or not tile.axes or tile.axes[0].index not in focus.ranges:
        return []
    (axis,) = tile.axes
    span = modifier_span(tile, "carry")
    found: list[Prefix] = []
    for w in focus.computations:
        scores = scores_of(low, focus, tile, w)
        p = prefix_of(w, axis.index, span, with_scores(w, scores) if scores else w)
        found += [] if p is None else [p]
    if not found:
        return []
    low.ctx.carrying.add(tile.key)
    _check_in_order(focus, tile, found)
    _check_own_terms(low, focus, tile, found)
    _check_places(low, focus, tile, found)
    rows = focus.ranges[axis.index]
    one = rows.trips(clamped(rows, axis.size)).constant
    return [] if one is not None and one <= 1 else found


def lower_carry(
    low: Lowering,
    focus: Focus,
    tile: Tile,
    found: list[Prefix],
    loops: Callable[[Focus, Callable[[Focus], Focus]], list[Stmt]],
) -> list[Stmt]:
    """The nest of a tile. `loops`: its loop, for the computations of a focus, as another function changes it for each tile."""
    ctx, row = low.ctx, tile.axes[0].index
    carried = {p.computation.name: carried_computations(ctx, p, row) for p in found}
    ctx.trace.in_loop(tile, shown_corrections(found, row))
    held = {name: (ctx.fresh(buffer_name(name)), indices) for c in carried.values() for name, indices in c.held}
    across = {name for name, (_, indices) in held.items() if row not in indices}

    def with_registers(f: Focus, names: Collection[str]) -> Focus:
        for name in names:
            buffer, indices = held[name]
            depth = tuple(len(f.ranges[i].steps) for i in indices)
            f = f.with_view(name, View(buffer, "path", indices, depth=depth, zero_padded=False))
        return f

    inner = with_registers(focus, across)
    computations: list[Computation] = []
    for c in carried.values():
        computations += [c.before] if c.earlier is None else [c.before, c.earlier]
    for w in focus.computations:
        computations += [carried[w.name].rows, carried[w.name].total] if w.name in carried else [w]
    known = low.computations
    low.computations = (*known, *(w for c in carried.values() for w in (c.earlier, c.total) if w is not None))

    whole = focus.ranges[row]

    def inside(f: Focus) -> Focus:
        changed = {p.index: new_terms(f.ranges[row], focus.ranges[p.index], p.shift) for p in found}
        if any(p.decay is not None for p in found):
            changed |= rows_around(f.ranges[row], whole.size, row)
        loops = tuple(replace(t, also=tuple(changed)) if t.tile is tile else t for t in f.tile_loops)
        f = replace(f, ranges={**f.ranges, **changed}, tile_loops=loops)
        return with_registers(f, held.keys() - across)

    first = whole.split(clamped(whole, tile.axes[0].size), RangeStep(ZERO, ONE, None))
    # The lines below are those of a tile. Units are counted by its capacity, as in the loop.
    before = inside(inner.with_range(row, replace(first, bounds=())))
    starts = [low.lower(replace(before, computations=(c.start,)), tile.below) for c in carried.values()]
    body = loops(replace(inner, computations=tuple(computations)), inside)
    low.computations = known
    memory = ctx.device.memories[-1].name
    made = [register_buffer(ctx, buffer, ctx.dtypes[name], memory, tile.span) for name, (buffer, _) in held.items()]
    return [*with_buffers(made, (*(s for start in starts for s in start), *body), tile.span)]


# ---------------------------------------------------------------- refusals


def check_carry_tile(low: Lowering, tile: Tile) -> None:
    """Raises CarryMismatch for a line whose word changes nothing."""
    if tile.carry and tile.key not in low.ctx.carrying:
        index, size = tile.axes[0].index, tile.axes[0].size
        span, outer = modifier_span(tile, "carry"), low.ctx.device.memories[0].name
        if not any(index in w.all_indices for w in low.computations):
            raise CarryMismatch(
                f"no result of this launch has `{index}`, and lines without a block are for one launch",
                span,
                help=f"write the line in the block of a line `keep NAME in {outer}:`, where NAME is the tensor that it is for",
            )
        for w in low.computations:
            found = prefix_along(w)
            if found is not None and found[0] != index:
                raise CarryMismatch(
                    f"`{w.result}` has more terms the larger `{found[0]}` is, and this line tiles `{index}`",
                    span,
                    help=f"`tile {found[0]}: {size} carry`",
                )
        for w in in_other_launches(low.ctx, low.computations):
            if w.reduction is not None and index in w.indices and any(v.name == index for c in w.domain for v in c.variables()):
                mine, memory = low.computations[-1].result, low.ctx.device.memories[-1].name
                raise CarryMismatch(
                    f"these lines are for the launch that computes `{mine}`: `{w.result}`, which has more terms the larger"
                    f" `{index}` is, has a launch of its own",
                    span,
                    help=f"with `keep {w.result} in {memory}` below, the lines are for `{w.result}`",
                )
        term = "j" if index != "j" else "t"
        raise CarryMismatch(
            f"in this launch no reduction has more terms the larger `{index}` is",
            span,
            help=f"{APART}, or say which terms there are: `sum({term} where {term} <= {index})`",
        )


def _is_whole(r: Range) -> bool:
    return r.base == ZERO and not (r.steps or r.bounds or r.strided_runs)


def _check_in_order(focus: Focus, tile: Tile, found: list[Prefix]) -> None:
    """IN_ORDER. Raises NotYet, and CarryMismatch."""
    for i in (tile.axes[0].index, *(p.index for p in found)):
        if not _is_whole(focus.ranges[i]):
            raise NotYet(
                f"a tile that carries has all of `{tile.axes[0].index}` and `{found[0].index}`, and a line above tiles `{i}`",
                modifier_span(tile, "carry"),
                help=f"write `carry` on the first tile of `{tile.axes[0].index}`, above those of `{found[0].index}`",
            )
    for w in (p.computation for p in found):
        if w.name in focus.open_accumulators:
            raise CarryMismatch(
                f"`{w.result}` is kept above: all its rows are open around the loop, and a tile has rows of its own",
                modifier_span(tile, "carry"),
                help=f"write the line that keeps `{w.result}` below this one",
            )


def _check_own_terms(low: Lowering, focus: Focus, tile: Tile, found: list[Prefix]) -> None:
    """OWN_TERMS. Raises NotYet."""
    below, names = tile.below.staged, {p.computation.name for p in found}
    for p in found:
        scores = {w.name for w in scores_of(low, focus, tile, p.computation)}
        for w in focus.computations:
            made_below = w.reduction is None and p.index in w.indices and not below.isdisjoint(w.targets)
            made_below |= w.name in scores
            if w.name not in names and p.index in w.all_indices and not made_below:
                raise NotYet(
                    f"`{w.result}` shares the loop of `{p.computation.result}`, and goes over all of `{p.index}`",
                    modifier_span(tile, "carry"),
                    help=f"keep `{p.computation.result}` in a launch of its own, or {APART}",
                )
        other = next((q for q in found if q.index == p.index and q.shift != p.shift), None)
        if other is not None:
            raise NotYet(
                f"`{p.computation.result}` and `{other.computation.result}` have other terms of `{p.index}` in the same tile",
                modifier_span(tile, "carry"),
                help=f"keep one of them in a launch of its own, or {APART}",
            )


def _check_places(low: Lowering, focus: Focus, tile: Tile, found: list[Prefix]) -> None:
    """What is read has places by number, and totals are in registers that are known. Raises NotYet, and UnboundedTile."""
    ctx = low.ctx
    for p in found:
        w = p.computation
        held = next((t for t in sorted(w.reads) if focus.views[t].form == "path" and p.index in focus.views[t].axes), None)
        if held is not None:
            raise NotYet(
                f"`{tensor_of(held)}` is in registers, and each tile reads other elements of it",
                modifier_span(tile, "carry"),
                help=f"hold `{tensor_of(held)}` below this line, or in a memory that units share",
            )
        for x in tile.below.path():
            if isinstance(x, Fuse) and p.index in x.indices:
                raise NotYet(f"`{p.index}` is fused below a tile that carries", x.span, help=f"{APART}, or this line")
            if isinstance(x, Tile) and tile_splits_reduction(ctx.device, x) and any(a.index == p.index for a in x.axes):
                raise NotYet(
                    f"units of `{x.level}` have parts of `{w.result}` that a later launch combines, and the next tile goes on"
                    " from them",
                    x.span,
                    help=f"{APART}, or this line",
                )
        if fragment_of(owner_tree(low, tile.below, w)) is not None:
            raise NotYet(
                f"`{w.result}` lies in registers as an instruction has it, and its total cannot yet",
                modifier_span(tile, "carry"),
                help=APART,
            )
        state = p.decay.state if p.decay is not None else ()
        rows = replace(w, indices=(*(i for i in w.indices if i != tile.axes[0].index), *state))
        if accumulates_at_leaf(ctx, focus, rows, tile):
            raise UnboundedTile(
                f"a total of `{w.result}` for each of {' and '.join(f'`{i}`' for i in rows.indices)} goes on from tile to tile,"
                " and their number is not known, or more than registers hold",
                modifier_span(tile, "carry"),
                help=f"tile {' and '.join(f'`{i}`' for i in rows.indices)} above",
            )
