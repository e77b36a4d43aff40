"""What is chosen is schedule text: fed back it gives the same program and the same text."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ...support.library.unscheduled import compiled, scheduled

OPS = [
    *("gemm", "gemm_f16", "gemm_i8", "gemm_f64", "gemv_t", "dot", "batched_gemm", "linear_gelu", "conv2d", "conv2d_nhwc_f16"),
    *("grouped_conv2d", "mttkrp", "contract_4d", "causal_attention", "softmax", "layernorm", "row_argmax", "full_sum"),
    *("col_mean", "transpose", "permute_210", "stencil5", "max_pool2d", "row_any"),
]


@pytest.mark.every_second
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1100"])
def test_fed_back_it_is_the_same(device: str, name: str) -> None:
    first = compiled(name, device)
    again = scheduled(name, device, first.schedule)
    assert again.schedule == first.schedule
    assert again.program == first.program


def test_auto_is_the_same_as_nothing() -> None:
    assert scheduled("gemm_f16", "sm_80", "auto").program.launches == compiled("gemm_f16", "sm_80").program.launches


# What reads a result differs from its launch: other statements reduce its free indices, keep it, or need what it makes.
OWN = {
    "an index that one launch splits is free in another": (
        "op t[M, N](A: i8[M, N]) -> (Y: i32[M, N]):\n"
        "    rows[i] = max(j) i32(A[i, j])\n    cols[j] = sum(i) i32(A[i, j])\n    Y[i, j] = cols[j] - rows[i]\n",
        "gfx908",
        dict(M=100003, N=1),
    ),
    "a launch that only makes an intermediate, and its factor": (
        "op t[M, N, K](A: f16[K, M], B: f16[N, K]) -> (Y: f32[M, N], T: f32[M]):\n"
        "    acc[m, n] = sum(k) f32(A[k, m]) * f32(f16(max(f32(B[n, k]), 0)))\n"
        "    Y[m, n] = acc[m, n]\n    T[m] = max(n) acc[m, n]\n",
        "gfx942",
        dict(M=1, N=1, K=130),
    ),
    "products in one statement are no statistics of rows": (
        "op t[M, N, K](A: f32[M, K], B: f32[N, K]) -> (Y: f32[M, N]):\n"
        "    Y[i, j] = (sum(k) (A[i, k] + 1) * B[j, k]) - (sum(k) A[i, k] * (B[j, k] + 1))\n",
        "gfx950",
        dict(M=4096, K=4096, N=1),
    ),
    "an operand that is made, over fused indices": (
        "op t[Z, I, J, L](s: f32[Z, I, J], C: bf16[J, L]) -> (Y: f32[Z, I, L]):\n"
        "    top[z, i] = max(j) s[z, i, j]\n    p[z, i, j] = s[z, i, j] - top[z, i]\n"
        "    whole[z, i] = sum(j) p[z, i, j]\n    Y[z, i, l] = sum(j) p[z, i, j] * f32(C[j, l])\n",
        "gfx950",
        dict(Z=2, I=1000, J=4096, L=35),
    ),
}


@pytest.mark.parametrize("title", OWN)
def test_launches_of_their_own_fed_back_are_the_same(title: str) -> None:
    text, device, sizes = OWN[title]
    module = loads(text)
    op = specialise(module.ops["t"], sizes)
    first = compile_program(module, op, None, module.device(device))
    (schedule,) = loads(text + first.schedule).schedules.values()
    again = compile_program(module, op, schedule, module.device(device))
    assert again.schedule == first.schedule
    assert again.program == first.program
