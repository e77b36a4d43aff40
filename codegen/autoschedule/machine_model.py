"""The model of a device: the level that tiles are distributed over, the memory that stages them, the caches, and the rates.

All of it is read from the levels and memories of the device's text (law: hardware is data); no name is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from ...dsl.device import Device, Instr, Level, Memory
from ...dsl.support.cached import cached_property
from ...dsl.types import DType
from ..ir.limits import CACHE_LINE, PAGE
from ..lower.leaves.term_order import TermOrder

LATENCY = 500.0  # cycles: of a load from the outermost memory, where the device has no figure [estimate; test_first_candidates]
# seconds: from the end of a launch to the first work of the next, where the device has no figure [estimate;
# test_first_candidates]
LAUNCH = 2e-6
RESERVED = 40  # registers: of a thread that are not for elements [estimate; test_first_candidates]
# bytes per cycle: of one core from its caches, innermost first, where the device has no figure [estimate;
# test_first_candidates]
CACHE_RATES = (128.0, 40.0, 12.0)
WAKE = 4e-6  # seconds: to wake the cores, where the device has no figure [estimate; test_first_candidates]
DRAM_RATE = 20e9  # bytes per second: the most that one core gets from memory [estimate; test_first_candidates]
# ways: of a cache that is not the innermost; there a way is a page, because lookup starts before translation [estimate;
# test_first_candidates]
WAYS = 16


@dataclass(frozen=True)
class MachineModel:
    """A device of units that tiles are distributed over: blocks, which are open, or cores, which are finite.

    outer    these units                                              home     where arguments live
    group    what meets at barriers below it; cores do themselves     register the memory of a lane
    lane     the lockstep level                                       cache    between `home` and all units, or None
    staging  the memory that a unit of `outer` has to itself: what arguments are staged in; of cores the largest cache
    private  caches of a unit of `outer`, innermost first             shared   those that all units have together
    """

    device: Device
    outer: Level
    group: Level
    lane: Level
    home: Memory
    staging: Memory
    register: Memory
    cache: Memory | None = None
    private: tuple[Memory, ...] = ()
    shared: tuple[Memory, ...] = ()

    @staticmethod
    def of(device: Device) -> MachineModel | None:
        """None for devices that no template is for."""
        if "machine" not in device.found:
            device.found["machine"] = _with_blocks(device) or _with_cores(device)
        return device.found["machine"]

    @property
    def has_blocks(self) -> bool:
        """Are there as many units of `outer` as a launch asks for?"""
        return self.outer.units == "open"

    # ------------------------------------------------------------ counts

    @property
    def slices(self) -> int:
        """Of the cache that all blocks share: each serves its own."""
        return self.cache.slices if self.cache is not None else 1

    @cached_property
    def lanes(self) -> int:
        return self.lane.width or 1

    @cached_property
    def units(self) -> int:
        """Cores; or the number of units that a rate `per unit` counts."""
        return int((self.device.limit("units") if self.has_blocks else self.outer.most) or 1)

    @cached_property
    def schedulers(self) -> int:
        return int(self.device.limit("schedulers") or 1)

    @cached_property
    def max_groups(self) -> int:
        """Groups in one unit of the outer level, at most."""
        threads = self.device.limit(f"{self.outer.name} {self.lane.name}")
        return int(min(self.group.most or 32, (threads or 1024) // self.lanes))

    @cached_property
    def max_registers(self) -> int:
        """Registers of a lane, at most."""
        assert self.register.registers is not None
        return self.register.registers[0]

    @cached_property
    def vector_registers(self) -> int:
        """Registers of a lane that every instruction can name: all of them, where the device says nothing."""
        return int(self.device.limit("vector registers") or self.max_registers)

    @cached_property
    def reserved(self) -> int:
        """Registers of a lane for addresses, counters and loads in flight; half, if there are few."""
        return min(RESERVED, self.max_registers // 2)

    @cached_property
    def register_bytes(self) -> int:
        assert self.register.registers is not None
        return self.register.registers[1]

    @cached_property
    def asynchronous(self) -> tuple[tuple[Instr, DType, int], ...]:
        """Copies by a lane from where arguments live to the staging memory that it does not wait for: of which type, how many
        elements; the widest first."""
        found = []
        for i in self.device.instrs:
            places = {o.role: o.memory for o in i.operands}
            mine = i.level == self.lane.name and places == {"input": self.home.name, "output": self.staging.name}
            if i.awaits and mine and len(i.operands) == 2 and len(i.statement.ranges) == 1:
                found.append((i, i.operands[0].dtype, i.statement.ranges[0][1].constant or 1))
        return tuple(sorted(found, key=lambda x: -x[2]))

    @cached_property
    def loaders(self) -> dict[tuple[str, DType], tuple[Instr, ...]]:
        """Instructions that copy from the staging memory alone, by the level that executes them and the type they copy."""
        found: dict[tuple[str, DType], tuple[Instr, ...]] = {}
        for i in self.device.instrs:
            memories = {o.memory for o in i.operands if o.role == "input"}
            types = {o.dtype for o in i.operands}
            if not i.accumulate and memories == {self.staging.name} and len(types) == 1:
                key = i.level, types.pop()
                found[key] = (*found.get(key, ()), i)
        return found

    @cached_property
    def reading(self) -> dict[tuple[str, str, int, bool, int, TermOrder | None, bool], tuple[int | None, float, float]]:
        """How fragments are read from rows of staged tiles, as far as it was counted (`operand_layouts`)."""
        return {}

    # ------------------------------------------------------------ rates

    @cached_property
    def clock(self) -> float:
        return self.device.limit("clock") or (1e9 if self.has_blocks else 2e9)

    @cached_property
    def launch(self) -> float:
        return self.device.limit("launch") or LAUNCH

    @cached_property
    def latency(self) -> float:
        """Seconds until a load from the outermost memory is there."""
        cycles = [i.latency for i in self.device.instrs if i.latency and self._reads(i, self.home)]
        return (2 * max(cycles) if cycles else LATENCY) / self.clock

    def _reads(self, i: Instr, memory: Memory) -> bool:
        return not i.accumulate and any(o.role == "input" and o.memory == memory.name for o in i.operands)

    @cached_property
    def bank_bytes(self) -> int:
        """Bytes that all banks of the staging memory serve in a cycle."""
        count, width = self.staging.banks or (self.lanes, 4)
        return count * width

    @cached_property
    def staging_bytes(self) -> float:
        """Bytes that the staging memory of one unit moves in a cycle."""
        per_unit = (self.staging.bandwidth or 0) / self.units / self.clock
        return per_unit or float(self.bank_bytes)

    def operations(self, dtype: DType) -> float:
        """Multiply-adds, and the like, that one unit does in a cycle on scalars of the type."""
        name = dtype.compute.name if dtype.kind == "float" else "f32"
        rate = self.device.limit(name) or self.device.limit("f32")
        return rate / 2 / self.clock if rate else float(self.lanes * self.schedulers)

    def instr_cycles(self, i: Instr) -> float:
        """Cycles for which one execution occupies a scheduler's pipe; from the rate for matrices where the text is silent."""
        if i.cycles:
            return i.cycles
        kind = i.operands[0].dtype.name
        rate = self.device.limit(f"matrix {kind}") or self.device.limit(f"matrix {kind[:2]}")
        per_cycle = rate / 2 / self.clock if rate else self.operations(i.operands[-1].dtype)
        return float(_multiply_adds(i)) * self.schedulers / per_cycle

    def instr_speed(self, i: Instr | None) -> tuple[float, int]:
        """Multiply-adds in a cycle, then in one execution: the order of instructions, the fastest last. None: lanes do one."""
        if i is None:
            return 0.0, 1
        count = _multiply_adds(i)
        return round(count / self.instr_cycles(i), 3), count

    # ------------------------------------------------------------ caches of cores

    @cached_property
    def caches(self) -> tuple[tuple[float, float], ...]:
        """(bytes that one core may count on, bytes a cycle that one core gets), innermost first, the outermost memory last."""
        mine = [(float(m.capacity or 1 << 18), m) for m in self.private]
        ours = [(float(m.capacity or 1 << 22) / self.units, m) for m in self.shared]
        rates = [*CACHE_RATES[: len(mine + ours)], *[CACHE_RATES[-1]] * len(mine + ours)]
        out = [(size, (m.bandwidth or 0) / self.clock or rate) for (size, m), rate in zip([*mine, *ours], rates, strict=False)]
        return (*out, (float("inf"), min(self.device.memories[0].bandwidth or DRAM_RATE, DRAM_RATE) / self.clock))

    def share(self, level: int, stride: int | None, run: float) -> float:
        """The part of a cache that runs of so many bytes can use, if they begin at a stride of bytes.

        A line maps to one set, by the bits of its address above the offset in the line; strides that share a large power of two
        with the size of a way begin in few sets (Hennessy & Patterson, "Computer Architecture", appendix B).
        """
        if not stride:
            return 1.0
        way = PAGE if level == 0 else int(self.caches[level][0] if self.caches[level][0] < float("inf") else PAGE) // WAYS
        return min(1.0, -(-run // CACHE_LINE) * CACHE_LINE / gcd(stride, way or PAGE))


def _multiply_adds(i: Instr) -> int:
    return prod(e.constant or 1 for _, e in i.statement.ranges)


def block_machine(device: Device) -> MachineModel | None:
    """The model of a device with blocks."""
    machine = MachineModel.of(device)
    return machine if machine is not None and machine.has_blocks else None


def core_machine(device: Device) -> MachineModel | None:
    """The model of a device with cores."""
    machine = MachineModel.of(device)
    return machine if machine is not None and not machine.has_blocks else None


def _with_blocks(device: Device) -> MachineModel | None:
    """Open units that meet at barriers inside, and end in lockstep lanes."""
    outer = next((x for x in device.levels if x.units == "open"), None)
    lane = device.levels[-1]
    group = next((x for x in device.levels if x.siblings == "barrier"), None)
    if outer is None or group is None or lane.siblings != "lockstep" or not lane.width:
        return None
    home, register = device.memories[0], device.memories[-1]
    staging = next((m for m in device.memories if m.level == outer.name and m.backing is None), None)
    if staging is None or register.level != lane.name or register.registers is None:
        return None
    cache = next((m for m in device.memories if m.backing == home.name), None)
    return MachineModel(device, outer, group, lane, home, staging, register, cache)


def core_level(device: Device) -> Level | None:
    """The outermost finite units that tiles go to: the focus begins at the outermost level, which has no tiles."""
    return next((x for x in device.levels[1:] if x.units == "finite"), None)


def _with_cores(device: Device) -> MachineModel | None:
    """Finite units that share a memory, each with vectors of lanes and caches of its own."""
    cores = core_level(device)
    lane, home, register = device.levels[-1], device.memories[0], device.memories[-1]
    if cores is None or lane.siblings != "lockstep" or not lane.bytes or register.registers is None:
        return None
    caches = [m for m in reversed(device.memories) if m.backing is not None]
    private = tuple(m for m in caches if m.level == cores.name)
    shared = tuple(m for m in caches if device.depth(m.level) < device.depth(cores.name))
    if not private or not shared:
        return None
    return MachineModel(device, cores, cores, lane, home, private[-1], register, shared[-1], private, shared)
