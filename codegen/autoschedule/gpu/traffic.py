"""Traffic of a candidate that reports show. The comparison of candidates does not need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TileTraffic:
    """Of all blocks, each field a number or an array over candidates.

    least      bytes that must be moved to and from the outermost memory
    requested  bytes that lanes request of it
    served     bytes that lanes request of the memory of a unit; each lane's accesses count, as in the emulator
    waste      share of the computed points that are padding
    """

    least: Any
    requested: Any
    served: Any
    waste: Any
