"""Seconds of a launch, from the resources that one block uses: closed form, for arrays of candidates at once.

    seconds = max(pipe, issue, staging, near, far, loads, group, block) + OVERLAP * the others + waiting + second + launches

pipe      the schedulers' arithmetic pipes (a matrix instruction's cycles, or scalar operations), padding included
issue     instructions issued: loads, stores and addresses besides the arithmetic
staging   bytes through shared memory, bank conflicts counted
near      bytes requested from the memory that all blocks share (its cache, if it has one), whole transactions counted
far       bytes that reach the outermost memory: each argument once, and the misses of the cache
loads     bytes loaded, of which no more than those in flight arrive in a latency. Nothing waits for what is stored
group     time of a scheduler's warps in each round of tiles: no less than the serial time of one, its waits included, which
          nothing hides if it is alone there. If a warp has phases of different pipes, the longer one of each warp, and of one
          the other: at the beginning and the end nothing is to do beside it
block     serial time of one block, its waits after barriers included: only another block hides them
waiting   the first loads and last stores of each round of tiles, which only other warps of the same scheduler hide: latencies
          and bytes
second    bytes of a second launch, which adds the parts of a split reduction

Tiles are distributed over SMs or CUs in rounds, so the busiest one counts: ceil(blocks / units) tiles. So does its busiest
scheduler in each round, the last one too. N warps whose phases are in turn take (N - 1) max + sum of these, the lower bound on
throughput of Zahorjan et al. ("Balanced Job Bound Analysis of Queueing Networks", 1982). Loads reach the bandwidth of a
memory only with enough bytes in flight: bytes in flight over latency, by Little's law (Little, "A Proof for the Queuing
Formula L = lambda W", 1961). Residency follows from registers and staged bytes (NVIDIA, "CUDA Occupancy Calculator").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ...analysis.occupancy import UNBOUNDED, blocks_by_bound
from ...schedule.candidate import Cost
from ..machine_model import MachineModel

# share: of the times below the bound, which is added because overlap is partial [estimate; test_first_candidates]
OVERLAP = 0.125


@dataclass(frozen=True)
class ResourceUse:
    """What candidates ask, each field a number or an array. Of one tile of the outer level ("block") unless said otherwise.

    blocks           number of blocks
    groups           lockstep groups of a block
    registers        of a lane
    staged           bytes of staging memory
    pipe             cycles of a scheduler's pipe, of one group
    issue            instructions of one group
    staging          bytes through the staging memory
    l2_bytes         bytes requested of the cache that all blocks share, by all blocks
    dram_bytes       bytes to and from the outermost memory, by all blocks
    bytes_in_flight  at a time
    rounds           round trips that a block waits for, one after another
    launches         number of launches
    stall            cycles that a group waits besides
    exposed          cycles that all groups of a block wait together besides: after a barrier
    addressing       part of `exposed`: addresses of copies, which other blocks in the same phase hide in part only
    second_launch_bytes  bytes of the launch that comes after
    first_loads      bytes that a block requests of the cache before it can compute anything
    last_stores      bytes through its staging memory when it has computed
    run              elements that a group stores in a row: at equal cost, longer runs are fewer transactions
    waits            cycles that all groups of a block wait together after barriers, where that is no part of `exposed`
    phase            cycles of `issue` that are never beside the same group's `pipe`: what one computes, the other reads
    stored           part of `l2_bytes`: what is stored while others of the block load; not what it stores when its loop is over
    operands         different elements that a group reads for a step: at equal cost, each of fewer goes to more lanes

    Arrays are [.., candidates], as the tiles are; what depends on sizes has an axis more in front where several sets of these
    are asked for at once (`tiles.columns`).
    """

    blocks: Any
    groups: Any
    registers: Any
    staged: Any
    pipe: Any
    issue: Any
    staging: Any
    l2_bytes: Any
    dram_bytes: Any
    bytes_in_flight: Any
    rounds: Any
    launches: Any
    stall: Any = 0
    exposed: Any = 0
    addressing: Any = 0
    second_launch_bytes: Any = 0
    first_loads: Any = 0
    last_stores: Any = 0
    run: Any = 0
    waits: Any = 0
    phase: Any = 0
    stored: Any = 0
    operands: Any = 0


@dataclass(frozen=True)
class TileTraffic:
    """Traffic that reports show; the comparison of candidates does not need it. Of all blocks, numbers or arrays of them.

    least      bytes that must be moved to and from the outermost memory
    requested  bytes that lanes request of it
    served     bytes that lanes request of the memory of a unit; each lane's accesses count, as in the emulator
    waste      share of the computed points that are padding
    """

    least: Any
    requested: Any
    served: Any
    waste: Any


@dataclass(frozen=True)
class GpuCost(Cost):
    """With the `resident` blocks. Arrays as in the demand; infinite seconds for a candidate that does not fit."""

    resident: np.ndarray


def resident_blocks(machine: MachineModel, groups: Any, registers: Any, staged: Any) -> np.ndarray:
    """Blocks that are resident on one SM or CU; 0 if a block is too large."""
    bounds = blocks_by_bound(machine.device, groups, registers, staged)
    fits = (
        (groups <= machine.max_groups) & (registers <= machine.max_registers) & (staged <= (machine.staging.capacity or np.inf))
    )
    return np.where(fits, reduce(np.minimum, bounds.values(), float(UNBOUNDED)), 0)


def blocks_with_spills(machine: MachineModel, d: ResourceUse) -> np.ndarray:
    """The same for this demand, but one block where only registers are too few for it."""
    enough = resident_blocks(machine, d.groups, np.ones_like(d.registers), d.staged)
    return np.maximum(resident_blocks(machine, d.groups, d.registers, d.staged), np.minimum(enough, 1))


def in_turn(machine: MachineModel, d: ResourceUse, resident: Any) -> Any:
    """Seconds of a launch whose blocks are in turn at the pipe and at what they wait for after barriers: a closed network of
    two stations (Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", 1980)."""
    most = np.ceil(np.maximum(1.0, d.blocks) / machine.units)
    resident = np.maximum(1, np.minimum(resident, most))
    pipe, wait = d.pipe * d.groups / machine.schedulers, d.exposed + d.waits
    at_pipe = at_wait = both = np.zeros_like(pipe + wait)
    for n in range(1, int(np.max(resident)) + 1):
        computing, waiting = pipe * (1 + at_pipe), wait * (1 + at_wait)
        both = np.where(n <= resident, computing + waiting, both)
        at_pipe, at_wait = n * computing / (computing + waiting), n * waiting / (computing + waiting)
    return most / resident * both / machine.clock


def cost(machine: MachineModel, d: ResourceUse, resident: np.ndarray | None = None) -> GpuCost:
    """The time of each candidate. `resident`: blocks of a unit, where they are known (they do not depend on sizes)."""
    clock, units = machine.clock, machine.units
    blocks = np.maximum(1.0, d.blocks)
    held = resident_blocks(machine, d.groups, d.registers, d.staged) if resident is None else resident
    most = np.ceil(blocks / units)  # blocks of the busiest unit
    resident = np.maximum(1, np.minimum(held, most))
    rounds = np.ceil(most / resident)
    groups = resident * d.groups
    turns = groups / machine.schedulers
    # warps of a scheduler: where some have more than others, the busiest one counts
    warps, last = np.ceil(turns), np.ceil((most - (rounds - 1) * resident) * d.groups / machine.schedulers)
    per_scheduler = ((rounds - 1) * warps + last) / clock
    flight = np.minimum(blocks, units * resident) * np.maximum(d.bytes_in_flight, 1.0)
    reach, loaded = flight / machine.latency, d.l2_bytes - d.stored
    outermost = machine.home.bandwidth or 1e11
    parts = {
        "pipe": d.pipe * per_scheduler,
        "issue": d.issue * per_scheduler,
        "staging": most * d.staging / machine.staging_bytes / clock,
        "near": d.l2_bytes / (machine.cache.bandwidth or np.inf if machine.cache else np.inf),
        "far": d.dram_bytes / outermost,
        "loads": loaded / reach,
    }
    taken = (
        *(parts[name] for name in ("pipe", "issue", "staging")),
        # either memory is taken for as long as its loads take to arrive
        np.maximum(parts["near"], parts["loads"]),
        np.maximum(parts["far"], np.minimum(d.dram_bytes, loaded) / reach),
    )
    bound = reduce(np.maximum, taken)
    hidden = (most - rounds) * d.addressing / clock  # behind other blocks, as far as those are not in the same phase
    rest = reduce(np.add, taken) - bound + hidden
    busy, alone = np.maximum(d.pipe, d.issue), d.pipe + d.stall + d.phase
    behind = np.maximum(0, d.pipe + d.phase - busy)

    def idle(groups: Any) -> Any:
        """Cycles of a round in which so many groups of a scheduler do not keep its pipes busy."""
        return np.maximum(behind, alone - busy * groups)

    parts["group"] = busy * per_scheduler + ((rounds - 1) * idle(warps) + idle(last)) / clock
    alone = d.pipe * np.ceil(d.groups / machine.schedulers) + d.exposed
    parts["block"] = np.where(np.asarray(d.exposed) > 0, rounds * alone / clock, 0)
    bound = np.maximum(bound, np.maximum(parts["group"], parts["block"]))
    other = np.minimum(resident, np.maximum(1, turns))  # blocks that a scheduler can choose from
    cache = machine.cache.bandwidth or outermost if machine.cache else outermost
    ends = d.first_loads * np.minimum(blocks, units) / cache + d.last_stores / machine.staging_bytes / clock  # of a block
    waiting = rounds * (d.rounds * machine.latency + resident * ends) / np.minimum(other, 2)
    kept = np.asarray(d.second_launch_bytes) < (machine.cache.capacity or 0 if machine.cache else 0)
    second_launch = d.second_launch_bytes / np.where(kept, cache, outermost)
    seconds = bound + OVERLAP * rest + waiting + second_launch + d.launches * machine.launch
    return GpuCost(np.where(held > 0, seconds, np.inf), parts, held)
