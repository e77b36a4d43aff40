"""What is chosen is schedule text: fed back it gives the same program and the same text."""

from __future__ import annotations

import pytest

from .common import compiled, scheduled

OPS = [
    *("gemm", "gemm_f16", "gemm_i8", "gemm_f64", "gemv_t", "dot", "batched_gemm", "linear_gelu", "conv2d", "conv2d_nhwc_f16"),
    *("grouped_conv2d", "mttkrp", "contract_4d", "causal_attention", "softmax", "layernorm", "row_argmax", "full_sum"),
    *("col_mean", "transpose", "permute_210", "stencil5", "max_pool2d", "row_any"),
]


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1100"])
def test_fed_back_it_is_the_same(device: str, name: str) -> None:
    first = compiled(name, device)
    again = scheduled(name, device, first.schedule)
    assert again.schedule == first.schedule
    assert again.program == first.program


def test_auto_is_the_same_as_nothing() -> None:
    assert scheduled("gemm_f16", "sm_80", "auto").program.launches == compiled("gemm_f16", "sm_80").program.launches
