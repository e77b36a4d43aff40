"""`complete` goes from schedules to schedules: what it prints compiles to the same program, and prints the same again."""

from __future__ import annotations

import andiron
import pytest

MODULES = ("attention", "conv", "elementwise", "gemm", "norm", "pool", "reduce", "stencil", "tensor")
# One op of each kind of default nest, and all that take several launches or have sums without a name.
OPS = (
    "add_row attention_f32 batched_gemm causal_attention contract_4d conv2d dot full_argmax gemm gemm_tt gemv_t "
    "grouped_attention layernorm linear_gelu log_softmax max_pool2d permute_210 row_any row_mean row_moments "
    "softmax stencil5 transpose"
)


@pytest.fixture(scope="module")
def library():
    return andiron.loads("".join(f"import std.ops.{m}\n" for m in MODULES))


@pytest.mark.parametrize("op", OPS.split())
def test_what_is_printed_means_the_same(op, library):
    first = andiron.compile(library, op=op, target="cpu:avx2")
    again = andiron.compile(library, op=op, schedule=first.schedule, target="cpu:avx2")
    assert again.schedule == first.schedule
    assert again.program == first.program
