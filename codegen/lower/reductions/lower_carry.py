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

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....dsl.errors.online import CarryMismatch
from ....dsl.errors.schedule import NotYet, UnboundedTile
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Apply, Load, Masked, Value, neutral_value, with_loads
from ...ir.printer import show_value
from ...ir.schedule_tree import Fuse, Tile, fragment_of
from ...ir.tile_ir import Stmt
from ...ir.tile_visitors import with_buffers
from ...plan.computations import Computation, Output, substitute
from ...plan.derived_names import CarriedTotal, EarlierRow, LastRow, PreviousValue, TileTotal, buffer_name, tensor_of
from ...schedule.build_tree import modifier_span
from ..leaves.instr_leaf import register_buffer
from ..leaves.owner_tree import owner_tree
from ..spec import ONE, ZERO, Focus, Range, RangeStep, View, clamped
from ..tiling.prefixes import APART, Prefix, new_terms, prefix_of
from .accumulator_computations import RunningUpdate, TotalOfTile, as_kind
from .open_accumulators import accumulates_at_leaf
from .reduction_step import combine_step
from .split_reduction import tile_splits_reduction

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def prefixes(low: Lowering, focus: Focus, tile: Tile) -> list[Prefix]:
    """The reductions in focus that go on from tile to tile; none where it is a tile like others."""
    if not tile.carry or not tile.axes or tile.axes[0].index not in focus.ranges:
        return []
    (axis,) = tile.axes
    span = modifier_span(tile, "carry")
    found = [p for w in focus.computations if (p := prefix_of(w, axis.index, span)) is not None]
    if not found:
        return []
    low.ctx.carrying.add(tile.key)
    _check_in_order(focus, tile, found)
    _check_own_terms(low, focus, tile, found)
    _check_places(low, focus, tile, found)
    rows = focus.ranges[axis.index]
    one = rows.trips(clamped(rows, axis.size)).constant
    return [] if one is not None and one <= 1 else found


@dataclass(frozen=True)
class _Carried:
    """The computations of an iteration for one prefix reduction."""

    start: RunningUpdate
    before: RunningUpdate
    rows: Computation
    total: TotalOfTile


def lower_carry(
    low: Lowering,
    focus: Focus,
    tile: Tile,
    found: list[Prefix],
    loops: Callable[[Focus, Callable[[Focus], Focus]], list[Stmt]],
) -> list[Stmt]:
    """The nest of a tile. `loops`: its loop, for the computations of a focus, as another function changes it for each tile."""
    ctx, row = low.ctx, tile.axes[0].index
    carried = {p.computation.name: _carried(low, p, row) for p in found}
    ctx.trace.in_loop(tile, _told(found, row))
    buffers: list[tuple[str, str]] = []
    inner = focus
    for c in carried.values():
        for w in (c.start, c.before):
            buffer = ctx.fresh(buffer_name(w.name))
            depth = tuple(len(focus.ranges[i].steps) for i in w.indices)
            inner = inner.with_view(w.name, View(buffer, "path", w.indices, depth=depth, zero_padded=False))
            buffers.append((w.name, buffer))
    computations: list[Computation] = [c.before for c in carried.values()]
    for w in focus.computations:
        computations += [carried[w.name].rows, carried[w.name].total] if w.name in carried else [w]
    known = low.computations
    low.computations = (*known, *(c.total for c in carried.values()))

    whole = focus.ranges[row]

    def inside(f: Focus) -> Focus:
        changed = {p.index: new_terms(f.ranges[row], focus.ranges[p.index], p.shift) for p in found}
        if any(p.decay is not None for p in found):
            changed |= rows_around(f.ranges[row], whole.size, row)
        loops = tuple(replace(t, also=tuple(changed)) if t.tile is tile else t for t in f.tile_loops)
        return replace(f, ranges={**f.ranges, **changed}, tile_loops=loops)

    first = whole.split(clamped(whole, tile.axes[0].size), RangeStep(ZERO, ONE, None))
    # The lines below are those of a tile. Units are counted by its capacity, as in the loop.
    before = inside(inner.with_range(row, replace(first, bounds=())))
    starts = [low.lower(replace(before, computations=(c.start,)), tile.below) for c in carried.values()]
    body = loops(replace(inner, computations=tuple(computations)), inside)
    low.computations = known
    memory = ctx.device.memories[-1].name
    made = [register_buffer(ctx, buffer, ctx.dtypes[name], memory, tile.span) for name, buffer in buffers]
    return [*with_buffers(made, (*(s for start in starts for s in start), *body), tile.span)]


