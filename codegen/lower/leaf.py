"""The leaves: what is done to one element, and the loops that are left around it.

CAPACITY_NOT_LIVE   a loop over an index that numbers registers runs to its capacity and is unrolled; others to the live extent.
OWNER_WRITES        initialisation, body and write-back of a register tile visit it by the same steps: one owner an element.
ONE_WRITER          what several units would store alike is stored by unit 0.
ONE_READER          from what is stored of an accumulator between loops only the unit goes on that stored it: others could not
                    know when it is there, and nobody reads what they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...dsl.errors import InternalError
from ...dsl.errors.schedule import SplitReduction, UnboundedTile
from ...dsl.index import Expr, Var, as_expr, ceildiv
from ...dsl.types import TYPES, DType
from ...dsl.values import Apply, Cast, IndexValue, Load, Masked, Value
from ..tile import AllReduce, For, If, Stmt, Store
from .access import aliases, binding, coordinates, edge_conds, identity, translate, zero_is_neutral
from .context import Context
from .match import Fragment
from .places import nowhere, places_grow
from .spec import ONE, ZERO, Focus, Step
from .work import Work

Inner = Callable[[Focus], list[Stmt]]


@dataclass(frozen=True)
class Fill(Work):
    """Initialisation of an accumulator: `name` gets its identity."""

    @property
    def reduced(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Reload(Work):
    """An accumulator goes on from what `home` holds (ONE_READER).

    instead   what units start from that do not go on
    parts     the indices whose parts units hold: which of them goes on is said elsewhere (`keep`)
    """

    home: str = ""
    instead: Value | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """Partial results pass through `buffers`: each unit of `level` stores its own, then reads those of its group.

    The group of a unit are those whose numbers differ only in `number // stride % count` (count 0: all that take part).
    """

    buffers: tuple[str, ...]
    level: str
    stride: int
    count: int
    storing: bool


@dataclass(frozen=True)
class Combine(Work):
    """The partial results that units hold of `name` are combined; every unit gets the whole."""

    how: Exchange | None = None

    @property
    def reduced(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Spread:
    """A line of ours: the leaf visits elements as a fragment lays them over lanes and registers."""

    fragment: Fragment


def cell_indices(focus: Focus, work: Work) -> set[str]:
    """Indices that number registers of a tile this work touches."""
    names = {work.name, *work.reads, *work.targets}
    return {i for t in names if t in focus.views and focus.views[t].form == "path" for i in focus.views[t].axes}


def open_index(ctx: Context, focus: Focus, index: str, size: int, cell: bool, inner: Inner, unroll: int = 1) -> list[Stmt]:
    """Loops over tiles of `size` of one index (pending repetitions first), and `inner` for each."""
    r = focus.ranges[index]
    if r.reps:
        rep = r.reps[0]
        var = ctx.var(f"{index}_run", as_expr(rep.count))
        step = Step(as_expr(var), as_expr(rep.count), None)
        opened = focus.with_range(index, r.open_rep(step))
        body = open_index(ctx, opened, index, size, cell, inner, unroll)
        return [For(var, ZERO, as_expr(rep.count), ONE, tuple(body), unroll=0)]
    if cell:
        cap = r.capacity
        if cap is None:
            message = f"a tile held in registers spans `{index}`, whose extent has no bound here"
            raise UnboundedTile(message, help=f"tile `{index}` above this line, or state a bound: `where N <= 4096`")
        trips: Expr = as_expr(max(1, -(-cap // size)))
        unroll = 0
    else:
        trips = r.trips(size)
    if trips.constant == 1 or (r.capacity is not None and r.capacity <= size):
        # one tile at most: what may be missing of it is guarded, not looped over
        return inner(focus.with_range(index, r.split(size, Step(ZERO, ONE, None), live=not cell and trips.constant == 1)))
    var = ctx.var(index, trips)
    step = Step(as_expr(var), trips, None)
    body = inner(focus.with_range(index, r.split(size, step, live=not cell)))
    return [For(var, ZERO, trips, ONE, tuple(body), unroll=unroll)]


def each(ctx: Context, focus: Focus, indices: list[str], cells: set[str], inner: Inner, unroll: dict[str, int]) -> list[Stmt]:
    """Loops over single elements of several indices, outermost first."""
    if not indices:
        return inner(focus)
    first, rest = indices[0], indices[1:]

    def deeper(f: Focus) -> list[Stmt]:
        return each(ctx, f, rest, cells, inner, unroll)

    return open_index(ctx, focus, first, 1, first in cells, deeper, unroll.get(first, 1))


def leaf(
    ctx: Context, focus: Focus, work: Work, spread: Fragment | None = None, order: tuple[str, ...] = (), unroll: int = 1
) -> list[Stmt]:
    """The scalar leaf of one work: its remaining indices as loops, its element inside."""
    cells = cell_indices(focus, work)
    names = [*work.reduced, *work.indices]
    names = [i for i in order if i in names] + [i for i in names if i not in order]
    hints = dict.fromkeys(names[:1], unroll)
    if spread is None:
        return each(ctx, focus, names, cells, lambda f: element(ctx, f, work), hints)
    mine = [i for i in names if spread.of(i)]
    others = [i for i in names if not spread.of(i)]

    def tiles(f: Focus, todo: list[str]) -> list[Stmt]:
        if not todo:
            return _registers(ctx, f, spread, mine, lambda g: element(ctx, g, work))
        n = spread.of(todo[0])
        assert n is not None
        return open_index(ctx, f, todo[0], n[0], True, lambda g: tiles(g, todo[1:]))

    return each(ctx, focus, others, cells, lambda f: tiles(f, mine), hints)


def _registers(ctx: Context, focus: Focus, spread: Fragment, mine: list[str], inner: Inner) -> list[Stmt]:
    """Every register of the fragment, with the lane's number as it is."""
    lane, _ = lanes_below(ctx, focus.level)
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
        f = f.with_range(i, f.ranges[i].split(1, Step(part[1].subs(subs), as_expr(part[0]), "fragment")))
    register = as_expr(var) if var is not None and count > 1 else ZERO
    f = replace(f, element=(register, count), digits=_with_lanes(ctx, f, spread, mine))
    body = inner(f)
    if var is None or count == 1:
        return body
    return [For(var, ZERO, as_expr(count), ONE, tuple(body), unroll=0)]


