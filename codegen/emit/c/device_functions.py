"""The functions of f32 of which a device has a text of its own (docs/device.md).

APPROXIMATE  instructions that state an error: `Y[] = exp2(X[])`. What is emulated errs as much.
EXACT        conversions, max and min: `Y[] = bf16(X[])`. What is emulated has the generic ones, with the same results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

from ....dsl.device import Device, Instr


@dataclass(frozen=True)
class DeviceFunction:
    """`text` sets `result[0]` from the first elements of the arguments.

    name      of the function; of an exact one, of the helper that it is
    ulps      by which it errs at most, but it may take subnormal numbers for 0; None: it is exact
    converts  the type of the result, of a conversion; None: f32
    """

    name: str
    arguments: tuple[str, ...]
    result: str
    text: str
    ulps: float | None
    converts: str | None = None


def device_functions(device: Device, dialect: str) -> tuple[DeviceFunction, ...]:
    """Those with a text in the dialect. An emulated text has none of theirs, but what it emulates has."""
    key = f"functions in {dialect}"
    if key not in device.found:
        device.found[key] = (*_approximate(device, dialect), *_exact(device, dialect))
    return device.found[key]


def conversion_name(dtype: str) -> str:
    """The helper that converts an f32 to the type."""
    return "f32_to_tf32" if dtype == "tf32" else f"{dtype}_from_f32"


def _approximate(device: Device, dialect: str) -> Iterator[DeviceFunction]:
    """APPROXIMATE"""
    for instr in device.instrs:
        if instr.function is None or instr.error is None or not (dialect in dict(instr.emits) or dialect == "emulate"):
            continue
        arguments = _arguments(instr)
        if len(arguments) == 1:  # else its cost is what others ask for
            yield DeviceFunction(instr.function, arguments, _result(instr), _text(instr, dialect), instr.error)


def _exact(device: Device, dialect: str) -> Iterator[DeviceFunction]:
    """EXACT"""
    for instr in device.instrs:
        if instr.used_everywhere is None or instr.error is not None or dialect not in dict(instr.emits):
            continue
        to = instr.conversion
        name = f"m_{instr.function}" if to is None else conversion_name(to)
        yield DeviceFunction(name, _arguments(instr), _result(instr), _text(instr, dialect), None, to)


def _arguments(instr: Instr) -> tuple[str, ...]:
    return tuple([o.name.lower() for o in instr.operands if o.name != instr.statement.target])


def _result(instr: Instr) -> str:
    return instr.statement.target.lower()


def _text(instr: Instr, dialect: str) -> str:
    return dedent(dict(instr.emits).get(dialect, "")).strip("\n")
