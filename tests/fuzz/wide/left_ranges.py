"""Ranges on the left side: intermediates whose indices no tensor tells the range of, and what reads them past their rims."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ..model import FLOATS, Apply, Binary, Expr, Named, Number, Read, Reduce, Statement

if TYPE_CHECKING:
    from ..ops import Writer

AXES = (("W", "p", "r"), ("H", "q", "u"))  # a size, the index of a point, the index in a window around it


def with_ranges(source: Random, s: Statement, unknown: bool) -> Statement:
    """The statement, perhaps with ranges on its left side: of all indices where nothing else tells them, now and then of some
    whose range is known. Draws of its own: others stay as they are."""
    rng = Random(str(source.getstate()[1][:4]) + s.target)
    if unknown:
        return replace(s, stated=s.indices) if rng.random() < 0.6 else s
    return replace(s, stated=tuple(i for i in s.indices if rng.random() < 0.5)) if rng.random() < 0.04 else s


def windows_of_windows(writer: Writer) -> None:
    """Two or three statements, each of which reads the one before it in a window that leaves it."""
    rng = writer.rng
    axes = AXES[: rng.randint(1, 2)]
    channels = ["M"] if rng.random() < 0.4 else []
    writer.least |= {size: 4 for size, _, _ in axes}  # so that no range is negative
    last = writer.input((*(size for size, _, _ in axes), *channels), _type(writer))
    for depth in range(rng.choice((2, 2, 2, 3))):
        last = _window(writer, last, axes, depth)


def _window(writer: Writer, last: str, axes: tuple[tuple[str, str, str], ...], depth: int) -> str:
    rng = writer.rng
    at: list[Expr] = []
    ranges: dict[str, Expr] = {}
    for size, point, window in axes:
        stride, dilation = rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 2))
        here: Expr = Binary("*", Number(stride), Named(point)) if stride > 1 else Named(point)
        step: Expr = Binary("*", Number(dilation), Named(window)) if dilation > 1 else Named(window)
        at.append(Binary("-", Binary("+", here, step), Number(rng.randint(0, 2))))
        ranges[point] = _extent(rng, size)
        ranges[window] = Number(rng.randint(1, 3))
    free = [point for _, point, _ in axes]
    over = [window for _, _, window in axes]
    if len(writer.held[last][1]) > len(axes):  # channels
        at.append(Named("c"))
        ranges["c"] = Named("M")
        (over if rng.random() < 0.3 and depth else free).append("c")
    fill = Number(rng.choice((0, 0, 0, 1)))
    body = writer.typed(Read(last, tuple(at), fill), writer.held[last][0])
    kind = rng.choice(("sum", "sum", "max", "min"))
    if kind == "sum" and rng.random() < 0.5:
        weights = writer.input(("K",), _type(writer))
        body = Binary("*", body, writer.typed(Read(weights, (Named(over[0]),), Number(1)), writer.held[weights][0]))
    value: Expr = Reduce(kind, tuple(over), body, tuple(i for i in over if i != "c"))
    if rng.random() < 0.3:
        value = Binary("+", value, writer.literal(1))
    elif rng.random() < 0.2 and writer.compute in FLOATS:
        value = Apply("relu", (value,))
    target = f"t{len(writer.statements)}"
    writer.statements.append(Statement(target, tuple(free), value, tuple(ranges.items())))
    writer.types[target] = writer.compute
    writer.shaped.add(target)
    writer.held[target] = writer.compute, ("?",) * len(free)  # read here alone
    return target


def _type(writer: Writer) -> str:
    return writer.rng.choice((writer.compute, writer.compute, "i8"))


def _extent(rng: Random, size: str) -> Expr:
    """What a range is made of: a size, a bit more or less of it, a half of it, a number."""
    whole = Named(size)
    pick = rng.random()
    if pick < 0.55:
        return whole
    if pick < 0.75:
        return Binary(rng.choice("+-"), whole, Number(rng.randint(1, 3)))
    if pick < 0.9:
        return Binary("+", Binary("/", Binary("-", whole, Number(1)), Number(2)), Number(1))
    return Number(rng.choice((0, 1, 3, 5)))
