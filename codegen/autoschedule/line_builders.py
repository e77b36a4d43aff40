"""Short constructors of schedule lines, and questions about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ...dsl import syntax
from ...dsl.support.fast_replace import replace

_Size = TypeVar("_Size", bound=syntax.Size)


def tile_text(*axes: tuple[str, int], level: str | None = None, modifiers: tuple[syntax.Modifier, ...] = ()) -> syntax.Tile:
    """`tile m: 128, n: 64 -> level`; axes without a name are left out."""
    return tiled(((i, size, None) for i, size in axes), level, modifiers)


def tiled(
    axes: Iterable[tuple[str, int, int | None]], level: str | None = None, modifiers: tuple[syntax.Modifier, ...] = ()
) -> syntax.Tile:
    """The same with strides: `tile m: 4 every 32 -> level`."""
    made = (syntax.TileAxis(i, syntax.Num(size), None if every is None else syntax.Num(every)) for i, size, every in axes if i)
    return syntax.Tile(tuple(made), level, modifiers)


def modifier(name: str, value: int | None = None, words: tuple[str, ...] = ()) -> tuple[syntax.Modifier, ...]:
    return (syntax.Modifier(name, () if value is None else (syntax.Num(value),), words),)


Digit = str | tuple[str, str, int]  # an axis; or an axis divided by a number, or the remainder


def move_with_layout(
    tensor: str, memory: str, digits: Iterable[Digit], block: tuple[syntax.Line, ...] | None = None
) -> syntax.Move:
    """`move B -> l2 layout (n/16, k/2, n % 16, k % 2)`"""
    values = tuple(
        syntax.Name(d) if isinstance(d, str) else syntax.Binary(d[1], syntax.Name(d[0]), syntax.Num(d[2])) for d in digits
    )
    return syntax.Move(tensor, memory, block=block, modifiers=(syntax.Modifier("layout", values),))


def move_in_panels(
    tensor: str, memory: str, axis: str, width: int, block: tuple[syntax.Line, ...] | None = None
) -> syntax.Move:
    """`move B -> l2 layout panels(n: 16)`"""
    layout = syntax.Modifier("layout", words=("panels",), maps=((axis, syntax.Num(width)),))
    return syntax.Move(tensor, memory, block=block, modifiers=(layout,))


def resize_line(index: str, size: _Size, new: Mapping[tuple[str, int], int]) -> _Size | syntax.Num:
    """A size of an index, where some have changed: (index, size as it was) -> size."""
    return syntax.Num(new.get((index, int(size.value)), size.value)) if isinstance(size, syntax.Num) else size


def resize_panels(modifiers: tuple[syntax.Modifier, ...], new: Mapping[tuple[str, int], int]) -> tuple[syntax.Modifier, ...]:
    """The same of layouts: panels stay as wide as the tiles that read them."""

    def digit(e: syntax.Size) -> syntax.Size:
        if isinstance(e, syntax.Binary) and isinstance(e.left, syntax.Name):
            return replace(e, right=resize_line(e.left.id, e.right, new))
        return e

    return tuple(
        replace(m, maps=tuple((i, resize_line(i, e, new)) for i, e in m.maps), values=tuple(map(digit, m.values)))
        if m.name == "layout"
        else m
        for m in modifiers
    )


def without_auto(lines: Iterable[syntax.Line]) -> tuple[syntax.Line, ...]:
    """Lines without each `auto`, in blocks too. A block of nothing else is as good as none, but for that of a `keep`: what is
    kept may need a nest of its own."""
    return tuple(
        replace(x, block=without_auto(x.block) or (x.block if isinstance(x, syntax.Keep) else None))
        if isinstance(x, syntax.Move | syntax.Keep) and x.block is not None
        else x
        for x in lines
        if not isinstance(x, syntax.AutoLine)
    )


def is_all_open(lines: Iterable[syntax.Line]) -> bool:
    """Did the author write nothing?"""
    return all(isinstance(x, syntax.AutoLine) for x in lines)
