"""What instructions take comes from the text of the device."""

from __future__ import annotations

import andiron
import pytest
from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.sm_figures import SmFigures

MODULE = andiron.loads("""
import std.ops.gemm
device slow extends sm_80:
    clock 0.705 GHz
device plain extends nvidia:
    clock 1 GHz
""")


def work(device, opcode):
    return SmFigures(MODULE.device(device)).work(Instruction(0, "", opcode, "R1, R2, R3, R4"))


@pytest.mark.parametrize(
    ("device", "opcode", "cycles"),
    [
        ("sm_80", "HMMA.16816.F32", 8),
        ("sm_80", "HMMA.1688.F32", 4),
        ("sm_80", "HMMA.1688.F32.TF32", 8),
        ("sm_80", "HMMA.16816.F32.BF16", 8),
        ("sm_80", "IMMA.16832.S8.S8", 8),
        ("sm_80", "DMMA.884", 16),
        ("sm_86", "HMMA.16816.F32", 32),
        ("sm_86", "HMMA.16816.F16", 16),
        ("sm_90a", "HMMA.16816.F32", 6.5),
        ("sm_80", "FFMA", 2),
        ("sm_86", "FFMA", 1),
        ("sm_90a", "FFMA", 1),  # its peak is stated at a higher clock
        ("sm_80", "HFMA2", 1),
        ("sm_80", "DFMA", 4),
        ("sm_80", "IMAD", 2),
        ("sm_80", "MUFU.EX2", 8),
        ("sm_80", "UIADD3", 1),
        ("slow", "FFMA", 1),  # half the clock at the rate of sm_80: twice as many a cycle
    ],
)
def test_cycles_of_a_pipe(device, opcode, cycles):
    found = work(device, opcode)
    assert found is not None
    assert found.cycles == pytest.approx(cycles, rel=0.02)


@pytest.mark.parametrize(
    ("opcode", "cycles", "l2"),
    [
        ("LDS", 1, 0),
        ("LDS.U8", 1, 0),
        ("LDS.128", 4, 0),
        ("LDSM.16.M88.4", 4, 0),
        ("LDSM.16.MT88.2", 2, 0),
        ("STG.E.64", 2, 0),
        ("LDG.E", 1, 128),
        ("LDG.E.U16", 1, 64),
        ("LDG.E.128.CONSTANT", 4, 512),
        ("LDGSTS.E.BYPASS.LTC128B.128", 4, 512),
    ],
)
def test_accesses_take_as_many_cycles_as_words(opcode, cycles, l2):
    found = work("sm_80", opcode)
    assert found is not None
    assert (found.cycles, found.l2) == (cycles, l2)


def test_bandwidths_of_an_sm():
    figures = SmFigures(MODULE.device("sm_80"))
    assert figures.l2_bytes == pytest.approx(7.2e12 / 108 / 1.41e9)
    assert figures.dram_bytes == pytest.approx(1555e9 / 108 / 1.41e9)
    assert SmFigures(MODULE.device("sm_86")).l2_bytes == pytest.approx(7.2e12 / 82 / 1.695e9)


def test_what_is_not_known():
    assert work("sm_80", "QMMA.16832.F32.E4M3.E4M3") is None
    assert not SmFigures(MODULE.device("plain")).known
    assert SmFigures(MODULE.device("sm_80")).known
