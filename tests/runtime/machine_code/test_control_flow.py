"""Loops of a function, and the instructions of a step of the main one."""

from __future__ import annotations

from andiron.runtime.machine_code.control_flow import basic_blocks, loops_around, loops_of
from andiron.runtime.machine_code.parse_sass import parse_sass
from andiron.runtime.machine_code.sass_classes import sass_class
from andiron.runtime.machine_code.whole_step import whole_step

from ...support.gpu.sass_text import sass_text


def found(rows):
    """The opcodes of the main loop's step, and the number of loops around it; None where there is no loop."""
    step = whole_step(parse_sass(sass_text(rows))["kernel"], sass_class)
    return " ".join(i.base for i in step.path), len(step.around) if step.loop else None


def test_a_function_without_loops_counts_as_a_whole():
    assert found("MOV R1\nSTG [R2], R1\nEXIT\nL_x_0:\nBRA L_x_0\nNOP") == ("MOV STG EXIT", None)


def test_the_loop_with_most_matrix_instructions():
    rows = """
        L_x_0:
        FFMA R1
        FFMA R2
        LDG R3
        @P0 BRA L_x_0
        L_x_1:
        HMMA R4
        @P0 BRA L_x_1
        EXIT"""
    assert found(rows) == ("HMMA BRA", 0)
    assert found(rows.replace("HMMA", "MOV")) == ("FFMA FFMA LDG BRA", 0)


def test_without_arithmetic_it_is_the_one_with_most_accesses():
    assert found("L_x_0:\nLDG R1\n@P0 BRA L_x_0\nL_x_1:\nLDG R1\nSTG R2\n@P0 BRA L_x_1\nEXIT") == ("LDG STG BRA", 0)


def test_the_innermost_loop_says_how_many_are_around_it():
    rows = """
        L_x_0:
        LDGSTS R1
        L_x_1:
        HMMA R4
        @P0 BRA L_x_1
        @P1 BRA L_x_0
        EXIT"""
    assert found(rows) == ("HMMA BRA", 1)


RARE = """
        L_x_0:
        VOTE.ANY P1, P1
        @P1 BRA L_x_1
        HMMA R4
        {join}
        L_x_1:
        SHFL R5
        @P2 BRA L_x_1
        L_x_2:
        @P0 BRA L_x_0
        EXIT"""


def test_a_rare_loop_inside_is_passed_by() -> None:
    """The matrix instructions are in the loop around it."""
    assert found(RARE.format(join="BRA L_x_2")) == ("VOTE BRA HMMA BRA BRA", 0)
    assert found(RARE.format(join="MOV R6")) == ("VOTE BRA HMMA MOV SHFL BRA BRA", 0)  # no way passes it by


def test_of_two_versions_the_shorter_one_is_executed() -> None:
    guarded, whole = "MOV R1\nMOV R2\nHMMA R4", "HMMA R4"
    for first, second in ((guarded, whole), (whole, guarded)):
        rows = f"L_x_0:\n@P1 BRA L_x_1\n{first}\nBRA L_x_2\nL_x_1:\n{second}\nL_x_2:\n@P0 BRA L_x_0\nEXIT"
        assert "MOV" not in found(rows)[0]


def test_guarded_parts_count_as_executed():
    rows = """
        L_x_0:
        @P1 BRA L_x_1
        LDGSTS R1
        L_x_1:
        HMMA R4
        @P0 BRA L_x_0
        EXIT"""
    assert found(rows) == ("BRA LDGSTS HMMA BRA", 0)


def test_a_function_for_rare_operands_is_left_out():
    rows = """
        L_x_0:
        FFMA R1
        @!P1 BRA L_x_1
        MOV R2
        CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath)
        L_x_1:
        STG R1
        @P0 BRA L_x_0
        EXIT"""
    assert found(rows) == ("FFMA BRA STG BRA", 0)


def test_a_loop_may_be_left_by_a_call_of_a_label():
    rows = """
        L_x_0:
        LDGSTS R1
        L_x_1:
        FFMA R4
        @!P0 CALL.REL.NOINC L_x_2
        BRA L_x_1
        L_x_2:
        @P1 BRA L_x_0
        EXIT"""
    assert found(rows) == ("FFMA CALL BRA", 1)


