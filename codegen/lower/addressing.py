"""Reads and writes: from a tensor and its subscripts to a buffer and its coordinates, with the guards of edges.

MASK_LOGICAL   a guard compares logical indices with live extents, never addresses.
FILLED         a staged copy is padded, so reads of it need no guard. The exception is a tile below that ends inside the copy:
               an instruction larger than the tile would read the tile's neighbour.
"""

from __future__ import annotations

from ...dsl.errors.base import Label
from ...dsl.errors.schedule import RegisterMismatch, UnboundedTile
from ...dsl.index.expr import Expr, Var
from ...dsl.support.fast_replace import replace
from ...dsl.types import DType
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Part, Shared, Value, copied, transform
from ..ir.schedule_tree import Keep, Node, fragment_of
from ..plan.computations import plain_index
from ..plan.derived_names import result_of, tensor_of
from ..plan.name_factors import holds_between
from .leaves.fragment_fit import coordinates_in, same_fragment, shown_fragment
from .lowering_context import LoweringContext
from .spec import ZERO, Focus, View, or_state_bound


def edge_conds(focus: Focus, indices) -> tuple[Expr, ...]:
    """What must hold (>= 0) for the focus's element to be inside the live ranges of these indices."""
    conds = [b - 1 for i in indices for b in focus.ranges[i].bounds]
    return tuple(dict.fromkeys(c for c in conds if c.interval[0] is None or c.interval[0] < 0))


def unfilled_edge_conds(focus: Focus, view: View, indices) -> tuple[Expr, ...]:
    """Those of `edge_conds` that a staged copy was not filled for: of tiles below the line that made it."""
    if view.filled_extents is None:
        return ()
    ranges = {i: focus.ranges[i] for i in indices}
    conds = [b - 1 for i, r in ranges.items() for b in r.bounds if (i, r.base + b) not in view.filled_extents]
    return tuple(dict.fromkeys(c for c in conds if c.interval[0] is None or c.interval[0] < 0))


def live_ends(focus: Focus) -> frozenset[tuple[str, Expr]]:
    """How far each index is live in the focus: `View.filled_extents` of what is staged here."""
    return frozenset((i, r.base + b) for i, r in focus.ranges.items() for b in (*r.bounds, r.size))


