"""A compiler's figures of a variant's kernels, next to the estimates without one, and the resident blocks that follow."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ...codegen.abi import programs
from ...codegen.analysis.occupancy import Occupancy, occupancy
from ...codegen.emit.printers import launches
from ...codegen.ir.program import Program
from ...codegen.ir.tile_ir import Launch
from ...codegen.lower.capacity import memory_peaks
from ...codegen.lower.schedule_trace import bytes_text
from ..variant import Variant
from .device_code import DeviceCode


@dataclass(frozen=True)
class ResourceUsage:
    """One kernel. `counted`: registers of a thread that hold the tile program's values; `registers`: those that the
    compiler takes.

    spills     bytes that a thread stores for lack of registers
    shared     bytes of a block
    occupancy  None where the device does not state what a unit holds
    """

    kernel: str
    threads: int
    counted: int
    registers: int
    spills: int
    shared: int
    occupancy: Occupancy | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, object]]:
        """What people read, each with its name."""
        spilled = f"{bytes_text(self.spills)} a thread spilled" if self.spills else "none spilled"
        text = f"{self.registers} registers ({self.counted} counted), {spilled}, {bytes_text(self.shared)} shared"
        rows: list[tuple[str, object]] = [("kernel", self.kernel), ("takes", text)]
        found = self.occupancy
        if found is not None:
            blocks = f"{found.blocks} block{'s' if found.blocks != 1 else ''} of {self.threads} threads"
            rows.append(("occupancy", f"{blocks} a unit, {found.share:.0%} of its threads, bound by {found.bound}"))
        return rows


def resource_usage(variant: Variant) -> list[ResourceUsage]:
    """Of each kernel, in the order of the launches of each of its programs. The variant is built.

    Raises NoCompiler, CompilerFailed.
    """
    code = variant.load()
    assert isinstance(code, DeviceCode)
    usage = {u.kernel: u for u in code.usage}
    device = variant.program.device
    found = []
    for program in programs(variant.program):
        for kernel, launch in zip(launches(program, variant.target.family.dialect), program.launches, strict=True):
            said = usage[kernel.name]
            shared = kernel.shared + said.shared
            held = occupancy(device, kernel.threads, said.registers, shared, said.groups)
            counted = _counted(program, launch)
            found.append(ResourceUsage(kernel.name, kernel.threads, counted, said.registers, said.spills, shared, held))
    return found


def _counted(program: Program, launch: Launch) -> int:
    most = memory_peaks(replace(program, launches=(launch,)))
    return max((-(-p.bytes // p.memory.registers[1]) for p in most.values() if p.memory.registers), default=0)
