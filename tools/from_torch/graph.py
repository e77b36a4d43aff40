"""Nodes of a graph of ATen operators, as plain data: what the table reads. PyTorch is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Array:
    """A tensor of a graph.

    dtype    its element type, by our name; PyTorch's where we have none
    shape    its extents: numbers, and the text of a symbol for one that is not known
    strides  in elements, likewise
    """

    dtype: str
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(n for n in self.shape if isinstance(n, str))

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Node:
    """A call of an operator.

    target     its name with the overload, `aten.add.Tensor`; without it where that is `default`
    arguments  by the names of its schema, defaults too; an `Array` for each tensor
    results    what it returns
    """

    target: str
    arguments: Mapping[str, Any]
    results: tuple[Array, ...]

    @property
    def operator(self) -> str:
        """The name as the table has it: `add.Tensor`."""
        return self.target.removeprefix("aten.")

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All tensors among the arguments."""
        return tuple(_arrays(list(self.arguments.values())))

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s for a in (*self.arrays, *self.results) for s in a.symbols))

    def __str__(self) -> str:
        signature = f"{self.target}({', '.join(map(str, self.arrays))})"
        return f"{signature} -> {', '.join(map(str, self.results))}" if self.results else signature

    @property
    def key(self) -> str:
        """Equal for calls that are alike in everything."""
        return repr((self.target, sorted(self.arguments.items()), self.results))


def dense(dtype: str, *shape: int) -> Array:
    """An array in row-major order."""
    return Array(dtype, shape, row_major(shape))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _arrays(values: list[Any]) -> Iterator[Array]:
    for value in values:
        if isinstance(value, Array):
            yield value
        elif isinstance(value, list | tuple):
            yield from _arrays(list(value))