def test_a_branch_may_have_its_predicate_among_its_operands():
    """So that what follows it is reached."""
    rows = "L_x_0:\nFFMA R1\nBRA.U !UP0, L_x_0\nL_x_1:\nHMMA R1\n@P0 BRA L_x_1\nEXIT"
    assert found(rows) == ("HMMA BRA", 0)


BEHIND_THE_END = """
        L_x_0:
        FFMA R1
        {branch}
        L_x_1:
        STG R1
        @P0 BRA L_x_0
        EXIT
        L_x_2:
        LDGSTS R2
        BRA L_x_1"""


def test_code_behind_the_end_that_comes_back_is_part_of_the_loop():
    """And no loop of its own, though its last branch goes backwards."""
    rows = BEHIND_THE_END.format(branch="@P1 BRA L_x_2")
    code = parse_sass(sass_text(rows))["kernel"]
    (loop,) = loops = loops_of(basic_blocks(code))
    assert len(loop.blocks) == 3
    assert loops_around(loop, loops) == ()


def test_guarded_parts_behind_the_end_count_as_executed():
    assert found(BEHIND_THE_END.format(branch="@P1 BRA L_x_2")) == ("FFMA BRA LDGSTS BRA STG BRA", 0)


def test_code_for_warps_that_diverged_is_left_out():
    assert found(BEHIND_THE_END.format(branch="BRA.DIV UR4, L_x_2")) == ("FFMA BRA STG BRA", 0)


COUNTED = """
        {constant}
        L_x_0:
        MOV R2, RZ
        L_x_1:
        FFMA R4, R5, R6, R4
        IADD3 R2, R2, 0x1, RZ
        ISETP.NE.AND P0, PT, R2, R3, PT
        @P0 BRA L_x_1
        @P2 BRA L_x_2
        MOV R7, 0x2
        L_x_3:
        LDGSTS R8
        VIADD R7, R7, 0xffffffff
        ISETP.GT.AND P0, PT, R7, RZ, PT
        @P0 BRA L_x_3
        L_x_2:
        BAR.SYNC 0x0
        @P1 BRA L_x_0
        EXIT"""


def test_a_step_has_the_loops_inside_as_often_as_they_turn():
    """Copies that are a guarded loop of their own too."""
    path, around = found(COUNTED.format(constant="MOV R3, 0x4"))
    assert around == 0
    assert path.split().count("FFMA") == 4
    assert path.split().count("LDGSTS") == 2
    step = whole_step(parse_sass(sass_text(COUNTED.format(constant="MOV R3, 0x4")))["kernel"], sass_class)
    assert [(x.first, x.last, x.turns) for x in step.inner] == [(0x20, 0x50, 4), (0x80, 0xB0, 2)]


def test_a_step_is_a_turn_of_the_loop_whose_end_is_not_known():
    """The loop around it cannot be counted."""
    assert found(COUNTED.format(constant="LDC R3, c[0x0][0x160]")) == ("FFMA IADD3 ISETP BRA", 1)


def test_a_counted_loop_inside_of_one_of_unknown_turns():
    rows = COUNTED.format(constant="MOV R3, 0x4").replace("EXIT", "@P3 BRA L_x_4\nEXIT")
    path, around = found(rows.replace("L_x_0:", "L_x_4:\nMOV R9, RZ\nL_x_0:", 1))
    assert path.split().count("FFMA") == 4
    assert around == 1


def test_what_is_done_in_some_turns_of_a_loop_inside():
    rows = """
        L_x_0:
        MOV R2, RZ
        L_x_1:
        FFMA R4, R5, R6, R4
        ISETP.GE.AND P3, PT, R2, 0x2, PT
        @P3 BRA L_x_2
        LDGSTS R8
        L_x_2:
        IADD3 R2, R2, 0x1, RZ
        ISETP.NE.AND P0, PT, R2, 0x8, PT
        @P0 BRA L_x_1
        @P1 BRA L_x_0
        EXIT"""
    path = found(rows)[0].split()
    assert (path.count("FFMA"), path.count("LDGSTS")) == (8, 2)
