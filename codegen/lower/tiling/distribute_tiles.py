"""`tile ... -> level`: the digits of unit numbers.

UNITS_OF_LEVEL   open levels have as many units as there are tiles, shaped ones as many as the main nest needs (`count_units`);
                 other nests loop or idle. Tiles are distributed cyclically over the units of finite levels.
EACH_HAS_ONE     a tile that registers hold is made by the lines of a block, and read by lines that may use more units. Those
                 that would idle in the block make a tile again, by the same digits: so a digit says what a unit has. What
                 the lines store besides, to a memory that units share, those store that have the tile first.
SLICES           `within`: neighbouring tiles go to units of one slice. All digits are those of the unit's place in that order,
                 so the first line onto a level says it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ....dsl.errors.schedule import MisplacedModifier, RegisterMismatch, SplitReduction, TooManyUnits, UnboundedTile
from ....dsl.index.expr import Expr, Var, as_expr, maximum, minimum
from ....dsl.support.fast_replace import replace
from ...algebra.slice_order import slice_order
from ...ir.limits import INT_END
from ...ir.schedule_tree import Axis, Fuse, Node, Tile, Unroll
from ...ir.tile_ir import For, If, Let, Stmt
from ...plan.derived_names import tensor_of
from ...schedule.build_tree import modifier_span
from ..leaves.scalar_leaf import cell_indices
from ..lowering_context import LoweringContext
from ..reductions.accumulator_computations import CombinePartials, InitAccumulator, RunningUpdate
from ..reductions.split_reduction import split_reduction, tile_splits_reduction
from ..spec import ONE, ZERO, Focus, Range, UnitDigit, clamped, or_state_bound
from .count_units import round_for_reduction
from .delinearize import delinearize, longer_later
from .sequential_tiles import sequential_tiles
from .tile_ranges import advance

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def distribute_tiles(low: Lowering, focus: Focus, tile: Tile, axes: list[Axis]) -> list[Stmt]:
    ctx = low.ctx
    level = tile.level
    assert level is not None
    levels = _distinguished(ctx, ctx.below(focus.parent if focus.level == level else focus.level, level))
    kind = ctx.device.level(level).units
    ranges = focus.ranges
    counts: list[Expr] = []
    cells = {i for w in focus.computations for i in cell_indices(focus, w)}
    needed = {i for w in focus.computations for i in w.all_indices}
    for a in axes:
        r = ranges[a.index]
        if r.strided_runs:
            raise UnboundedTile(
                f"`{a.index}` still has strided chunks; tile it one after another first",
                tile.span,
                help=f"`tile {a.index}: ...` above this line",
            )
        adjacent = focus.level == level and r.size.constant is not None  # counted by the line above, by capacity
        count = tile_count(low, r, a, "shaped" if adjacent else kind, tile)
        # Of tiles dealt out one after another (ONCE), those of what nothing here has are one: it would be done again in each.
        counts.append(ONE if kind == "finite" and a.index not in needed else count)
    if any(c.constant == 0 and a.index in needed for a, c in zip(axes, counts, strict=True)):
        return []  # an axis without extent: nothing to do
    later = low.units_of_following_tiles(focus, tile, level)
    total = later * prod(counts, start=ONE)
    if kind == "open":
        ctx.units.setdefault(level, total)
    # Adjacent tiles onto one level multiply: the line above has dealt these out, too.
    in_hand = (
        focus.current_tile[0]
        if focus.current_tile is not None and tile.key in focus.current_tile[1] and focus.level == level
        else None
    )
    several = any(a.index in needed and c.constant != 1 for a, c in zip(axes, counts, strict=True))
    # This line deals out nothing, or it was the line above. Accumulators are each unit's own.
    alike = focus.level == level or not axes or not all(a.index in needed for a in axes) or _in_own_registers(focus)
    if kind == "finite" and in_hand is None and not several and alike:
        return _replicated(low, focus, tile, axes)
    number, available = ctx.number(levels)
    number = number if in_hand is None else in_hand
    if tile.within is not None:
        if in_hand is not None:
            help = f"write it on the first line onto `{level}`"
            raise MisplacedModifier(
                "`within` orders all units, and a line above distributes them", modifier_span(tile, "within"), help=help
            )
        slices, units = ctx.device.memory(tile.within).slices, ctx.units[level]
        if units.constant is None or units.constant > slices:
            most = units.interval[1]
            place = Var(ctx.fresh("place"), 0, min(INT_END if most is None else most, INT_END) - 1)  # launchers allow no more
            let = Let(place, slice_order(number, units, slices), extent=units)
            return [let, *_distributed(low, focus, tile, axes, counts, later, as_expr(place), levels)]
    if kind == "finite":
        _not_in_registers(focus, [a for a, c in zip(axes, counts, strict=True) if c.constant != 1], cells, tile)
        if in_hand is not None:
            return _distributed(low, focus, tile, axes, counts, later, number, levels)
        ctx.units.setdefault(level, as_expr(ctx.finite_count(level)))
        var = ctx.var("tile", total)
        # Each iteration of this loop is another tile: no copy inside runs ahead over it.
        inside = replace(focus, tile_loops=())
        body = _distributed(low, inside, tile, axes, counts, later, as_expr(var), levels)
        return [For(var, as_expr(Var(level, 0, None)), total, as_expr(ctx.finite_count(level)), tuple(body), span=tile.span)]
    if kind == "open" or available is None or total.constant is None or total.constant <= available:
        units = available if kind == "shaped" else None
        return _distributed(low, focus, tile, axes, counts, later, number, levels, units)
    if len(axes) == 1 and later.constant == 1:
        return _surplus(low, focus, tile, axes[0], number, available, levels, axes[0].index in cells)
    if any(a.index in cells for a in axes) or later.constant != 1:
        raise TooManyUnits(
            f"{total} tiles for the {available} units of `{level}`",
            tile.span,
            help="tile one after another first, or one index a line",
        )
    return _rounds(low, focus, tile, axes, counts, number, available, levels)


def _distributed(
    low: Lowering,
    focus: Focus,
    tile: Tile,
    axes: list[Axis],
    counts: list[Expr],
    later: Expr,
    number: Expr,
    levels: tuple[str, ...],
    available: int | None = None,
    here: dict[str, Expr] | None = None,
    taking: int | None = None,
) -> list[Stmt]:
    """Each unit does the tile that the digits of `number` say; there are no more tiles than units.

    available  how many units a shaped level has
    here       how many tiles there are, by index, where fewer than counted
    taking     units that have parts of the reductions, where that does not follow from the digits
    """
    ctx = low.ctx
    level = tile.level
    assert level is not None
    kind = ctx.device.level(level).units
    whole = (later * prod(counts, start=ONE)).constant
    together = _in_own_registers(focus)  # idle units hold the identity, and take part
    alike = _alike(ctx, focus, tile, level)
    first = focus.level != level  # of adjacent tiles onto one level the first has told the idle units apart
    surplus = first and available is not None and whole is not None and whole < available
    last = as_expr((whole or 1) - 1)
    again = surplus and not together and not alike and taking is None and _held_for_readers(low, focus)
    if again and (available or 1) % (whole or 1) and _deals_reduced(focus, tile, level):
        name = focus.computations[-1].result
        raise SplitReduction(  # the last of the groups that combine parts would have fewer units
            f"{whole} tiles with parts of `{name}` for {available} units of `{level}`: the units that are left over would have"
            f" no `{name}`, which lines below may read",
            tile.span,
            help=_tiles_that_divide(ctx, focus, axes, counts, whole or 1, available or 1, level)
            + "go over the reduced index in a loop",
        )
    idle = [last - number] if surplus and not again else []
    unit = number
    if again:
        number = number % (whole or 1)
    elif surplus and (together or alike):
        number = minimum(number, last)  # with the coordinates of the last unit that is not idle
    turned = [a.index for a in axes if kind == "open" and longer_later(low.computations, a.index)]
    digits, lets, new = delinearize(ctx, focus, tile, axes, counts, later, number, levels, kind == "finite", turned)
    if surplus and alike and whole == 1:  # no digit tells the one from the others
        digits.append(UnitDigit(tile.axes[0].index, levels, unit, ONE, ONE))
    elif again and not _all_in_registers(focus):
        copies = as_expr(-(-(available or 1) // (whole or 1)))
        digits.append(UnitDigit(level, levels, unit // (whole or 1), as_expr(whole or 1), copies))  # no index is called so
    left = number
    if kind == "finite" and later.constant != 1 and not all(c.constant == 1 for c in counts):
        rest_of = ctx.var("rest", later)  # digits below are of what these leave: proofs can follow the chain
        lets.append(Let(rest_of, number % later, extent=later))
        left = as_expr(rest_of)
    dealt = (left, frozenset(x.key for x in tile.below.path()))
    if taking is not None:
        one_unit = taking == 1
        added = {i for w in focus.computations if w.name in focus.open_accumulators for i in w.reduced} if one_unit else set()
        digits = [replace(d, expr=ZERO if d.index in added else d.expr, stride=ONE, extent=as_expr(taking)) for d in digits]
    start = focus.parent if focus.level == level else focus.level
    f = replace(
        focus, ranges={**focus.ranges, **new}, level=level, parent=start, digits=(*focus.digits, *digits), current_tile=dealt
    )
    # What units hold for lines that follow, they hold without a part of a reduction, too.
    held = {i for w in focus.computations for i in w.all_indices} if _held_for_readers(low, focus) else None
    told = [kind == "shaped" and (held is None or a.index in held) for a in axes]
    used = [_used(focus.ranges[a.index], a) if by_tile else None for a, by_tile in zip(axes, told, strict=True)]
    parts = [c if n is None else as_expr(min(n, c.constant or n)) for n, c in zip(used, counts, strict=True)]
    f = split_reduction(low, f, tile, axes, parts, len(focus.digits))
    body: list[Stmt] = low.lower(f, tile.below)
    beyond: list[Expr] = []
    for a, digit, count, n in zip(axes, digits[: len(axes)], counts, used, strict=True):
        tiles = (here or {}).get(a.index, as_expr(n or 0))
        if n is not None and (tiles.interval[0] is None or tiles.interval[0] < (count.constant or 0)):
            beyond.append(tiles - 1 - digit.expr)
    if together or alike:
        return [*lets, *body]
    if beyond:
        body = [If(tuple(beyond), tuple(body), span=tile.span)]
    body = [*lets, *body]
    return [If(tuple(idle), tuple(body), span=tile.span)] if idle else body


def _in_own_registers(focus: Focus) -> bool:
    """Are accumulators initialised or combined that each unit has in registers of its own?"""
    return all(
        isinstance(w, (InitAccumulator, CombinePartials)) and focus.views[w.name].form == "path" for w in focus.computations
    )


def _alike(ctx: LoweringContext, focus: Focus, node: Node, level: str) -> bool:
    """Does nothing in focus have an index that these tiles, the first ones onto a level, distribute, and do units store to
    registers or buffers of their own? Then all do the same, idle ones too, for they may be the ones that read it in the next
    nest. To a memory that they share one of them stores."""
    needed = {i for w in focus.computations for i in w.all_indices}
    for x in node.path():
        if isinstance(x, Fuse) and needed & set(x.indices):
            needed.add(x.name)
        if not isinstance(x, Tile) or x.level is None:
            continue
        if x.level != level:
            break
        if any(a.index in needed for a in x.axes):
            return False
    targets = [t for w in focus.computations for t in ((w.name,) if w.name in focus.open_accumulators else w.targets)]
    own = {b.name for b in ctx.buffers if ctx.device.depth(b.level) >= ctx.device.depth(level)}
    return any(focus.views[t].form == "path" or focus.views[t].buffer in own for t in targets)


def _held_for_readers(low: Lowering, focus: Focus) -> bool:
    """EACH_HAS_ONE: does the focus make what units hold in registers for lines that follow?"""
    here = {w.name for w in focus.computations if not isinstance(w, RunningUpdate)}
    later = {t for w in low.computations if w.name not in here for t in w.reads}
    targets = {t for w in focus.computations for t in w.targets}
    return _all_in_registers(focus) or any(focus.views[t].form == "path" for t in targets & later)


def _all_in_registers(focus: Focus) -> bool:
    """Does the focus make nothing but what each unit has in registers of its own?"""
    made = {t for w in focus.computations for t in (*w.targets, *((w.name,) if w.name in focus.open_accumulators else ()))}
    return all(focus.views[t].form == "path" for t in made)


def _deals_reduced(focus: Focus, node: Node, level: str) -> bool:
    """Do tiles from here on distribute parts of a reduction over units of the level?"""
    reduced = {i for w in focus.computations for i in w.reduced}
    for x in node.path():
        if isinstance(x, Fuse) and reduced & set(x.indices):
            reduced.add(x.name)
        if isinstance(x, Tile) and x.level == level and any(a.index in reduced for a in x.axes):
            return True
    return False


def _tiles_that_divide(
    ctx: LoweringContext, focus: Focus, axes: list[Axis], counts: list[Expr], whole: int, available: int, level: str
) -> str:
    """Another tile of a reduced index, several of which divide the number of units; empty where there is none."""
    reduced = {i for w in focus.computations for i in w.reduced}
    for a, count in zip(axes, counts, strict=True):
        capacity, others = focus.ranges[a.index].capacity, whole // (count.constant or 1)
        if a.index not in reduced or capacity is None or a.every is not None:
            continue
        for n in range(min(available // others, capacity), 1, -1):
            size = -(-capacity // n)
            if -(-capacity // size) == round_for_reduction(ctx, level, n) and available % (others * n) == 0:
                return f"`tile {a.index}: {size} -> {level}` makes {n} of them; or "
    return ""


def tile_count(low: Lowering, r: Range, a: Axis, kind: str, tile: Tile) -> Expr:
    """How many tiles: by the live extent where units are open or dealt to, else by capacity (CAPACITY_NOT_LIVE).

    By capacity too for units that are open in a loop, and for parts of a reduction that a later launch combines: how many
    there are is known before the loop begins.
    """
    size, whole = clamped(r, a.size), r.capacity
    if a.every is not None and whole is None:
        raise UnboundedTile(
            f"every run of `{a.index}` is visited, and it has no bound here",
            tile.span,
            help=f"tile `{a.index}` one after another first{or_state_bound(r.size)}",
        )
    if a.every is not None and whole is not None:
        return as_expr(round_for_reduction(low.ctx, tile.level, max(1, -(-min(a.every, whole) // size))))
    turning = {v for step in r.steps for v in step.expr.variables()} & r.trips(size).variables()
    ahead = kind == "open" or (kind == "finite" and _may_be_zero(low, a.index) and tile_splits_reduction(low.ctx.device, tile))
    if ahead and turning and r.capacity is not None:
        return as_expr(max(1, -(-r.capacity // size)))
    if kind != "shaped":
        return maximum(r.trips(size), 1) if _may_be_zero(low, a.index) else r.trips(size)
    if r.capacity is None:
        raise UnboundedTile(
            f"`{tile.level}` has a fixed number of units, and `{a.index}` has no bound here",
            tile.span,
            help=f"tile `{a.index}` one after another first{or_state_bound(r.size)}",
        )
    return as_expr(round_for_reduction(low.ctx, tile.level, max(1, -(-r.capacity // size))))


def _used(r: Range, a: Axis) -> int | None:
    """How many units get a tile of it: where they come in groups (`round_for_reduction`), the others idle."""
    tiles = r.capacity if a.every is None or r.capacity is None else min(a.every, r.capacity)
    return None if tiles is None else max(1, -(-tiles // clamped(r, a.size)))


def _distinguished(ctx: LoweringContext, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels whose units a tile is dealt to: a finite level that is only passed does the same in each of its units."""
    passed = [n for n, x in enumerate(levels[:-1]) if ctx.device.level(x).units == "finite" and x in ctx.units]
    return levels[passed[-1] + 1 :] if passed else levels


