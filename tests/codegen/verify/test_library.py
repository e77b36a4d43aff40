"""Every schedule that comes with Andiron is checked by instances, for each of its devices; every second op on one device.

`FUZZ=N` checks every op on every device, and longer. Every op at its own sizes on the usual devices: test_instances.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify.verify_program import verify
from andiron.dsl.module import load
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.stdlib_files import std_devices
from andiron.tools.checks.compile_schedules import compile_all_schedules, compile_unscheduled_ops
from andiron.tools.infer_target import has_unit_count

from ...support.library.cases import library
from ...support.library.ops import OPS
from ...support.paths import ROOT
from ...support.rotation import LONG, rotated

FILES = [
    *sorted((ROOT / "stdlib" / "schedules").glob("*.sched")),
    *sorted((ROOT / "examples").glob("*.sched")),
]
WORK = 10_000_000 if LONG else 200_000
MANY = 12
USUAL = ("cpu:avx2", "sm_80", "gfx90a")
DEVICES = [d for d in std_devices() if has_unit_count(d, library()) and d not in USUAL]
PAIRS = rotated([*OPS][:: 1 if LONG else 2], DEVICES)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_schedules(path: Path) -> None:
    module = load(path)
    scheduled = [found for found in compile_all_schedules(module) if isinstance(found, list)]
    # A schedule for any contraction is checked for some ops of those that it is for.
    cases = [c for found in scheduled for c in found[:: 1 if LONG or len(found) <= MANY else 4]]
    cases += compile_unscheduled_ops(module)
    checked = 0
    for case in cases:
        if case.compiled is None:  # a schedule for any contraction is not for every op
            continue
        name = str(case.schedule and case.schedule.name)
        said = verify(case.compiled.program, case.op, name, work=WORK)
        if not said.checked:  # a block of a large tile alone is more
            said = verify(case.compiled.program, case.op, name, work=50 * WORK)
        assert said.checked, f"{case.schedule and case.schedule.name} on {case.device.name}: {said}"
        checked += 1
    assert checked


def test_all_devices_are_there() -> None:
    assert len(DEVICES) > 10
    assert {d for _, d in PAIRS} == {*DEVICES}
    assert len({op for op, _ in PAIRS}) >= len(OPS) // 2


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_ops(name: str, device: str) -> None:
    module = library()
    op = bind_params(OPS[name], {n: 1 for n, default in OPS[name].params if default is None})
    program = compile_program(module, op, None, module.device(device)).program
    found = verify(program, op, work=WORK)
    # Where one call of an instruction computes many values, no instance is done by then.
    assert found.checked or verify(program, op, work=50 * WORK).checked
