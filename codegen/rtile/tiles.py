"""rTiles: extents for each axis, aligned to the device, and the ways up from a small one.

Aligned means multiples of what executes (lanes, an instruction's shape) and, along the axis with neighbours in memory, of what
a memory moves at once; so the ways up are ladders of multiples. A tile grows along the axis that saves most traffic for the
space it takes: the data-reuse score (Q(T) - Q(T')) / (F(T') - F(T)) of Zhu et al., "Roller: Fast and Efficient Tensor
Compilation for Deep Learning" (OSDI 2022), with Q the bytes moved for the whole problem and F the footprint. Keeping the two
best steps of each tile instead of one gives all tiles of two axes, and a band around the best way for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Tiles = dict[str, np.ndarray]  # axis -> extents, one a tile

MULTIPLES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_STEPS = 2  # ways up that are followed from each tile


def ladder(base: int, extent: int, most: int, multiples: Sequence[int] = MULTIPLES) -> tuple[int, ...]:
    """Multiples of `base` up to the first that covers `extent`, none beyond `most`; `base` itself at least."""
    out = [base]
    for n in multiples:
        if out[-1] >= extent:
            break
        if out[-1] < n * base <= most:
            out.append(n * base)
    return tuple(out)


def scale_up(
    ladders: Mapping[str, tuple[int, ...]],
    traffic: Callable[[Tiles], Any],
    footprint: Callable[[Tiles], Any],
    fits: Callable[[Tiles], Any],
    steps: int = _STEPS,
) -> Tiles:
    """All tiles on the ways up from the smallest: from each one the `steps` next ones with the best data-reuse score.

    `traffic` Q and `footprint` F are in any unit, for arrays of tiles; `fits` says where a tile may be.
    """
    axes = tuple(ladders)
    level = np.zeros((1, len(axes)), np.int64)  # places on the ladders
    found = [level]

    def extents(at: np.ndarray) -> Tiles:
        return {a: np.asarray(ladders[a])[at[:, n]] for n, a in enumerate(axes)}

    while len(level) and axes:
        q, f = (np.broadcast_to(x, len(level)) for x in (traffic(extents(level)), footprint(extents(level))))
        scores = np.full((len(level), len(axes)), -np.inf)
        for n, a in enumerate(axes):
            up = level.copy()
            up[:, n] += 1
            inside = up[:, n] < len(ladders[a])
            up[:, n] = np.minimum(up[:, n], len(ladders[a]) - 1)
            tiles = extents(up)
            saved, more = q - traffic(tiles), np.maximum(footprint(tiles) - f, 1e-9)
            scores[:, n] = np.where(inside & fits(tiles), saved / more, -np.inf)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :steps]
        parent = np.repeat(np.arange(len(level)), best.shape[1])
        axis = best.ravel()
        alive = scores[parent, axis] > -np.inf
        level = level[parent[alive]]
        level[np.arange(len(level)), axis[alive]] += 1
        level = np.unique(level, axis=0)
        found.append(level)
    return extents(np.unique(np.concatenate(found), axis=0))


def crossed(*parts: Tiles) -> Tiles:
    """Every combination of the entries of several groups of arrays."""
    out: Tiles = {}
    for part in parts:
        n = len(next(iter(part.values()))) if part else 1
        m = len(next(iter(out.values()))) if out else 1
        out = {k: np.repeat(v, n) for k, v in out.items()}
        out |= {k: np.tile(np.asarray(v), m) for k, v in part.items()}
    return out


def taken(tiles: Tiles, mask: np.ndarray) -> Tiles:
    return {k: v[mask] for k, v in tiles.items()}


def volume(extents: Iterable[int]) -> float:
    """How many points axes of these extents have: as a float, since of the largest there are more than integers count."""
    return prod(extents, start=1.0)


def up(n: Any, by: Any) -> Any:
    """n rounded up to a multiple."""
    return -(-n // by) * by


def padded(extent: Any, tile: Any) -> Any:
    """Extent over what tiles cover: the share of points that are in, waste per axis is its inverse less one."""
    return extent / up(extent, tile)
