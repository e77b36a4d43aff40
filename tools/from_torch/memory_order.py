"""The order in which memory has the axes of an array, and what a copy does to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .graph import Array, row_major


def memory_axes(x: Array) -> list[int]:
    """The axes from the slowest to the fastest, without those of extent 1."""
    axes = [a for a, n in enumerate(x.shape) if n != 1]
    return sorted(axes, key=lambda a: -x.strides[a])


def is_dense(x: Array) -> bool:
    """Whether memory has each element once, and nothing else between them."""
    axes = memory_axes(x)
    return [x.strides[a] for a in axes] == list(row_major(tuple(x.shape[a] for a in axes)))


def moved_axes(x: Array, y: Array) -> tuple[list[int], list[int], tuple[int, ...]]:
    """What a copy from `x` to `y` permutes: axes of `x` in the order of its memory, extents of those that stay together, and
    their order in the memory of `y`.

    A `y` of another shape has the elements of `x` in row-major order.
    """
    from_axes = memory_axes(x)
    to_axes = memory_axes(y) if x.shape == y.shape else [a for a, n in enumerate(x.shape) if n != 1]
    runs = _runs([from_axes.index(a) for a in to_axes])
    ordered = sorted(runs)
    extents = [prod([x.shape[from_axes[i]] for i in run]) for run in ordered]
    ones = [a for a, n in enumerate(x.shape) if n == 1]
    return [*ones, *from_axes], extents or [1], tuple(ordered.index(run) for run in runs) or (0,)


def is_view(x: Array, shape: Sequence[int]) -> bool:
    """Whether the elements of `x` in row-major order can have that shape without being moved."""
    axes = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
    runs: list[tuple[int, int]] = []  # extents of axes that memory has as one, each with its stride
    for n, stride in axes:
        if runs and runs[-1][1] == n * stride:
            runs[-1] = (runs[-1][0] * n, stride)
        else:
            runs.append((n, stride))
    extents = [n for n in shape if n != 1]
    for n, _ in runs:
        while n > 1:
            if not extents or n % extents[0]:
                return False
            n //= extents.pop(0)
    return True


def _runs(order: list[int]) -> list[list[int]]:
    """Neighbours that stay neighbours, together."""
    runs: list[list[int]] = []
    for i in order:
        if runs and runs[-1][-1] + 1 == i:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs
