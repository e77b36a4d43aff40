"""CPUs of a device text that have a level between cores and lanes: its units execute an instruction with each other."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.dsl.errors.schedule import CannotMeet
from andiron.dsl.errors.target import NoEmittedText

DEVICE = """
op mm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

device cpu:strands:
    level socket: open, siblings nothing
    level core: finite 8, siblings barrier
    level strand: shaped, siblings barrier, at most 4 units
    level lane: shaped, siblings lockstep, at most 1 units
    memory dram of socket: 20 GB/s
    memory register of lane: 16 x 8 B
    instr rows_f32x4 on core in rows:
        op (A: f32[], B: f32[4], C: f32[4]):
            C[n] += A[] * B[n]
        A in register at ()
        B in register at (lane): n = lane
        C in register at (lane): n = lane
        emit cpp: "c = c + a * b;"

schedule kept for mm:
    tile m: 3, n: 8 -> core
    keep C in register
    tile k: 4
    compute with rows

schedule in_memory for mm:
    tile m: 6, n: 16
    tile m: 3, n: 8 -> core
    compute with rows
"""


@pytest.mark.parametrize("sizes", [(7, 21, 9), (6, 16, 8), (3, 5, 7), (2, 5, 2), (1, 1, 1), (0, 4, 3), (4, 4, 0)])
def test_units_of_an_instruction_take_the_same_version(sizes):
    """A guard that depends on the strand parted the four that execute `rows_f32x4` together."""
    m, n, k = sizes
    kernel = andiron.compile(DEVICE, schedule="kept", target="cpu:strands")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    np.testing.assert_array_equal(interpret(kernel.program, {"A": a, "B": b})["C"], a @ b)
    np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_strands_that_would_have_to_wait_are_refused():
    with pytest.raises(CannotMeet, match="one after another"):
        andiron.compile(DEVICE, schedule="in_memory", target="cpu:strands", M=7, N=21, K=9)


def test_an_instruction_without_text_is_refused_at_its_line():
    text = DEVICE.replace('        emit cpp: "c = c + a * b;"\n', "")
    with pytest.raises(NoEmittedText, match="rows_f32x4") as caught:
        andiron.compile(text, schedule="kept", target="cpu:strands")
    assert "instr rows_f32x4 on core" in str(caught.value)