def _not_in_registers(focus: Focus, axes: list[Axis], cells: set[str], tile: Tile) -> None:
    """How many tiles a unit of a finite level gets is not known, so no tile held in registers spans them."""
    for a in axes:
        if a.index in cells:
            held = next(t for w in focus.computations for t in (w.name, *w.reads, *w.targets)
                        if t in focus.views and focus.views[t].form == "path" and a.index in focus.views[t].axes)  # fmt: skip
            raise RegisterMismatch(
                f"`{tensor_of(held)}` is held in registers, and `{a.index}`, one of its indices, goes to `{tile.level}`",
                tile.span,
                help=f"write this tile above the `keep` or `move` of `{tensor_of(held)}`",
            )


def _replicated(low: Lowering, focus: Focus, tile: Tile, axes: list[Axis]) -> list[Stmt]:
    """Nothing in focus has the indices that were dealt out, or only one tile of them: every unit does the same, and unit 0
    stores it, where no line below tells units of the level apart."""
    assert tile.level is not None
    ranges = dict(focus.ranges)
    for a in axes:
        ranges[a.index] = advance(ranges[a.index], clamped(ranges[a.index], a.size), a.every)
    start = focus.parent if focus.level == tile.level else focus.level
    return low.lower(replace(focus, ranges=ranges, level=tile.level, parent=start), tile.below)


