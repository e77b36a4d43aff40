"""Integers that are known without data."""

from __future__ import annotations

import pytest
from andiron.runtime.machine_code.known_values import execute, taken
from andiron.runtime.machine_code.parse_sass import parse_sass

from ...support.gpu.sass_text import sass_text


def known(rows, **given):
    values = dict(given)
    for i in parse_sass(sass_text(rows))["kernel"]:
        execute(i, values)
    return values


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("MOV R0, 0x10", 16),
        ("IADD3 R0, R1, 0x4, RZ", 9),
        ("IADD3 R0, R1, -R2, RZ", 12),
        ("VIADD R0, R1, 0xffffffff", 4),
        ("IMAD R0, R1, R2, 0x1", -34),
        ("LOP3.LUT R0, R1, 0x4, RZ, 0xc0, !PT", 4),
        ("SHF.R.S32.HI R0, RZ, 0x1, R2", -4),
        ("SEL R0, R1, R2, !P1", -7),
        ("R2UR R0, R1", 5),
        ("HFMA2.MMA R0, -RZ, RZ, 0, 5.9604644775390625e-07", 10),
        ("S2R R0, SR_TID.X", None),
        ("LDG.E R0, [R2]", None),
        ("@P0 MOV R0, 0x1", None),
        ("@!P1 MOV R0, 0x1", 3),
        ("LDC R0, c[0x0][0x160]", None),
        ("SHFL.IDX PT, R0, R1, R2, 0x1f", None),
    ],
)
def test_values(row, value):
    assert known(row, R0=3, R1=5, R2=-7, P1=1).get("R0") == value


def test_registers_side_by_side_are_forgotten_together():
    assert known("LDG.E.128 R0, [R8]", R0=1, R3=2, R4=3) == {"R4": 3}


def test_predicates():
    assert known("ISETP.GT.AND P0, PT, R0, 0x4, PT", R0=5)["P0"] == 1
    assert known("ISETP.GT.U32.AND P0, PT, R0, 0x4, PT", R0=-1)["P0"] == 1
    assert "P0" not in known("ISETP.GT.AND P0, PT, R0, 0x4, P1", R0=5)
    assert known("PLOP3.LUT P0, PT, PT, PT, PT, 0x8, 0x0")["P0"] == 0
    assert known("R2P PR, R1, 0x7f", P0=1, P6=1) == {}


@pytest.mark.parametrize(
    ("row", "jumps"),
    [
        ("BRA L_x_0", True),
        ("@P0 BRA L_x_0", True),
        ("@!P0 BRA L_x_0", False),
        ("@P0 BRA P1, L_x_0", False),
        ("BRA.U !UP0, L_x_0", None),
        ("@P2 BRA P1, L_x_0", False),
        ("BRA.DIV UR4, L_x_0", False),
    ],
)
def test_branches(row, jumps):
    (branch, _) = parse_sass(sass_text(f"L_x_0:\n{row}\nEXIT"))["kernel"]
    assert taken(branch, {"P0": 1, "P1": 0}) is jumps


def test_a_call_leaves_nothing_known():
    assert known("CALL.REL.NOINC `(f)", R0=1) == {}
