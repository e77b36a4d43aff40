"""A tile larger than a size can be, by its bound, is as large as that: registers, copies and loops agree about it."""

from __future__ import annotations

import pytest

from ....support.interpreted import CENTRED, GEMM, agrees, program_of


@pytest.mark.parametrize("sizes", [{"M": 31, "K": 17}, {"M": 1, "K": 1}, {"M": 9, "K": 0}], ids=str)
@pytest.mark.parametrize("lines", [
    "keep Y in register / tile m: 8 -> block / move X -> shared / tile k: 33 / tile m: 2 -> thread",
    "keep Y in register / tile m: 8 -> block / move X -> shared / tile k: 33 / tile k: 2 -> warp / tile m: 2 -> thread",
    "tile m: 50 -> block / move X -> shared / tile m: 40 -> warp / tile k: 20 -> thread",
])  # fmt: skip
def test_held_in_registers(lines, sizes):
    program = program_of(CENTRED, lines, "sm_80", where="M <= 31, K <= 17")
    agrees(CENTRED, program, sizes)


@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2"])
def test_on_cores_and_lanes(device):
    lines = "tile m: 64 -> core / tile n: 33 / move B -> l1 / tile n: 1 -> lane / tile m: 2"
    program = program_of(GEMM, lines, device, where="N <= 20, K <= 9")
    for sizes in ({"M": 5, "N": 20, "K": 9}, {"M": 1, "N": 1, "K": 1}, {"M": 70, "N": 11, "K": 0}):
        agrees(GEMM, program, sizes)
