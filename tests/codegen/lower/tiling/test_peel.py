"""`peel` under a tile that is dealt to units: a unit whose part begins past the end has no whole tiles, and no rest."""

from __future__ import annotations

import pytest

from ....support.interpreted import GEMM, HIGHEST, ROWS, agrees, program_of


@pytest.mark.every_second
@pytest.mark.parametrize("size", [0, 1, 3, 8, 21, 71])
@pytest.mark.parametrize("formula", [ROWS, HIGHEST], ids=["sum", "max"])
@pytest.mark.parametrize(("device", "lines"), [
    ("cpu:generic", "tile k: 8 / tile k: 2 -> lane / tile k: 2 peel"),
    ("cpu:avx2", "tile k: 8 / tile k: 2 -> lane / tile k: 2 peel"),
    ("cpu:avx2", "tile k: 32 -> core / tile k: 4 -> lane / tile k: 3 peel"),
    ("sm_80", "tile k: 64 / tile k: 2 -> thread / tile k: 2 peel"),
    ("sm_80", "tile k: 64 / tile k: 16 -> warp / tile k: 5 peel"),
    ("gfx90a", "tile k: 64 / tile k: 2 -> thread / tile k: 1 peel"),
])  # fmt: skip
def test_the_end_of_a_reduction_counts_once(device, lines, formula, size):
    agrees(formula, program_of(formula, lines, device), {"M": 3, "K": size})


@pytest.mark.parametrize("sizes", [(3, 5, 4), (17, 1, 2), (8, 8, 8)], ids=str)
@pytest.mark.parametrize("lines", [
    "tile m: 8 / tile m: 2 -> warp / tile m: 3 peel",
    "tile m: 8 / tile m: 2 -> thread / tile m: 2 peel",
    "tile m: 16 -> block / tile m: 4 -> warp / tile m: 3 peel / tile n: 3 peel",
])  # fmt: skip
def test_larger_than_the_part_of_a_unit(lines, sizes):
    """What others store is not stored again."""
    agrees(GEMM, program_of(GEMM, lines, "sm_80"), dict(zip("MNK", sizes, strict=True)))
