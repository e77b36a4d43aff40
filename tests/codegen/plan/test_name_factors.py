"""Factors that are computed: schedules for a product serve them, and instructions take them where they are made."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.plan.name_factors import name_factors
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.dsl.values import Apply

OPS = """import std.ops.gemm
import std.schedules.gemm
import std.schedules.gemm_amd
import std.schedules.gemm_nvidia

op converted[M, N, K](A: f16[M, K], B: i8[K, N]) -> (C: f16[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(f16(B[k, n]))

op scaled[M, N, K](A: f16[M, K], B: f16[N, K], s: f16[K]) -> (C: f16[M, N]):
    C[m, n] = relu(sum(k) f32(f16(relu(f32(A[m, k])) * f32(s[k]))) * f32(B[n, k]))

op both[M, N, K](A: i8[K, M], B: i8[K, N], s: f16[K, N]) -> (C: f16[M, N]):
    C[m, n] = sum(k) f32(f16(A[k, m])) * f32(f16(f32(B[k, n]) * f32(s[k, n])))

op plain[M, N, K](A: f32[M, K], B: i8[K, N], s: f32[N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) relu(A[m, k]) * (f32(B[k, n]) * s[n])

op tripled[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n] * A[m, k]
"""
SIZES = [dict(M=37, N=45, K=35), dict(M=3, N=2, K=0)]
SMALL = [dict(M=7, N=19, K=5), dict(M=3, N=2, K=0)]


def check(op, program, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(5)
    values = {t.name: rng.integers(-3, 4, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    (got,) = interpret(program, values, sizes=sizes).values()
    np.testing.assert_array_equal(got, reference(op)(*values.values()))  # small integers: every sum is exact


@pytest.mark.parametrize(
    ("op", "schedule", "device", "instr"),
    [
        ("converted", "hgemm_ampere", "sm_80", "mma_m16n8k16_f16"),
        ("scaled", "hgemm_ampere", "sm_80", "mma_m16n8k16_f16"),
        ("both", "hgemm_ampere", "sm_80", "mma_m16n8k16_f16"),
        ("both", "hgemm_mfma", "gfx942", None),
        ("plain", "sgemm_avx2", "cpu:avx2", "fma_f32x8"),
        ("plain", "sgemm_generic", "cpu:generic", None),
        ("plain", "sgemm_maxwell", "sm_75", None),
        ("converted", None, "sm_80", "mma_m16n8k16_f16"),
        ("scaled", None, "sm_80", "mma_m16n8k16_f16"),
        ("both", None, "gfx90a", "mfma"),
        ("both", None, "gfx1100", "wmma"),
        ("tripled", None, "sm_80", None),
    ],
)
def test_right(op: str, schedule: str | None, device: str, instr: str | None) -> None:
    module = loads(OPS)
    compiled = compile_program(module, module.ops[op], module.schedules.get(schedule or ""), module.device(device))
    assert instr is None or any(instr in i.name for i in compiled.program.instrs)
    for sizes in SIZES if device.startswith(("sm", "gfx")) else SMALL:
        check(module.ops[op], compiled.program, sizes)
    # what is printed is the same schedule
    head, lines = compiled.schedule.split("\n", 1)
    again = loads(f"{OPS}\nschedule again for {op}:\n{lines}")
    same = compile_program(again, again.ops[op], again.schedules["again"], again.device(device)).schedule
    assert same.split("\n", 1)[1] == lines, head


def test_a_factor_has_fewer_indices_than_the_product() -> None:
    ops = loads(OPS).ops
    assert {s.target for s in name_factors(ops["both"]).statements} == {"C.left", "C.right", "C"}
    assert {s.target for s in name_factors(ops["scaled"]).statements} == {"C.left1", "C.sum1", "C"}
    assert name_factors(ops["tripled"]) == ops["tripled"]
    assert name_factors(ops["both"], frozenset({"C.left"})).statements[0].indices == ("k", "m")


def test_a_factor_that_no_line_names_is_computed_where_it_is_read() -> None:
    module = loads(
        OPS
        + "\nschedule s for plain on cpu:generic:\n    tile m: 4 -> core\n    tile n: 8\n    keep C in register\n    tile k: 1"
    )
    program = compile_program(module, module.ops["plain"], module.schedules["s"], module.device("cpu:generic")).program
    assert [b.name for b in program.buffers if b.kind == "local" and b.memory != "register"] == []
    check(module.ops["plain"], program, SMALL[0])


def test_a_factor_with_two_names_has_the_type_that_the_product_reads() -> None:
    """The window of the right factor is converted by a name of its own. The factor has one because the product is a square."""
    op = loads("op f[M, N](Z: f16[M, N]) -> (P: f16[M, M]):\n    P[a, c] = sum(d: N) Z[c, d] * Z[2*d, a else 0]\n").ops["f"]
    read = name_factors(op, frozenset({"P.left", "P.right", "P.Z_f32"})).statements[-1].value
    assert isinstance(read, Apply)
    assert [x.dtype.name for x in read.args] == ["f32", "f32"]
