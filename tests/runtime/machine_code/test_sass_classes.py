"""Each instruction has a class, and a pipe that executes it."""

from __future__ import annotations

import pytest
from andiron.runtime.machine_code.classes import CLASSES
from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.sass_classes import sass_class, sass_pipe

CASES = [
    ("HMMA.16816.F32", "mma", "tensor"),
    ("FFMA", "fma", "fma"),
    ("FADD", "float", "fma"),
    ("FMNMX", "float", "alu"),
    ("DFMA", "fma", "fp64"),
    ("IMAD.WIDE.U32", "integer", "fma"),
    ("LOP3.LUT", "integer", "alu"),
    ("UIADD3", "integer", "uniform"),
    ("POPC", "integer", "special function"),
    ("F2FP.PACK_AB", "conversion", "alu"),
    ("I2F", "conversion", "special function"),
    ("MUFU.EX2", "special function", "special function"),
    ("LDSM.16.M88.4", "shared load", "shared memory"),
    ("STS.128", "shared store", "shared memory"),
    ("LDG.E.128", "global load", "shared memory"),
    ("STG.E", "global store", "shared memory"),
    ("LDGSTS.E.BYPASS.128", "async copy", "shared memory"),
    ("LDL", "local memory", "shared memory"),
    ("RED.E.ADD", "atomic", "shared memory"),
    ("SHFL.BFLY", "shuffle", "shared memory"),
    ("BAR.SYNC.DEFER_BLOCKING", "barrier", None),
    ("DEPBAR.LE", "wait", None),
    ("BRA", "branch", None),
    ("S2R", "other", "shared memory"),
    ("CS2R", "integer", "alu"),
    ("NOP", "other", None),
    ("NEVERHEARD", "other", "alu"),
]


@pytest.mark.parametrize(("opcode", "name", "where"), CASES)
def test_class_and_pipe(opcode, name, where):
    i = Instruction(0, "", opcode, "R1, R2, R3")
    assert (sass_class(i), sass_pipe(i)) == (name, where)
    assert name in CLASSES


def test_what_is_never_executed_occupies_nothing():
    i = Instruction(0, "!PT", "LDS", "RZ, [RZ]")
    assert (sass_class(i), sass_pipe(i)) == ("other", None)


def test_a_constant_by_way_of_half_precision_is_no_multiply_add():
    i = Instruction(0, "", "HFMA2.MMA", "R8, -RZ, RZ, 0, 0")
    assert sass_class(i) == "integer"
    assert sass_class(Instruction(0, "", "HFMA2", "R8, R9, R10, R8")) == "fma"
