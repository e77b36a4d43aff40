"""More tiles than units of a level: they are done in rounds, each tile once, and parts of a sum are combined once.

Where the tiles do not fill the last round, no unit reads past what is staged.
"""

from __future__ import annotations

import pytest
from andiron.codegen.ir.tile_ir import AllReduce, For
from andiron.codegen.ir.tile_visitors import statements

from ....support.interpreted import CENTRED, GEMM, HIGHEST, ROWS, TOTALS, TURNED, agrees, program_of

CASES = {
    "two reduced indices in one line": (TOTALS, "tile n: 1 -> block / keep Y in register / tile c: 1, s: 1 -> thread"),
    "without keep": (TOTALS, "tile n: 2 -> block / tile c: 1, s: 1 -> thread"),
    "over warps and threads": (
        TOTALS,
        "tile n: 1 -> block / keep Y in register / tile c: 1, s: 2 -> warp / tile s: 1 -> thread",
    ),
    "a reduced index in a line of its own": (TOTALS, "tile n: 1 -> block / tile c: 1 -> warp / tile s: 1 -> thread"),
    "below a loop": (TOTALS, "tile n: 1 -> block / tile c: 7 / keep Y in register / tile c: 1, s: 1 -> thread"),
    "staged": (TOTALS, "tile n: 1 -> block / move X -> shared / tile c: 1 -> warp / tile s: 1 -> thread"),
}


@pytest.mark.every_second
@pytest.mark.parametrize("sizes", [(2, 24, 24), (3, 5, 33), (1, 33, 1), (2, 0, 40)], ids=str)
@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
@pytest.mark.parametrize("name", CASES)
def test_two_reduced_indices(name, device, fixed, sizes):
    formula, lines = CASES[name]
    given = dict(zip("NCS", sizes, strict=True))
    lines = lines.replace("warp", "wave") if device == "gfx90a" else lines
    program = program_of(formula, lines, device, given if fixed else {"N": given["N"]}, "" if fixed else "C <= 33, S <= 40")
    agrees(formula, program, given)


def test_parts_are_combined_after_the_rounds():
    program = program_of(TOTALS, CASES["two reduced indices in one line"][1], "sm_80", {"C": 48, "S": 48})
    body = program.launches[0].body
    rounds = [s for s in statements(body) if isinstance(s, For) and s.var.name.startswith("round")]
    assert len(rounds) == 1
    assert not any(isinstance(s, AllReduce) for s in statements(rounds[0].body))
    assert any(isinstance(s, AllReduce) for s in statements(body))


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
@pytest.mark.parametrize("size", [20, 33, 40, 63, 64, 90])
def test_a_staged_sum(size, device):
    level = "wave" if device == "gfx90a" else "warp"
    lines = f"tile m: 4, n: 4 -> block / move A -> shared / move B -> shared / tile m: 1, n: 1 -> {level} / tile k: 1 -> thread"
    sizes = {"M": 5, "N": 6, "K": size}
    agrees(GEMM, program_of(GEMM, lines, device, {"K": size}), sizes)
    agrees(GEMM, program_of(GEMM, lines, device, where=f"K <= {size + 7}"), sizes)


@pytest.mark.parametrize("lines", [
    "tile m: 8, n: 40 -> block / tile k: 8 / move B -> shared / tile n: 1 -> thread",
    "tile m: 8, n: 40 -> block / keep C in register / tile k: 8 / move B -> shared / tile n: 1 -> thread",
    "tile m: 40, n: 3 -> block / keep C in register / tile k: 5 / move A -> shared / move B -> shared / tile m: 1 -> thread",
])  # fmt: skip
def test_registers_and_what_is_staged(lines):
    sizes = {"M": 41, "N": 83, "K": 11}
    agrees(GEMM, program_of(GEMM, lines, "sm_80"), sizes)
    agrees(GEMM, program_of(GEMM, lines, "sm_80", sizes), sizes)


@pytest.mark.parametrize("lines", [
    "tile n: 21 / move X -> l3 / tile n: 1 -> lane",
    "tile n: 21, m: 4 -> core / move X -> l1 / tile n: 1, m: 1 -> lane",
    "tile m: 3 -> core / tile n: 19 / move X -> l1 / tile n: 2 -> lane",
])  # fmt: skip
@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2"])
def test_lanes(lines, device):
    sizes = {"M": 13, "N": 50}
    agrees(TURNED, program_of(TURNED, lines, device, where="M <= 64"), sizes)
    agrees(TURNED, program_of(TURNED, lines, device, sizes), sizes)


def test_statistics_reach_every_unit():
    for lines in ("tile m: 1 -> block / keep t in register / tile k: 1 -> thread", "tile m: 1 -> block / tile k: 1 -> warp"):
        sizes = {"M": 3, "K": 70}
        agrees(CENTRED, program_of(CENTRED, lines, "sm_80", sizes), sizes)
        agrees(CENTRED, program_of(CENTRED, lines, "sm_80", where="K <= 75"), sizes)


@pytest.mark.parametrize("formula", [ROWS, HIGHEST], ids=["sum", "max"])
def test_the_last_group_is_not_whole(formula):
    """Seven warps in groups of two or of three: what the eighth would hold is not read."""
    for lines in (
        "tile m: 7 -> block / tile m: 1 -> warp",
        "tile m: 3 -> block / tile m: 1, k: 24 -> warp / tile k: 1 -> thread",
    ):
        sizes = {"M": 8, "K": 50}
        agrees(formula, program_of(formula, lines, "sm_80", sizes), sizes)
