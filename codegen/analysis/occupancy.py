"""The number of blocks of a kernel that are resident on an SM or CU, and the resource that limits it.

Its registers are divided among its schedulers, and the units of a subgroup (a warp, a wave) allocate theirs together; blocks
take shared memory and slots. The device's text states all figures: `resident threads`, `resident blocks`, `resident warps`,
`registers`, `schedulers`, `shared`, and the granules in which registers and shared memory are allocated (NVIDIA, "CUDA
Occupancy Calculator").
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dsl.device import Device, Level, Memory


@dataclass(frozen=True)
class Occupancy:
    """`blocks` a unit; `threads` of those of the `most` that a unit can hold; `bound`: what there is least of."""

    blocks: int
    threads: int
    most: int
    bound: str

    @property
    def share(self) -> float:
        return self.threads / self.most


def occupancy(device: Device, threads: int, registers: int, shared: int, groups: int | None = None) -> Occupancy | None:
    """`threads` of a block, `registers` of a thread, bytes of `shared` memory of a block.

    groups  how many lockstep groups each scheduler holds by their registers, where a compiler said so itself
    None where the device does not state what a unit holds.
    """
    most, inner = device.limit("resident threads"), device.levels[-1]
    owner = next((x for x in reversed(device.levels) if x.units == "open"), None)
    if not most or not inner.width or owner is None or threads < 1:
        return None
    each = -(-threads // inner.width)  # lockstep groups of a block
    bounds = {"threads": int(most) // (each * inner.width)}
    for level in (owner, device.levels[-2]):
        held = device.limit(f"resident {level.name}s")
        if held:
            bounds[f"{level.name}s"] = int(held) if level == owner else int(held) // each
    schedulers = int(device.limit("schedulers") or 1)
    file = device.limit("registers")
    if groups is not None:
        bounds["registers"] = groups * schedulers // each
    elif file:
        taken = _up(max(registers, 1), int(device.limit("register granule") or 1)) * inner.width
        bounds["registers"] = int(file) // schedulers // taken * schedulers // each
    memory, capacity = _shared(device, owner), device.limit("shared")
    if memory is not None and capacity:
        taken = _up(shared + memory.reserve, int(device.limit("shared granule") or 1))
        if taken:
            bounds[memory.name] = int(capacity) // taken
    least = min(bounds, key=lambda name: bounds[name])
    return Occupancy(bounds[least], bounds[least] * threads, int(most), least)


def _shared(device: Device, owner: Level) -> Memory | None:
    """The memory that a block has to itself."""
    return next((m for m in device.memories if m.level == owner.name), None)


def _up(n: int, granule: int) -> int:
    return -(-n // granule) * granule
