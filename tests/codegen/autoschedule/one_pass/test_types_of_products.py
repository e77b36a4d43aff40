"""Attentions whose two products are of different types: one pass by two instructions, right."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.types import TYPES
from andiron.runtime.check_results import check

from ....support.programs.attention_of_types import attention

LARGE = {"H": 16, "Q": 2048, "T": 2048, "D": 128}


def compiled(types: tuple[str, str, str], device: str, sizes: dict[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(attention(*types, types[2]) + schedule)
    chosen = next(iter(module.schedules.values())) if schedule else None
    return compile_program(module, specialise(module.ops["f"], sizes), chosen, module.device(device))


PAIRS = {
    (("f8e4m3", "f8e4m3", "f16"), "sm_89"): ("mma_m16n8k32_f8e4m3", "mma_m16n8k16_f16"),
    (("bf16", "f16", "f16"), "sm_80"): ("mma_m16n8k8_tf32", "mma_m16n8k16_f16"),
    (("f16", "bf16", "bf16"), "sm_90a"): ("mma_m16n8k8_tf32", "mma_m16n8k16_bf16"),
    (("bf16", "f16", "f16"), "gfx942"): ("mfma_32x32x4_tf32", "mfma_32x32x8_f16"),
}


@pytest.mark.parametrize(("types", "device"), PAIRS)
def test_each_product_has_an_instruction(types: tuple[str, str, str], device: str) -> None:
    made = compiled(types, device, LARGE)
    named = [x.split()[-1] for x in made.schedule.splitlines() if "compute with m" in x]
    assert tuple(named) == PAIRS[types, device]
    assert "online" in made.schedule
    own = {b.name: b for b in made.program.buffers if b.kind == "workspace"}
    assert all(b.dtype is TYPES["tf32"] for b in own.values())  # no scores
    assert compiled(types, device, LARGE, made.schedule).program == made.program


SIZES = ((2, 70, 67), (1, 65, 1), (1, 66, 0), (0, 65, 20), (1, 130, 131))


@pytest.mark.parametrize(("types", "device"), PAIRS)
def test_results(types: tuple[str, str, str], device: str) -> None:
    """Of odd sizes, 0 and 1. Results held something else, one value is no number, and some scores are far below others."""
    made = compiled(types, device, LARGE | {"D": 20})
    assert all(f"compute with {x}" in made.schedule for x in PAIRS[types, device])
    kernel = andiron.compile(attention(*types, types[2]) + made.schedule, target=f"emulate:{device}", D=20)
    for h, n, t in SIZES:
        rng = np.random.default_rng(n + t)
        q, k, v = (rng.standard_normal((h, x, 20), dtype=np.float32) for x in (n, t, t))
        if h and t > 3:
            v[0, 3, 0], q[0, 3] = np.nan, -8
        arrays = [x.astype(TYPES[dtype].numpy) for x, dtype in zip((q, k, v), types, strict=True)]
        out = np.full((h, n, 20), 7, np.float16)
        kernel(*arrays, out=out)
        assert check(kernel.op, arrays, (out,)).ok
