"""Every schedule of the library for CPUs: right at odd sizes, at 1 and at 0, on one thread and on three; and it means what it
prints. Those for GPUs: test_gpu_schedules.py."""

from __future__ import annotations

import re

import pytest
from andiron.codegen.targets import target_of
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile
from andiron.runtime.native.cpu_features import missing

from ..support.library.cases import check_right
from ..support.library.schedules import SCHEDULES
from ..support.paths import STDLIB

ROOT = STDLIB / "schedules"
ANY = ["gemm", "gemm_tt", "batched_gemm", "ttm", "linear_relu"]  # what schedules for any contraction are tried on
CASES = [
    (module, name, op)
    for module, m in SCHEDULES.items()
    for name, s in m.schedules.items()
    if s.device is None or s.device.startswith("cpu")
    for op in (ANY if s.op == "contraction" else [s.op])
    if op in m.ops
]


def test_there_is_something_to_test():
    assert len(CASES) >= 20
    written = {n for f in ROOT.glob("*.sched") for n in re.findall(r"^schedule (\w+)", f.read_text(), flags=re.MULTILINE)}
    gpu = {name for m in SCHEDULES.values() for name, s in m.schedules.items() if s.device and not s.device.startswith("cpu")}
    assert written == {name for _, name, _ in CASES} | gpu


@pytest.mark.parametrize(("module", "name", "op_name"), CASES, ids=lambda x: str(x))
def test_right(module: str, name: str, op_name: str) -> None:
    library = SCHEDULES[module]
    target = library.schedules[name].device or "cpu"
    kernel = compile(library, op=op_name, schedule=name, target=target)
    op = bind_params(library.ops[op_name])
    # What it prints is a schedule that means the same.
    again = compile(library, op=op_name, schedule=kernel.schedule, target=target)
    assert again.schedule == kernel.schedule
    if missing(target_of(target).machine):
        return  # its text is all that this machine can tell
    for mode, threads in (("odd", 1), ("odd", 3), ("1", 2), ("0", 2)):
        check_right(op, lambda case, threads=threads: kernel(*case.arrays, threads=threads), [mode])
