"""A file with a product and a schedule, and small sizes for it, as words of the command line."""

from __future__ import annotations

GEMM_OP = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
"""
GEMM = f"""\
{GEMM_OP}
schedule rows for gemm:
    tile m: 4
    auto
"""
SMALL = ["--size", "M=9,N=7", "--size", "K=5"]
