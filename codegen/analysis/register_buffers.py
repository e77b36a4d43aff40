"""Which buffers text declares as variables, with names instead of addresses."""

from __future__ import annotations

from ...dsl.device import Device
from ..ir.tile_ir import Buffer


def register_memories(device: Device) -> frozenset[str]:
    """Memories whose cells are named, not addressed."""
    return frozenset(m.name for m in device.memories if m.registers or m.level == device.levels[-1].name)


def is_register(buffer: Buffer, device: Device) -> bool:
    """Private to an innermost unit, or in registers."""
    return buffer.kind == "local" and (buffer.level == device.levels[-1].name or buffer.memory in register_memories(device))