def lanes_below(ctx: Context, level: str) -> tuple[Expr, int | None]:
    return ctx.number(ctx.below(level, ctx.innermost))


def _with_lanes(ctx: Context, focus: Focus, spread: Fragment, mine: list[str]):
    """The lanes count as bound by the fragment: digit by digit they hold different elements (or replicas, see ONE_WRITER)."""
    from .spec import Digit

    levels = ctx.below(focus.level, ctx.innermost)
    index = mine[0] if mine and spread.lane is not None else ""
    return (*focus.digits, Digit(index, levels, ZERO, ONE, ONE))


# ---------------------------------------------------------------- elements


def element(ctx: Context, focus: Focus, work: Work) -> list[Stmt]:
    """One element of a work, all its ranges being single."""
    if isinstance(work, Fill):
        return _fill(ctx, focus, work)
    if isinstance(work, Combine):
        return _combine(ctx, focus, work)
    if work.reduction is not None:
        return accumulate_element(ctx, focus, work)
    return store_element(ctx, focus, work)


def store_element(ctx: Context, focus: Focus, work: Work) -> list[Stmt]:
    value = translate(ctx, focus, work.value)
    if isinstance(work, Reload) and work.instead is not None:
        alias = aliases(focus)
        indices = tuple(dict.fromkeys(alias.get(i, i) for i in (*work.indices, *work.parts)))
        conds = one_writer(ctx, focus, indices, focus.views[work.home].buffer, among_lockstep=False)
        value = Masked(conds, value, work.instead, value.dtype) if conds else value
    return guarded_store(ctx, focus, work, value)


def guarded_store(ctx: Context, focus: Focus, work: Work, value: Value) -> list[Stmt]:
    tensor, indices = work.name, work.subscripts or work.indices
    view = focus.views[tensor]
    at = tuple(as_expr(Var(i)) for i in indices)
    alias = aliases(focus)
    indices = tuple(dict.fromkeys(alias.get(i, i) for i in indices))
    where, stored = coordinates(ctx, focus, tensor, at), narrowed(value, ctx.dtypes[tensor])
    store = Store(view.buffer, where, stored, work.atomic, work.span, None if work.atomic else work.using)
    if view.form == "path":
        return [store]
    conds = tuple(dict.fromkeys((*edge_conds(focus, indices), *one_writer(ctx, focus, indices, view.buffer))))
    return [If(conds, (store,))] if conds else [store]


