"""Registers are read by the unit that holds them: a block that spreads them otherwise than the lines below is refused.

One that moves them to a memory that units share may do as it likes.
"""

from __future__ import annotations

import pytest
from andiron.dsl.errors.schedule import RegisterMismatch

from ...support.interpreted import GEMM, TURNED, agrees, program_of

LINES = "tile m: 16, n: 16 -> block / keep {0} in register: / {1} / tile m: 1 -> warp / tile n: 1 -> thread"
SIZES = {"M": 20, "N": 23, "K": 5}


@pytest.mark.parametrize(("formula", "name"), [(GEMM, "C"), (TURNED, "Y")], ids=["sum", "pointwise"])
def test_other_units(formula, name):
    with pytest.raises(RegisterMismatch, match="a unit has other elements of it here than there"):
        program_of(formula, LINES.format(name, "> tile n: 1 -> warp / > tile m: 1 -> thread"), "sm_80")


@pytest.mark.parametrize(("formula", "name"), [(GEMM, "C"), (TURNED, "Y")], ids=["sum", "pointwise"])
@pytest.mark.parametrize("block", [
    "> tile m: 1 -> warp / > tile n: 1 -> thread",
    "> move {0} -> shared",
    "> move {0} -> shared pad 1 / > tile m: 2",
    "> move {0} -> shared / > tile n: 1 -> warp / > tile m: 1 -> thread",
])  # fmt: skip
def test_the_same_or_through_a_memory(block, formula, name):
    program = program_of(formula, LINES.format(name, block.format(name)), "sm_80")
    agrees(formula, program, {n: SIZES[n] for n in ("M", "N", *("K" if formula is GEMM else ""))})
