"""Kernels written by hand in C, beside the ops that they compute."""

from __future__ import annotations

GEMM = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
"""
GEMM_BODY = """
    const float *a = (const float*)args[0], *b = (const float*)args[1];
    float* c = (float*)args[2];
    int64_t M = dims[0], N = dims[1], K = dims[2];
    for (int64_t m = 0; m < M; ++m)
        for (int64_t n = 0; n < N; ++n) {
            float s = 0;
            for (int64_t k = 0; k < K; ++k) s += a[m * K + k] * b[k * N + n];
            c[m * N + n] = s;
        }
"""
AXPY = """
op axpy[N](X: f32[N], Y: f32[N]) -> (Z: f32[N]):
    Z[i] = 2.0 * X[i] + Y[i]
"""
AXPY_BODY = """
    const float *x = (const float*)args[0], *y = (const float*)args[1];
    float* z = (float*)args[2];
    for (int64_t i = 0; i < dims[0]; ++i) z[i] = 2.0f * x[i] + y[i];
"""
