"""Lines of a launch to a schedule tree, and back.

tile m: 4, n: 8 -> thread order n, m   -->   Tile(axes=(Axis(n, 8), Axis(m, 4)), level="thread", below=...)

The lines are explicit: sizes are numbers, no strategy, parameter or `auto` is left. Lines after a `compute` are never reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dsl import syntax
from ...dsl.source import Span
from ...dsl.support.fast_replace import replace
from ..ir.schedule_tree import Axis, Fuse, Keep, Leaf, Materialise, Move, Node, Pipeline, Tile, Unroll


def schedule_tree(lines: Sequence[syntax.Line]) -> Node:
    """The tree of explicit lines; a leaf that no line says computes element by element."""
    below: Node = Leaf()
    for line in reversed(lines):
        below = _node(line, below)
    return below


def _node(line: syntax.Line, below: Node) -> Node:
    match line:
        case syntax.Tile():
            return _tile(line, below)
        case syntax.Fuse(indices, name):
            return Fuse(indices=indices, name=name, line=line, below=below)
        case syntax.Move():
            return Move(
                tensor=line.tensor, view=line.view, pipeline=pipeline_of(line), line=line, below=below, **_storage(line)
            )
        case syntax.Keep():
            storage = _storage(line)
            return Keep(names=line.tensors, open_block=is_open_block(line.block), line=line, below=below, **storage)
        case syntax.Compute():
            order, unroll = modifier(line, "order"), modifier(line, "unroll")
            instr = line.instr if isinstance(line.instr, str) else None
            return Leaf(
                instr=instr, order=order.words if order else (), unroll=number_of(unroll, 0) if unroll else 1, line=line
            )
    raise TypeError(f"line {line!r}")


def _tile(line: syntax.Tile, below: Node) -> Tile:
    axes = [Axis(a.index, _number(a.size), None if a.every is None else _number(a.every)) for a in line.axes]
    order = modifier(line, "order")
    if order is not None:
        rank = {w: n for n, w in enumerate(order.words)}
        axes.sort(key=lambda a: rank.get(a.index, len(rank)))
    unroll, by, raster, within = (modifier(line, x) for x in ("unroll", "by", "raster", "within"))
    return Tile(
        axes=tuple(axes),
        level=line.level,
        unroll=Unroll(number_of(unroll, 0) if unroll.values else None) if unroll else None,
        peel=modifier(line, "peel") is not None,
        pipeline=pipeline_of(line),
        split=by.words[0] if by else None,
        arrange=modifier(line, "arrange"),
        raster=number_of(raster, 1) if raster else None,
        within=within.words[0] if within else None,
        online=modifier(line, "online") is not None,
        carry=modifier(line, "carry") is not None,
        line=line,
        below=below,
    )


def _storage(line: syntax.Move | syntax.Keep) -> dict:
    instr = modifier(line, "with")
    return {
        "memory": line.memory,
        "layout": modifier(line, "layout"),
        "pad": modifier(line, "pad"),
        "swizzle": modifier(line, "swizzle"),
        "instr": instr.words[0] if instr and instr.words else None,
        "block": schedule_tree(line.block) if line.block and not is_open_block(line.block) else None,
    }


def is_open_block(block: tuple[syntax.Line, ...] | None) -> bool:
    """Is it `auto` alone?"""
    return bool(block) and all(isinstance(x, syntax.AutoLine) for x in block or ())


# ---------------------------------------------------------------- back to lines


def lines_of(node: Node) -> tuple[syntax.Line, ...]:
    """The lines that say the tree. Raises TypeError for what no line says: leaves that lowering adds."""
    out: list[syntax.Line] = []
    for x in node.path():
        if not (isinstance(x, Leaf) and x.is_implied):
            out.append(_line(x))
    return tuple(out)


def _line(x: Node) -> syntax.Line:
    match x:
        case Tile():
            axes = tuple(syntax.TileAxis(a.index, syntax.Num(a.size), syntax.Num(a.every) if a.every else None) for a in x.axes)
            unroll = [_modifier("unroll", x.unroll.count)] if x.unroll else []
            split = [syntax.Modifier("by", words=(x.split,))] if x.split else []
            arrange = [x.arrange] if x.arrange else []
            raster = [_modifier("raster", x.raster)] if x.raster is not None else []
            within = [syntax.Modifier("within", words=(x.within,))] if x.within is not None else []
            words = [syntax.Modifier(word) for word, has in (("online", x.online), ("carry", x.carry), ("peel", x.peel)) if has]
            modifiers = (*unroll, *words, *_pipeline(x.pipeline), *split, *arrange, *raster, *within)
            return syntax.Tile(axes, x.level, modifiers)
        case Fuse():
            return syntax.Fuse(x.indices, x.name)
        case Move():
            return syntax.Move(x.tensor, x.memory, x.view, (*_storage_modifiers(x), *_pipeline(x.pipeline)), _block(x))
        case Keep():
            return syntax.Keep(x.names, x.memory, _storage_modifiers(x), _block(x))
        case Leaf():
            order = [syntax.Modifier("order", words=x.order)] if x.order else []
            unroll = [_modifier("unroll", x.unroll or None)] if x.unroll != 1 else []
            return syntax.Compute(x.instr, (*order, *unroll))
    raise TypeError(f"no line says {x!r}")


def _block(x: Materialise) -> tuple[syntax.Line, ...] | None:
    if isinstance(x, Keep) and x.open_block:
        return (syntax.AutoLine(),)
    return lines_of(x.block) if x.block is not None else None


def _storage_modifiers(x: Materialise) -> tuple[syntax.Modifier, ...]:
    instr = syntax.Modifier("with", words=(x.instr,)) if x.instr else None
    return tuple(m for m in (x.layout, x.pad, x.swizzle, instr) if m is not None)


def _pipeline(p: Pipeline | None) -> tuple[syntax.Modifier, ...]:
    words = ("through",) if p and p.through else ()
    return (replace(_modifier("pipeline", p.depth), words=words),) if p else ()


def _modifier(name: str, value: int | None) -> syntax.Modifier:
    return syntax.Modifier(name, () if value is None else (syntax.Num(value),))


# ---------------------------------------------------------------- modifiers of lines


def modifier(line: syntax.Line, name: str) -> syntax.Modifier | None:
    """The modifier of that name."""
    return next((m for m in getattr(line, "modifiers", ()) if m.name == name), None)


def modifier_span(tile: Tile, name: str) -> Span | None:
    """Where a line has that modifier; the line where it has none."""
    m = modifier(tile.line, name) if tile.line is not None else None
    return (m.span if m is not None else None) or tile.span


def number_of(m: syntax.Modifier | None, default: int) -> int:
    """The first value of a modifier; the default where it has none."""
    return _number(m.values[0]) if m is not None and m.values else default


def pipeline_of(line: syntax.Line) -> Pipeline | None:
    """`pipeline DEPTH [through]`; one buffer without a depth."""
    m = modifier(line, "pipeline")
    return None if m is None else Pipeline(number_of(m, 1), "through" in m.words, m.span)


def constant_size(size: object) -> int | None:
    """A number of a line, if it is known by now."""
    return int(size.value) if isinstance(size, syntax.Num) else None


def _number(size: object) -> int:
    assert isinstance(size, syntax.Num)
    return int(size.value)
