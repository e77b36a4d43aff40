"""Source code of pipelines: right under the emulator, accepted by compilers, without spills."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
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


LOOPS = """
import std.ops.gemm
import std.devices.amd
schedule loops for gemm_f16_nt on gfx942:
    tile m: 64, n: 128 -> block
    keep C in register
    tile k: 64 pipeline 2
    move A -> shared pad 8:
        fuse m, k as mk
        tile mk: 8 -> thread
        compute
    move B -> shared pad 8
    tile m: 32, n: 64 -> wave
    compute with mfma_32x32x8_f16
"""


@lru_cache(maxsize=2)
def loops_text(k: int | None) -> str:
    mod = loads(LOOPS)
    op = specialise(mod.ops["gemm_f16_nt"], {"M": 1024, "N": 1024} | ({} if k is None else {"K": k}))
    text = emit(compile_program(mod, op, mod.schedules["loops"], mod.device("gfx942")).program, "hip")
    return text.partition("_any__THREADS")[0]


def test_elements_on_their_way_share_words():
    """The whole copy before the pipeline is a loop that stays one. It is no loop of the elements that wait in registers."""
    assert re.findall(r"uint32_t (\w+_ahead)(?:\[\d+\])*;", loops_text(1024))
    assert not re.search(r"uint16_t \w+_ahead", loops_text(1024))


@pytest.mark.parametrize(("k", "conditions"), [(1024, 1), (128, 2), (None, 2)])
def test_what_waits_is_stored_without_a_branch(k: int | None, conditions: int):
    """Loads have a condition; stores only where the first turn may have loaded nothing, or buffers are not taken again."""
    main = loops_text(k).partition("for (int k1 = ")[2]
    assert len(re.findall(r"\n        (?:    )?if \(.*\bk1\b.*\) \{", main)) == conditions