def _may_be_zero(low: Lowering, index: str) -> bool:
    """Has one unit something to do all the same: what lacks the index, or stores the result of a reduction over nothing?"""
    return any(index not in w.indices for w in low.computations)


def _rounds(
    low: Lowering,
    focus: Focus,
    tile: Tile,
    axes: list[Axis],
    counts: list[Expr],
    number: Expr,
    available: int,
    levels: tuple[str, ...],
) -> list[Stmt]:
    """More tiles of several indices than units: each unit takes one of every `available`, round after round.

    ONCE   what does not have the indices is done in one round; it would be done again in each.
    """
    ctx = low.ctx
    needed = {i for w in focus.computations for i in w.all_indices}
    counts = [c if a.index in needed else ONE for a, c in zip(axes, counts, strict=True)]
    whole = prod(counts, start=ONE).constant or 1
    if whole <= available:
        # Units that idle here may have tiles of what reads the results: they get them, too.
        free = {i for w in focus.computations for i in w.indices}
        taking = None if any(a.index in free for a in axes) else available
        return _distributed(low, focus, tile, axes, counts, ONE, number, levels, available, taking=taking)
    trips = as_expr(-(-whole // available))
    var = ctx.var("round", trips)
    in_round = as_expr(var) * available + number
    body = _distributed(low, focus, tile, axes, counts, ONE, in_round, levels, taking=available)
    if whole % available:
        body = [If((as_expr(whole - 1) - in_round,), tuple(body), span=tile.span)]
    return [For(var, ZERO, trips, ONE, tuple(body), span=tile.span)]


def _surplus(
    low: Lowering,
    focus: Focus,
    tile: Tile,
    a: Axis,
    number: Expr,
    available: int,
    levels: tuple[str, ...],
    cell: bool,
) -> list[Stmt]:
    """More tiles of an index than units: rounds, one after another, of a tile for each unit."""
    r = focus.ranges[a.index]
    size = clamped(r, a.size)
    again = replace(a, size=size, every=None)
    counts = [as_expr(available)]
    if not any(a.index in w.all_indices for w in focus.computations):  # nothing to visit: one round tells which units there are
        f = focus.with_range(a.index, advance(r, size * available, None))
        return _distributed(low, f, tile, [again], counts, ONE, number, levels, available)
    assert r.capacity is not None
    tiles = -(-r.capacity // size)

    def one_round(f: Focus) -> list[Stmt]:
        left = tiles - f.ranges[a.index].steps[-1].expr * available
        return _distributed(low, f, tile, [again], counts, ONE, number, levels, available, {a.index: left})

    unroll = Unroll() if cell else None
    return sequential_tiles(low.ctx, focus, Axis(a.index, size * available), cell, unroll, one_round, tile)
