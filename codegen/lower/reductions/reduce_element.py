"""One element of a reduction: initialised with the neutral value, updated, combined with other units' partial results."""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl.errors.schedule import SplitReduction
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Apply, IndexValue, Load, Masked, Value, loads, neutral_value
from ...ir.tile_ir import AllReduce, Contribution, If, Stmt, Store
from ...plan.computations import Computation
from ...plan.derived_names import ArgreduceIndex, Component
from ..addressing import coordinates, edge_conds, zero_is_neutral, zero_of
from ..leaves.shared_values import bind_shared_values
from ..lowering_context import LoweringContext
from ..spec import ONE, Focus, UnitDigit
from ..stores.predicated_store import narrowed, one_writer
from .accumulator_computations import CombineInTurn, CombinePartials
from .argreduce_index import index_is_monotone, no_index
from .contributions import added, with_value
from .cross_unit_reduction import load_partials, store_partials
from .reduction_step import argreduce_step, combine_step


def accumulate_element(ctx: LoweringContext, focus: Focus, computation: Computation) -> list[Stmt]:
    """acc = acc (+) value, masked with the identity where a reduced index ran over; as it is for a term that does not count."""
    assert computation.reduction is not None
    kind = computation.reduction.kind
    note_reduced(ctx, focus, computation)
    dtype = ctx.dtypes[computation.name]
    whole = computation
    at = tuple(as_expr(Var(i)) for i in computation.indices)
    view = focus.views[computation.name]
    coords = coordinates(ctx, focus, computation.name, at)
    now = Load(view.buffer, coords, dtype)
    domain = tuple(c.subs(focus.binding) for c in computation.domain)
    computation = replace(computation, value=computation.term) if domain else computation
    conds = edge_conds(focus, computation.reduced)
    value, around = bind_shared_values(ctx, focus, computation, conds)
    over = tuple(i for i in computation.reduced if focus.ranges[i].bounds)
    if conds and not (kind == "sum" and zero_is_neutral(computation.value, over, focus)):
        factors = _masked_factors(focus, computation.value, value, over, conds) if kind == "sum" else None
        value = factors or Masked(conds, value, neutral_value(kind, value.dtype), value.dtype)
    value = narrowed(value, dtype)
    if kind in ("argmax", "argmin"):
        return _single_partial(
            ctx, focus, computation, around(_argmax_element(ctx, focus, computation, now, value, coords, at))
        )
    new = combine_step(kind, now, value, dtype)
    if domain:
        new = Masked(domain, new, now, dtype, anywhere=True)
    contribution = added(focus, whole, bool(conds))
    store = Store(view.buffer, coords, new, span=computation.span, contribution=contribution)
    return _single_partial(ctx, focus, computation, around([store]))


def _masked_factors(focus: Focus, term: Value, value: Value, over: tuple[str, ...], conds: tuple[Expr, ...]) -> Value | None:
    """A product, `value` is the translated `term`, one factor of which is zero where a reduced index ran over, as a staged copy
    filled it: the other factors are masked. So it stays a product, which is added by one multiply-add, and nothing branches
    around that factor's loads. None: it has no such factor."""
    if not (isinstance(term, Apply) and isinstance(value, Apply) and term.fn == value.fn == "mul"):
        return None

    def is_zero(x: Value) -> bool:
        written = (focus.views[ld.tensor].is_written_beyond(i, focus.ranges[i]) for ld in loads(x) for i in over)
        return zero_is_neutral(x, over, focus) and all(written)

    zero = [is_zero(x) for x in term.args]
    if not any(zero):
        return None
    args = (v if z else Masked(conds, v, zero_of(v.dtype), v.dtype) for v, z in zip(value.args, zero, strict=True))
    return Apply("mul", tuple(args), value.dtype)


