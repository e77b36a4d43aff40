"""Every device of the library as it is resolved, in `goldens/devices.txt`, so that an edit of its text shows what it changes.

Of a device that extends another the listing has only the instructions that are its own, and the order of all of them as a hash.
With `--update-goldens` it is written anew: read what changed.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import andiron
from andiron.dsl.device import Device, Instr, Operand
from andiron.dsl.stdlib_files import std_devices

GOLDEN = Path(__file__).parent / "goldens" / "devices.txt"


def test_devices_are_those_of_the_listing(update_goldens: bool) -> None:
    module = andiron.loads("")
    devices = {name: module.device(name) for name in std_devices()}
    text = "\n".join(_device(d, devices) for d in devices.values())
    if update_goldens:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def _device(device: Device, devices: dict[str, Device]) -> str:
    extended = device.decl.extends if device.decl else None
    lines = [f"device {device.name}" + (f" extends {extended}" if extended else "")]
    lines += [f"    {fact!r}" for fact in (*device.levels, *device.memories)]
    lines.append("    " + ", ".join(f"{name} {value:.10g}" for name, value in device.limits))
    inherited = {i.name: i for i in devices[extended].instrs} if extended else {}
    lines += [f"    {_instr(i)}" for i in device.instrs if inherited.get(i.name) != i]
    order = " ".join(i.name for i in device.instrs)
    lines.append(f"    {len(device.instrs)} instructions, in the order {_hash(order)}")
    return "\n".join(lines) + "\n"


def _instr(i: Instr) -> str:
    meaning = _hash(repr((i.level, i.family, i.statement, i.accumulate)))
    operands = "; ".join(map(_operand, i.operands))
    texts = ", ".join(f"{dialect} {_hash(text)}" for dialect, text in i.emits)
    waits = f", awaits {' '.join(i.awaits)}" if i.awaits else ""
    return f"{i.name} {meaning} ({operands}) {texts}, cycles {i.cycles}, latency {i.latency}{waits}"


def _operand(o: Operand) -> str:
    shape = ", ".join(map(str, o.shape))
    where = ", ".join(f"{c.name} {c.lo} to {c.hi}" for c in o.coords)
    at = ", ".join(map(str, o.map))
    facts = (f", align {o.alignment}" if o.alignment else "") + (f", least {o.least}" if o.least else "")
    return f"{o.role} {o.name}: {o.dtype}[{shape}] in {o.memory}: {where} at [{at}]{facts}"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]
