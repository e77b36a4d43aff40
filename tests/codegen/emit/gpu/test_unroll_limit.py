"""How far compilers unroll loops of GPU kernels whose schedule has no factor: by the registers that an iteration loads."""

from __future__ import annotations

import re

import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

TEXT = """
op half[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])
schedule s for half on sm_80:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: {}
    tile k: 16
    tile m: 16 -> warp
    compute with mma_m16n8k16_f16
"""


@pytest.mark.parametrize(("trips", "factor"), [(64, {"4"}), (65, set())])
def test_compilers_choose_the_factor_of_long_loops(trips: int, factor: set[str]) -> None:
    module = loads(TEXT.format(16 * trips))
    op = specialise(module.ops["half"], {"K": 64 * trips})
    text = emit(compile_program(module, op, module.schedules["s"], module.device("sm_80")).program, "cuda")
    assert set(re.findall(rf"#pragma unroll (\d+)\n *for \(int k2 = 0; k2 < {trips};", text)) == factor
