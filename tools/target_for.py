"""The target that a schedule's device is compiled for."""

from __future__ import annotations

from ..codegen.targets import FAMILIES
from ..dsl.module import Module, std_device


def target_for(device: str, module: Module) -> str:
    """A target whose device this is: by its own name, or by the family whose devices it extends."""
    for family in FAMILIES.values():
        prefix, _, suffix = family.devices.partition("{}")
        if prefix and device.startswith(prefix) and device.endswith(suffix):
            return f"{family.name}:{device.removeprefix(prefix)}"
    lineage = [device]
    while (found := module.devices.get(lineage[-1]) or std_device(lineage[-1])) and found.decl and found.decl.extends:
        lineage.append(found.decl.extends)
    for family in FAMILIES.values():
        if family.root and family.root in lineage:
            return f"{family.name}:{device}"
        prefix = family.devices.partition("{}")[0]
        if prefix and any(name.startswith(prefix) for name in lineage):
            return f"{family.name}:{device}"
    return device
