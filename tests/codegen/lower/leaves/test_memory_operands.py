"""Instructions whose operands are in memory: where a tile does not lie as they read it, its points are computed one by one.

All of them, along the sum as well.
"""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads

TEXT = """
op rows[M, N, K](A: i16[M, K], B: i16[N, K]) -> (C: i32[M, N]):
    C[m, n] = sum(k) i32(A[m, k]) * i32(B[n, k])

op columns[M, N, K](A: i16[M, K], B: i16[K, N]) -> (C: i32[M, N]):
    C[m, n] = sum(k) i32(A[m, k]) * i32(B[k, n])

device odd extends cpu:generic:
    instr three on core in dot:
        op (A: i16[3], B: i16[3, 4], C: i32[4]):
            C[n] += sum(k) i32(A[k]) * i32(B[k, n])
        A in dram at (r): k = r
        B in dram at (r): n = r / 3, k = r % 3
        C in register at (lane): n = lane
"""


def program(op: str, device: str, lines: str):
    module = loads(f"{TEXT}\nschedule s for {op}:\n{lines}    compute with dot\n")
    return module.ops[op], compile_program(module, module.ops[op], module.schedules["s"], module.device(device)).program


@pytest.mark.every_second
@pytest.mark.parametrize("op", ["rows", "columns"])
@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512", "odd"])
@pytest.mark.parametrize("lines", ["", "    tile m: 2, n: 9 -> core\n    keep C in register\n    tile k: 5\n"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 2), (3, 17, 7), (2, 16, 6), (5, 9, 1), (2, 3, 0)])
def test_every_point_of_a_tile_counts(op, device, lines, m, n, k):
    declared, done = program(op, device, lines)
    rng = np.random.default_rng(0)
    A = rng.integers(-9, 9, (m, k)).astype(np.int16)
    B = rng.integers(-9, 9, (n, k) if op == "rows" else (k, n)).astype(np.int16)
    want = np.einsum("mk,nk->mn" if op == "rows" else "mk,kn->mn", A.astype(np.int64), B)
    assert (interpret(done, {"A": A, "B": B})["C"] == want).all()
    check_once(done, declared, {"M": m, "N": n, "K": k})


@pytest.mark.parametrize(("m", "n", "k"), [(5, 6, 0), (5, 0, 3), (0, 6, 3)])
def test_no_address_is_misaligned_in_a_copy_without_elements(m: int, n: int, k: int) -> None:
    """An instruction that its line names is not refused for it."""
    module = loads(
        f"op gemm(A: f16[{m}, {k}], B: f16[{k}, {n}]) -> (C: f32[{m}, {n}]):\n"
        "    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
        "schedule s for gemm on sm_80:\n"
        "    tile m: 64, n: 64 -> block\n"
        "    keep C in register\n"
        "    move A -> shared swizzle\n"
        "    move B -> shared swizzle\n"
        "    tile m: 32, n: 32 -> warp\n"
        "    tile k: 16\n"
        "    move A -> register with ldmatrix\n"
        "    move B -> register with ldmatrix\n"
        "    compute with mma_m16n8k16_f16\n"
    )
    program = compile_program(module, module.ops["gemm"], module.schedules["s"], module.device("sm_80")).program
    (result,) = interpret(program, {"A": np.ones((m, k), np.float16), "B": np.ones((k, n), np.float16)}).values()
    np.testing.assert_array_equal(result, np.full((m, n), k, np.float32))
