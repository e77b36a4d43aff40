"""rTiles: extents for each axis, aligned to the device, and the steps from a small tile to larger ones.

Aligned means a multiple of the units that execute it (lanes, an instruction's shape) and, along the contiguous axis, of a
memory's transaction. So the steps are ladders of multiples. A tile grows along the axis that saves most traffic for its
space: the data-reuse score (Q(T) - Q(T')) / (F(T') - F(T)) of Zhu et al., "Roller: Fast and Efficient Tensor
Compilation for Deep Learning" (OSDI 2022), with Q the bytes moved for the whole problem and F the footprint. The search follows
the two best steps of each tile instead of one. That gives all tiles of two axes, and a band around the greedy path for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Tiles = dict[str, np.ndarray]  # axis -> extents, one a tile [tiles]; or those that go with every tile [extents, 1]

_STEPS = 2  # tiles: the next larger ones that are followed from each tile [limit; test_first_candidates]


def tile_multiples(base: int, extent: int, most: int, multiples: Sequence[int]) -> tuple[int, ...]:
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
    shape = tuple(len(steps) for steps in ladders.values())
    grid = np.indices(shape).reshape(len(shape), -1)  # places on the ladders
    tiles = {a: np.asarray(ladders[a])[at] for a, at in zip(ladders, grid, strict=True)}
    fit = np.broadcast_to(fits(tiles), grid.shape[1]).reshape(shape)
    follows = np.zeros((*shape, len(shape)), bool)  # from a tile the next one along an axis
    for n in range(len(shape)):
        low, high = _neighbours(n)
        follows[(*low, ..., n)] = fit[high]
    if len(shape) > steps:  # else each is among the best
        q, f = (np.broadcast_to(x, grid.shape[1]).reshape(shape) for x in (traffic(tiles), footprint(tiles)))
        scores = np.full(follows.shape, -np.inf)
        for n in range(len(shape)):
            low, high = _neighbours(n)
            scores[(*low, ..., n)] = (q[low] - q[high]) / np.maximum(f[high] - f[low], 1e-9)
        scores[~follows] = -np.inf
        follows &= np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1) < steps
    further = np.array([prod(shape[n + 1 :]) for n in range(len(shape))])  # places from a tile to the next one along an axis
    ups = np.where(follows, further, 0).reshape(grid.shape[1], -1).tolist()
    found = np.zeros(grid.shape[1], bool)
    found[0] = True
    for at, more in enumerate(ups):
        if found[at]:
            for up in more:
                found[at + up] = True
    return select_tiles(tiles, found)


def _neighbours(axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Of a grid all places but the last ones along an axis, and the next one of each."""
    return (*(slice(None),) * axis, slice(None, -1)), (*(slice(None),) * axis, slice(1, None))


def crossed(*parts: Tiles) -> Tiles:
    """Every combination of the entries of several groups of arrays, the last group's the fastest."""
    shape = [len(next(iter(part.values()))) for part in parts]
    places = np.indices(shape).reshape(len(shape), -1)
    return {name: np.asarray(x)[at] for part, at in zip(parts, places, strict=True) for name, x in part.items()}


def select_tiles(tiles: Tiles, which: np.ndarray) -> Tiles:
    """Some of the tiles, by a mask or by their numbers; what goes with every tile does with those."""
    which = np.flatnonzero(which) if which.dtype == bool else which
    return {k: v[which] if v.ndim == 1 else v for k, v in tiles.items()}


def tiles_shape(tiles: Tiles) -> tuple[int, ...]:
    """How many there are: [tiles], or [extents that go with every tile, tiles]."""
    return np.broadcast(*tiles.values()).shape


def entry_at(x: Any, at: tuple[Any, ...]) -> Any:
    """Of a number or an array, which may have fewer axes than `at` and axes of one where others have several, what is there."""
    shape = np.shape(x)
    return x[tuple(i if n > 1 else 0 for i, n in zip(at[len(at) - len(shape) :], shape, strict=True))] if shape else x


def volume(extents: Iterable[int]) -> float:
    """How many points axes of these extents have: as a float, since of the largest there are more than integers count."""
    return prod(extents, start=1.0)


def round_up(n: int, by: int) -> int:
    """n rounded up to a multiple."""
    return -(-n // by) * by


def ceil_div(n: Any, by: Any) -> Any:
    """n / by rounded up, exact for whole numbers below 2^53: of arrays, floats divide several times faster than integers."""
    return np.ceil(n / by)


def useful_share(extent: Any, tile: Any) -> Any:
    """Extent over what tiles cover: the share of points that are in, waste per axis is its inverse less one."""
    return extent / (ceil_div(extent, tile) * tile)


def as_floats(tiles: Tiles) -> Tiles:
    """The same numbers, to reckon with."""
    return {name: x.astype(float) for name, x in tiles.items()}


def columns(sizes: Sequence[Mapping[str, int]], axes: int) -> dict[str, np.ndarray]:
    """Several sets of sizes as one of arrays [sets, 1, ..] that are broadcast against candidates' arrays of so many axes."""
    found = np.array([list(s.values()) for s in sizes], float).reshape(len(sizes), -1, *[1] * axes)
    return {name: found[:, n] for n, name in enumerate(sizes[0])}


# ---------------------------------------------------------------- sizes that divide an extent evenly


def even_tiles(size: int, most: int) -> int:
    """Tiles of at most `most` that are as good as alike."""
    return -(-size // -(-size // most)) if size else 1


def depth_blocks(k: int, most: int) -> int:
    """Blocks of k of nearly equal size, in whole unrolled iterations."""
    return max(4, round_up(even_tiles(k, most), 4))


def rounded_down(sizes: tuple[int, ...], unit: int) -> tuple[int, ...]:
    return tuple(max(unit, s // unit * unit) for s in sizes)


def near_equal_tiles(size: int, targets: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Tile sizes in whole units that divide a size into nearly equal parts of about these sizes."""
    return tuple(dict.fromkeys(max(unit, round_up(even_tiles(size, max(t, 1)), unit)) for t in targets))
