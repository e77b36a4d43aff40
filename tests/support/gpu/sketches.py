"""The schedules of `devices/gpu_sketches.sched`: the instructions of each, and sizes."""

from __future__ import annotations

from functools import lru_cache

from andiron.dsl.module import Module, loads

from ..paths import DEVICES

TEXT = DEVICES / "gpu_sketches.sched"
# schedule -> the instructions that its program must hold
USES = {
    "ampere": {"mma_m16n8k16_f16", "ldmatrix_x4_a_f16x2", "ldmatrix_x4_trans_bb_f16", "cp_async_f16x8"},
    "ampere_nt": {"mma_m16n8k16_f16", "ldmatrix_x4_a_f16x2", "ldmatrix_x4_bb_f16x2", "cp_async_f16x8"},
    "int8": {"mma_m16n8k32_i8", "ldmatrix_x4_a_i8x4", "ldmatrix_x4_bb_i8x4", "cp_async_i8x16"},
    "turing": {"mma_m16n8k8_f16", "ldmatrix_x2_a_f16x2"},  # which also is two operands B
    "vec": {"mma_m16n8k16_f16", "load_global_f16x8", "store_shared_f16x8"},
    "bf16": {"mma_m16n8k16_bf16", "ldmatrix_x4_a_bf16x2", "ldmatrix_x4_bb_bf16x2"},
    "float8": {"mma_m16n8k32_f8e4m3", "ldmatrix_x4_a_f8e4m3x4", "ldmatrix_x4_bb_f8e4m3x4"},
    "double": {"mma_m8n8k4_f64"},
    "tf32": {"mma_m16n8k8_tf32"},
    "dp4a": {"dp4a_i8"},
    "mfma": {"mfma_32x32x2_f32"},
    "mfma_half": {"mfma_16x16x16_f16"},
    "mfma_double": {"mfma_16x16x4_f64"},
    "mfma_bytes": {"mfma_16x16x64_i8"},
    "mfma_float8": {"mfma_32x32x16_f8e4m3"},
    "mfma_tf32": {"mfma_16x16x8_tf32"},
    "conv_igemm": {"mfma_32x32x2_f32"},
    "conv_half": {"mma_m16n8k16_f16", "ldmatrix_x4_a_f16x2", "ldmatrix_x4_bb_f16x2"},
    "rdna3": {"wmma_16x16x16_f16"},
    "rdna4": {"wmma_16x16x16_f16"},
    "wmma_bytes": {"wmma_16x16x16_i8"},
    "wmma_float8": {"wmma_16x16x16_f8e4m3"},
}
GEMM = [dict(M=37, N=45, K=21), dict(M=64, N=32, K=64), dict(M=2, N=3, K=0)]
CONV = [dict(N=2, C=7, H=7, W=9, O=5, R=3, S=2), dict(N=1, C=1, H=1, W=1, O=1, R=1, S=1)]


@lru_cache(maxsize=1)
def module() -> Module:
    return loads(TEXT.read_text(encoding="utf-8"))
