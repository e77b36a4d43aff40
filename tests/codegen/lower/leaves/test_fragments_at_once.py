"""An instruction that fills several fragments at once (`copy_leaf`, SEVERAL): when it is called, and what it loads."""

from __future__ import annotations

from dataclasses import replace

import andiron
import numpy as np
import pytest
from andiron.codegen.coverage.check_coverage import check_coverage
from andiron.codegen.coverage.element_coverage import Coverage
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Call, Stmt
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.lower.leaves.fragment_fit import index_in_turn
from andiron.codegen.lower.leaves.match_instr import FragmentMap
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import InstrMismatch
from andiron.dsl.errors.verify import ElementNotCovered
from andiron.dsl.index.expr import ZERO, Var, as_expr
from andiron.dsl.module import loads as loads_module

from ....support.edit_programs import edited

SCHEDULE = """import std.ops.gemm

schedule s for {op} on sm_80:
    tile m: {m}, n: {n} -> block
    keep C in register
    tile k: 64
    move A -> shared swizzle
    move B -> shared swizzle
    tile m: {m}, n: {warp} -> warp
    tile k: {k}
    move A -> register with ldmatrix
    move B -> register with {instr}
    compute with {mma}
"""
MMA = {"gemm_f16": "mma_m16n8k16_f16", "gemm_f16_nt": "mma_m16n8k16_f16", "gemm_bf16": "mma_m16n8k16_bf16"}
SIZES = ((33, 65, 70), (16, 64, 64), (1, 1, 1), (0, 8, 16), (16, 0, 8), (16, 24, 0), (40, 136, 72))


def kernel(op: str, warp: int, k: int, instr: str = "ldmatrix", **sizes: int) -> andiron.Kernel:
    text = SCHEDULE.format(op=op, m=16, n=2 * warp, warp=warp, k=k, instr=instr, mma=MMA[op])
    return andiron.compile(text, op, "s", target="emulate:sm_80", sizes=sizes)


def loads(k: andiron.Kernel) -> set[str]:
    """The instructions that load B."""
    return {i.name for v in k.variants for i in v.program.instrs if i.name.startswith("ldmatrix") and "_a_" not in i.name}


def agrees(k: andiron.Kernel, op: str, m: int, n: int, depth: int) -> None:
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if op == "gemm_bf16" else np.float16
    rng = np.random.default_rng(m + n + depth)
    a, b = rng.integers(-3, 4, (m, depth)), rng.integers(-3, 4, (depth, n))
    c = np.full((m, n), np.nan, dtype)
    k(a.astype(dtype), np.ascontiguousarray((b.T if op.endswith("_nt") else b).astype(dtype)), out=c)
    np.testing.assert_array_equal(c.astype(np.float64), (a @ b).astype(dtype).astype(np.float64))


@pytest.mark.parametrize(
    ("op", "warp", "k", "expected"),
    [
        ("gemm_f16", 32, 16, {"ldmatrix_x4_trans_bb_f16"}),
        ("gemm_f16", 16, 16, {"ldmatrix_x4_trans_bb_f16"}),
        ("gemm_f16", 32, 32, {"ldmatrix_x4_trans_bb_f16"}),  # B[k, n]: n comes last, so registers of two n are neighbours
        ("gemm_bf16", 32, 16, {"ldmatrix_x4_trans_bb_bf16"}),
        ("gemm_f16_nt", 32, 16, {"ldmatrix_x4_bb_f16x2"}),
        ("gemm_f16_nt", 32, 32, {"ldmatrix_x2_b_f16x2"}),  # B[n, k]: between registers of two n lie those of another k
        ("gemm_f16", 24, 16, {"ldmatrix_x2_trans_b_f16"}),  # three fragments
        ("gemm_f16", 8, 16, {"ldmatrix_x2_trans_b_f16"}),
    ],
)
def test_fragments_that_come_in_groups(op: str, warp: int, k: int, expected: set[str]) -> None:
    made = kernel(op, warp, k)
    assert loads(made) == expected
    for sizes in SIZES:
        agrees(made, op, *sizes)


@pytest.mark.parametrize("sizes", SIZES[:4])
def test_known_sizes(sizes: tuple[int, int, int]) -> None:
    m, n, depth = sizes
    agrees(kernel("gemm_f16", 32, 16, M=m, N=n, K=depth), "gemm_f16", m, n, depth)


def test_the_author_names_one() -> None:
    assert loads(kernel("gemm_f16", 32, 16, "ldmatrix_x2_trans_b_f16")) == {"ldmatrix_x2_trans_b_f16"}
    assert loads(kernel("gemm_f16", 32, 16, "ldmatrix_x4_trans_bb_f16")) == {"ldmatrix_x4_trans_bb_f16"}
    with pytest.raises(InstrMismatch, match="no member of it lays `B` out"):
        kernel("gemm_f16", 24, 16, "ldmatrix_x4_trans_bb_f16")


def test_registers_of_one_fragment_after_those_of_another() -> None:
    lane, two, four = Var("lane", 0, 31), Var("r", 0, 1), Var("r", 0, 3)
    row, pair = as_expr(lane) // 4, as_expr(lane) % 4 * 2

    def fragment(r: Var, *maps) -> FragmentMap:
        return FragmentMap(maps, lane, 32, r, (r.hi or 0) + 1)

    one = fragment(two, ("k", 8, pair + two), ("n", 8, row))
    r = as_expr(four)
    assert index_in_turn(one, fragment(four, ("n", 16, row + r // 2 * 8), ("k", 8, pair + r % 2))) == "n"
    assert index_in_turn(one, fragment(four, ("k", 16, pair + r % 2 + r // 2 * 8), ("n", 8, row))) == "k"
    assert index_in_turn(one, fragment(four, ("k", 8, pair + r // 2), ("n", 16, row + r % 2 * 8))) is None  # by turns
    assert index_in_turn(one, fragment(four, ("k", 8, pair + r % 2), ("n", 16, row * 2 + r // 2))) is None  # rows interleaved
    assert index_in_turn(one, one) is None


@pytest.mark.wrong_program
def test_each_fragment_that_is_read_was_filled() -> None:
    """For all sizes, by whole rows of registers; a call that fills the same two again leaves others without a value."""
    text = SCHEDULE.format(op="gemm_f16", m=16, n=64, warp=32, k=16, instr="ldmatrix", mma=MMA["gemm_f16"])
    module = loads_module(text)
    op = module.ops["gemm_f16"]
    program = compile_program(module, op, module.schedules["s"], module.device("sm_80")).program
    registers = next(s.pieces[-1].buffer for s in calls(program) if "bb" in s.instr)
    assert registers not in Coverage(program).not_proven

    def again(s: Stmt) -> list[Stmt]:
        if not isinstance(s, Call) or "bb" not in s.instr:
            return [s]
        pieces = tuple(replace(p, coords=(ZERO,) * len(p.coords)) if p.buffer == registers else p for p in s.pieces)
        return [replace(s, pieces=pieces)]

    with pytest.raises(ElementNotCovered, match=f"`{registers}`.* is read, and nothing writes it before"):
        check_coverage(edited(program, again), op, None)


def calls(program: Program) -> list[Call]:
    return [s for x in program.launches for s in statements(x.body) if isinstance(s, Call)]