def _argmax_element(
    ctx: LoweringContext, focus: Focus, computation: Computation, now: Value, value: Value, coords, at
) -> list[Stmt]:
    assert computation.reduction is not None
    place = ArgreduceIndex(computation.name)
    dtype, buffer = ctx.dtypes[place], focus.views[place].buffer
    here = coordinates(ctx, focus, place, at)
    best = Load(buffer, here, dtype)
    index = IndexValue(_place(focus, computation), dtype)
    held = (focus.views[computation.name].buffer, coords, now)
    grows = index_is_monotone(ctx, focus, computation, index.expr)
    out = argreduce_step(computation.reduction.kind, held, (buffer, here, best), value, index, grows)
    contribution = added(focus, computation, grows)
    out = with_value(out, contribution)
    conds = () if grows else edge_conds(focus, computation.reduced)  # the identity replaces nothing where ties do not count
    return [If(conds, tuple(out))] if conds else list(out)


def _place(focus: Focus, computation: Computation) -> Expr:
    """The element's number in the order of the op's reduced indices, whichever of them are fused by now."""
    subs = focus.binding
    components = {c for _, parts in computation.fused for c, *_ in parts}
    flat: Expr = as_expr(0)
    for i, extent in computation.extents:
        own = Component(i) if Component(i) in components else i
        if own not in (computation.subscripts or computation.indices):
            flat = flat * extent + subs[Var(own)]
    return flat


def fill_element(ctx: LoweringContext, focus: Focus, computation: Computation) -> list[Stmt]:
    assert computation.reduction is not None
    kind = computation.reduction.kind
    dtype = ctx.dtypes[computation.name]
    at = tuple(as_expr(Var(i)) for i in computation.indices)
    starts = [(computation.name, neutral_value(kind, dtype))]
    if kind in ("argmax", "argmin"):
        place = ArgreduceIndex(computation.name)
        starts.append((place, no_index(ctx.dtypes[place])))
    out = [Store(focus.views[n].buffer, coordinates(ctx, focus, n, at), value) for n, value in starts]
    start = Contribution(computation.result, "start", indexed=len(out) > 1)
    out = with_value(out[::-1], start)[::-1]
    return _single_partial(ctx, focus, computation, out)


def combine_element(ctx: LoweringContext, focus: Focus, computation: CombinePartials) -> list[Stmt]:
    """Lockstep units exchange registers; others pass their values through a memory that they share (see `lower_keep`)."""
    assert computation.reduction is not None
    at = tuple(as_expr(Var(i)) for i in computation.indices)
    cells = tuple((focus.views[n].buffer, coordinates(ctx, focus, n, at)) for n in computation.accumulators)
    if computation.how is None:
        combined = Contribution(computation.result, "combine")
        return [
            AllReduce(level, computation.reduction.kind, stride, count, cells, computation.span, combined)
            for level, stride, count in ctx.units_to_combine(computation.name)
            if ctx.device.level(level).exchanges_registers
        ]
    step = store_partials if computation.how.storing else load_partials
    return step(ctx, computation, cells)


def combine_in_turn(ctx: LoweringContext, focus: Focus, computation: CombineInTurn) -> list[Stmt]:
    """Lanes that have parts of a statistic exchange registers."""
    at = tuple(as_expr(Var(i)) for i in computation.indices)
    cells = ((focus.views[computation.name].buffer, coordinates(ctx, focus, computation.name, at)),)
    return [AllReduce(ctx.innermost, computation.kind, s, n, cells, computation.span) for s, n in computation.over]


def _single_partial(ctx: LoweringContext, focus: Focus, computation: Computation, stores: Sequence[Stmt]) -> list[Stmt]:
    """Stores to an accumulator: as they are in a unit's own registers; in a memory once for each live element."""
    view = focus.views[computation.name]
    if view.form == "path":
        return list(stores)
    indices = tuple(dict.fromkeys(computation.alias.get(i, i) for i in computation.indices))
    guard = tuple(dict.fromkeys((*edge_conds(focus, indices), *one_writer(ctx, focus, indices, view.buffer))))
    return [If(guard, tuple(stores))] if guard else list(stores)


