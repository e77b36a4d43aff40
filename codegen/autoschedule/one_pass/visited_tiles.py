"""How many tiles a loop visits, where a domain restricts its index: of a block with some rows, on average over all blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....dsl.index.expr import Expr, Var


def visited_tiles(
    domain: tuple[Expr, ...], row: tuple[str, int], key: tuple[str, int], rows: int, keys: int, sizes: Mapping[str, int]
) -> float:
    """`row`, `key`: the indices and their extents; a block has so many `rows`, and a tile so many `keys`.

    As in `domain_bounds`, conditions count that are linear in both, and depend on `sizes` alone besides.
    """
    (i, high), (j, wide) = row, key
    first = np.arange(0, high, rows)
    last = np.minimum(first + rows, high) - 1
    start, stop = np.zeros_like(first), np.full_like(first, wide)
    for c in domain:
        a, k = c.coefficient(Var(i)), c.coefficient(Var(j))
        rest = c - Var(i) * a - Var(j) * k
        if k == 0 or not {v.name for v in rest.variables()} <= sizes.keys():
            continue
        greatest = rest.evaluate({v.name: np.int64(sizes[v.name]) for v in rest.variables()}) + a * (last if a > 0 else first)
        if k < 0:
            stop = np.minimum(stop, greatest // -k + 1)
        else:
            start = np.maximum(start, -(greatest // k))
    tiles = -(-np.maximum(stop, 0) // keys) - start // keys
    return float(np.maximum(tiles, 0).mean()) if len(first) else 0.0