def narrowed(value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else Cast(value, dtype)


def one_writer(
    ctx: Context, focus: Focus, indices: tuple[str, ...], buffer: str, among_lockstep: bool = True
) -> tuple[Expr, ...]:
    """Unit 0 stores for all that would store the same (ONE_WRITER); those in lockstep with it, too, if not `among_lockstep`."""

    def counts(*levels: str) -> bool:
        return among_lockstep or any(ctx.device.level(x).siblings != "lockstep" for x in levels)

    owner = next((b.level for b in ctx.buffers if b.name == buffer), None)
    conds: list[Expr] = []
    told_apart: set[str] = set()
    top = ctx.device.depth(owner) if owner else 0
    for d in focus.digits:
        told_apart.update(d.levels)
        if d.index and d.index not in indices and d.expr != ZERO and ctx.device.depth(d.levels[-1]) > top and counts(*d.levels):
            conds.append(-d.expr)
    for level in ctx.device.levels[top + 1 :]:
        finite = level.units == "finite" and level.name in ctx.units
        several = level.name in ctx.units and (finite or ctx.units[level.name].constant != 1)
        if level.name not in told_apart and several and counts(level.name):
            conds.append(-as_expr(ctx.unit_var(level.name)))
    return tuple(conds)


def _fill(ctx: Context, focus: Focus, work: Work) -> list[Stmt]:
    assert work.reduction is not None
    kind = work.reduction.kind
    dtype = ctx.dtypes[work.name]
    at = tuple(as_expr(Var(i)) for i in work.indices)
    out: list[Stmt] = [Store(focus.views[work.name].buffer, coordinates(ctx, focus, work.name, at), identity(kind, dtype))]
    if kind in ("argmax", "argmin"):
        place = work.name + "@at"
        out.append(Store(focus.views[place].buffer, coordinates(ctx, focus, place, at), nowhere(ctx.dtypes[place])))
    return _alone(ctx, focus, work, out)


def _combine(ctx: Context, focus: Focus, work: Combine) -> list[Stmt]:
    """Lockstep units exchange registers; others pass their values through a memory that they share (see `lower_keep`)."""
    assert work.reduction is not None
    at = tuple(as_expr(Var(i)) for i in work.indices)
    names = [work.name] + ([work.name + "@at"] if work.reduction.kind in ("argmax", "argmin") else [])
    cells = tuple((focus.views[n].buffer, coordinates(ctx, focus, n, at)) for n in names)
    if work.how is None:
        return [
            AllReduce(level, work.reduction.kind, stride, count, cells, work.span)
            for level, stride, count in sorted(ctx.reduced.get(work.name, set()), key=lambda x: -ctx.device.depth(x[0]))
            if ctx.device.level(level).siblings == "lockstep"
        ]
    from .combine import gather, share

    step = share if work.how.storing else gather
    return step(ctx, focus, work, names, cells)


def accumulate_element(ctx: Context, focus: Focus, work: Work) -> list[Stmt]:
    """acc = acc (+) value, masked with the identity where a reduced index ran over."""
    assert work.reduction is not None
    kind = work.reduction.kind
    note_reduced(ctx, focus, work)
    dtype = ctx.dtypes[work.name]
    at = tuple(as_expr(Var(i)) for i in work.indices)
    view = focus.views[work.name]
    coords = coordinates(ctx, focus, work.name, at)
    now = Load(view.buffer, coords, dtype)
    value = translate(ctx, focus, work.value)
    conds = edge_conds(focus, work.reduced)
    over = tuple(i for i in work.reduced if focus.ranges[i].bounds)
    if conds and not (kind == "sum" and zero_is_neutral(work.value, over, focus)):
        value = Masked(conds, value, identity(kind, value.dtype), value.dtype)
    value = narrowed(value, dtype)
    if kind in ("argmax", "argmin"):
        return _argmax_element(ctx, focus, work, now, value, coords, at)
    new = combined(kind, now, value, dtype)
    return _alone(ctx, focus, work, [Store(view.buffer, coords, new, span=work.span)])


def _alone(ctx: Context, focus: Focus, work: Work, stores: list[Stmt]) -> list[Stmt]:
    """Stores to an accumulator: as they are in a unit's own registers; in a memory once for each live element."""
    view = focus.views[work.name]
    if view.form == "path":
        return stores
    indices = tuple(dict.fromkeys(work.alias.get(i, i) for i in work.indices))
    guard = tuple(dict.fromkeys((*edge_conds(focus, indices), *one_writer(ctx, focus, indices, view.buffer))))
    return [If(guard, tuple(stores))] if guard else stores


def combined(kind: str, now: Value, value: Value, dtype: DType) -> Value:
    """One step of a reduction; a product under a float sum is fused into a multiply-add (docs/numbers.md)."""
    fn = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}[kind]
    if fn == "add" and dtype.kind == "float" and isinstance(value, Apply) and value.fn == "mul":
        return Apply("fma", (*value.args, now), dtype)
    return Apply(fn, (now, value), dtype)


