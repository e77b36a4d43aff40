"""The assembly that clang prints for AMD GPUs is read, and each instruction has a class."""

from __future__ import annotations

import pytest
from andiron.runtime.machine_code.amdgcn import amdgcn_class, parse_amdgcn
from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.whole_step import whole_step

# Of a product on gfx942, as clang 20 prints it, cut short.
REAL = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
\t.globl\tproduct
\t.type\tproduct,@function
product:     ; @product
.Lproduct$local:
; %bb.0:                                ; %entry
\ts_load_dwordx4 s[0:3], s[4:5], 0x0
\ts_waitcnt lgkmcnt(0)
.LBB0_1:                                ; %for.body272
                                        ; =>This Inner Loop Header: Depth=1
\ts_cbranch_execz .LBB0_3
; %bb.2:
\tglobal_load_dwordx4 v[0:3], v[170:171], off
.LBB0_3:
\tds_read2_b64 v[166:169], v167 offset0:34 offset1:36
\t.loc\t1 61 17 is_stmt 0               ; kernel.hip:61:17 @[ kernel.hip:122:13 ]
\ts_nop 0
\tv_mfma_f32_32x32x8_f16 a[0:15], v[166:167], v[180:181], a[0:15]
\ts_cbranch_scc0 .LBB0_1
; %bb.4:
\ts_branch .LBB0_5
\tv_mov_b32_e32 v0, 0
.LBB0_5:
\tglobal_store_short v[0:1], v2, off
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel product
\t\t.amdhsa_next_free_vgpr 232
\t.end_amdhsa_kernel
.Lfunc_end0:
\t.size\tproduct, .Lfunc_end0-product
"""


def test_functions_are_read():
    ((name, code),) = parse_amdgcn(REAL).items()
    assert name == "product"
    assert str(code[0]) == "s_load_dwordx4 s[0:3], s[4:5], 0x0"
    assert [(i.address, i.target, i.conditional) for i in code if i.opcode.startswith(("s_branch", "s_cbranch"))] == [
        (12, 16, True),
        (20, 12, True),
        (22, 25, False),
    ]
    assert [i.opcode for i in code if i.ends] == ["s_endpgm"]


def test_lines_of_the_text():
    code = parse_amdgcn(REAL)["product"]
    assert {i.opcode: i.lines for i in code if i.opcode.startswith(("ds_", "s_nop", "v_mfma"))} == {
        "ds_read2_b64": (),
        "s_nop": (61, 122),
        "v_mfma_f32_32x32x8_f16": (61, 122),
    }


def test_the_main_loop():
    code = parse_amdgcn(REAL)["product"]
    step = whole_step(code, amdgcn_class)
    assert step.around == ()
    assert [amdgcn_class(i) for i in step.path] == [
        "branch", "global load", "shared load", "wait", "mma", "branch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        ("v_mfma_f32_16x16x16_bf16", "mma"),
        ("v_wmma_f32_16x16x16_f16", "mma"),
        ("v_fma_f32", "fma"),
        ("v_fmac_f32_e32", "fma"),
        ("v_pk_fma_f32", "fma"),
        ("v_dual_fmac_f32", "fma"),
        ("v_dot4_i32_i8", "fma"),
        ("v_mad_u64_u32", "integer"),
        ("v_add_f32_e32", "float"),
        ("v_pk_mul_f32", "float"),
        ("v_cmp_lt_f32_e32", "float"),
        ("v_max_f64", "float"),
        ("v_add_u32_e32", "integer"),
        ("v_cmp_eq_u32_e32", "integer"),
        ("v_accvgpr_read_b32", "integer"),
        ("s_add_i32", "integer"),
        ("v_cvt_f32_f16_e32", "conversion"),
        ("v_pack_b32_f16", "conversion"),
        ("v_exp_f32_e32", "special function"),
        ("v_rcp_f32_e32", "special function"),
        ("ds_read2st64_b64", "shared load"),
        ("ds_load_b128", "shared load"),
        ("ds_write_b128", "shared store"),
        ("ds_bpermute_b32", "shuffle"),
        ("global_load_dwordx4", "global load"),
        ("buffer_store_short", "global store"),
        ("scratch_store_dword", "local memory"),
        ("global_atomic_add_f32", "atomic"),
        ("global_load_lds_dword", "async copy"),
        ("s_waitcnt", "wait"),
        ("s_barrier", "barrier"),
        ("s_cbranch_scc0", "branch"),
        ("s_load_dwordx4", "other"),
    ],
)
def test_classes(opcode, name):
    assert amdgcn_class(Instruction(1, "", opcode, "v0, v1")) == name
