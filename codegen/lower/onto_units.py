"""`tile ... -> level`: the digits of unit numbers.

UNITS_OF_LEVEL   open levels have as many units as there are tiles; shaped ones what the main nest needs (`units.py`), the
                 rest of a nest loops or idles; to the units of finite ones tiles are dealt out in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.errors.schedule import RegisterMismatch, TooManyUnits, UnboundedTile
from ...dsl.frozen import replace
from ...dsl.index import Expr, Var, as_expr, maximum, minimum
from ..tile import For, If, Let, Stmt
from .accumulator import Combine, Fill
from .axes import Axis, clamped
from .context import Context
from .decode import decode
from .leaf import cell_indices
from .loops import loop_tiles
from .spec import ONE, ZERO, Digit, Focus, Range
from .split import split_reduction, splits
from .units import advance, in_groups

if TYPE_CHECKING:
    from .recursion import Lowering


def onto_units(low: Lowering, focus: Focus, line: syntax.Tile, axes: list[Axis], rest: tuple) -> list[Stmt]:
    ctx = low.ctx
    level = line.level
    assert level is not None
    start = focus.parent if focus.level == level else focus.level
    levels = _told_apart(ctx, ctx.below(start, level))
    kind = ctx.device.level(level).units
    ranges = dict(focus.ranges)
    counts: list[Expr] = []
    cells = {i for w in focus.works for i in cell_indices(focus, w)}
    for a in axes:
        r = ranges[a.index]
        if r.reps:
            raise UnboundedTile(f"`{a.index}` still has strided chunks; tile it one after another first", line.span)
        adjacent = focus.level == level and r.size.constant is not None  # counted by the line above, by capacity
        counts.append(tile_count(low, r, a, "shaped" if adjacent else kind, line))
    if any(c.constant == 0 for c in counts):
        return []  # an axis without extent: nothing to do
    total = as_expr(1)
    for c in counts:
        total = total * c
    later = low.later_tiles(focus, axes, rest, level)
    if kind == "open":
        ctx.units.setdefault(level, total * later)
    number, available = ctx.number(levels)
    head: list = []
    needed = {i for w in focus.works for i in w.all_indices}
    in_hand = focus.dealt[0] if focus.dealt is not None and id(line) in focus.dealt[1] and kind == "finite" else None
    several = any(a.index in needed and c.constant != 1 for a, c in zip(axes, counts, strict=True))
    alike = focus.level == level or not all(a.index in needed for a in axes)  # the line above, or this one, deals out nothing
    if kind == "finite" and in_hand is None and not several and alike:
        return _replicated(low, focus, line, axes, levels, rest)
    if kind == "finite":
        _not_in_registers(focus, [a for a, c in zip(axes, counts, strict=True) if c.constant != 1], cells, line)
        if in_hand is None:
            number, head = _dealt(ctx, level, total * later, line)
        else:
            number = in_hand  # adjacent tiles onto one level multiply: the line above dealt these out too
        available = None
    elif kind == "shaped":
        whole = (total * later).constant
        if whole is not None and available is not None and whole > available:
            if len(axes) == 1 and later.constant == 1:
                a = axes[0]
                return _surplus(low, focus, line, a, available, a.index in cells, rest)
            if any(a.index in cells for a in axes) or later.constant != 1:
                raise TooManyUnits(
                    f"{whole} tiles for the {available} units of `{level}`",
                    line.span,
                    help="tile one after another first, or one index a line",
                )
            number, head, total = _rounds(ctx, number, whole, available, line)
    whole = (total * later).constant
    # idle units hold the identity in their registers, and take part
    together = all(isinstance(w, (Fill, Combine)) and focus.views[w.name].form == "path" for w in focus.works)
    first = focus.level != level  # of adjacent tiles onto one level the first has told the idle units apart
    surplus = first and kind == "shaped" and available is not None and whole is not None and whole < available
    last = as_expr((whole or 1) - 1)
    if surplus and together:
        number = minimum(number, last)  # with the coordinates of the last unit that is not idle
    digits, lets, new = decode(ctx, focus, line, axes, counts, later, number, levels, whole=kind == "finite")
    if kind == "finite":
        left = number
        if later.constant != 1 and total.constant != 1:  # digits below are of what these leave: proofs can follow the chain
            rest_of = ctx.var("rest", later)
            lets.append(Let(rest_of, number % later, extent=later))
            left = as_expr(rest_of)
        focus = replace(focus, dealt=(left, frozenset(map(id, rest))))
    f = replace(focus, ranges={**focus.ranges, **new}, level=level, parent=start, digits=(*focus.digits, *digits))
    used = [_used(ranges[a.index], a) if kind == "shaped" else None for a in axes]
    parts = [c if n is None else as_expr(min(n, c.constant or n)) for n, c in zip(used, counts, strict=True)]
    f = split_reduction(low, f, line, axes, parts, len(focus.digits))
    body: list[Stmt] = low.lower(f, rest)
    idle = [
        n - 1 - digit.expr for n, digit in zip(used, digits, strict=True) if n is not None and n < (digit.extent.constant or 0)
    ]
    if idle and not together:
        body = [If(tuple(idle), tuple(body), span=line.span)]
    body = [*lets, *body]
    if surplus and not together:
        body = [If((last - number,), tuple(body), span=line.span)]
    for wrap in reversed(head):
        body = [wrap(body)]
    return body


def tile_count(low: Lowering, r: Range, a: Axis, kind: str, line) -> Expr:
    """How many tiles: by the live extent where units are open or dealt to, else by capacity (CAPACITY_NOT_LIVE).

    By capacity too for units that are open in a loop, and for parts of a reduction that a later launch combines: how many
    there are is known before the loop begins.
    """
    size = clamped(r, a.size)
    if a.every is not None and r.capacity is None:
        raise UnboundedTile(
            f"every run of `{a.index}` is visited, and it has no bound here",
            line.span,
            help=f"tile `{a.index}` one after another first, or state a bound: `where N <= 4096`",
        )
    if a.every is not None:
        return as_expr(in_groups(low.ctx, line.level, max(1, -(-min(a.every, r.capacity or a.every) // size))))
    turning = {v for step in r.steps for v in step.expr.variables()} & r.trips(size).variables()
    ahead = kind == "open" or (kind == "finite" and _may_be_zero(low, a.index) and splits(low.ctx.device, line))
    if ahead and turning and r.capacity is not None:
        return as_expr(max(1, -(-r.capacity // size)))
    if kind != "shaped":
        return maximum(r.trips(size), 1) if _may_be_zero(low, a.index) else r.trips(size)
    if r.capacity is None:
        raise UnboundedTile(
            f"`{line.level}` has a fixed number of units, and `{a.index}` has no bound here",
            line.span,
            help=f"tile `{a.index}` one after another first, or use `every`",
        )
    return as_expr(in_groups(low.ctx, line.level, max(1, -(-r.capacity // size))))


def _used(r: Range, a: Axis) -> int | None:
    """How many units get a tile of it: where they come in groups (`in_groups`), the others idle."""
    tiles = r.capacity if a.every is None else min(a.every, r.capacity or a.every)
    return None if tiles is None else max(1, -(-tiles // clamped(r, a.size)))


def _told_apart(ctx: Context, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels whose units a tile is dealt to: a finite level that is only passed does the same in each of its units."""
    passed = [n for n, x in enumerate(levels[:-1]) if ctx.device.level(x).units == "finite" and x in ctx.units]
    return levels[passed[-1] + 1 :] if passed else levels


