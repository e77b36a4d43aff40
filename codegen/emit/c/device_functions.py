"""The functions of one f32 of which a device has a text of its own (docs/device.md).

APPROXIMATE  instructions that state an error: `Y[] = exp2(X[])`. What is emulated errs as much.
EXACT        conversions: `Y[] = bf16(X[])`. What is emulated has the generic ones, with the same results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

from ....dsl.device import Device, Instr


@dataclass(frozen=True)
class DeviceFunction:
    """`text` sets `result[0]` from `argument[0]`. It errs by at most `ulps`, but may take subnormal numbers for 0.

    converts   the type of the result, of a conversion, which is exact; None: f32
    """

    name: str
    argument: str
    result: str
    text: str
    ulps: float
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
        argument, *others = _arguments(instr)
        if not others:  # else its cost is what others ask for
            yield DeviceFunction(instr.function, argument, _result(instr), _text(instr, dialect), instr.error)


def _exact(device: Device, dialect: str) -> Iterator[DeviceFunction]:
    """EXACT"""
    for instr in device.instrs:
        to = instr.conversion
        if to is not None and dialect in dict(instr.emits):
            (argument,) = _arguments(instr)
            yield DeviceFunction(conversion_name(to), argument, _result(instr), _text(instr, dialect), 0.0, to)


def _arguments(instr: Instr) -> list[str]:
    return [o.name.lower() for o in instr.operands if o.name != instr.statement.target]


def _result(instr: Instr) -> str:
    return instr.statement.target.lower()


def _text(instr: Instr, dialect: str) -> str:
    return dedent(dict(instr.emits).get(dialect, "")).strip("\n")
