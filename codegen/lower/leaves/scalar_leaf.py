"""The scalar leaf: the statement for one element, and the loops that remain around it.

CAPACITY_NOT_LIVE   a loop over an index of registers runs to its capacity and is unrolled; others run to the live extent.
OWNER_WRITES        initialisation, body and write-back of a register tile use the same distribution: each element has one
                    owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....dsl.errors.schedule import RegisterMismatch, UnboundedTile
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Tile
from ...ir.tile_ir import For, Stmt
from ...plan.computations import Computation
from ..lowering_context import LoweringContext
from ..reductions.accumulator_computations import CombineInTurn, CombinePartials, InitAccumulator
from ..reductions.reduce_element import accumulate_element, combine_element, combine_in_turn, fill_element
from ..spec import ONE, ZERO, Focus, RangeStep, UnitDigit, or_state_bound
from ..stores.predicated_store import store_element
from ..tiling.domain_bounds import domain_bounds
from ..tiling.padded_trip_counts import may_run_padded
from ..tiling.sequential_tiles import unroll_count
from .fragment_fit import parts_over_lanes
from .match_instr import FragmentMap

Inner = Callable[[Focus], list[Stmt]]


def cell_indices(focus: Focus, computation: Computation) -> set[str]:
    """Indices that number registers of a tile this work touches."""
    names = {computation.name, *computation.reads, *computation.targets}
    return {i for t in names if t in focus.views and focus.views[t].form == "path" for i in focus.views[t].axes}


def open_index(
    ctx: LoweringContext, focus: Focus, index: str, size: int, cell: bool, inner: Inner, unroll: int = 1
) -> list[Stmt]:
    """Loops over tiles of `size` of one index (pending repetitions first), and `inner` for each."""
    r = focus.ranges[index]
    if r.strided_runs:
        rep = r.strided_runs[0]
        var = ctx.var(f"{index}_run", as_expr(rep.count))
        step = RangeStep(as_expr(var), as_expr(rep.count), None)
        opened = focus.with_range(index, r.open_strided_run(step))
        body = open_index(ctx, opened, index, size, cell, inner, unroll)
        return [For(var, ZERO, as_expr(rep.count), ONE, tuple(body), unroll=0)]
    whole = not cell and may_run_padded(focus, index)
    if cell:
        if r.capacity is None:
            message = f"a tile held in registers spans `{index}`, whose extent has no bound here"
            raise UnboundedTile(message, help=f"tile `{index}` above this line{or_state_bound(r.size)}")
        unroll = 0
    trips = r.whole_trips(size) if cell or whole else r.trips(size)
    live = not cell and not whole
    if trips.constant == 1 or (r.capacity is not None and r.capacity <= size):
        # one tile at most: what may be missing of it is guarded, not looped over
        return inner(focus.with_range(index, r.split(size, RangeStep(ZERO, ONE, None), live=live and trips.constant == 1)))
    var = ctx.var(index, trips)
    step = RangeStep(as_expr(var), trips, None)
    body = inner(focus.with_range(index, r.split(size, step, live=live)))
    start, stop = (ZERO, trips) if cell else domain_bounds(ctx, focus, index).tiles(size, trips)
    return [For(var, start, stop, ONE, tuple(body), unroll=unroll_count(unroll, trips))]


def element_loops(
    ctx: LoweringContext,
    focus: Focus,
    indices: list[str],
    cells: set[str],
    inner: Inner,
    unroll: Mapping[str, int],
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> list[Stmt]:
    """Loops over several indices, outermost first: over single elements, or over tiles of these sizes."""
    if not indices:
        return inner(focus)
    first, rest = indices[0], indices[1:]

    def deeper(f: Focus) -> list[Stmt]:
        return element_loops(ctx, f, rest, cells, inner, unroll, sizes)

    return open_index(ctx, focus, first, sizes.get(first, 1), first in cells, deeper, unroll.get(first, 1))


def scalar_leaf(
    ctx: LoweringContext,
    focus: Focus,
    computation: Computation,
    spread: FragmentMap | None = None,
    order: tuple[str, ...] = (),
    unroll: int = 1,
) -> list[Stmt]:
    """The scalar leaf of one computation: its remaining indices as loops, its element inside."""
    cells = cell_indices(focus, computation)
    names = computation.leaf_order(order)
    hints = dict.fromkeys(names[:1], unroll)
    if spread is None:
        return element_loops(ctx, focus, names, cells, lambda f: lower_element(ctx, f, computation), hints)
    sizes = {i: n[0] for i in names if (n := spread.of(i)) is not None}
    mine, others = list(sizes), [i for i in names if i not in sizes]

    def fragments(f: Focus) -> list[Stmt]:
        return _registers(ctx, f, spread, mine, lambda g: lower_element(ctx, g, computation), computation)

    def tiles(f: Focus) -> list[Stmt]:
        return element_loops(ctx, f, mine, set(mine), fragments, {}, sizes)

    return element_loops(ctx, focus, others, cells, tiles, hints)


def _registers(
    ctx: LoweringContext,
    focus: Focus,
    spread: FragmentMap,
    mine: list[str],
    inner: Inner,
    computation: Computation | None = None,
) -> list[Stmt]:
    """Every register of the fragment, with the lane's number as it is. `computation`: what a whole fragment is visited for."""
    lane, _ = ctx.number(lanes_below(ctx, focus.level, spread.lanes))
    count = spread.registers
    var = ctx.var("r", as_expr(count)) if spread.r is not None else None
    subs: dict[Var, Expr] = {}
    if spread.lane is not None:
        subs[spread.lane] = lane
    if var is not None and spread.r is not None:
        subs[spread.r] = as_expr(var) if count > 1 else ZERO
    f = focus
    for i in mine:
        part = spread.of(i)
        assert part is not None
        f = f.with_range(i, f.ranges[i].split(1, RangeStep(part[1].subs(subs), as_expr(part[0]), "fragment")))
    register = as_expr(var) if var is not None and count > 1 else ZERO
    f = replace(f, element=(register, count), fragment=spread, digits=_with_lanes(ctx, f, spread, mine, computation))
    body = inner(f)
    if var is None or count == 1:
        return body
    return [For(var, ZERO, as_expr(count), ONE, tuple(body), unroll=0)]