def _not_in_registers(focus: Focus, axes: list[Axis], cells: set[str], line: syntax.Tile) -> None:
    """How many tiles a unit of a finite level gets is not known, so no tile held in registers spans them."""
    for a in axes:
        if a.index in cells:
            held = next(t for w in focus.works for t in (w.name, *w.reads, *w.targets)
                        if t in focus.views and focus.views[t].form == "path" and a.index in focus.views[t].axes)  # fmt: skip
            raise RegisterMismatch(
                f"`{held.rstrip('@~')}` is held in registers, and `{a.index}`, one of its indices, is dealt to `{line.level}`",
                line.span,
                help=f"write this tile above the `keep` or `move` of `{held.rstrip('@~')}`",
            )


def _replicated(low: Lowering, focus: Focus, line: syntax.Tile, axes: list[Axis], levels, rest: tuple) -> list[Stmt]:
    """Nothing in focus has the indices that were dealt out, or only one tile of them: every unit does the same, and unit 0
    stores it."""
    ctx = low.ctx
    assert line.level is not None
    unit, count = as_expr(Var(line.level, 0, None)), as_expr(ctx.finite_count(line.level))
    ranges = dict(focus.ranges)
    for a in axes:
        ranges[a.index] = advance(ranges[a.index], clamped(ranges[a.index], a.size), a.every)
    needed = {i for w in focus.works for i in w.all_indices}
    digits = tuple(Digit(a.index, levels, unit, ONE, count) for a in axes if a.index not in needed)
    start = focus.parent if focus.level == line.level else focus.level
    return low.lower(replace(focus, ranges=ranges, level=line.level, parent=start, digits=(*focus.digits, *digits)), rest)


def _may_be_zero(low: Lowering, index: str) -> bool:
    return any(index in w.reduced for w in low.works)


def _rounds(ctx: Context, number: Expr, whole: int, available: int, line):
    """More tiles than units: each unit takes one of every `available`, round after round."""
    trips = as_expr(-(-whole // available))
    var = ctx.var("round", trips)
    over = [] if whole % available == 0 else [as_expr(whole - 1) - (as_expr(var) * available + number)]

    def wrap(body):
        inner = tuple(body) if not over else (If(tuple(over), tuple(body), span=line.span),)
        return For(var, ZERO, trips, ONE, inner, span=line.span)

    return as_expr(var) * available + number, [wrap], as_expr(whole)


def _surplus(low: Lowering, focus: Focus, line: syntax.Tile, a: Axis, available: int, cell: bool, rest: tuple) -> list[Stmt]:
    """More tiles than units: rounds, one after another, of a tile for each unit."""
    r = focus.ranges[a.index]
    size = clamped(r, a.size)
    unroll = syntax.Modifier("unroll") if cell else None
    rounds = Axis(a.index, size * available, None)
    again = replace(line, axes=(syntax.TileAxis(a.index, syntax.Num(size)),))
    if not any(a.index in w.all_indices for w in focus.works):  # nothing to visit: one round tells which units there are
        return low.lower(focus.with_range(a.index, advance(r, size * available, None)), (again, *rest))
    return loop_tiles(low.ctx, focus, rounds, cell, unroll, lambda f: low.lower(f, (again, *rest)), line)


def _dealt(ctx: Context, level: str, total: Expr, line):
    """Tiles dealt to the units of a finite level in turn: whichever their number, the same tile has the same unit."""
    ctx.units.setdefault(level, as_expr(ctx.finite_count(level)))
    count = ctx.finite_count(level)
    var = ctx.var("tile", total)
    unit = Var(level, 0, None)
    wrap = lambda body: For(var, as_expr(unit), total, as_expr(count), tuple(body), span=line.span)  # noqa: E731
    return as_expr(var), [wrap]