def coordinates(ctx: LoweringContext, focus: Focus, tensor: str, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Coordinates of `tensor[indices]` in the buffer of its newest copy, at the focus's element."""
    view = focus.views[tensor]
    subs = focus.binding
    if view.form == "global":
        return tuple(e.subs(subs) for e in indices)
    if view.form == "path":
        return _path(ctx, focus, tensor_of(tensor), view)
    if view.form == "box":
        at = {a: e.subs(subs) - o for a, e, o in zip(view.axes, indices, view.origin, strict=True)}
    else:
        at = {i: subs[Var(i)] - o for i, o in zip(view.axes, view.origin, strict=True)}
    assert view.layout is not None
    return view.layout.coords(at)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"


def _path(ctx: LoweringContext, focus: Focus, tensor: str, view: View) -> tuple[Expr, ...]:
    if (elsewhere := _in_other_fragment(ctx, focus, tensor, view)) is not None:
        return elsewhere
    coords: list[Expr] = []
    extents: list[int] = []
    owners: list[object] = []
    for index, depth in zip(view.axes, view.depth, strict=True):
        for step in focus.ranges[index].steps[depth:]:
            if step.unit != "fragment" and step.extent.constant != 1:
                owners.append((index, step.digit, step.stride))
            if step.unit is None:
                n = step.extent.constant
                if n is None:
                    raise UnboundedTile(
                        f"a tile held in registers spans `{index}`, whose extent has no bound here",
                        help=f"tile `{index}` above this line{or_state_bound(step.extent)}",
                    )
                if n > 1:
                    coords.append(step.expr)
                    extents.append(n)
    if focus.element is not None:
        coords.append(focus.element[0])
        extents.append(focus.element[1])
    shape = tuple(extents)
    first = ctx.first_uses.setdefault(view.buffer, tuple(ctx.lines_above))
    known = ctx.cells.setdefault(view.buffer, shape)
    if known != shape:
        message = f"`{tensor}` has two register layouts: {_times(shape)} here, {_times(known)} at its other use"
        raise _unlike(ctx, tensor, first, message, _times(shape), _times(known))
    if ctx.owners.setdefault(view.buffer, tuple(owners)) != tuple(owners):
        message = f"`{tensor}` is held in registers, and a unit has other elements of it here than there"
        raise _unlike(ctx, tensor, first, message, "one way", "another way")
    return tuple(coords)


def _unlike(
    ctx: LoweringContext, tensor: str, first: tuple[Node, ...], message: str, here: str, there: str
) -> RegisterMismatch:
    """The error at the first line above this use that is not above the `first` one, and the other way round; where the same
    lines are above both, at the one that holds the tensor."""
    now, then = ([x.span for x in nodes if x.span is not None] for nodes in (ctx.lines_above, first))
    at, other = (next((x for x in mine if x not in others), None) for mine, others in ((now, then), (then, now)))
    labels: list[Label] = []
    if at is None and other is None:
        at = next((x.span for x in reversed(ctx.lines_above) if result_of(tensor) in x.tensors), None)
        here = f"by the lines below it is computed as {there}, and read as {here}"
    elif at is not None or then:
        other = other or then[-1]
        labels, here = [Label(other, f"{there} by this line")], f"{here} by this line"
    at = at or (now[-1] if now else None)
    keep = next((x for x in reversed(ctx.lines_above) if isinstance(x, Keep) and result_of(tensor) in x.tensors), None)
    elsewhere = keep is not None and keep.memory is not None and not ctx.register(keep.memory)
    way = "the lines below must spread it alike wherever it is used; or hold it in "
    way += "registers as well" if elsewhere else "a memory that units share"
    return RegisterMismatch(message, at, note=here, labels=[x for x in labels if x.span != at], help=way)


def _in_other_fragment(ctx: LoweringContext, focus: Focus, tensor: str, view: View) -> tuple[Expr, ...] | None:
    """Coordinates of a tile that an instruction laid out in registers, where another fragment or other tiles visit it.

    None where those do that laid it out. Raises RegisterMismatch where a unit does not have what it reads.
    """
    held, here = fragment_of(view.owner), focus.fragment
    if held is None or here is None or focus.element is None:
        return None
    steps = [(i, s) for i, depth in zip(view.axes, view.depth, strict=True) for s in focus.ranges[i].steps[depth:]]
    steps = [(i, s) for i, s in steps if s.unit != "fragment" and s.extent.constant != 1]
    tiles = tuple((i, s.extent.constant, s.stride) for i, s in steps if s.unit is None)
    units = tuple((i, s.unit, s.digit, s.stride) for i, s in steps if s.unit is not None)
    alike = all((part := here.of(i)) is not None and part[0] == n for i, n, _ in held.maps)  # so it is in tiles as those it has
    if alike and all(extent is not None for _, extent, _ in tiles):
        ctx.register_tiles.setdefault(view.buffer, (tiles, units))
    if alike and view.buffer not in ctx.register_tiles:
        return None  # a tile without a bound, which is refused where it is visited
    known, owners = ctx.register_tiles.get(view.buffer, ((), ()))
    if known == tiles and same_fragment(held, here):
        return None
    offsets = {i: sum((s.expr * s.stride for j, s in steps if i == j and s.unit is None), ZERO) for i in view.axes}
    found = coordinates_in(held, known, here, offsets, focus.element[0]) if owners == units else None
    if found is None:
        raise RegisterMismatch(
            f"`{tensor}` is held in registers as `{shown_fragment(held)}`, and read here as `{shown_fragment(here)}`:"
            " no unit has what it reads",
            help="hold it in a memory that units share",
        )
    return found


def translate(ctx: LoweringContext, focus: Focus, v: Value) -> Value:
    """The value at the focus's element: loads name buffers, indices are coordinates."""
    subs = focus.binding

    def step(n: Value) -> Value | None:
        match n:
            case Load():
                return _read(ctx, focus, n)
            case Cast(arg=Cast(arg=Load() as load) as between) if holds_between(load.dtype, between.dtype, n.dtype):
                # a factor that is widened in steps has a name for each, but lines need not materialise it
                return replace(n, arg=_read(ctx, focus, load))
            case IndexValue():
                return replace(n, expr=n.expr.subs(subs))
            case Part():
                return Load(n.name, (), n.dtype)  # its register
            case Shared():
                return translate(ctx, focus, copied(n))
            case Masked():
                conds = tuple(c.subs(subs) for c in n.conds)
                return replace(
                    n, conds=conds, value=translate(ctx, focus, n.value), otherwise=translate(ctx, focus, n.otherwise)
                )
        return None

    return transform(v, step)


def _read(ctx: LoweringContext, focus: Focus, load: Load) -> Value:
    view = focus.views[load.tensor]
    value: Value = Load(view.buffer, coordinates(ctx, focus, load.tensor, load.indices), load.dtype)
    if view.form == "path":
        return value
    alias = focus.aliases
    names = {alias.get(x.name, x.name) for e in load.indices for x in e.variables()}
    mine = sorted(n for n in names if n in focus.ranges)
    if load.otherwise is not None and (view.form == "global" or view.computed):
        subs = focus.binding
        at = [e.subs(subs) for e in load.indices]
        shape = ctx.shapes[load.tensor]
        inside = [c for e, n in zip(at, shape, strict=True) for c in (e, n - e - 1)]
        conds = tuple(c for c in inside if c.interval[0] is None or c.interval[0] < 0)
        if conds:
            value = Masked(conds, value, translate(ctx, focus, load.otherwise), load.dtype)
    conds = unfilled_edge_conds(focus, view, mine) if view.form != "global" and view.zero_padded else edge_conds(focus, mine)
    return Masked(conds, value, zero_of(load.dtype), load.dtype) if conds else value


def zero_of(dtype: DType) -> Const:
    """The zero of a type."""
    return Const(False if dtype.kind == "bool" else 0, dtype)


def zero_is_neutral(value: Value, indices: tuple[str, ...], focus: Focus) -> bool:
    """Is a sum's term zero wherever its loads were filled with zero because one of `indices` ran over?

    Only when the term is a product whose every factor is a load (perhaps cast) of filled data that has each of these indices: a
    factor without it may be infinite, and 0 * inf is not 0. The box of a subscript such as i + r holds neighbours, not zeros,
    where r runs over.
    """
    match value:
        case Apply(fn="mul", args=args):
            return all(zero_is_neutral(a, indices, focus) for a in args)
        case Cast(arg=arg):
            return zero_is_neutral(arg, indices, focus)
        case Load(tensor=tensor, indices=subscripts):
            view, alias = focus.views[tensor], focus.aliases
            plain = {plain_index(e) for e in subscripts}
            names = plain | {alias.get(v.name, v.name) for e in subscripts for v in e.variables() if view.form == "global"}
            if view.form != "box":
                names |= {alias[v.name] for e in subscripts for v in e.variables() if v.name in alias}
            return view.zero_padded and set(indices) <= names
    return False
