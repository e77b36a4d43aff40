"""Schedule lines, written short."""

from __future__ import annotations

from collections.abc import Iterable

from ...dsl import syntax


def tile(*axes: tuple[str, int], level: str | None = None, modifiers: tuple[syntax.Modifier, ...] = ()) -> syntax.Tile:
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