def _argmax_element(ctx: Context, focus: Focus, work: Work, now: Value, value: Value, coords, at) -> list[Stmt]:
    assert work.reduction is not None
    place = work.name + "@at"
    dtype, buffer = ctx.dtypes[place], focus.views[place].buffer
    here = coordinates(ctx, focus, place, at)
    best = Load(buffer, here, dtype)
    index = IndexValue(_place(focus, work), dtype)
    held = (focus.views[work.name].buffer, coords, now)
    grows = places_grow(ctx, focus, work, index.expr)
    out = take_better(work.reduction.kind, held, (buffer, here, best), value, index, grows)
    conds = () if grows else edge_conds(focus, work.reduced)  # the identity replaces nothing where ties do not count
    return _alone(ctx, focus, work, [If(conds, tuple(out))] if conds else out)


def _place(focus: Focus, work: Work) -> Expr:
    """The element's number in the order of the op's reduced indices, whichever of them are fused by now."""
    subs = binding(focus)
    components = {c for _, parts in work.fused for c, *_ in parts}
    flat: Expr = as_expr(0)
    for i, extent in work.extents:
        own = i + "~" if i + "~" in components else i
        if own not in (work.subscripts or work.indices):
            flat = flat * extent + subs[Var(own)]
    return flat


def take_better(kind: str, held, place, value: Value, index: Value, grows: bool = False) -> list[Stmt]:
    """(value, index) replaces what is held if it is better, or as good with a smaller index; NaN is best, the first of them.

    `held` and `place` are (buffer, coords, load). Both stores compare with what was held before: the value is stored last, and
    the comparison comes out the same after the index was. `grows`: the index is larger than that of all that was held.
    """
    boolean = TYPES["bool"]
    register, coords, now = held
    where, here, best = place
    fn, beaten = ("gt", "le") if kind == "argmax" else ("lt", "ge")
    better: Value = Apply(fn, (value, now), boolean)
    floating = value.dtype.kind == "float"
    if grows and floating:
        sound, as_good = Apply("eq", (now, now), boolean), Apply(beaten, (value, now), boolean)
        better = Apply("and", (sound, Apply("not", (as_good,), boolean)), boolean)  # not as good: better, or NaN
    elif not grows:
        earlier = Apply("lt", (index, best), boolean)
        better = Apply("or", (better, Apply("and", (Apply("eq", (value, now), boolean), earlier), boolean)), boolean)
        if floating:
            nan, had = (Apply("ne", (v, v), boolean) for v in (value, now))
            first = Apply("or", (Apply("not", (had,), boolean), earlier), boolean)
            sound = Apply("and", (better, Apply("not", (had,), boolean)), boolean)
            better = Apply("or", (sound, Apply("and", (nan, first), boolean)), boolean)
    return [
        Store(where, here, Apply("where", (better, index, best), index.dtype)),
        Store(register, coords, Apply("where", (better, value, now), value.dtype)),
    ]


def note_reduced(ctx: Context, focus: Focus, work: Work) -> None:
    """Remembers over which unit digits the accumulator's partial results lie (for its `Combine`)."""
    since = focus.open.get(work.name, 0)
    for d in focus.digits[since:]:
        if d.index in work.reduced and d.extent.constant != 1:
            if focus.views[work.name].form != "path":
                raise SplitReduction(
                    f"the units of `{d.levels[-1]}` would add to one `{work.name.rstrip('@')}` all at once",
                    help="keep it in registers, of which each unit has its own",
                )
            found = _per_level(ctx, d)
            ctx.reduced.setdefault(work.name, set()).update(found)


def _per_level(ctx: Context, d) -> list[tuple[str, int, int]]:
    """A digit of a number that is flattened over several levels, as (level, stride, count) of each."""
    if ctx.device.level(d.levels[-1]).units == "finite":
        return [(d.levels[-1], 1, 0)]  # 0: all that take part
    stride, extent = d.stride.constant, d.extent.constant
    if stride is None or extent is None:
        raise InternalError("a parallel reduction needs constant unit counts")
    out = []
    for level in reversed(d.levels):
        n = ctx.units.get(level, ONE).constant
        if n is None:
            raise InternalError("a parallel reduction needs constant unit counts")
        if stride >= n:
            stride = ceildiv(stride, n).constant or 1
            continue
        count = min(extent, n // stride)
        if count > 1:
            out.append((level, stride, count))
        extent = -(-extent // count)
        stride = 1
    return out
