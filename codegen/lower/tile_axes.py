"""The names in a line: the axes of a tile line, resolved to numbers; the tensors that a line keeps or moves; modifiers."""

from __future__ import annotations

from dataclasses import dataclass

from ...dsl import syntax
from .spec import Range


@dataclass(frozen=True)
class ResolvedAxis:
    """One axis of a tile line, resolved."""

    index: str
    size: int
    every: int | None


def tile_axes(line: syntax.Tile) -> list[ResolvedAxis]:
    out = []
    for a in line.axes:
        assert isinstance(a.size, syntax.Num)
        every = a.every.value if isinstance(a.every, syntax.Num) else None
        out.append(ResolvedAxis(a.index, int(a.size.value), None if every is None else int(every)))
    order = modifier(line, "order")
    if order is not None:
        place = {w: n for n, w in enumerate(order.words)}
        out.sort(key=lambda a: place.get(a.index, len(place)))
    return out


def tensors_of(line: syntax.Line) -> tuple[str, ...]:
    """The tensors that a line keeps or moves."""
    return line.tensors if isinstance(line, syntax.Keep) else (line.tensor,) if isinstance(line, syntax.Move) else ()


def modifier(line, name: str) -> syntax.Modifier | None:
    return next((m for m in line.modifiers if m.name == name), None)


def number_of(m: syntax.Modifier | None, default: int) -> int:
    if m is None or not m.values:
        return default
    v = m.values[0]
    assert isinstance(v, syntax.Num)
    return int(v.value)


def clamped(r: Range, size: int) -> int:
    """A tile is no larger than what there can be of the range, as buffers and footprints count it."""
    c = r.capacity
    return max(1, min(size, c)) if c is not None and not r.strided_runs else size