def note_reduced(ctx: LoweringContext, focus: Focus, computation: Computation) -> None:
    """Remembers over which unit digits the accumulator's partial results lie (for its `CombinePartials`)."""
    since = focus.open_accumulators.get(computation.name, 0)
    name = computation.result
    for d in focus.digits[since:]:
        if d.index in computation.reduced and d.extent.constant != 1:
            if focus.views[computation.name].form != "path":
                raise SplitReduction(
                    f"the units of `{d.levels[-1]}` would all add to one `{name}` at the same time",
                    help="keep it in registers, of which each unit has its own",
                )
            apart = [x for x in d.levels if ctx.device.level(x).siblings == "nothing" and ctx.units.get(x, ONE).constant != 1]
            if apart:
                raise SplitReduction(
                    f"the parts of `{name}` would belong to units of `{apart[-1]}`, which have no barrier",
                    help=f"tile `{d.index}` onto units with a barrier, or in a loop",
                )
            level = ctx.device.level(d.levels[-1])
            tiles = next((x for x in focus.digits[:since] if x.levels == d.levels and level.units == "finite"), None)
            if tiles is not None:
                raise SplitReduction(
                    f"the parts of one `{name}` would belong to units of `{level.name}`, which have different tiles of"
                    f" `{tiles.index}`, or none",
                    help=f"keep `{name}` above the tile of `{tiles.index}`, or distribute one of the two",
                )
            across = next((x for x in focus.digits if x.levels == d.levels and not x.nested and x is not d), None)
            if across is not None:
                raise SplitReduction(
                    f"units that have parts of one `{name}` would have different tiles of `{across.index}`",
                    help="in `arrange` of the line above, divide `u` by the number of units that have the parts",
                )
            ctx.reduced.setdefault(computation.name, set()).update(_per_level(ctx, focus, d, computation))


def _open_count(d: UnitDigit, level: str, name: str) -> SplitReduction:
    return SplitReduction(
        f"the parts of one `{name}` would belong to units of `{level}`, of which there may be any number",
        help=f"tile `{d.index}` onto units of a fixed number, or in a loop",
    )


def _per_level(ctx: LoweringContext, focus: Focus, d: UnitDigit, computation: Computation) -> list[tuple[str, int, int]]:
    """A digit of a number that is flattened over several levels, as (level, stride, count) of each."""
    if ctx.device.level(d.levels[-1]).units == "finite":
        return [(d.levels[-1], 1, 0)]  # 0: all that take part
    stride, extent = d.stride.constant, d.extent.constant
    name = computation.result
    if stride is None or extent is None:
        raise _open_count(d, d.levels[-1], name)
    above = [x for x in focus.digits if x.levels == d.levels and x.extent.constant != 1]
    top = all((x.stride.constant or 0) <= stride for x in above)  # what is beyond the last part idles
    out = []
    for level in reversed(d.levels):
        n = ctx.units.get(level, ONE).constant
        if n is None:
            raise _open_count(d, level, name)
        count = max(1, min(extent, n // stride))
        # A digit that goes on in the level above begins anew with each of its units; so do the digits above one that ends here.
        goes_on = extent > count
        several = any(ctx.units.get(x, ONE).constant != 1 for x in d.levels[: d.levels.index(level)])
        straddles = n % (stride * count) and (goes_on or (several and not top))
        beyond = stride % n if stride >= n else straddles or (goes_on and extent % count and not top)
        if beyond:
            raise SplitReduction(
                f"the parts of one `{name}` would not lie alike in each group of {n} units of `{level}`",
                help=f"tile `{d.index}` onto one level a line",
            )
        if stride >= n:
            stride //= n
            continue
        if count > 1:
            out.append((level, stride, count))
        extent = -(-extent // count)
        stride = 1
    return out
