"""A reduction split over units that cannot meet: partial results in a workspace, combined by a launch that follows.

tile k: 4096 -> block by workspace

C[m, n] = sum(k) ...     -->     P[t, m, n] = sum(k in tile t) ...;   C[m, n] = sum(t) P[t, m, n]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import NotYet
from ...dsl.frozen import replace
from ...dsl.index import Expr, Var, as_expr
from ...dsl.op import Reduction
from ...dsl.values import Load, Value, transform
from .access import identity
from .context import Context
from .spec import ONE, Focus, Range, View
from .work import Output, Work, work_extents
from .workspace import workspace

if TYPE_CHECKING:
    from .recursion import Lowering


def splits(ctx: Context, line: syntax.Tile) -> bool:
    """Does this tile deal a reduction to units that combine their parts in a later launch?"""
    if line.level is None:
        return False
    how = next((m.words[0] for m in line.modifiers if m.name == "by"), None)
    return how in ("workspace", "atomic") or ctx.device.level(line.level).siblings == "nothing"


def split_reduction(low: Lowering, focus: Focus, line: syntax.Tile, axes, counts: list[Expr], before: int) -> Focus:
    """The focus with every reduction that this tile splits storing its partial results; unchanged where it splits none."""
    ctx = low.ctx
    assert line.level is not None
    how = next((m.words[0] for m in line.modifiers if m.name == "by"), None)
    works = []
    ranges, views, digits = dict(focus.ranges), dict(focus.views), list(focus.digits)
    for w in focus.works:
        mine = [(n, a) for n, a in enumerate(axes) if a.index in w.reduced]
        if not mine or w.name in focus.open or not splits(ctx, line) or not w.outputs:
            works.append(w)
            continue
        _once(low, w, line)
        if how == "atomic":
            works.append(_atomically(low, w, line, views))
            for n, _ in mine:
                digits[before + n] = replace(digits[before + n], index="")
            continue
        if w.reduction is not None and w.reduction.kind in ("argmax", "argmin"):
            raise NotYet(f"`{w.reduction.kind}` is not split over units that cannot meet yet", line.span)
        names = []
        for n, a in mine:
            name = ctx.fresh(f"{a.index}_tile")
            digit = digits[before + n]
            ranges[name] = Range(digit.expr, ONE)
            digits[before + n] = replace(digit, index=name)
            names.append((name, counts[n]))
        parts = ctx.fresh(w.name.rstrip("@").lower() + "_parts")
        _workspace(low, parts, w, names)
        views[parts] = View(parts, "global")
        at = tuple(as_expr(Var(i)) for i in w.indices)
        own = Load(w.name, at, ctx.dtypes[w.name])
        works.append(replace(w, outputs=(Output(parts, (*(n for n, _ in names), *w.indices), own),)))
        ctx.extra.append(((_finish(low, w, parts, names),), ()))
    return replace(focus, works=tuple(works), ranges=ranges, views=views, digits=tuple(digits))


def _once(low: Lowering, w: Work, line: syntax.Tile) -> None:
    """A reduction is split over units that cannot meet once."""
    before = low.split.setdefault(w.name, line)
    if before is not line:
        labels = [Label(before.span, "split here already")] if before.span else []
        help = "write one tile line for all its indices"
        raise NotYet(f"`{w.name.rstrip('@')}` would be split a second time", line.span, labels=labels, help=help)


def _atomically(low: Lowering, w: Work, line: syntax.Tile, views: dict[str, View]) -> Work:
    """Every unit adds its part to what is there; a launch before sets the identity, one after does the epilogue, if any."""
    ctx = low.ctx
    assert w.reduction is not None
    kind, dtype = w.reduction.kind, ctx.dtypes[w.name]
    if kind not in ("sum", "max", "min") or dtype.name not in ("f32", "f64", "i32", "i64"):
        raise NotYet(f"`{kind}` of {dtype} is not combined by atomics", line.span, help="`by workspace` combines any reduction")
    at = tuple(as_expr(Var(i)) for i in w.indices)
    own = Load(w.name, at, dtype)
    first = w.outputs[0]
    plain = len(w.outputs) == 1 and isinstance(first.value, Load) and ctx.dtypes[first.tensor] == dtype
    extents = work_extents(w)
    if plain and not w.fused:
        target, subscripts = first.tensor, first.indices
    else:
        target, subscripts = ctx.fresh(w.name.rstrip("@").lower() + "_whole"), w.indices
        shape = tuple(extents[i] for i in w.indices)
        ctx.dtypes[target], ctx.shapes[target] = dtype, shape
        ctx.buffers.append(workspace(ctx, target, dtype, shape))
        views[target] = View(target, "global")

        def whole(v: Value) -> Value | None:
            return Load(target, at, dtype) if isinstance(v, Load) and v.tensor == w.name else None

        ranges = tuple((i, extents[i]) for i in w.indices)
        for o in w.outputs:
            value = transform(o.value, whole)
            last = Work(o.tensor, w.indices, value, None, ranges, span=o.span or w.span, fused=w.fused, subscripts=o.indices)
            ctx.extra.append(((last,), ()))
    start = tuple((i, extents[i]) for i in subscripts)
    ctx.before.append(((Work(target, subscripts, identity(kind, dtype), None, start, span=w.span),), ()))
    return replace(w, outputs=(Output(target, subscripts, own, kind),))


def _workspace(low: Lowering, parts: str, w: Work, names) -> None:
    ctx = low.ctx
    extents = work_extents(w)
    shape = (*(c for _, c in names), *(extents[i] for i in w.indices))
    ctx.dtypes[parts], ctx.shapes[parts] = ctx.dtypes[w.name], shape
    ctx.buffers.append(workspace(ctx, parts, ctx.dtypes[w.name], shape))


def _finish(low: Lowering, w: Work, parts: str, names) -> Work:
    """The work of the launch that follows: it combines, and does what was to be done with the result."""
    assert w.reduction is not None
    name = w.name + "@"
    dtype = low.ctx.dtypes[w.name]
    low.ctx.dtypes[name] = dtype
    extents = work_extents(w)
    value = Load(parts, tuple(as_expr(Var(i)) for i in (*(n for n, _ in names), *w.indices)), dtype)

    def renamed(v: Value) -> Value | None:
        return replace(v, tensor=name) if isinstance(v, Load) and v.tensor == w.name else None

    outputs = tuple(replace(o, value=transform(o.value, renamed)) for o in w.outputs)
    ranges = (*((i, extents[i]) for i in w.indices), *names)
    reduction = Reduction(w.reduction.kind, tuple(n for n, _ in names))
    return Work(name, w.indices, value, reduction, ranges, outputs, w.span, w.fused)
