"""An instruction that the author names and that cannot be used is refused, with the reason; one that was chosen is left out."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import InstrMismatch
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

SCHEDULE = """import std.ops.gemm

schedule s for gemm_f16 on sm_80:
    tile m: 128, n: 128 -> block
    keep C in register
    tile k: 32
    {a}
    move B -> shared swizzle
    tile m: 64, n: 32 -> warp
    tile k: 16
    move A -> register with {instr}
    move B -> register with ldmatrix
    compute with mma_m16n8k16_f16
"""
SWIZZLED = "move A -> shared swizzle"


def compiled(a: str, instr: str = "ldmatrix", **sizes: int):
    mod = loads(SCHEDULE.format(a=a, instr=instr))
    return compile_program(mod, specialise(mod.ops["gemm_f16"], sizes), mod.schedules["s"], mod.device("sm_80"))


@pytest.mark.parametrize(
    ("a", "instr", "why"),
    [
        ("move A -> shared pad 1", "ldmatrix", "wants addresses that are multiples of 16"),
        ("move A -> shared swizzle(2, 4)", "ldmatrix", "are not adjacent|multiples of 16"),
        ("# A is read where it is", "ldmatrix", "`S` lies in `shared`, and `A` in `global`"),
        (SWIZZLED, "ldmatrix_x2_b_f16x2", "no member of it lays `A` out as the lines below read it"),
    ],
    ids=["misaligned", "not-adjacent", "elsewhere", "other-fragment"],
)
def test_the_author_s_instruction_is_refused(a: str, instr: str, why: str) -> None:
    with pytest.raises(InstrMismatch, match=why) as caught:
        compiled(a, instr)
    assert caught.value.span is not None
    assert f"with {instr}" in caught.value.span.text
    assert "leave `with` out" in (caught.value.help or "")


@pytest.mark.parametrize("sizes", [{}, {"M": 127, "N": 33, "K": 65}, {"K": 0}])
def test_sizes_alone_refuse_nothing(sizes: dict[str, int]) -> None:
    """Copies of a schedule that other sizes can use go element by element."""
    assert any(i.name.startswith("ldmatrix") for i in compiled(SWIZZLED, **sizes).program.instrs)
