"""The device of a target, and the schedules for a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ..codegen.schedule.required_levels import available_names, required_names
from ..codegen.targets import MACHINES, Target, has_blocks
from ..dsl.device import Device
from ..dsl.errors.module import UnknownDevice
from ..dsl.errors.target import UnknownTarget
from ..dsl.module import Module, loads, std_roots
from ..dsl.op import Op
from ..dsl.stdlib_files import std_devices
from ..dsl.syntax import ScheduleDecl
from .native.detect_cpu import NAME, detect_cpu


@lru_cache(maxsize=1)
def native_device() -> Device:
    """The device that this machine is, with all its cores."""
    return loads(detect_cpu()).devices[NAME]


def device_of(target: Target, module: Module) -> Device:
    """The device of a target: the machine at hand, the module's own of that name, or the standard library's.

    Raises UnknownTarget for a device that only serves to describe others, and for one without blocks in a dialect of GPUs.
    """
    if target.device is None:
        return native_device()
    device = module.device(target.device)
    if target.family.launcher == "emulator" and not has_blocks(device):
        own = any(x in MACHINES for x in extended_devices(device, module))
        way_out = (
            f"compile for `{device.name}` itself"
            if own
            else f"give {device.name} a level of blocks, as `level block: open`, or let it extend `cpu:generic`"
        )
        raise UnknownTarget(f"`{target.name}`: {device.name} is no GPU", help=way_out)
    if target.family.launcher == "driver" and device.limit("units") is None:
        raise UnknownTarget(f"`{target.name}`: {device.name} does not say how many units it has; others extend it")
    return device


class Lineages(Mapping[str, list[str]]):
    """The devices of a module and of the standard library, each with the names of those that it extends, nearest first."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def __getitem__(self, name: str) -> list[str]:
        try:
            return extended_devices(self.module.device(name), self.module)[1:]
        except UnknownDevice:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self.module.devices), **std_devices()})

    def __len__(self) -> int:
        return len({*self.module.devices, *std_devices()})


def extended_devices(device: Device, module: Module) -> list[str]:
    """The device's name and those of the devices it extends."""
    names, decl = [device.name], device.decl
    while decl is not None and decl.extends:
        names.append(decl.extends)
        decl = module.device(decl.extends).decl
    return names


def is_for_device(schedule: ScheduleDecl, device: Device, module: Module) -> bool:
    """Whether the schedule is for this device: it names none, this one, or one that this one extends."""
    return schedule.device is None or schedule.device in extended_devices(device, module)


def is_default_for(schedule: ScheduleDecl, device: Device, module: Module) -> bool:
    """Whether the schedule may be taken for this device where nobody asked for it by name: it fits, and the device has the
    levels and memories that it speaks of. A name that no device has is a mistake, and no reason to pass the schedule over."""
    if not is_for_device(schedule, device, module):
        return False
    lacking = required_names(schedule.lines, module.strategies) - available_names(device)
    if schedule.device is not None or not lacking:
        return True
    elsewhere = [*module.devices.values(), *std_roots(), native_device()]
    return not any(lacking & available_names(d) for d in elsewhere)


def schedules_for(module: Module, op: str) -> list[ScheduleDecl]:
    """The module's schedules for an op, in the order of the file."""
    return [s for s in module.schedules.values() if s.op == op]


def skipped_schedules_note(module: Module, op: Op, device: Device) -> set[str]:
    """A note where the module has schedules for the op, and all are for other devices."""
    written = schedules_for(module, op.name)
    if not written or any(is_default_for(s, device, module) for s in written):
        return set()
    others = ", ".join(sorted({f"`{s.name}`" + (f" on {s.device}" if s.device else "") for s in written}))
    return {f"no schedule for {op.name} is for {device.name}, so this one is the compiler's own; there are {others}"}
