"""Strided chunks of a reduced index above the accumulator: their loop initialises once, and goes on from there."""

from __future__ import annotations

import pytest

from .interpreted import ROWS, agrees, program_of


@pytest.mark.parametrize("size", [0, 1, 15, 40])
@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2"])
def test_parts_in_chunks(device, size):
    lines = "tile k: 16 / tile k: 1 every 8 -> lane by workspace / tile k: 8 / keep Y in register"
    agrees(ROWS, program_of(ROWS, lines, device), {"M": 3, "K": size})
