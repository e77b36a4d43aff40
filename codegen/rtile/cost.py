"""How long a launch takes, from what one unit's tile asks of the device: closed form, for arrays of candidates at once.

    seconds = max(pipe, issue, staging, near, far, group) + OVERLAP * the others + waiting + after + launches

pipe      the schedulers' arithmetic pipes (a matrix instruction's cycles, or scalar operations), padding included
issue     instructions issued: loads, stores and addresses besides the arithmetic
staging   bytes through the memory of a unit, bank conflicts counted
near      bytes asked of the memory that all share (its cache, where it has one), partly used transactions counted
far       bytes that reach the outermost memory: what all must move at least, and what the cache does not keep
group     what a group takes by itself, each turn's wait for its operands included: with a group to a scheduler nothing hides it
waiting   the first loads and last stores of each round of tiles, which nothing hides but other groups of the same scheduler
after     bytes of a launch that comes after: it adds up the parts of a split reduction when all are there

Tiles are dealt to units in rounds, so the busiest unit counts: ceil(blocks / units) tiles. A memory gives its bandwidth only to
as many bytes as are under way: Little's law (Little, "A Proof for the Queuing Formula L = lambda W", 1961), bytes in flight
over latency. Residency follows from registers and staged bytes (NVIDIA, "CUDA Occupancy Calculator").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from .machine import Machine

OVERLAP = 0.125  # what is not the bound still gets in the way: units run out of step only partly
PIPES = ("pipe", "issue", "staging", "near", "far")


@dataclass(frozen=True)
class Demand:
    """What candidates ask, each field a number or an array. Of one tile of the outer level ("block") unless said otherwise.

    blocks     how many blocks                              groups     lockstep groups in one
    registers  of a lane                                    staged     bytes of staging memory
    pipe       cycles of a scheduler's pipe, of one group   issue      instructions of one group
    staging    bytes through the staging memory             near       bytes asked of the shared memory, by all blocks
    far        bytes to and from the outermost, by all      least      bytes that must be moved, by all
    flight     bytes under way at a time                    rounds     round trips that a block waits for, one after another
    launches   how many launches it takes                   waste      share of the points computed that are padding
    asked      bytes that lanes ask of the outermost        served     and of the memory of a unit: each lane's
               memory, by all blocks                                   accesses counted, as the emulator does
    stall      cycles that a group waits on the way          after      bytes of the launch that comes after
    run        elements that a group stores in a row: of what costs the same, longer ones are fewer transactions
    """

    blocks: Any
    groups: Any
    registers: Any
    staged: Any
    pipe: Any
    issue: Any
    staging: Any
    near: Any
    far: Any
    least: Any
    flight: Any
    rounds: Any
    launches: Any
    waste: Any
    asked: Any
    served: Any
    stall: Any = 0
    after: Any = 0
    run: Any = 0

    def taken(self, which: np.ndarray) -> Demand:
        """Of those candidates alone, by their numbers."""
        return Demand(**{name: x[which] if np.ndim(x) else x for name, x in self.__dict__.items()})

    def of(self, name: str, n: int) -> float:
        """What candidate n asks of one of them."""
        x = getattr(self, name)
        return float(np.asarray(x).ravel()[n] if np.ndim(x) else x)


@dataclass(frozen=True)
class Cost:
    """`seconds`, and of it each part by name; `resident` blocks of a unit, of so many `blocks` on so many `units`. Arrays over
    the candidates; infinite seconds where one does not fit."""

    seconds: np.ndarray
    parts: dict[str, np.ndarray]
    resident: np.ndarray
    blocks: np.ndarray
    units: int

    @property
    def waves(self) -> np.ndarray:
        """Of blocks over the device."""
        return self.blocks / (self.units * np.maximum(1, self.resident))

    @property
    def busy(self) -> np.ndarray:
        """The share of units in use."""
        return self.blocks / (self.units * np.ceil(self.blocks / self.units))

    def taken(self, which: np.ndarray) -> Cost:
        """Of those candidates alone, by their numbers."""
        parts = {name: x[which] for name, x in self.parts.items()}
        return Cost(self.seconds[which], parts, self.resident[which], self.blocks[which], self.units)

    def bound(self, n: int) -> str:
        return max(self.parts, key=lambda name: self.parts[name][n])


def residency(machine: Machine, groups: Any, registers: Any, staged: Any) -> np.ndarray:
    """Blocks that one unit holds at a time; 0 where a block is too large."""
    device, lanes = machine.device, machine.lanes
    limit = device.limit
    inf = np.iinfo(np.int64).max
    held = np.full(np.broadcast(groups, registers, staged).shape, 1 << 30, np.int64)
    threads = limit(f"resident {machine.lane.name}s")
    if threads:
        held = np.minimum(held, int(threads) // (groups * lanes))
    if resident := limit(f"resident {machine.outer.name}s"):
        held = np.minimum(held, int(resident))
    if resident := limit(f"resident {machine.group.name}s"):
        held = np.minimum(held, int(resident) // groups)
    if file := limit("registers"):
        granule = int(limit(f"{machine.register.name} granule") or 1)
        each = -(-registers // granule) * granule * lanes
        held = np.minimum(held, int(file) // machine.schedulers // each * machine.schedulers // groups)
    granule = int(limit(f"{machine.staging.name} granule") or 1)
    space = limit(machine.staging.name) or machine.staging.capacity or inf
    taken = np.maximum(1, -(-(staged + machine.staging.reserve) // granule) * granule)
    held = np.where(np.asarray(staged) > 0, np.minimum(held, int(space) // taken), held)
    fits = (
        (groups <= machine.most_groups) & (registers <= machine.most_registers) & (staged <= (machine.staging.capacity or inf))
    )
    return np.where(fits, held, 0)


def cost(machine: Machine, d: Demand, resident: np.ndarray | None = None) -> Cost:
    """The time of each candidate. `resident`: blocks of a unit, where they are known (they do not depend on sizes)."""
    clock, units = machine.clock, machine.units
    blocks = np.maximum(1.0, np.asarray(d.blocks, float))
    held = resident
    if held is None:
        held = residency(machine, np.asarray(d.groups), np.asarray(d.registers), np.asarray(d.staged))
    most = np.ceil(blocks / units)  # blocks of the busiest unit
    resident = np.maximum(1, np.minimum(held, most))
    groups = resident * d.groups
    even = groups / (np.ceil(groups / machine.schedulers) * machine.schedulers)  # groups are dealt to schedulers
    per_scheduler = most * d.groups / machine.schedulers / even / clock
    flight = np.minimum(blocks, units * resident) * np.maximum(d.flight, 1.0)
    reach = flight / machine.latency
    outermost = machine.home.bandwidth or 1e11
    near = reach if machine.cache is None or not machine.cache.bandwidth else np.minimum(machine.cache.bandwidth, reach)
    far = np.minimum(outermost, reach)
    parts = {
        "pipe": d.pipe * per_scheduler,
        "issue": d.issue * per_scheduler,
        "staging": most * d.staging / machine.staging_bytes / clock,
        "near": d.near / near,
        "far": d.far / far,
    }
    parts = {k: v if np.shape(v) == blocks.shape else np.broadcast_to(v, blocks.shape) for k, v in parts.items()}
    bound = reduce(np.maximum, parts.values())
    rest = reduce(np.add, parts.values()) - bound
    rounds = np.ceil(most / resident)
    parts["group"] = np.broadcast_to(rounds * (d.pipe + d.stall) / clock, blocks.shape)
    bound = np.maximum(bound, parts["group"])
    other = np.minimum(resident, np.maximum(1, groups / machine.schedulers))  # blocks that a scheduler can turn to
    waiting = rounds * d.rounds * machine.latency / np.minimum(other, 2)
    cache = machine.cache.bandwidth or outermost if machine.cache else outermost
    kept = np.asarray(d.after) < (machine.cache.capacity or 0 if machine.cache else 0)
    after = d.after / np.where(kept, cache, outermost)
    seconds = bound + OVERLAP * rest + waiting + after + d.launches * machine.launch
    seconds = np.where(held > 0, seconds, np.inf)
    return Cost(seconds, parts, held, blocks, units)
