"""Source code of pipelines: right under the emulator, accepted by compilers, without spills."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference

from ....support.gpu.compilers import cuda, hip, toolchain
from ....support.gpu.emulate import run as run_emitted
from ....support.paths import DEVICES
from ....support.pipelines import compiled, inputs, sizes_of

EMITTED = ["sync2", "sync3", "regs", "through", "only_regs", "reg_and_shared", "peel", "split_warp", "lift", "hop", "idle"]


@pytest.mark.parametrize("name", EMITTED)
def test_emitted_text_is_right(name, tmp_path):
    op, result = compiled(name)
    for k in (0, 4, 27):
        sizes = sizes_of(op, k)
        folder = tmp_path / str(k)
        folder.mkdir()
        arrays = inputs(op, sizes)
        (out,) = run_emitted(result.program, arrays, sizes, folder).values()
        np.testing.assert_array_equal(out, reference(op)(*arrays.values()))


@pytest.mark.parametrize("name", ["sync2", "async4", "mixed2", "through_async", "through4", "only_regs", "split", "prologue"])
def test_nvidia_takes_it(name, tmp_path):
    cuda(emit(compiled(name, "sm_80")[1].program, "cuda"), tmp_path)


@pytest.mark.parametrize("name", ["sync2", "sync3", "regs", "through", "only_regs", "split_warp", "prologue", "hop"])
def test_amd_takes_it(name, tmp_path):
    hip(emit(compiled(name, "gfx90a")[1].program, "hip"), tmp_path)


def test_four_stages_spill_nothing(tmp_path):
    mod = loads((DEVICES / "gpu_sketches.sched").read_text(encoding="utf-8"))
    p = compile_program(mod, mod.ops["hgemm"], mod.schedules["ampere"], mod.device("sm_80")).program
    found = toolchain("cuda", "sm_80")
    if isinstance(found, str):
        pytest.skip(found)
    for usage in found.make(emit(p, "cuda"), "sm_80", "cubin", tmp_path).usage:
        assert usage.spills == usage.stack == 0
        assert usage.registers <= 255
