"""The target that a schedule's device is compiled for."""

from __future__ import annotations

from ..codegen.targets import FAMILIES, Family
from ..dsl.module import Module, std_device
from ..dsl.stdlib_files import std_devices


def infer_target(device: str, module: Module) -> str:
    """A target whose device this is: by its own name, or by the family whose devices it extends.

    For one that only serves to describe others (`nvidia`) it is the usual one of its family that extends it, else the first.
    """
    for family in FAMILIES.values():
        prefix, _, suffix = family.devices.partition("{}")
        if prefix and device.startswith(prefix) and device.endswith(suffix):
            return f"{family.name}:{device.removeprefix(prefix)}"
    line = _lineage(device, module)
    for family in FAMILIES.values():
        if family.root and family.root in line:
            return f"{family.name}:{_whole(device, family, module)}"
        prefix = family.devices.partition("{}")[0]
        if prefix and any(name.startswith(prefix) for name in line):
            return f"{family.name}:{device}"
    return device


def has_unit_count(device: str, module: Module) -> bool:
    """Whether it says how many units it has: others only serve to describe devices."""
    found = module.devices.get(device) or std_device(device)
    return found is not None and found.limit("units") is not None


def _whole(device: str, family: Family, module: Module) -> str:
    others = (family.usual, *std_devices())
    return (
        device
        if has_unit_count(device, module)
        else next((n for n in others if device in _lineage(n, module) and has_unit_count(n, module)), device)
    )


def _lineage(device: str, module: Module) -> list[str]:
    """The device and those that it extends, nearest first."""
    line = [device]
    while (found := module.devices.get(line[-1]) or std_device(line[-1])) and found.decl and found.decl.extends:
        line.append(found.decl.extends)
    return line