def _carried(low: Lowering, p: Prefix, row: str) -> _Carried:
    w, ctx = p.computation, low.ctx
    assert w.reduction is not None
    kind, dtype = w.reduction.kind, ctx.dtypes[w.name]
    indices = tuple(i for i in w.indices if i != row)
    extents = tuple((i, e) for i, e in w.extents if i != row)
    held = tuple((i, e) for i, e in extents if i not in w.reduced)
    at = tuple(as_expr(Var(i)) for i in indices)
    carried, before, name = CarriedTotal(w.name), PreviousValue(CarriedTotal(w.name)), TileTotal(w.name)
    for n in (carried, before, name):
        ctx.dtypes[n] = dtype

    def joined(new: Value) -> Value:
        return combine_step(kind, Load(before, at, dtype), new, dtype)

    own = Load(w.name, tuple(as_expr(Var(i)) for i in w.indices), dtype)
    term, last = w.term, LastRow(row)
    of_row, of_total = joined(own), joined(Load(name, at, dtype))
    if p.decay is not None:
        term = p.decay.inner_at(last)
        factors = [p.decay.correction, p.decay.outer]
        of_row = scaled_before(Load(before, at, dtype), factors, own, p.decay.earlier)
        of_total = scaled_before(Load(before, at, dtype), [p.decay.correction_at(last)], Load(name, at, dtype), p.decay.earlier)
    rows = replace(w, outputs=tuple(replace(o, value=with_loads(o.value, {w.name: of_row})) for o in w.outputs))
    neutral = neutral_value(kind, w.value.dtype)
    value = Masked(p.others, term, neutral, w.value.dtype) if p.others else term
    output = Output(carried, indices, of_total)
    total = replace(as_kind(TotalOfTile, w), name=name, indices=indices, value=value, extents=extents, outputs=(output,))

    def update(name: str, value: Value) -> RunningUpdate:
        return RunningUpdate(name, indices, value, None, held, span=w.span, fused=w.fused)

    start, previous = update(carried, neutral_value(kind, dtype)), update(before, Load(carried, at, dtype))
    return _Carried(start, previous, rows, total)


def rows_around(tile: Range, rows: Expr, row: str) -> dict[str, Range]:
    """The rows that the totals before a tile, and after it, belong to. There are so many `rows` in all. The last tile may have
    fewer than others: nothing goes on from it, so its total may belong to a row that is none."""
    count = tile.size.constant
    assert count is not None
    earlier, last = tile.base - 1, tile.base + (count - 1)
    return {EarlierRow(row): Range(earlier, ONE), LastRow(row): Range(last, ONE, (rows - last,))}


def scaled_before(before: Load, factors: list[Value | None], own: Value, earlier: str) -> Value:
    """A tile's `own` terms, and those before it times the factors. The first tile has none, and no row before it."""
    dtype = before.dtype.compute
    scaled: Value = before
    for f in factors:
        scaled = scaled if f is None else Apply("mul", (scaled, f), dtype)
    return Masked((as_expr(Var(earlier)),), combine_step("sum", own, scaled, dtype), own, dtype)


def _told(found: list[Prefix], row: str) -> str:
    """`P: from tile to tile, times exp(g[i] - g[i~])`, where `i~` is the last row of the tile before."""
    by: dict[str, list[str]] = {}
    for p in found:
        factor = None if p.decay is None else p.decay.correction
        shown = (
            ""
            if factor is None
            else f", times {show_value(substitute(factor, {Var(EarlierRow(row)): as_expr(Var(f'{row}~'))}))}"
        )
        by.setdefault(shown, []).append(p.computation.result)
    return "; ".join(f"{', '.join(names)}: from tile to tile{factor}" for factor, names in by.items())


# ---------------------------------------------------------------- refusals


def check_carry_tile(low: Lowering, tile: Tile) -> None:
    """Raises CarryMismatch for a line whose word changes nothing."""
    if tile.carry and tile.key not in low.ctx.carrying:
        index = tile.axes[0].index
        raise CarryMismatch(
            f"in this launch no reduction has more terms the larger `{index}` is",
            modifier_span(tile, "carry"),
            help=f"{APART}, or say which terms there are: `sum(j where j <= {index})`",
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
        for w in focus.computations:
            made_below = w.reduction is None and p.index in w.indices and not below.isdisjoint(w.targets)
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
        rows = replace(w, indices=tuple(i for i in w.indices if i != tile.axes[0].index))
        if accumulates_at_leaf(ctx, focus, rows, tile):
            raise UnboundedTile(
                f"a total of `{w.result}` for each of {' and '.join(f'`{i}`' for i in rows.indices)} goes on from tile to tile,"
                " and their number is not known, or more than registers hold",
                modifier_span(tile, "carry"),
                help=f"tile {' and '.join(f'`{i}`' for i in rows.indices)} above",
            )
