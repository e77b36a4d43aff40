"""`tile`: loops, or the digits of unit numbers.

UNITS_OF_LEVEL   open levels have as many units as there are tiles; shaped ones what the main nest needs (`units.py`), the
                 rest of a nest loops or idles; to the units of finite ones tiles are dealt out in turn.
FISSION          works that need a whole result of an earlier work under a tile get nests of their own, one after another.
AT_LEAST_ONCE    a reduction loop above its accumulator runs at least once, or an empty reduction would never be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.errors.schedule import RegisterMismatch, TooManyUnits, UnboundedTile
from ...dsl.index import Expr, Var, as_expr, maximum, minimum
from ...dsl.values import loads
from ..tile import For, If, Let, Stmt
from .arrange import check_arrange
from .context import Context
from .leaf import Combine, Fill, cell_indices
from .spec import ONE, ZERO, Digit, Focus, Range, Step
from .split import split_reduction, splits
from .staging import held_ahead
from .units import advance, in_groups
from .work import Work, plain_index

if TYPE_CHECKING:
    from .recursion import Lowering


@dataclass(frozen=True)
class Axis:
    """One axis of a tile line, resolved."""

    index: str
    size: int
    every: int | None


def axes_of(line: syntax.Tile) -> list[Axis]:
    out = []
    for a in line.axes:
        assert isinstance(a.size, syntax.Num)
        every = a.every.value if isinstance(a.every, syntax.Num) else None
        out.append(Axis(a.index, int(a.size.value), None if every is None else int(every)))
    order = modifier(line, "order")
    if order is not None:
        place = {w: n for n, w in enumerate(order.words)}
        out.sort(key=lambda a: place.get(a.index, len(place)))
    return out


def modifier(line, name: str) -> syntax.Modifier | None:
    return next((m for m in line.modifiers if m.name == name), None)


def number_of(m: syntax.Modifier | None, default: int) -> int:
    if m is None or not m.values:
        return default
    v = m.values[0]
    assert isinstance(v, syntax.Num)
    return int(v.value)


# ---------------------------------------------------------------- fission


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


# ---------------------------------------------------------------- the line


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
        return _onto_units(low, focus, line, mine, rest)
    needed = {i for w in focus.works for i in w.all_indices}
    todo = [a for a in mine if a.index in needed]
    for a in mine:
        if a.index not in needed:  # nothing to visit, but lines below count what is left of it
            r = focus.ranges[a.index]
            focus = focus.with_range(a.index, advance(r, _clamped(r, a.size), a.every))
    cells = {i for w in focus.works for i in cell_indices(focus, w)}
    unroll = modifier(line, "unroll")

    def go(f: Focus, axes: list[Axis]) -> list[Stmt]:
        if not axes:
            return low.lower(f, rest)
        a = axes[0]
        cell = a.index in cells or held_ahead(low, line, rest, f.ranges[a.index], a.size)
        return _loop(ctx, f, a, cell, unroll, lambda g: go(g, axes[1:]), line)

    return go(focus, todo)


def _clamped(r: Range, size: int) -> int:
    c = r.size.constant
    return max(1, min(size, c)) if c is not None and not r.reps else size


def _loop(ctx: Context, focus: Focus, a: Axis, cell: bool, unroll, inner, line) -> list[Stmt]:
    r = focus.ranges[a.index]
    if r.reps:
        rep = r.reps[0]
        var = ctx.var(f"{a.index}_run", as_expr(rep.count))
        opened = focus.with_range(a.index, r.open_rep(Step(as_expr(var), as_expr(rep.count), None)))
        body = _loop(ctx, opened, a, cell, unroll, inner, line)
        return [For(var, ZERO, as_expr(rep.count), ONE, tuple(body), unroll=0, span=line.span)]
    size = _clamped(r, a.size)
    if a.every is not None:
        raise UnboundedTile(
            "`every` deals chunks to units; this tile has no `-> level`", line.span, help="add `-> thread`, say"
        )
    reducing = any(a.index in w.reduced and w.name not in focus.open for w in focus.works)
    wholly = unroll is not None and not unroll.values
    if cell:
        if r.capacity is None:
            raise UnboundedTile(
                f"a tile held in registers spans `{a.index}`, whose extent has no bound here",
                line.span,
                help=f"tile `{a.index}` above the `keep` or `move`, or state a bound: `where N <= 4096`",
            )
        trips: Expr = as_expr(max(1, -(-r.capacity // size)))
        hint = 0
    else:
        trips = r.trips(size)
        if reducing:
            trips = maximum(trips, 1)
        hint = number_of(unroll, 0 if trips.constant is not None else 8) if unroll is not None else 1
        if wholly and trips.constant is None and trips.interval[1] is not None and trips.interval[1] <= 64:
            hint = trips.interval[1]
    if trips.constant == 1:
        f = focus.with_range(a.index, r.split(size, Step(ZERO, ONE, None), live=not cell and not reducing))
        return inner(f.turning(a.index, None, line))
    if modifier(line, "peel") is not None and not cell and not reducing and r.live.constant is None:
        return _peeled(ctx, focus, a, size, hint, trips, inner, line)
    var = ctx.var(a.index, trips)
    # AT_LEAST_ONCE: the extra turn of an empty reduction is not inside the live extent
    f = focus.with_range(a.index, r.split(size, Step(as_expr(var), trips, None), live=not cell and not reducing))
    f = f.turning(a.index, var, line)
    if reducing:
        f = replace(f, loops=(*f.loops, (a.index, var, trips)))
    return [For(var, ZERO, trips, ONE, tuple(inner(f)), unroll=hint, span=line.span)]


def _peeled(ctx: Context, focus: Focus, a: Axis, size: int, hint: int, trips: Expr, inner, line) -> list[Stmt]:
    """`peel`: the whole tiles in a loop without guards, then what is left over."""
    r = focus.ranges[a.index]
    full = r.live // size
    out: list[Stmt] = []
    for start, stop, whole in ((ZERO, full, True), (full, trips, False)):
        var = ctx.var(a.index, trips)
        part = r.split(size, Step(as_expr(var), trips, None), live=True)
        part = replace(part, bounds=()) if whole else part
        body = inner(focus.with_range(a.index, part).turning(a.index, var, line))
        out.append(For(var, start, stop, ONE, tuple(body), unroll=hint if whole else 1, span=line.span))
    return out


# ---------------------------------------------------------------- units


def _onto_units(low: Lowering, focus: Focus, line: syntax.Tile, axes: list[Axis], rest: tuple) -> list[Stmt]:
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
        counts.append(_count(low, r, a, "shaped" if adjacent else kind, line))
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
            focus = replace(focus, dealt=(number, frozenset(map(id, rest))))
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
    together = all(isinstance(w, (Fill, Combine)) for w in focus.works)  # idle units hold the identity, and take part
    first = focus.level != level  # of adjacent tiles onto one level the first has told the idle units apart
    surplus = first and kind == "shaped" and available is not None and whole is not None and whole < available
    last = as_expr((whole or 1) - 1)
    if surplus and together:
        number = minimum(number, last)  # with the coordinates of the last unit that is not idle
    digits, lets, new = _decode(ctx, focus, line, axes, counts, later, number, levels)
    f = replace(focus, ranges={**focus.ranges, **new}, level=level, parent=start, digits=(*focus.digits, *digits))
    f = split_reduction(low, f, line, axes, counts, len(focus.digits))
    body: list[Stmt] = low.lower(f, rest)
    idle: list[Expr] = []
    for a, digit in zip(axes, digits, strict=True):
        r = ranges[a.index]
        tiles = r.capacity if a.every is None else min(a.every, r.capacity or a.every)
        if kind == "shaped" and tiles is not None and (n := -(-tiles // _clamped(r, a.size))) < (digit.extent.constant or 0):
            idle.append(as_expr(max(1, n) - 1) - digit.expr)
    if idle and not together:
        body = [If(tuple(idle), tuple(body), span=line.span)]
    body = [*lets, *body]
    if surplus and not together:
        body = [If((last - number,), tuple(body), span=line.span)]
    for wrap in reversed(head):
        body = [wrap(body)]
    return body


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
        ranges[a.index] = advance(ranges[a.index], _clamped(ranges[a.index], a.size), a.every)
    needed = {i for w in focus.works for i in w.all_indices}
    digits = tuple(Digit(a.index, levels, unit, ONE, count) for a in axes if a.index not in needed)
    start = focus.parent if focus.level == line.level else focus.level
    return low.lower(replace(focus, ranges=ranges, level=line.level, parent=start, digits=(*focus.digits, *digits)), rest)


def _count(low: Lowering, r: Range, a: Axis, kind: str, line) -> Expr:
    """How many tiles: by the live extent where units are open or dealt to, else by capacity (CAPACITY_NOT_LIVE)."""
    size = _clamped(r, a.size)
    if a.every is not None and r.capacity is None:
        raise UnboundedTile(
            f"every run of `{a.index}` is visited, and it has no bound here",
            line.span,
            help=f"tile `{a.index}` one after another first, or state a bound: `where N <= 4096`",
        )
    if a.every is not None:
        return as_expr(in_groups(low.ctx, line.level, max(1, -(-min(a.every, r.capacity or a.every) // size))))
    if kind != "shaped":
        return maximum(r.trips(size), 1) if _may_be_zero(low, a.index) else r.trips(size)
    if r.capacity is None:
        raise UnboundedTile(
            f"`{line.level}` has a fixed number of units, and `{a.index}` has no bound here",
            line.span,
            help=f"tile `{a.index}` one after another first, or use `every`",
        )
    return as_expr(in_groups(low.ctx, line.level, max(1, -(-r.capacity // size))))


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
    size = _clamped(r, a.size)
    unroll = syntax.Modifier("unroll") if cell else None
    rounds = Axis(a.index, size * available, None)
    again = replace(line, axes=(syntax.TileAxis(a.index, syntax.Num(size)),))
    if not any(a.index in w.all_indices for w in focus.works):  # nothing to visit: one round tells which units there are
        return low.lower(focus.with_range(a.index, advance(r, size * available, None)), (again, *rest))
    return _loop(low.ctx, focus, rounds, cell, unroll, lambda f: low.lower(f, (again, *rest)), line)


def _dealt(ctx: Context, level: str, total: Expr, line):
    """Tiles dealt to the units of a finite level in turn: whichever their number, the same tile has the same unit."""
    ctx.units.setdefault(level, as_expr(ctx.finite_count(level)))
    count = ctx.finite_count(level)
    var = ctx.var("tile", total)
    unit = Var(level, 0, None)
    wrap = lambda body: For(var, as_expr(unit), total, as_expr(count), tuple(body), span=line.span)  # noqa: E731
    return as_expr(var), [wrap]


def _decode(ctx: Context, focus: Focus, line, axes: list[Axis], counts, later: Expr, number: Expr, levels):
    """Each axis' digit of the unit's number, last axis fastest, or as `arrange` says."""
    arrange = modifier(line, "arrange")
    if arrange is not None:
        check_arrange(arrange, [a.index for a in axes], counts, later)
    digits: list[Digit] = []
    lets: list[Let] = []
    new: dict[str, Range] = {}
    strides: list[Expr] = []
    stride = later
    for c in reversed(counts):
        strides.insert(0, stride)
        stride = stride * c
    first = focus.level != line.level or all(d.extent.constant == 1 for d in focus.digits if d.levels == levels)
    digit_of = _mixed_radix(ctx, number, later, counts, lets, n_first=first)
    for n, (a, count) in enumerate(zip(axes, counts, strict=True)):
        r = focus.ranges[a.index]
        size = _clamped(r, a.size)
        if arrange is not None:
            from ..schedule.elaborate import arranged

            e = arranged(arrange, a.index, number)
        else:
            e = digit_of[n]
        if count.constant == 1:
            e = ZERO
        elif not _is_simple(e):
            var = ctx.var(a.index, count)
            lets.append(Let(var, e, extent=count))
            e = as_expr(var)
        digits.append(Digit(a.index, levels, e, strides[n], count))
        step = Step(e, count, line.level)
        if a.every is not None:
            new[a.index] = r.split_strided(size, a.every, step)
        else:
            live = ctx.device.level(line.level).units != "shaped" and count == r.trips(size)
            new[a.index] = r.split(size, step, live=live and a.index not in {i for w in focus.works for i in w.reduced})
    return digits, lets, new


def _mixed_radix(ctx: Context, number: Expr, later: Expr, counts: list[Expr], lets: list[Let], n_first: bool) -> list[Expr]:
    """The digits of a number, last fastest: each is a remainder, what is left a quotient with a name of its own."""
    rest = number // later if later.constant != 1 else number
    out: list[Expr] = []
    for n in reversed(range(len(counts))):
        count = counts[n]
        if count.constant == 1:
            out.insert(0, ZERO)
            continue
        if n_first and all(c.constant == 1 for c in counts[:n]):
            out.insert(0, rest)
            continue
        out.insert(0, rest % count)
        rest = rest // count
        if n and not _is_simple(rest):
            var = ctx.var("rest", ONE * (1 << 62))
            last = n == 1 and n_first  # what is left then is the first digit
            lets.append(Let(Var(var.name), rest, extent=counts[0] if last else None))
            rest = as_expr(Var(var.name))
    return out


def _is_simple(e: Expr) -> bool:
    return len(e.terms) <= 1 and all(isinstance(t, Var) for t, _ in e.terms)
