"""Where the interpreter takes instances of a buffer to begin: in memories of their own each at an aligned address, in one
memory one after another. Blocks have shared memories of their own; warps share one.
"""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Call, Commit, Piece, Wait
from andiron.dsl.index.expr import Var

from ...support.tile_programs import T, W, at, buffer, copy4, gpu, put, when

B = Var("b", 0, 2)
X = buffer("X", "input", "global", "grid", 16)
Y = buffer("Y", "output", "global", "grid", 12)


def program_of(level: str, elements: int) -> Program:
    """Thread 0 of each unit of the level, of three, copies four elements to a buffer of the unit's own, and stores the sum."""
    s = buffer("S", "local", "shared", level, elements)
    unit = B if level == "block" else W(3)
    copy = Call("copy4", (Piece("S", (0 * T,), 4), Piece("X", (unit * 4,), 4)))
    stores = tuple(put(Y, unit * 4 + i, value=at(s, i)) for i in range(4))
    first = when((-T, *([-W(1)] if level == "block" else [])), copy, Commit("group"), Wait("group", 0), *stores)
    blocks = [(B, 3)] if level == "block" else [(Var("b", 0, 0), 1)]
    return gpu("t", (), (X, Y), blocks, 1 if level == "block" else 3, Alloc(s, (first,)), instrs=(copy4(),))


def faults(program: Program) -> list[str]:
    found: list[Fault] = []
    got = interpret(program, {"X": np.arange(16, dtype=np.float32)}, on_fault=found)
    np.testing.assert_array_equal(got["Y"], np.arange(12))
    return [f.kind for f in found]


@pytest.mark.parametrize("elements", [4, 5, 6, 18])
def test_blocks(elements):
    assert faults(program_of("block", elements)) == []


@pytest.mark.parametrize("elements", [4, 8, 20])
def test_warps_whose_slices_are_aligned(elements):
    assert faults(program_of("warp", elements)) == []


@pytest.mark.parametrize("elements", [5, 6, 18])
def test_warps_whose_slices_are_not(elements):
    assert faults(program_of("warp", elements)) == ["misaligned"]