def lanes_below(ctx: LoweringContext, level: str, lanes: int) -> tuple[str, ...]:
    """The levels below `level` whose units are the lanes of a fragment: the inner ones. Units further out do the same again."""
    levels = ctx.below(level, ctx.innermost)
    count = 1
    for n in reversed(range(len(levels))):
        if count >= lanes:
            return levels[n + 1 :]
        count *= ctx.units[levels[n]].constant or 1 if levels[n] in ctx.units else 1
    return levels


def _with_lanes(ctx: LoweringContext, focus: Focus, spread: FragmentMap, mine: list[str], computation: Computation | None):
    """The lanes count as bound by the fragment: digit by digit they hold different elements (or replicas, see ONE_WRITER), or
    parts of one reduction.

    What one unit holds of itself tells none apart.
    """
    if spread.lane is None:
        return focus.digits
    levels = lanes_below(ctx, focus.level, spread.lanes)
    if not levels and spread.lanes > 1:
        raise _dealt_twice(ctx, focus)
    index = mine[0] if mine else ""
    digits = (*focus.digits, UnitDigit(index, levels, ZERO, ONE, ONE))
    if computation is None:
        return digits
    lane, dealt = ctx.number(levels)[0], [i for i in mine if i in computation.reduced]
    parts, replicas = parts_over_lanes(spread, frozenset(computation.indices))
    if not dealt or computation.name in ctx.combined_in_turn:
        parts = ()
    of = (*((dealt[0], x) for x in parts), *(("", x) for x in replicas))
    return (*digits, *(UnitDigit(i, levels, lane // s % n, as_expr(s), as_expr(n)) for i, (s, n) in of))


def _dealt_twice(ctx: LoweringContext, focus: Focus) -> RegisterMismatch:
    line = next((x for x in reversed(ctx.lines_above) if isinstance(x, Tile) and x.level == focus.level), None)
    return RegisterMismatch(
        f"an instruction says which `{focus.level}` holds what of the values that are read here, and this line another one",
        line and line.span,
        help="leave the line out: what is computed of these values lies as they do",
    )


def lower_element(ctx: LoweringContext, focus: Focus, computation: Computation) -> list[Stmt]:
    """One element of a computation, all its ranges being single."""
    if isinstance(computation, InitAccumulator):
        return fill_element(ctx, focus, computation)
    if isinstance(computation, CombineInTurn):
        return combine_in_turn(ctx, focus, computation)
    if isinstance(computation, CombinePartials):
        return combine_element(ctx, focus, computation)
    if computation.reduction is not None:
        return accumulate_element(ctx, focus, computation)
    return store_element(ctx, focus, computation)
