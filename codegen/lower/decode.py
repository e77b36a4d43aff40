"""The number of a unit as digits, one for each axis of a tile line."""

from __future__ import annotations

from ...dsl.index import Expr, Var, as_expr
from ..tile import Let
from .arrange import check_arrange
from .axes import Axis, clamped, modifier
from .context import Context
from .spec import ONE, ZERO, Digit, Focus, Range, Step


def decode(ctx: Context, focus: Focus, line, axes: list[Axis], counts, later: Expr, number: Expr, levels):
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
        size = clamped(r, a.size)
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
