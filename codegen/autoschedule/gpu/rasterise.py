"""The order in which a wave of blocks visits the tiles of a contraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def raster_rows(t: Mapping[str, Any], tiles_m: Any, tiles_n: Any, wave: int) -> Any:
    """The height of a band of tiles, so that a wave of them reads an about square part; 1: no band is needed."""
    rows = np.exp2(np.round(np.log2(np.sqrt(np.maximum(1, wave * t["bn"] / t["bm"])))))
    flat = tiles_n * t["bn"] * 2 > wave / tiles_n * t["bm"]
    return np.where(flat & (tiles_m * tiles_n > wave), np.minimum(rows, tiles_m), 1)
