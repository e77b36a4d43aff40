"""Loops over an index that a domain restricts: they begin and end with it, alike for units that wait for each other, and only
where nothing else is done in them."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.tile_ir import Call, For
from andiron.codegen.ir.tile_visitors import statements
from andiron.dsl.errors import UserError

from ....support.interpreted import Formula, agrees, program_of


def formula(text: str, result) -> Formula:
    """`result`: of the indices of Y, in a column, those of X, in a row, and both arrays."""
    op = f"op f[M, N](X: f32[N], W: f32[M]) -> (Y: f32[M]):\n    Y[i] = {text}\n"
    return Formula(op, lambda x, w: result(*np.ogrid[: len(w), : len(x)], x, w))


def running(i, j, x, w):
    return w + np.where(j <= i, x, 0).sum(1)


RUNNING = formula("W[i] + (sum(j where j <= i) X[j])", running)
BAND = formula("W[i] + (sum(j where j >= i - 2, j < i + 5) X[j])",
    lambda i, j, x, w: w + np.where((j >= i - 2) & (j < i + 5), x, 0).sum(1))  # fmt: skip
HIGHEST = formula("max(j where 2*j > i) X[j]", lambda i, j, x, w: np.where(2 * j > i, x, -np.inf).max(1, initial=-np.inf))
MASKED = formula("W[i] + (sum(j) where(i >= j and j > -1, X[j], 0))", running)
WRITTEN = formula("W[i] + (sum(j) where(j > i, 0, X[j]))", running)
WINDOWS = formula("W[i] + (sum(j where j / 4 == i / 4) X[j])",
    lambda i, j, x, w: w + np.where(j // 4 == i // 4, x, 0).sum(1))  # fmt: skip
SHIFTED = formula("W[i] + (sum(j where (j + 3) / 5 <= (2*i - 1) / 4 + 1, -3*((j - i) / 2) < 20) X[j])",
    lambda i, j, x, w: w + (x * ((j + 3) // 5 <= (2 * i - 1) // 4 + 1) * (-3 * ((j - i) // 2) < 20)).sum(1))  # fmt: skip
REMAINDERS = formula("W[i] + (sum(j where j % 4 == i % 4) X[j])",
    lambda i, j, x, w: w + np.where(j % 4 == i % 4, x, 0).sum(1))  # fmt: skip
TRIANGLE = Formula(
    "op f[M, N, K](L: f32[M, N], B: f32[N, K]) -> (C: f32[M, K]):\n    C[i, k] = sum(j where j <= i) L[i, j] * B[j, k]\n",
    lambda a, b: np.tril(a) @ b,
)
CPU = "tile i: 8 -> core / keep Y in register / tile j: 4 / tile i: 1 -> lane"
GPU = "tile i: 64 -> block / keep Y in register / tile j: 8 / move X -> shared / tile i: 32 -> warp / tile i: 1 -> thread"
PARTS = "tile i: 4 -> block / keep Y in register / tile j: 64 / tile i: 2 -> warp / tile j: 2 -> thread / tile j: 1"
AHEAD = GPU.replace("-> shared", "-> shared pipeline 3")
CASES = {
    "on a CPU": (RUNNING, CPU, "cpu:avx2"),
    "a band on a CPU": (BAND, CPU, "cpu:avx512"),
    "a maximum": (HIGHEST, CPU, "cpu:avx2"),
    "in a block": (RUNNING, GPU, "sm_80"),
    "a band in a block": (BAND, GPU.replace("warp", "wave"), "gfx942"),
    "units that have parts": (BAND, PARTS, "sm_80"),
    "copies that run ahead": (BAND, AHEAD, "sm_80"),
    "kept below the loop": (RUNNING, "tile j: 4 / tile i: 8 / keep Y in register", "cpu:avx2"),
    "by default": (BAND, "auto", "cpu:avx2"),
    "by default on a GPU": (RUNNING, "auto", "sm_80"),
    "parts for another launch": (RUNNING, "tile j: 16 -> block by workspace / auto", "sm_80"),
    "at the leaf": (BAND, "tile i: 8 -> core / keep Y in register / tile i: 1 -> lane", "cpu:avx2"),
    "by an instruction": (TRIANGLE, "tile i: 6, k: 16 / keep C in register / tile j: 4 / compute with fma", "cpu:avx2"),
    "quotients": (WINDOWS, CPU, "cpu:avx2"),
    "quotients in a block": (WINDOWS, GPU, "sm_80"),
    "quotients of sums": (SHIFTED, GPU, "sm_80"),
    "quotients of sums in parts": (SHIFTED, PARTS, "sm_80"),
    "not linear": (REMAINDERS, CPU, "cpu:avx2"),
}


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    text, lines, device = CASES[name]
    program = program_of(text, lines, device)
    for sizes in ({"M": 37, "N": 37, "K": 17}, {"M": 70, "N": 9, "K": 5}, {"M": 3, "N": 0, "K": 1}):
        agrees(text, program, sizes, {"core": 2})


def bounds(text: Formula, lines: str, device: str) -> tuple[str, str]:
    """Of the first loop over tiles of j."""
    program = program_of(text, lines, device, {"M": 256, "N": 256})
    loops = (s for s in statements(program.launches[0].body) if isinstance(s, For) and s.var.name.startswith("j"))
    first = next(loops)
    return str(first.start), str(first.stop)


LINES = "tile i: 8 / keep Y in register / tile j: 4"


@pytest.mark.parametrize("same", [RUNNING, MASKED, WRITTEN])
def test_a_loop_ends_with_the_domain(same):
    """A mask that is the neutral value says it, too."""
    assert bounds(same, LINES, "cpu:generic") == ("0", "2*i1 + 2")


def test_a_loop_over_quotients_ends_with_them():
    """Blocks of rows and of terms, as in an attention of documents of one length."""
    assert bounds(WINDOWS, LINES, "cpu:generic") == ("2*i1", "2*i1 + 2")
    assert bounds(WINDOWS, GPU, "sm_80") == ("8*block", "8*block + 8")
    assert bounds(REMAINDERS, LINES, "cpu:generic") == ("0", "64")


@pytest.mark.parametrize("term", ["where(j <= i, W[i], 0) * X[j]", "where(j <= i, X[j], 1)", "where(j != i, X[j], 0)"])
def test_what_is_not_the_neutral_value_skips_nothing(term):
    """0 * nan is not 0."""
    assert bounds(formula(f"W[i] + (sum(j) {term})", running), LINES, "cpu:generic") == ("0", "64")


def test_the_loop_of_a_leaf_ends_too():
    assert bounds(RUNNING, "tile i: 8 / keep Y in register / tile i: 1", "cpu:generic") == ("0", "8*i1 + i2 + 1")


def test_a_call_adds_terms_that_all_count_or_none():
    """A multiply-add of vectors has one `i` and one `j`; an instruction of groups has several (`test_some_terms`)."""
    lines = "tile i: 6, k: 16 / keep C in register / tile j: 4 / compute with fma"
    calls = [s for s in statements(program_of(TRIANGLE, lines, "cpu:avx2").launches[0].body) if isinstance(s, Call)]
    assert {c.instr for c in calls} == {"fma_f32x8"}
    half = TRIANGLE.text.replace("L: f32", "L: tf32").replace("B: f32", "B: tf32")
    half = half.replace("L[i, j]", "f32(L[i, j])").replace("B[j, k]", "f32(B[j, k])")
    lines = "tile i: 16, k: 8 -> block / keep C in register / tile j: 8 / compute with mma_m16n8k8_tf32"
    with pytest.raises(UserError, match="does not compute `C`") as refused:
        program_of(Formula(half, TRIANGLE.result), lines, "sm_80")
    assert "a call adds terms inside of j <= i and others" in (refused.value.help or "")


def test_units_that_wait_have_one_trip_count():
    """The bound of a block is that of its last row: threads pass the barriers of the copy together."""
    assert bounds(RUNNING, GPU, "sm_80") == ("0", "-8*block + 32")


REST = formula("W[i] + (sum(j where j >= i) X[j])", lambda i, j, x, w: w + np.where(j >= i, x, 0).sum(1))


def test_the_tiles_with_the_most_terms_begin_first():
    """Blocks begin in the order of their numbers, and the last ones should be short. In a window all are alike."""
    assert bounds(RUNNING, GPU, "sm_80")[1] == "-8*block + 32"
    assert bounds(REST, GPU, "sm_80")[0] == "8*block"
    assert bounds(BAND, GPU, "sm_80")[0] == "max(0, 8*block - 1)"
    assert bounds(RUNNING, CPU, "cpu:avx2")[1] == "2*tile + 2"  # which core takes the next one is not known before
