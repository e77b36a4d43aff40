"""Two tile lines onto one level multiply: how many units each takes is counted alike by both."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import BadFuse
from andiron.dsl.module import loads

from ....support.interpreted import GEMM, ROWS, TURNED, Formula, agrees, program_of

REPEATED = Formula(
    "op f[Q, M, N](X: f32[M, N], W: f32[Q]) -> (Y: f32[Q, M, N]):\n    Y[q, m, n] = X[m, n] * W[q]\n",
    lambda x, w: x * w[:, None, None],
)
SIZES = [{"M": 3, "K": 21}, {"M": 1, "K": 1}, {"M": 7, "K": 0}]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("lines", [
    "tile k: 1 / tile k: 4 -> core / tile k: 1 -> core",
    "tile k: 3 / tile k: 4 -> core / tile k: 2 -> core",
    "tile m: 1 / tile m: 4 -> core / tile m: 1 -> core",
    "tile k: 2, m: 1 / tile m: 8, k: 8 -> core / tile m: 2, k: 1 -> core",
])  # fmt: skip
def test_a_tile_larger_than_what_is_left(lines, sizes):
    program = program_of(ROWS, lines, "cpu:generic")
    for cores in (1, 2, 3):
        agrees(ROWS, program, sizes, {"core": cores})
    agrees(ROWS, program_of(ROWS, lines, "cpu:generic", sizes), sizes)


@pytest.mark.parametrize("fixed", [{"K": 2}, {"M": 2}, {"M": 2, "K": 2}], ids=str)
@pytest.mark.parametrize("index", ["m", "k"])
def test_one_tile_then_several(index, fixed):
    """The first line has one tile and the second two: the other units idle."""
    sizes = {"M": 2, "K": 2}
    for level in ("thread", "warp"):
        lines = f"tile {index}: 2 -> {level} / tile {index}: 1 -> {level}"
        agrees(
            ROWS,
            program_of(ROWS, lines, "sm_80", fixed, "" if len(fixed) == 2 else "K <= 2" if "M" in fixed else "M <= 2"),
            sizes,
        )


def test_an_index_fused_between_them():
    sizes = {"Q": 4, "M": 3, "N": 5}
    lines = "tile q: 1 -> thread / fuse m, n as f / tile f: 4 -> thread"
    agrees(REPEATED, program_of(REPEATED, lines, "sm_80", sizes), sizes)


def test_an_index_fused_below_registers_is_refused():
    for lines in ("tile k: 8 -> thread / fuse m, n as f / tile f: 4 -> thread", "keep C in register / fuse m, n as f"):
        with pytest.raises(BadFuse, match="`C` is held in registers"):
            program_of(GEMM, lines, "sm_80", {"M": 3, "N": 5, "K": 9})


def test_transposed():
    sizes = {"M": 2, "N": 3}
    agrees(TURNED, program_of(TURNED, "tile m: 2 -> thread / tile m: 1 -> thread", "sm_80", {"M": 2}), sizes)


@pytest.mark.parametrize("size", [1, 4, 6])
@pytest.mark.parametrize("lines", [
    "tile m: 4 every 4 -> thread / tile m: 5 / tile m: 1 -> thread",
    "tile m: 2 every 4 -> warp / tile m: 9 / tile m: 1 -> warp",
])  # fmt: skip
def test_a_loop_over_the_chunks_between_them(lines, size):
    """A tile of the loop is no larger than a chunk, and so are those below it."""
    agrees(ROWS, program_of(ROWS, lines, "sm_90a", None, "M <= 6, K <= 6"), {"M": size, "K": 3})


CORES_IN_A_BLOCK = """op f[M](A: f32[M]) -> (Y: f32[M]):
    Y[m] = 2.0 * A[m]

schedule s for f:
    tile m: 16
    keep Y in register:
        move Y -> l3
        tile m: 5 -> core
    tile m: 8
    tile m: 2
    tile m: 1 -> lane
    compute
"""


@pytest.mark.parametrize("m", [7, 0, 1, 16, 37])
def test_cores_that_only_a_block_uses(m):
    """All cores compute what lies in registers, and one of them stores it for all."""
    module = loads(CORES_IN_A_BLOCK)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2")).program
    a = np.arange(1, m + 1, dtype=np.float32)
    for cores in (1, 4):
        np.testing.assert_array_equal(interpret(program, {"A": a}, finite={"core": cores})["Y"], 2 * a)
