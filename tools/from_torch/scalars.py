"""How a call's arguments become the parameters of an op, and its scalars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .arguments import NotServed, argument, tensor_argument
from .graph import Array, Node


@dataclass(frozen=True)
class Number:
    """A scalar input of an op, or a parameter."""

    value: Callable[[Node], float | int]


def number(name: str, default: float | None = None) -> Number:
    """The value of an argument."""

    def value(node: Node) -> float:
        found = argument(node, name)
        found = default if found is None else found
        if isinstance(found, Array):
            if found.shape:
                raise NotServed(f"`{name}` is {found}, and no number", 2)
            return float("nan")  # known when the graph runs; sizes do not depend on it
        if not isinstance(found, int | float):
            raise NotServed(f"`{name}` is {found}, and no number", 2)
        return found

    return Number(value)


def reciprocal(name: str) -> Number:
    """One over the value of an argument."""
    of = number(name)
    return Number(lambda node: 1 / of.value(node))


def same(name: str, otherwise: str | None = None) -> Number:
    """The one value of a list with one for each axis, as strides have; of `otherwise` where the list is empty."""

    def value(node: Node) -> int:
        found = argument(node, name)
        found = argument(node, otherwise) if otherwise and not found and found != 0 else found
        values = set(found) if isinstance(found, list | tuple) else {found}
        one = values.pop()
        if values or not isinstance(one, int):
            raise NotServed(f"`{name}` is {found}, not the same along all axes", 0.6)
        return one

    return Number(value)


def ratio(name: str) -> Number:
    """How many times larger the result is than a tensor, along each of its last two axes."""

    def value(node: Node) -> int:
        x, y = tensor_argument(node, name), node.results[0]
        factors = {divmod(int(b), int(a)) for a, b in zip(x.shape[2:], y.shape[2:], strict=True)}
        if len(factors) != 1 or next(iter(factors))[1]:
            raise NotServed(f"{y} is no multiple of {x}, the same along both axes", 0.6)
        return factors.pop()[0]

    return Number(value)


def constant(value: float) -> Number:
    """The same for all calls."""
    return Number(lambda _: value)
