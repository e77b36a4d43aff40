"""The functions of f32 of which a device has a text of its own: instructions that state an error (docs/device.md)."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from ....dsl.device import Device


@dataclass(frozen=True)
class DeviceFunction:
    """`text` sets `result[0]` from `argument[0]`. It errs by at most `ulps`, but may take subnormal numbers for 0."""

    name: str
    argument: str
    result: str
    text: str
    ulps: float


def device_functions(device: Device, dialect: str) -> tuple[DeviceFunction, ...]:
    """Those with a text in the dialect. An emulated text has none of theirs, but what it emulates has."""
    key = f"functions in {dialect}"
    if key not in device.found:
        device.found[key] = tuple(_functions(device, dialect))
    return device.found[key]


def _functions(device: Device, dialect: str) -> list[DeviceFunction]:
    found = []
    for instr in device.instrs:
        emits = dict(instr.emits)
        if instr.function is None or instr.error is None or not (dialect in emits or dialect == "emulate"):
            continue
        result = instr.operand(instr.statement.target)
        argument, *others = (o for o in instr.operands if o is not result)
        if others:
            continue  # its cost is what others ask for
        text = dedent(emits.get(dialect, "")).strip("\n")
        found.append(DeviceFunction(instr.function, argument.name.lower(), result.name.lower(), text, instr.error))
    return found
