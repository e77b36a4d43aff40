"""A reduction that is split over blocks: each has a part of it, and a second launch combines the partial results."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...plan.computations import Computation
from ...plan.derived_names import CombiningAccumulator
from ..tile_space import Tiles, ceil_div, crossed

PARTS = (64, 256, 1024, 4096)  # elements: a part of a split reduction [tried; test_sizes_tried]
WHOLE = ("argmax", "argmin")  # what has no parts


def has_parts(w: Computation) -> bool:
    """Whether the reduction may be distributed. The launch that combines partial results is not split again."""
    return w.reduction is not None and w.reduction.kind not in WHOLE and not isinstance(w.name, CombiningAccumulator)


def with_splits(tiles: Tiles, few: np.ndarray, name: str, parts: Sequence[int], without: Container[str] = ()) -> Tiles:
    """The tiles, and `few` of them with each of the `parts` as the size `name`; sizes in `without` go with every tile."""
    if not parts or not few.any():
        return tiles
    split = crossed({x: v[few] for x, v in tiles.items() if x != name and x not in without}, {name: np.array(parts)})
    return {x: np.concatenate([v, split[x]]) if x in split else v for x, v in tiles.items()}


class ReductionParts(NamedTuple):
    """Elements of `each` part of the reduced axis, how many there are, and the bytes of all partial results."""

    each: Any
    count: Any
    bytes: Any


def parts_of(size: Any, whole: Any, result: Any) -> ReductionParts:
    """The parts of candidates that split an axis of extent `whole` by `size` (0: it stays whole); `result`: bytes."""
    split = size > 0
    if not split.any():
        return ReductionParts(whole, 1.0, 0)
    each = np.where(split, np.minimum(size, whole), whole)
    count = ceil_div(whole, each)
    return ReductionParts(each, count, np.where(split, count * result, 0))
