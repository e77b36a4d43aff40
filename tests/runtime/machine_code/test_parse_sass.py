"""The text of nvdisasm is read: addresses, predicates, branches, and the schedule in the bits."""

from __future__ import annotations

from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.parse_sass import parse_sass

from ...support.gpu.sass_text import sass_text

# Of a product on sm_80, as nvdisasm 13.5 prints it, without most of the spaces.
REAL = """\
	.target	sm_80

//--------------------- .text.product --------------------------
	.section	.text.product,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=232"
	.align	128
        .global         product
        .type           product,@function
        .size           product,(.L_x_8 - product)
product:
.text.product:
        /*0000*/                   MOV R1, c[0x0][0x28] ;       /* 0x00000a0000017a02 */
                                                                /* 0x000fe40000000f00 */
        /*0010*/                   S2UR UR7, SR_CTAID.X ;       /* 0x00000000000779c3 */
                                                                /* 0x000e620000002500 */
.L_x_3:
        /*0f80*/                   HMMA.16816.F32 R4, R132.reuse, R2, R4 ;   /* 0x000000028404723c */
                                                                             /* 0x04afea0000001804 */
        /*1f50*/              @!P4 LDGSTS.E.BYPASS.LTC128B.128 [R3], [R150.64+0x80] ;  /* 0x0000008096037fae */
                                                                                       /* 0x0003e2000e101d50 */
        /*2220*/                   LDGDEPBAR ;                  /* 0x00000000000079af */
                                                                /* 0x000e220000000000 */
        /*2250*/                   DEPBAR.LE SB0, 0x1 ;         /* 0x000080400000791a */
                                                                /* 0x000fe80000000000 */
        /*2260*/               @P0 BRA `(.L_x_3) ;              /* 0xffffed1000000947 */
                                                                /* 0x000fea000383ffff */
.L_x_8:

//--------------------- .text.other --------------------------
	.section	.text.other,"ax",@progbits
other:
.text.other:
        /*0000*/                   EXIT ;                       /* 0x000000000000794d */
                                                                /* 0x000fea0003800000 */
"""


def test_functions_are_read():
    functions = parse_sass(REAL)
    assert list(functions) == ["product", "other"]
    assert [str(i) for i in functions["other"]] == ["EXIT"]
    move, special, mma, copy, commit, wait, branch = functions["product"]
    assert (move.opcode, move.operands, move.stall) == ("MOV", "R1, c[0x0][0x28]", 2)
    assert (special.write_barrier, special.read_barrier, special.waits) == (1, None, ())
    assert (mma.base, mma.stall, mma.waits) == ("HMMA", 5, (1, 3))
    assert (copy.predicate, copy.read_barrier, copy.write_barrier) == ("!P4", 1, None)
    assert (commit.write_barrier, commit.stall) == (0, 1)
    assert (wait.opcode, wait.operands) == ("DEPBAR.LE", "SB0, 0x1")
    assert (branch.predicate, branch.target) == ("P0", 0xF80)
    assert str(copy) == "@!P4 LDGSTS.E.BYPASS.LTC128B.128 [R3], [R150.64+0x80]"


def test_a_label_behind_the_end_is_no_target():
    (branch,) = parse_sass(sass_text("BRA L_x_0\nL_x_0:"))["kernel"]
    assert branch.target is None


def test_an_instruction_whose_predicate_is_false():
    assert Instruction(0, "!PT", "LDS", "RZ, [RZ]").never
    assert Instruction(0, "!UPT", "UIADD3", "URZ").never
    assert not Instruction(0, "!P1", "LDS", "R1, [R2]").never


def test_lines_of_the_text():
    rows = "MOV R1, R2\nLDS R4, [R2] | lines 12,7,40\nMOV R3, R4\nL_x_0:\nEXIT | stall 5 lines 41"
    code = parse_sass(sass_text(rows))["kernel"]
    assert [i.lines for i in code] == [(), (12, 7, 40), (12, 7, 40), (41,)]
