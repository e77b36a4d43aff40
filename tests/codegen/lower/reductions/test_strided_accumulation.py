"""Strided chunks of a reduced index above the accumulator: their loop initialises once, and goes on from there."""

from __future__ import annotations

import pytest

from ....support.interpreted import ROWS, agrees, program_of


@pytest.mark.parametrize("size", [0, 1, 15, 40])
@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2"])
def test_parts_in_chunks(device, size):
    lines = "tile m: 1 / tile k: 16 / tile k: 1 every {0} -> lane by workspace / tile k: 8 / keep Y in register"
    agrees(ROWS, program_of(ROWS, lines.format(8 if device == "cpu:avx2" else 4), device), {"M": 3, "K": size})
