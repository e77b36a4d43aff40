"""The GPUs of the library, and each instruction of theirs once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import andiron
from andiron.dsl.device import Device, Instr
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.parser import parse_text

NVIDIA = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
CDNA = ["gfx908", "gfx90a", "gfx942", "gfx950"]
RDNA = ["gfx1100", "gfx1201"]
ALL = [*NVIDIA, *CDNA, *RDNA]


@lru_cache(maxsize=1)
def devices() -> dict[str, Device]:
    found: dict[str, Device] = {}
    for name in ("nvidia", "amd"):
        text = (Path(andiron.__file__ or "").parent / "stdlib" / "devices" / f"{name}.sched").read_text(encoding="utf-8")
        found |= resolve_devices([d for d in parse_text(text).declarations if isinstance(d, DeviceDecl)], {})
    return found


@lru_cache(maxsize=1)
def instructions() -> dict[str, tuple[Device, Instr]]:
    """Each instruction once, with the first device that has it."""
    found: dict[tuple, tuple[str, Device, Instr]] = {}
    for name in ALL:
        device = devices()[name]
        for i in device.instrs:
            key = (i.name, i.operands, i.statement, device.levels[-1].width)
            found.setdefault(key, (f"{name}:{i.name}", device, i))
    return {title: (d, i) for title, d, i in found.values()}


def family(*names: str) -> list[str]:
    return [t for t, (_, i) in instructions().items() if i.family in names]
