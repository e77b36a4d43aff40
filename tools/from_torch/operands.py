"""How a call's arguments become the inputs of an op: views of its tensors. The table consists of these.

A view changes no element. `axes` are a permutation that comes before it; what has to be moved for it is a weight, once, or is
stored in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from .arguments import NotServed, argument, tensor_argument
from .graph import Array, Node
from .memory_order import is_dense, memory_axes, moved_axes


@dataclass(frozen=True)
class View:
    """A tensor as an op reads it.

    axes    the order of the tensor's axes, before it is reshaped; None is as they are
    dtypes  the element types that will do
    """

    shape: tuple[int, ...]
    dtypes: tuple[str, ...]
    axes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Operand:
    """An input of an op from a tensor of the call; of several, from their sum.

    names  of the arguments; `hx.0` is the first of a list
    shape  from the tensor and the call to the shape, and the order of axes if it is another
    wide   whether f16 and bf16 are converted to f32 beforehand, as small vectors of parameters are
    """

    names: tuple[str, ...]
    shape: Callable[[Array, Node], tuple[Sequence[int], Sequence[int] | None]]
    wide: bool = False

    def view(self, node: Node) -> View:
        tensor = tensor_argument(node, self.names[0])
        for other in self.names[1:]:
            if tensor_argument(node, other).shape != tensor.shape:
                raise NotServed(f"`{self.names[0]}` and `{other}` have different shapes")
        shape, axes = self.shape(tensor, node)
        widened = ("f32",) if self.wide and tensor.dtype in ("f16", "bf16") else ()
        return View(tuple(shape), (*widened, tensor.dtype), None if axes is None else tuple(axes))


def array(name: str) -> Operand:
    """The tensor as it is."""
    return _reshaped(lambda x, _: x.shape, name)


def flat(name: str) -> Operand:
    """All elements in a row: `[N]`."""
    return _reshaped(lambda x, _: (x.elements,), name)


def parameter(*names: str) -> Operand:
    """A vector of parameters, as a bias; converted to the op's type."""
    return _reshaped(lambda x, _: (x.elements,), *names, wide=True)


def wide(name: str) -> Operand:
    """The tensor as it is, converted to f32 where it is narrower."""
    return _reshaped(lambda x, _: x.shape, name, wide=True)


def rows(name: str) -> Operand:
    """`[..., N]` as `[M, N]`."""
    return _reshaped(lambda x, _: (prod(_axes(x, 1)[:-1]), x.shape[-1]), name)


def batch(name: str) -> Operand:
    """`[..., M, N]` as `[B, M, N]`."""
    return _reshaped(lambda x, _: (prod(_axes(x, 2)[:-2]), *x.shape[-2:]), name)


def sample(name: str, rank: int) -> Operand:
    """A batch of samples, or one sample alone: `[C, H, W]` as `[1, C, H, W]`, of `rank` axes."""
    return _reshaped(lambda x, _: (1, *x.shape) if len(x.shape) == rank - 1 else x.shape, name)


def transposed(name: str) -> Operand:
    """The last two axes in the other order, where the memory has them so: `[..., K, N]` as `[N, K]`, or `[B, N, K]`."""

    def shape(x: Array, _: Node) -> tuple[Sequence[int], Sequence[int]]:
        order = _swapped(len(_axes(x, 2)))
        if x.strides[-2] >= x.strides[-1]:
            raise NotServed(f"`{name}` is not stored transposed", 1.5)
        return _matrices([x.shape[a] for a in order]), order

    return Operand((name,), shape)


def transposed_beforehand(name: str) -> Operand:
    """The two axes in the other order: of a weight, once and for all calls."""

    def shape(x: Array, _: Node) -> tuple[Sequence[int], Sequence[int]]:
        order = _swapped(len(_axes(x, 2)))
        return [x.shape[a] for a in order], order

    return Operand((name,), shape)


def along_last(name: str) -> Operand:
    """`[..., N]` as `[M, N]`, where the call's `dim` is the last axis."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        dim, rank = int(argument(node, "dim")), len(_axes(x, 1))
        if dim % rank != rank - 1:
            raise NotServed(f"it goes along axis {dim % rank} of {rank}; the library's goes along the last", 0.5)
        return prod(x.shape[:-1]), x.shape[-1]

    return _reshaped(shape, name)


def reduced(name: str, dims: str, which: str) -> Operand:
    """`[M, N]` where the call reduces the last axes (`rows`: N), the first (`columns`: M), or all of them (`all`).

    Axes of extent 1 belong to either.
    """

    def shape(x: Array, node: Node) -> Sequence[int]:
        rank, value = len(_axes(x, 1)), argument(node, dims)
        axes = {int(d) % rank for d in (value if isinstance(value, list | tuple) else [value])} if value is not None else ()
        axes = axes or {*range(rank)}
        gone = [a in axes for a in range(rank) if x.shape[a] != 1]
        if which == "all" and all(gone):
            return prod(x.shape[:-1]), x.shape[-1]
        at_end = gone == sorted(gone) if which == "rows" else gone == sorted(gone, reverse=True)
        if which == "all" or not at_end or len({*gone}) < 2:
            raise NotServed(f"it reduces the axes {sorted(axes)} of {x}, which are no rows or columns", 0.9)
        reduced_extents = prod(x.shape[a] for a in axes)
        others = prod(n for a, n in enumerate(x.shape) if a not in axes)
        return (others, reduced_extents) if which == "rows" else (reduced_extents, others)

    return _reshaped(shape, name)


def leading(name: str, other: str) -> Operand:
    """`[M, N]`, where N are the axes of the tensor that `other` has too."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        part = _without_leading_ones(tensor_argument(node, other).shape)
        split = len(x.shape) - len(part)
        if split < 0 or tuple(x.shape[split:]) != part:
            raise NotServed(f"`{other}` is no row of `{name}`: it is broadcast along other axes", 0.8)
        return prod(x.shape[:split]), prod(part)

    return _reshaped(shape, name)


