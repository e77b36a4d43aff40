"""Without a `keep` an accumulator opens above the loop over its parts if registers hold it, else at the leaf."""

from __future__ import annotations

import pytest
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.tile_ir import Alloc
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.lower.reductions import resume_accumulator
from andiron.dsl.errors.schedule import CannotMeet

from ....support.interpreted import GEMM, HIGHEST, ROWS, Formula, agrees, program_of

PLACES = Formula("op f[M, K](X: f32[M, K]) -> (Y: i64[M]):\n    Y[m] = argmax(k) X[m, k]\n", lambda x: x.argmax(1))

LARGE = [
    (ROWS, "sm_80", "tile k: 5", {"M": 1009}),
    (HIGHEST, "sm_80", "tile k: 5", {"M": 300}),
    (PLACES, "sm_80", "tile k: 5", {"M": 300}),
    (ROWS, "gfx90a", "tile k: 5 / tile k: 2", {"M": 600}),
    (ROWS, "cpu:generic", "tile k: 5", {"M": 1009}),
    (ROWS, "sm_80", "tile k: 8 / tile k: 1 -> thread", {"M": 300}),
    (GEMM, "sm_80", "tile m: 4 -> block / tile k: 5 / tile m: 1 -> thread", {"M": 9, "N": 300}),
]
SMALL = [
    (ROWS, "sm_80", "tile k: 5", {"M": 200}),
    (ROWS, "sm_80", "tile k: 5 / tile m: 1 -> thread", {"M": 1009}),
    (ROWS, "sm_80", "tile k: 5 / tile m: 2 -> block", {"M": 1009}),
    (ROWS, "cpu:generic", "tile k: 5", {"M": 60}),
]


@pytest.mark.parametrize(("formula", "device", "lines", "fixed"), LARGE)
def test_what_registers_do_not_hold_opens_at_the_leaf(formula, device, lines, fixed) -> None:
    program = program_of(formula, lines + " / compute", device, fixed)
    assert not memory_peaks(program)["register"].over
    agrees(formula, program, {**fixed, "K": 13})


@pytest.mark.parametrize(("formula", "device", "lines", "fixed"), SMALL)
def test_what_registers_hold_opens_above(formula, device, lines, fixed) -> None:
    program = program_of(formula, lines + " / compute", device, fixed)
    text = show(program)
    assert text.count(" = 0.0") <= 2, "filled once, not for each tile"
    assert "if k1 == 0" not in text


@pytest.mark.parametrize(("m", "cells"), [(64, 64), (65, 1)])
def test_a_small_tile_at_the_leaf_has_all_its_accumulators(m, cells) -> None:
    program = program_of(ROWS, "compute", "cpu:generic", {"M": m})
    (accumulator,) = (s.buffer for s in statements(program.launches[0].body) if isinstance(s, Alloc))
    assert accumulator.size.constant == cells


def test_the_place_for_a_line_is_above_all_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tiles of `k` the accumulator still goes on from one tile to the next."""
    monkeypatch.setattr(resume_accumulator, "goes_on_where_stored", lambda *_: False)
    head = "tile m: 4, n: 8 -> core"
    for tiles, place in (("tile k: 8", "the tile of `k`"), ("tile k: 8 / tile k: 4", "all tiles of `k`")):
        with pytest.raises(CannotMeet, match="one unit goes on from the partial result of `C`") as raised:
            program_of(GEMM, f"{head} / {tiles} / keep C in register", "cpu:avx2")
        assert raised.value.help == f"leave this line out, or write it above {place}"
        program_of(GEMM, f"{head} / keep C in register / {tiles}", "cpu:avx2")
