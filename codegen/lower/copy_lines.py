"""The schedule of a copy that the author left out: which units copy what (`complete` writes it down).

SHARE_OUT   units that synchronise by a barrier share whole rows or panels; lockstep units take neighbouring elements.
"""

from __future__ import annotations

from ...dsl import syntax
from ...dsl.device import Instr
from ...dsl.index import Var
from ...dsl.layout import Layout
from ...dsl.values import Load, Value
from .context import Context
from .work import Work


def copy_lines(ctx: Context, level: str, work: Work, axes: list[tuple[str, int]], source: Value, layout: Layout, line) -> tuple:
    """Lines for `dst = src` at `level`, with the units that the launch has."""
    below = [x for x in ctx.device.levels[ctx.device.depth(level) + 1 :] if x.name in ctx.units]
    shaped = [x for x in below if x.units == "shaped"]
    finite = [x for x in below if x.units == "finite"]
    if not axes:
        return (syntax.Compute(),)
    fastest = contiguous(source, [a for a, _ in axes])
    extents = dict(axes)
    named = next((m.words[0] for m in line.modifiers if m.name == "with" and m.words), None)
    wide = _member(ctx, named, work, extents[fastest]) if named else None
    if wide is not None and wide[0].level == ctx.innermost and shaped:
        return _flat(ctx, axes, fastest, below[-1].name, wide)
    if not finite and shaped and not shaped[-1].bytes:
        return _flat(ctx, axes, fastest, below[-1].name)
    lines: list[syntax.Line] = []
    outer = layout.digits[0]
    if finite and extents[outer.axis] // max(1, outer.div) > 1:
        lines.append(_tile(outer.axis, max(1, outer.div), finite[-1].name))
    if shaped:
        lines += [_tile(a, 1, None) for a, _ in axes if a != fastest]
        lines.append(_tile(fastest, 1, shaped[-1].name))
    lines.append(syntax.Compute())
    return tuple(lines)


def _member(ctx: Context, name: str, work: Work, extent: int) -> tuple[Instr, int] | None:
    """The widest copy instruction of that name or family that takes the type and divides the row, and the elements it moves."""
    dtype = work.value.dtype
    found = []
    for i in ctx.device.instrs:
        s = i.statement
        n = s.ranges[0][1].constant if len(s.ranges) == 1 else None
        fits = n and extent % n == 0 and all(o.dtype == dtype for o in i.operands)
        if name in (i.name, i.family) and not i.accumulate and n and fits:
            found.append((i, n))
    return max(found, key=lambda x: x[1], default=None)


def _flat(ctx: Context, axes, fastest: str, level: str, wide: tuple[Instr, int] | None = None) -> tuple:
    """All axes as one index, the one with neighbours in memory last, dealt by elements, or by what the instruction takes."""
    order = [a for a, _ in axes if a != fastest] + [fastest]
    lines: list[syntax.Line] = []
    name = order[0]
    if len(order) > 1:
        name = "".join(a.replace(".", "") for a in order)
        while name in {a for a, _ in axes}:
            name += "_"
        lines.append(syntax.Fuse(tuple(order), name))
    lines.append(_tile(name, wide[1] if wide else 1, level))
    lines.append(syntax.Compute(wide[0].name if wide else None))
    return tuple(lines)


def contiguous(source: Value, axes: list[str]) -> str:
    """The axis along which the source has its neighbours; the last one if that cannot be told."""
    value = getattr(source, "value", source)
    if isinstance(value, Load) and value.indices:
        for a in reversed(axes):
            if value.indices[-1].coefficient(Var(a)) == 1:
                return a
    return axes[-1]


def _tile(index: str, size: int, level: str | None) -> syntax.Tile:
    return syntax.Tile((syntax.TileAxis(index, syntax.Num(size)),), level)