def before(name: str, other: str) -> Operand:
    """`[M, N]`, where `other` is `[M, 1, ...]`, one number for each M."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        part = _without_leading_ones(tensor_argument(node, other).shape)
        kept = tuple(part[: len(part) - next((i for i, n in enumerate(reversed(part)) if n != 1), 0)])
        split = len(x.shape) - len(part) + len(kept)
        if len(kept) == len(part) or split < 0 or _without_leading_ones(x.shape[:split]) != kept:
            raise NotServed(f"`{other}` is no column of `{name}`: it is broadcast along other axes", 0.8)
        return prod(kept), prod(x.shape[split:])

    return _reshaped(shape, name)


def gates(name: str, count: int) -> Operand:
    """The weights of a cell, `[count*H, I]` as `[count, H, I]`; of the sum of biases see `gate_biases`."""
    return _reshaped(lambda x, _: (count, x.shape[0] // count, *x.shape[1:]), name)


def gate_biases(count: int, *names: str) -> Operand:
    """`[count*H]` as `[count, H]`: the sum of these."""
    return _reshaped(lambda x, _: (count, x.shape[0] // count), *names, wide=True)


def grouped(name: str, axis: int) -> Operand:
    """The axis of channels as two: the call's groups, and the channels of a group."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        groups = int(argument(node, "groups"))
        x = Array(x.dtype, (1, *x.shape), (0, *x.strides)) if len(x.shape) == 3 else x
        return (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])

    return _reshaped(shape, name)


def channelwise(name: str) -> Operand:
    """The filters of a depthwise convolution, `[C, 1, R, S]` as `[C, R, S]`."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        groups = int(argument(node, "groups"))
        if groups == 1 or x.shape[0] != groups or x.shape[1] != 1:
            raise NotServed(f"{groups} groups of the filters {x} are not one filter for each channel", 2)
        return (x.shape[0], *x.shape[2:])

    return _reshaped(shape, name)


def channels_last(name: str) -> Operand:
    """`[N, C, H, W]`, where the memory has it as `[N, H, W, C]`."""

    def shape(x: Array, _: Node) -> tuple[Sequence[int], Sequence[int]]:
        order = (0, 2, 3, 1)
        if len(x.shape) != 4 or tuple(memory_axes(x)) != tuple(a for a in order if x.shape[a] != 1):
            raise NotServed(f"`{name}` is not stored channels last", 3)
        return [x.shape[a] for a in order], order

    return Operand((name,), shape)


def planes(name: str) -> Operand:
    """`[N, C, ...]` as `[N, C, H, W]`."""
    return _reshaped(lambda x, _: (*_axes(x, 2)[:2], prod(x.shape[2:-1]), x.shape[-1] if len(x.shape) > 2 else 1), name)


def heads(name: str, keys: str) -> Operand:
    """Queries `[B, H*G, Q, D]` as `[B*H, G, Q, D]`, where the keys have H heads."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        few = tensor_argument(node, keys).shape[-3]
        return (prod(x.shape[:-3]) * few, x.shape[-3] // few, *x.shape[-2:])

    return _reshaped(shape, name)


def as_many(name: str, other: str) -> Operand:
    """`[..., T, D]` as `[H, T, D]`, where the other has as many rows."""

    def shape(x: Array, node: Node) -> Sequence[int]:
        queries, keys = tensor_argument(node, other).shape[-2], x.shape[-2]
        if queries != keys:
            raise NotServed(f"a causal mask for {queries} queries and {keys} keys: PyTorch's begins at the first key", 0.5)
        return prod(x.shape[:-2]), *x.shape[-2:]

    return _reshaped(shape, name)


def stored(name: str, order: tuple[int, ...]) -> Operand:
    """What a copy reads, as its memory has it, where the result has the axes in this order; axes that stay together are one."""

    def shape(x: Array, node: Node) -> tuple[Sequence[int], Sequence[int]]:
        axes, extents, permutation = moved_axes(x, node.results[0])
        if not is_dense(x):
            raise NotServed(f"it copies {x} from a larger or a smaller memory", 0.8)
        if permutation != order:
            raise NotServed(f"no op of the library permutes axes to {', '.join(map(str, permutation))}", 0.9)
        return extents, axes

    return Operand((name,), shape)


def _reshaped(shape: Callable[[Array, Node], Sequence[Any]], *names: str, wide: bool = False) -> Operand:
    return Operand(names, lambda x, node: (shape(x, node), None), wide)


def _axes(x: Array, least: int) -> tuple[Any, ...]:
    if len(x.shape) < least:
        raise NotServed(f"{x} has fewer axes than {least}", 2)
    return x.shape


def _matrices(shape: Sequence[int]) -> Sequence[int]:
    return (prod(shape[:-2]), *shape[-2:]) if len(shape) > 2 else shape


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _without_leading_ones(shape: Sequence[Any]) -> tuple[Any, ...]:
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return tuple(shape[first:])
