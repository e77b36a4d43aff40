"""The number of a unit as digits, one for each axis of a tile line.

RASTER         units start in the order of their numbers, and those that run at one time share a cache: a band of tiles as wide
               as it is high reads least. `raster` changes only which number has which tile.
LONGEST_FIRST  a domain may leave later tiles more terms, as that of causal attention does. They have the lower numbers, so that
               none begins when the others are done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ....dsl.index.expr import Expr, Var, as_expr, minimum
from ...ir.schedule_tree import Axis, Tile
from ...ir.tile_ir import Let
from ...plan.computations import Computation
from ...schedule.elaborate import arranged
from ..lowering_context import LoweringContext
from ..spec import ONE, ZERO, Focus, Range, RangeStep, UnitDigit, clamped
from .check_arrange import arranged_stride, check_arrange


def delinearize(
    ctx: LoweringContext,
    focus: Focus,
    tile: Tile,
    axes: list[Axis],
    counts,
    later: Expr,
    number: Expr,
    levels,
    whole: bool = False,
    turned: Collection[str] = (),
):
    """Each axis' digit of the unit's number, last axis fastest, or as `arrange` says.

    whole   nothing of the number is for lines above
    turned  indices whose last tile has the first number (LONGEST_FIRST)
    """
    assert tile.level is not None
    arrange = tile.arrange
    reduced = {i for w in focus.computations for i in w.reduced}
    nested = arrange is None or check_arrange(arrange, [a.index for a in axes], counts, later)
    digits: list[UnitDigit] = []
    lets: list[Let] = []
    new: dict[str, Range] = {}
    strides: list[Expr] = []
    stride = later
    for c in reversed(counts):
        strides.insert(0, stride)
        stride = stride * c
    first = whole or focus.level != tile.level or all(d.extent.constant == 1 for d in focus.digits if d.levels == levels)
    raster = tile.raster
    if raster is not None and len(axes) > 1:
        *before, rows, columns = counts
        names = [*(a.index for a in axes[:-2]), "tile"]
        *outer, both = _mixed_radix(ctx, number, later, [*before, rows * columns], names, lets, n_first=first)
        digit_of = [*outer, *_in_bands(ctx, both, rows, columns, raster, lets)]
    else:
        digit_of = _mixed_radix(ctx, number, later, counts, [a.index for a in axes], lets, n_first=first)
    for n, (a, count) in enumerate(zip(axes, counts, strict=True)):
        r = focus.ranges[a.index]
        size = clamped(r, a.size)
        if arrange is not None:
            # lines above onto this level have the number's higher digits
            mine = number if first else number % (stride.constant or 1)
            e = arranged(arrange, a.index, mine)
        else:
            e = count - 1 - digit_of[n] if a.index in turned else digit_of[n]
        e = ZERO if count.constant == 1 else _named(ctx, a.index, e, count, lets)
        if arrange is not None and count.constant != 1:
            strides[n] = as_expr(arranged_stride(arrange, a.index, count, stride, a.index in reduced))
        digits.append(UnitDigit(a.index, levels, e, strides[n], count, nested=nested))
        step = RangeStep(e, count, tile.level, (levels, strides[n], count, arrange, raster, tile.within, a.index in turned))
        if a.every is not None:
            new[a.index] = r.split_strided(size, a.every, step)
        else:
            live = ctx.device.level(tile.level).units != "shaped" and count == r.trips(size)
            new[a.index] = r.split(size, step, live=live and a.index not in {i for w in focus.computations for i in w.reduced})
    return digits, lets, new


def longer_later(computations: Iterable[Computation], index: str) -> bool:
    """LONGEST_FIRST: do domains leave more terms to the reductions of a larger index?

    A condition is an expression that is at least 0, so it leaves the more terms the larger the expression. Where one grows and
    one falls, as in a window, all have as many.
    """
    signs = [
        c.coefficient(Var(index))
        for w in computations
        if index not in w.reduced
        for c in w.domain
        if any(c.coefficient(Var(i)) for i in w.reduced)
    ]
    return sum((k > 0) - (k < 0) for k in signs) > 0


def _mixed_radix(
    ctx: LoweringContext, number: Expr, later: Expr, counts: list[Expr], names: list[str], lets: list[Let], n_first: bool
) -> list[Expr]:
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
            left = [i for i in range(n) if counts[i].constant != 1]
            var = ctx.var("".join(names[i] for i in left) or "rest", ONE * (1 << 62))
            # what is left then is the first digit
            lets.append(Let(Var(var.name), rest, extent=counts[left[0]] if n_first and len(left) == 1 else None))
            rest = as_expr(Var(var.name))
    return out


def _in_bands(ctx: LoweringContext, number: Expr, rows: Expr, columns: Expr, width: int, lets: list[Let]) -> tuple[Expr, Expr]:
    """RASTER: a tile's row and column: `width` rows are walked together, column by column; the last band may be lower."""
    if rows.constant == 1 or columns.constant == 1:
        return (ZERO, number) if rows.constant == 1 else (number, ZERO)
    number = _named(ctx, "tile", number, rows * columns, lets)
    band = _named(ctx, "band", number // (columns * width), (rows + width - 1) // width, lets)
    place = _named(ctx, "place", number % (columns * width), columns * width, lets)
    even = rows.constant is not None and rows.constant % width == 0
    high = as_expr(width) if even else _named(ctx, "high", minimum(width, rows - band * width), as_expr(width + 1), lets)
    return band * width + place % high, place // high


def _named(ctx: LoweringContext, name: str, e: Expr, extent: Expr, lets: list[Let]) -> Expr:
    """A variable for 0 <= e < extent, unless it is one already."""
    if _is_simple(e):
        return e
    highest = [n for n in (extent.interval[1], None if e.interval[1] is None else e.interval[1] + 1) if n is not None]
    var = Var(ctx.fresh(name), 0, max(0, min(highest) - 1) if highest else None)
    lets.append(Let(var, e, extent=extent))
    return as_expr(var)


def _is_simple(e: Expr) -> bool:
    return len(e.terms) <= 1 and all(isinstance(t, Var) for t, _ in e.terms)
