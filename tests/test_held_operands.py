"""An instruction that takes its operand from the registers that a `move` filled, also where its tile is a part of one."""

from __future__ import annotations

import pytest

from .interpreted import GEMM, agrees, program_of

SIZES = [{"M": 3, "N": 9, "K": 5}, {"M": 8, "N": 16, "K": 8}, {"M": 2, "N": 33, "K": 1}, {"M": 3, "N": 9, "K": 0}]


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512", "cpu:neon"])
@pytest.mark.parametrize(
    "lines",
    [
        "tile m: 2, n: 16 / tile k: 2 / move B -> register / compute with fma",
        "tile m: 2, n: 16 / keep C in register / tile k: 3 / move B -> register / compute with fma",
        "tile m: 2, n: 16 / tile k: 4 / tile k: 2 / move B -> register / move A -> register / compute with fma",
    ],
)
def test_parts_of_a_tile(device: str, lines: str) -> None:
    program = program_of(GEMM, lines, device)
    for sizes in SIZES:
        agrees(GEMM, program, sizes)


def test_free_indices_of_fixed_sizes() -> None:
    program = program_of(GEMM, "tile k: 2 / move B -> register / compute with fma", "cpu:avx2", {"M": 3, "N": 16})
    for k in (0, 1, 4, 5):
        agrees(GEMM, program, {"M": 3, "N": 16, "K": k})
