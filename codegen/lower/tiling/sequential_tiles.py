"""`tile` without a level: loops.

AT_LEAST_ONCE   a reduction loop above its accumulator runs at least once, or an empty reduction would never be stored.
TO_THE_END      a loop over a staged tile runs to the tile's end if the elements beyond the live ones add nothing
                (`padded_trip_counts`).
SAME_TURNS      around partial results that units combine, all units have the same trip count, also those with less to do: they
                wait for each other in the loop.
REMAINDERS      `peel` copies all code below it, and a remainder is a small part of the work. Within the remainder of a
                remainder edges are guarded, so the number of copies grows with the square of the lines, not exponentially.
"""

from __future__ import annotations

from ....dsl.errors.schedule import UnboundedTile
from ....dsl.index.expr import Expr, as_expr, ceildiv, maximum, minimum
from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Axis, Tile, Unroll
from ...ir.tile_ir import For, Stmt
from ...schedule.synthetic_spans import is_filled_in
from ..lowering_context import LoweringContext
from ..spec import ONE, ZERO, Focus, RangeStep, clamped, or_state_bound
from .domain_bounds import UNBOUNDED, Bounds
from .padded_trip_counts import may_run_padded

REMAINDERS = 2  # remainders: one within the other that are peeled, because each copies everything below it [limit]
FEW = 64  # iterations: of a loop that is unrolled as a whole though their number is open, for the length of the text [limit]
# iterations: unrolled at a time where there may be more [estimate; test_some_iterations_of_an_open_number_are_unrolled]
SOME = 8


def sequential_tiles(
    ctx: LoweringContext,
    focus: Focus,
    a: Axis,
    cell: bool,
    unroll: Unroll | None,
    inner,
    tile: Tile,
    ahead: bool = False,
    bounds: Bounds = UNBOUNDED,
) -> list[Stmt]:
    """`ahead`: copies run ahead over the loop, so it stays one. `bounds`: of the elements that take part."""
    r = focus.ranges[a.index]
    if r.strided_runs:
        rep = r.strided_runs[0]
        var = ctx.var(f"{a.index}_run", as_expr(rep.count))
        opened = focus.with_range(a.index, r.open_strided_run(RangeStep(as_expr(var), as_expr(rep.count), None)))
        if any(a.index in w.reduced and w.name not in focus.open_accumulators for w in focus.computations):
            opened = replace(opened, loops=(*focus.loops, (a.index, var, as_expr(rep.count))))
        body = sequential_tiles(ctx, opened, a, cell, unroll, inner, tile, ahead)
        return [For(var, ZERO, as_expr(rep.count), ONE, tuple(body), unroll=0, span=tile.span)]
    size = clamped(r, a.size)
    if a.every is not None:
        raise UnboundedTile(
            "`every` distributes chunks over units; this tile has no `-> level`", tile.span, help="add `-> thread`, say"
        )
    reducing = any(a.index in w.reduced and w.name not in focus.open_accumulators for w in focus.computations)
    same = tile.equal_trips and r.capacity is not None and bool(r.bounds)
    whole = not cell and not tile.peel and (same or may_run_padded(focus, a.index))
    if cell:
        if r.capacity is None:
            raise UnboundedTile(
                f"a tile held in registers spans `{a.index}`, whose extent has no bound here",
                tile.span,
                help=f"tile `{a.index}` above the `keep` or `move`{or_state_bound(r.size)}",
            )
        trips, hint = r.whole_trips(size), 0
    else:
        trips = r.whole_trips(size) if whole else r.trips(size)
        if reducing:
            trips = maximum(trips, 1)
        hint = 1 if unroll is None else unroll_count(unroll.count or 0, trips)
    live = not cell and not whole and not reducing
    if trips.constant == 1:
        f = focus.with_range(a.index, r.split(size, RangeStep(ZERO, ONE, None), live=live))
        return inner(f.enter_loop(a.index, None, tile))
    _note_idle(ctx, tile, a.index, cell, reducing and r.live.constant is None)
    peels = tile.peel and focus.remainders < REMAINDERS
    if peels and not cell and not reducing and r.live.constant is None:
        return _peeled(ctx, focus, a, size, hint, trips, inner, tile)
    grouped = 1 < hint < (trips.constant or 0) and trips.is_multiple_of(hint)
    if whole and r.bounds and grouped and not reducing and not ahead:
        return _in_groups(ctx, focus, a, size, hint, trips, inner, tile)
    var = ctx.var(a.index, trips)
    # AT_LEAST_ONCE: the extra turn of an empty reduction is not inside the live extent
    f = focus.with_range(a.index, r.split(size, RangeStep(as_expr(var), trips, None), live=live))
    f = f.enter_loop(a.index, var, tile)
    if reducing:
        f = replace(f, loops=(*f.loops, (a.index, var, trips)))
    start, stop = (ZERO, trips) if cell or reducing else bounds.tiles(size, trips)
    return [For(var, start, stop, ONE, tuple(inner(f)), unroll=hint, span=tile.span)]


