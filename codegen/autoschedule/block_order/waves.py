"""The order of blocks for the cache that they share, and what of their operands they find there.

WAVE    blocks that run at one time. Those of a large operand that they do not share are read again by the next wave.
BAND    a wave as wide as it is high reads least: `raster`
SLICES  a cache may have slices, and each serves its own blocks. By `within` these have a run of consecutive tiles, so that the
        waves of a slice are as those of a device of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dsl import syntax
from ...lower.tiling.delinearize import longer_later
from ...plan.computations import Computation
from ..line_builders import modifier
from ..machine_model import MachineModel
from ..tile_space import Tiles

RESIDENT = 2  # blocks: of a unit at one time [estimate; test_first_candidates]


def wave_of(machine: MachineModel) -> float:
    """Blocks of a slice that run at one time."""
    return machine.units * RESIDENT / machine.slices


def raster_rows(t: Mapping[str, Any], tiles_m: Any, tiles_n: Any, wave: float) -> Any:
    """The height of a band of tiles, so that a wave of blocks reads an about square part; 1: no band is needed."""
    rows = np.exp2(np.round(np.log2(np.sqrt(np.maximum(1, wave * t["bn"] / t["bm"])))))
    flat = tiles_n * t["bn"] * 2 > wave / tiles_n * t["bm"]
    return np.where(flat & (tiles_m * tiles_n > wave), np.minimum(rows, tiles_m), 1)


def block_order(machine: MachineModel, w: Computation, rows: int, blocks: int) -> tuple[syntax.Modifier, ...]:
    """`raster ROWS within l2`, as far as it makes a difference. Where later tiles have more terms, a run of them would
    leave one slice more to do than the others."""
    uneven = any(longer_later((w,), i) for i in w.indices)
    return (*(modifier("raster", rows) if rows > 1 else ()), *(() if uneven else within_slices(machine, blocks)))


def within_slices(machine: MachineModel, blocks: int | None = None) -> tuple[syntax.Modifier, ...]:
    """`within l2`, where the cache has slices, and not only one block for each."""
    if machine.cache is None or machine.slices == 1 or (blocks is not None and blocks <= machine.slices):
        return ()
    return modifier("within", words=(machine.cache.name,))


@dataclass(frozen=True)
class Waves:
    """Tiles in the order of blocks. `machine`, tiles of a product and all its blocks, as numbers or arrays."""

    machine: MachineModel
    t: Tiles
    tiles_m: Any
    tiles_n: Any
    blocks: Any

    def reads(self, large: Any, has_m: bool, has_n: bool) -> Any:
        """How often an operand is read that lacks m or n. It is `large` where only the blocks of a wave find it in the cache,
        else all blocks of a slice do."""
        run = self.blocks / self.machine.slices
        wave = wave_of(self.machine)
        rows = raster_rows(self.t, self.tiles_m, self.tiles_n, wave)
        part = np.where(large, np.minimum(run, wave), run)
        high = np.where(rows > 1, np.minimum(self.tiles_m, rows), np.maximum(1, np.floor(part / self.tiles_n)))
        if not has_n:
            return self.tiles_n / np.minimum(self.tiles_n, np.maximum(1, np.floor(part / high)))
        if not has_m:
            return np.maximum(1, self.tiles_m / np.where(large, high, np.maximum(high, np.floor(run / self.tiles_n))))
        return 1.0
