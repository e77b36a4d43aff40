"""The arguments of a call by name, or why a row of the table does not serve it."""

from __future__ import annotations

from typing import Any

from .graph import Array, Node


class NotServed(Exception):
    """Why a row of the table does not serve a call. The nearer it came, the smaller `distance`."""

    def __init__(self, reason: str, distance: float = 1.0) -> None:
        super().__init__(reason)
        self.distance = distance


def argument(node: Node, name: str) -> Any:
    """The value of an argument. Raises NotServed where the call has none of that name."""
    first, _, index = name.partition(".")
    if first not in node.arguments:
        raise NotServed(f"the call has no `{first}`", 9)
    value = node.arguments[first]
    return value[int(index)] if index else value


def tensor_argument(node: Node, name: str) -> Array:
    value = argument(node, name)
    if not isinstance(value, Array):
        raise NotServed(f"`{name}` is {value}, and no tensor", 2)
    return value
