"""The number of blocks of a kernel that are resident on an SM or CU, and the resource that limits it.

Its registers are divided among its schedulers, and the units of a subgroup (a warp, a wave) allocate theirs together; blocks
take shared memory and slots. The device's text states all figures: `resident threads`, `resident blocks`, `resident warps`,
`registers`, `schedulers`, `shared`, and the granules in which registers and shared memory are allocated (NVIDIA, "CUDA
Occupancy Calculator").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dsl.device import Device

UNBOUNDED = 1 << 30  # blocks: more than any unit holds [limit]


@dataclass(frozen=True)
class Occupancy:
    """`blocks` resident on an SM or CU; their `threads` of the `most` that it takes; `bound`: the limiting resource."""

    blocks: int
    threads: int
    most: int
    bound: str

    @property
    def share(self) -> float:
        return self.threads / self.most


def blocks_by_bound(
    device: Device, groups: Any, registers: Any, shared: Any, per_scheduler: int | None = None
) -> dict[str, Any]:
    """How many blocks a unit holds by each of its resources alone. Integers, or NumPy arrays, which broadcast.

    groups         lockstep groups of a block, as warps
    registers      of a thread
    shared         bytes of a block
    per_scheduler  lockstep groups that each scheduler holds by their registers, where a compiler said so itself
    """
    inner, bounds = device.levels[-1], {}
    owner = next(x for x in reversed(device.levels) if x.units == "open")
    lanes, schedulers = inner.width or 1, int(device.limit("schedulers") or 1)
    if threads := device.limit(f"resident {inner.name}s"):
        bounds[f"{inner.name}s"] = int(threads) // (groups * lanes)
    if blocks := device.limit(f"resident {owner.name}s"):
        bounds[f"{owner.name}s"] = int(blocks)
    if most := device.limit(f"resident {device.levels[-2].name}s"):
        bounds[f"{device.levels[-2].name}s"] = int(most) // groups
    if per_scheduler is not None:
        bounds["registers"] = per_scheduler * schedulers // groups
    elif file := device.limit("registers"):
        taken = _up(np.maximum(registers, 1), int(device.limit("register granule") or 1)) * lanes
        bounds["registers"] = int(file) // schedulers // taken * schedulers // groups
    memory = next((m for m in device.memories if m.level == owner.name), None)
    if memory is not None and (capacity := device.limit(memory.name) or memory.capacity):
        taken = _up(shared + memory.reserve, int(device.limit(f"{memory.name} granule") or 1))
        bounds[memory.name] = np.where(taken > 0, int(capacity) // np.maximum(taken, 1), UNBOUNDED)
    return bounds


def occupancy(device: Device, threads: int, registers: int, shared: int, groups: int | None = None) -> Occupancy | None:
    """`threads` of a block, `registers` of a thread, bytes of `shared` memory of a block.

    groups  how many lockstep groups each scheduler holds by their registers, where a compiler said so itself
    None where the device does not state what a unit holds.
    """
    most, inner = device.limit("resident threads"), device.levels[-1]
    if not most or not inner.width or not any(x.units == "open" for x in device.levels) or threads < 1:
        return None
    bounds = blocks_by_bound(device, -(-threads // inner.width), registers, shared, groups)
    least = min(bounds, key=lambda name: bounds[name])
    blocks = int(bounds[least])
    return Occupancy(blocks, blocks * threads, int(most), least)


def _up(n: Any, granule: int) -> Any:
    return -(-n // granule) * granule
