"""CPU devices of one's own with small vectors: of one element, of fewer lanes than an inherited instruction takes, of three."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.errors.schedule import UnknownInstr
from andiron.dsl.module import loads

from ....support.cpp.build import COMPILERS, run
from ....support.interpreted import GEMM, HIGHEST, ROWS, TURNED, Formula, agrees, inputs_of, program_of

OWN = """
device own:
    level socket: finite 1, siblings nothing
    level core: finite 4, siblings barrier
    level lane: shaped, siblings lockstep, {lanes}{bytes} bytes
    memory dram of socket: 20 GB/s
    memory l2 of core: 256 KiB, in dram
    memory register of lane: 16 x {bytes} B
"""
LESS = """
device own extends cpu:generic:
    level lane: shaped, siblings lockstep, at most {lanes} units, 16 bytes
"""
SIZES = {"M": 13, "N": 17, "K": 19}


def natively(formula: Formula, lines: str, devices: str, wide: bool = False) -> None:
    """Interpreted, and built by a compiler. `wide`: with elements of 64 bits."""
    text = formula.text.replace("f32", "f64") if wide else formula.text
    formula = Formula(text, formula.result)
    sizes = {n: SIZES[n] for n in text.split("[")[1].split("]")[0].split(", ")}
    program = program_of(formula, lines, "own", devices=devices)
    agrees(formula, program, sizes)
    arrays = inputs_of(formula, sizes)
    (got,) = run(program, arrays, {v.name: sizes[v.name] for v in program.dims}, COMPILERS[0], "baseline", 2).values()
    np.testing.assert_array_equal(got, formula.result(*arrays.values()))


@pytest.mark.skipif(not isinstance(COMPILERS[0], str), reason="no C++ compiler")
@pytest.mark.parametrize(("lanes", "size", "wide"), [
    ("", 4, False), ("", 8, True), ("", 4, True), ("at most 1 units, ", 16, False), ("at most 3 units, ", 16, False),
])  # fmt: skip
def test_vectors(lanes, size, wide):
    own = OWN.format(lanes=lanes, bytes=size)
    natively(GEMM, "auto", own, wide)
    natively(TURNED, "auto", own, wide)
    natively(HIGHEST, "tile m: 1 -> core / tile k: 16 / tile k: 1 -> lane", own, wide)


@pytest.mark.skipif(not isinstance(COMPILERS[0], str), reason="no C++ compiler")
@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_fewer_lanes_than_inherited_instructions_take(lanes):
    natively(GEMM, "auto", LESS.format(lanes=lanes))
    natively(TURNED, "auto", LESS.format(lanes=lanes))
    natively(ROWS, "auto", LESS.format(lanes=lanes))


def test_such_an_instruction_is_not_there():
    parent = loads(LESS.format(lanes=4)).device("cpu:generic")
    own = loads(LESS.format(lanes=1)).device("own")
    assert {i.name for i in own.instrs} < {i.name for i in parent.instrs}
    with pytest.raises(UnknownInstr):
        program_of(GEMM, "tile m: 2, n: 4 -> core / compute with fma", "own", devices=LESS.format(lanes=1))
    program_of(GEMM, "tile m: 2, n: 4 -> core / compute with fma", "own", devices=LESS.format(lanes=4))
