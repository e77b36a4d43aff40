"""Warps of 24, 7 and 33 lanes under the emulator: lanes that are no power of two meet, and pass parts through shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.runtime.emulator.run_program import emulated_variant, run_variant

from ...support.interpreted import GEMM, OWN_GPU, ROWS, inputs_of, program_of

SIZES = {"M": 13, "N": 9, "K": 40}
LINES = "tile m: 3 -> block / tile m: 1 -> warp / tile k: 16 / tile k: 1 -> thread"


@pytest.mark.every_second
@pytest.mark.parametrize(("width", "warps"), [(24, 8), (7, 5), (33, 8)])
@pytest.mark.parametrize(("formula", "lines"), [(GEMM, "auto"), (ROWS, "auto"), (ROWS, LINES)])
def test_plays(formula, lines, width, warps):
    program = program_of(formula, lines, "own", devices=OWN_GPU.format(width=width, warps=warps))
    arrays = inputs_of(formula, {n: SIZES[n] for n in ("M", "K", *("N" if formula is GEMM else ""))})
    (got,) = run_variant(emulated_variant(program), arrays, {v.name: SIZES[v.name] for v in program.dims}).values()
    np.testing.assert_array_equal(got, formula.result(*arrays.values()))
