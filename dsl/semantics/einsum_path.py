"""Sums of products of arrays with named axes, by matrix products: the fast path of `dsl.semantics.reference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Array = Any
Named = tuple[Array, tuple[str, ...]]  # an array, and the name of each of its axes


def contract(factors: Sequence[Named], out: tuple[str, ...], sizes: Mapping[str, int], dtype: np.dtype) -> Array:
    """sum over all names not in `out` of the product of the factors; axes in the order of `out`.

    Factors have full extents. Integers wrap in `dtype`. A summed name that no factor has multiplies by its extent.
    """
    result: Named = factors[0]
    for position, factor in enumerate(factors[1:], 2):
        later = set(out).union(*(names for _, names in factors[position:]))
        result = _pair(result, factor, later, dtype)
    array, names = _summed(result, set(out), dtype)
    used = {n for _, names_ in factors for n in names_}
    missing = prod(size for n, size in sizes.items() if n not in used and n not in out)
    if missing != 1:
        array = (array * dtype.type(missing)).astype(dtype)
    array = np.transpose(array, [names.index(n) for n in out if n in names])
    shape = [sizes[n] if n in names else 1 for n in out]
    return np.broadcast_to(array.reshape(shape), [sizes[n] for n in out])


def _summed(a: Named, keep: set[str], dtype: np.dtype) -> Named:
    array, names = a
    axes = tuple(i for i, n in enumerate(names) if n not in keep)
    if axes:
        array = np.sum(array, axis=axes, dtype=dtype)
    return array, tuple(n for n in names if n in keep)


def _pair(a: Named, b: Named, later: set[str], dtype: np.dtype) -> Named:
    """The product of two, summed over what neither the result nor later factors need."""
    x, xs = _summed(a, later | set(b[1]), dtype)
    y, ys = _summed(b, later | set(a[1]), dtype)
    batch = [n for n in xs if n in ys and n in later]
    inner = [n for n in xs if n in ys and n not in later]
    left = [n for n in xs if n not in ys]
    right = [n for n in ys if n not in xs]
    sizes = dict(zip(xs, x.shape, strict=False)) | dict(zip(ys, y.shape, strict=False))

    def grouped(array: Array, names: tuple[str, ...], groups: Sequence[list[str]]) -> Array:
        moved = np.transpose(array, [names.index(n) for g in groups for n in g])
        return moved.reshape([prod(sizes[n] for n in g) for g in groups])

    m = grouped(x, xs, (batch, left, inner))
    n = grouped(y, ys, (batch, inner, right))
    names = (*batch, *left, *right)
    return _matmul(m, n, dtype).reshape([sizes[n] for n in names]), names


def _matmul(a: Array, b: Array, dtype: np.dtype) -> Array:
    if dtype.kind == "f" or not (a.size and b.size):
        return np.matmul(a.astype(dtype, copy=False), b.astype(dtype, copy=False))
    reach = float(np.max(np.abs(a.astype(np.float64)))) * float(np.max(np.abs(b.astype(np.float64)))) * a.shape[-1]
    if reach < 2.0**53:  # exact in float64, which has fast matrix products
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(dtype)
    return np.matmul(a.astype(dtype), b.astype(dtype))