def _note_idle(ctx: LoweringContext, tile: Tile, index: str, cell: bool, reducing: bool) -> None:
    """A note where the author says how a loop runs that cannot run so."""
    if is_filled_in(tile.span):
        return
    counted = tile.unroll is not None and tile.unroll.count is not None
    if cell and (tile.peel or counted):
        word = "peel" if tile.peel else "unroll"
        ctx.note(f"`{word}` of the tiles of `{index}`: the loop over what registers hold is unrolled completely")
    elif reducing and tile.peel:
        ctx.note(f"`peel` of the tiles of `{index}`: each iteration goes on from the sum of the one before, the last one too")


def unroll_count(count: int, trips: Expr) -> int:
    """How many iterations are unrolled where a line asks for `count`, or for all of them (0): if the text cannot tell how many
    they are, as many as there may be, or some."""
    most = trips.interval[1]
    if count or trips.constant is not None:
        return count
    return most if most is not None and most <= FEW else SOME


def _in_groups(ctx: LoweringContext, focus: Focus, a: Axis, size: int, hint: int, trips: Expr, inner, tile: Tile) -> list[Stmt]:
    """`unroll COUNT`: groups of so many turns, of which the last one goes past what is live, and no turn is left over."""
    r = focus.ranges[a.index]
    groups = minimum(ceildiv(trips, hint), *(ceildiv(b, size * hint) for b in r.bounds))
    group, var = ctx.var(a.index, groups), ctx.var(a.index, as_expr(hint))
    part = r.split(size, RangeStep(group * hint + as_expr(var), trips, None))
    body = inner(focus.with_range(a.index, part).enter_loop(a.index, var, tile))
    turns = For(var, ZERO, as_expr(hint), ONE, tuple(body), unroll=0, span=tile.span)
    return [For(group, ZERO, groups, ONE, (turns,), span=tile.span)]


def _peeled(ctx: LoweringContext, focus: Focus, a: Axis, size: int, hint: int, trips: Expr, inner, tile: Tile) -> list[Stmt]:
    """`peel`: the whole tiles in a loop without guards, then what is left over."""
    r = focus.ranges[a.index]
    full = maximum(r.live, 0) // size  # units whose range begins past the end have none
    out: list[Stmt] = []
    for start, stop, whole in ((ZERO, full, True), (full, trips, False)):
        var = ctx.var(a.index, trips)
        part = r.split(size, RangeStep(as_expr(var), trips, None), live=True)
        part = replace(part, bounds=()) if whole else part
        f = focus if whole else replace(focus, remainders=focus.remainders + 1)
        body = inner(f.with_range(a.index, part).enter_loop(a.index, var, tile))
        out.append(For(var, start, stop, ONE, tuple(body), unroll=hint if whole else 1, span=tile.span))
    return out
