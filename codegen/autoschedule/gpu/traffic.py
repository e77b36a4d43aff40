"""What is told of a candidate, and not asked when candidates are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TileTraffic:
    """Of all blocks, each field a number or an array over candidates.

    least   bytes that must be moved to and from the outermost memory
    asked   bytes that lanes ask of it                 served  and of the memory of a unit: each lane's accesses counted, as the
    waste   share of the points computed that are padding      emulator does
    """

    least: Any
    requested: Any
    served: Any
    waste: Any
