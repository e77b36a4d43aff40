"""An accumulator that a line above keeps in a memory, and one below nearer to the units: a tile of it goes on from there."""

from __future__ import annotations

import re

import pytest
from andiron.codegen.ir.printer import show
from andiron.dsl.errors.schedule import HeldTwice, SplitReduction

from ....support.interpreted import CENTRED, GEMM, HIGHEST, ROWS, Formula, agrees, program_of

PLACES = Formula("op f[M, K](X: f32[M, K]) -> (Y: i64[M]):\n    Y[m] = argmax(k) X[m, k]\n", lambda x: x.argmax(1))
TWO = Formula(
    "op f[M, N, K](A: f32[M, K], B: f32[K, N], c: f32[N]) -> (C: f32[M, N], D: f32[M, N]):\n"
    "    t[m, n] = sum(k) A[m, k] * B[k, n]\n    C[m, n] = t[m, n] + c[n]\n    D[m, n] = t[m, n] * 2.0\n",
    lambda a, b, c: (a @ b + c, (a @ b) * 2),
)
BLOCK = "tile m: 8, n: 16 -> core / keep C in l1 / tile k: 4 / tile m: 2, n: 8 / keep C in register / tile k: 1"
THREADS = "tile m: 8, n: 8 -> block / keep C in shared / tile k: 4 / tile m: 1, n: 2 -> thread / keep C in register / compute"
RIGHT = {
    "a block": (GEMM, "cpu:avx2", BLOCK + " / tile n: 1 -> lane"),
    "three memories": (GEMM, "cpu:generic", "tile m: 8 -> core / keep C in l2 / tile k: 8 / tile n: 4 / keep C in l1"
                       " / tile k: 2 / keep C in register / tile m: 2"),
    "below another reduction loop": (GEMM, "cpu:avx2", "tile k: 8 / tile m: 4, n: 16 -> core / keep C in l1 / tile k: 2"
                                     " / tile m: 2 / keep C in register"),
    "peeled": (GEMM, "cpu:avx2", BLOCK.replace("tile k: 4", "tile k: 4 peel")),
    "lanes have parts": (ROWS, "cpu:avx2", "tile m: 4 -> core / keep Y in l1 / tile k: 16 / tile m: 1 / keep Y in register"
                         " / tile k: 1 -> lane"),
    "threads": (GEMM, "sm_80", THREADS),
    "threads have parts": (ROWS, "sm_80", "tile m: 4 -> block / keep Y in shared / tile k: 64 / tile m: 1 -> warp"
                           " / keep Y in register / tile k: 1 -> thread"),
    "warps have parts": (ROWS, "gfx90a", "tile m: 2 -> block / keep Y in shared / tile k: 128 / tile m: 1"
                         " / keep Y in register / tile k: 64 -> wave / tile k: 1 -> thread"),
    "a maximum": (HIGHEST, "sm_80", "tile m: 4 -> block / keep Y in shared / tile k: 16 / tile m: 1 -> thread"
                  " / keep Y in register"),
    "a place": (PLACES, "cpu:avx2", "tile m: 4 -> core / keep Y in l1 / tile k: 8 / tile m: 2 / keep Y in register"),
    "two results": (TWO, "cpu:avx2", "tile m: 4 -> core / tile n: 8 / keep C in l1 / tile k: 4 / tile m: 2"
                    " / keep D in register"),
}  # fmt: skip
SIZES = [{"M": 13, "N": 21, "K": 19}, {"M": 1, "N": 1, "K": 1}, {"M": 9, "N": 16, "K": 0}, {"M": 0, "N": 3, "K": 5}]


@pytest.mark.parametrize("title", RIGHT)
def test_it_goes_on_from_there(title: str) -> None:
    formula, device, lines = RIGHT[title]
    where = "N <= 32" if "core / tile k" in lines or title == "three memories" else ""
    program = program_of(formula, lines + " / compute" * (not lines.endswith("compute")), device, where=where)
    for sizes in SIZES:
        if formula is PLACES and not sizes["K"]:
            continue
        agrees(formula, program, {x: n for x, n in sizes.items() if x in {v.name for v in program.dims}})


def test_registers_hold_a_tile_while_it_accumulates() -> None:
    text = show(program_of(GEMM, BLOCK + " / compute", "cpu:avx2"))
    assert re.search(r"c1\[\w+, \w+\] = c\[", text)
    assert re.search(r" c\[[^]]*\] = c1\[\w+, \w+\]", text)
    assert re.search(r"c1\[(\w+, \w+)\] = fma\(A.*, c1\[\1\]\)", text)
    assert not re.search(r" c\[[^]]*\] = fma", text)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            BLOCK.replace("keep C in l1", "keep C in register").replace("in register / tile k: 1", "in l1 / tile k: 1"),
            "held in",
        ),
        (BLOCK.replace("in register /", "in register with stream /"), "stored"),
    ],
)
def test_a_line_below_that_says_more_is_refused(lines: str, message: str) -> None:
    with pytest.raises(HeldTwice, match=message):
        program_of(GEMM, lines + " / compute", "cpu:avx2")


@pytest.mark.parametrize("between", ["", "tile m: 2 / "])
def test_what_others_read_is_kept_once(between: str) -> None:
    """The second line would keep it for readers below, and those outside would find nothing."""
    lines = f"tile m: 4 -> core / keep t in l2 / {between}keep t in register / compute"
    with pytest.raises(HeldTwice, match="`t` is kept by a line above, where others read it") as caught:
        program_of(CENTRED, lines, "cpu:generic")
    assert caught.value.span is not None
    assert caught.value.span.text == "keep t in register"


def test_units_with_parts_do_not_all_go_on_from_one_result() -> None:
    lines = "tile m: 4 -> block / keep Y in shared / tile k: 64 / tile k: 32 -> warp / tile m: 1 / keep Y in register"
    with pytest.raises(SplitReduction) as caught:
        program_of(ROWS, lines + " / tile k: 1 -> thread / compute", "sm_80")
    assert caught.value.help
