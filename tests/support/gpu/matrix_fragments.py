"""Where the vendors' manuals put the elements of matrix operands: an account independent of the device texts.

NVIDIA: PTX ISA, "Matrix Fragments for mma.*" : (lane, i) -> (row, column) of a_i, b_i, c_i, with groupID = lane >> 2 and
threadID_in_group = lane % 4. AMD CDNA: the other way round, as the matrix instruction calculator prints it: element ->
(register, lane). RDNA: GPUOpen, "How to accelerate AI applications on RDNA 3 using WMMA", "Using the Matrix Cores of RDNA 4".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Place = Callable[[int, int], tuple[int, int]]


def _pair_c(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def _nvidia() -> dict[str, tuple[Place, Place, Place]]:
    g, t = (lambda lane: lane >> 2), (lambda lane: lane % 4)
    half8 = (
        lambda x, i: (g(x) if i < 2 else g(x) + 8, t(x) * 2 + (i & 1)),
        lambda x, i: (t(x) * 2 + (i & 1), g(x)),
        _pair_c,
    )
    half16 = (
        lambda x, i: (g(x) if i in (0, 1, 4, 5) else g(x) + 8, t(x) * 2 + (i & 1) + (0 if i < 4 else 8)),
        lambda x, i: (t(x) * 2 + (i & 1) + (0 if i < 2 else 8), g(x)),
        _pair_c,
    )
    byte32 = (
        lambda x, i: (g(x) if i in (*range(4), *range(8, 12)) else g(x) + 8, t(x) * 4 + (i & 3) + (0 if i < 8 else 16)),
        lambda x, i: (t(x) * 4 + (i & 3) + (0 if i < 4 else 16), g(x)),
        _pair_c,
    )
    table = {
        "mma_m16n8k8_f16": half8,
        "mma_m16n8k8_f16_f16": half8,
        "mma_m16n8k8_bf16": half8,
        "mma_m16n8k16_f16": half16,
        "mma_m16n8k16_bf16": half16,
        "mma_m16n8k16_f16_f16": half16,
        "mma_m16n8k4_tf32": (lambda x, i: (g(x) if i == 0 else g(x) + 8, t(x)), lambda x, i: (t(x), g(x)), _pair_c),
        "mma_m16n8k8_tf32": (
            lambda x, i: (g(x) if i in (0, 2) else g(x) + 8, t(x) if i < 2 else t(x) + 4),
            lambda x, i: (t(x) if i == 0 else t(x) + 4, g(x)),
            _pair_c,
        ),
        "mma_m8n8k16_i8": (
            lambda x, i: (g(x), t(x) * 4 + i),
            lambda x, i: (t(x) * 4 + i, g(x)),
            lambda x, i: (g(x), t(x) * 2 + i),
        ),
        "mma_m16n8k16_i8": (
            lambda x, i: (g(x) if i < 4 else g(x) + 8, t(x) * 4 + (i & 3)),
            lambda x, i: (t(x) * 4 + (i & 3), g(x)),
            _pair_c,
        ),
        "mma_m16n8k32_i8": byte32,
        "mma_m16n8k32_f8e4m3": byte32,
        "mma_m16n8k32_f8e5m2": byte32,
        "mma_m8n8k4_f64": (lambda x, i: (g(x), t(x)), lambda x, i: (t(x), g(x)), lambda x, i: (g(x), t(x) * 2 + i)),
    }
    return table  # type: ignore[return-value]


NVIDIA = _nvidia()


def table_of(place: Place, lanes: int, registers: int) -> np.ndarray:
    """[lanes, registers, 2]."""
    return np.array([[place(x, i) for i in range(registers)] for x in range(lanes)])


def mfma(operand: str, n: int, k: int, f64: bool) -> np.ndarray:
    """Of the n x n x k instruction of one block: [64, registers, 2], from the calculator's formulas.

    A[i][k] is in lane n*floor(k / (n*k/64)) + i, its registers numbered by k; D[i][j] in GPR 4*floor(i/8) + i % 4 of lane
    (n*floor(i/4)) % 64 + j, f64 in GPR pair floor(i/4) of lane 16*(i % 4) + j.
    """
    each = n * k // 64
    if operand in "AB":
        out = np.full((64, each, 2), -1)
        for i in range(n):
            for kk in range(k):
                out[n * (kk // each) + i, kk % each] = (i, kk) if operand == "A" else (kk, i)
        return out
    out = np.full((64, n * n // 64, 2), -1)
    for i in range(n):
        for j in range(n):
            if f64:
                register, lane = i // 4, 16 * (i % 4) + j
            else:
                register, lane = (4 * (i // 8) if n == 32 else 0) + i % 4, (n * (i // 4)) % 64 + j
            out[lane, register] = (i, j)
    return out


def wmma(operand: str, generation: int) -> np.ndarray:
    """16 x 16 x 16 on waves of 32: [32, registers, 2].

    RDNA 3: lane and lane + 16 hold the same 16 of A and B; rows of D alternate between them. RDNA 4: the halves of the wave
    hold the halves of k, and of the rows of D.
    """
    out = []
    for lane in range(32):
        low, half = lane % 16, lane // 16
        if operand == "C":
            rows = range(half, 16, 2) if generation == 3 else range(8 * half, 8 * half + 8)
            out.append([(row, low) for row in rows])
            continue
        ks = range(16) if generation == 3 else range(8 * half, 8 * half + 8)
        out.append([(low, k) if operand == "A" else (k, low) for k in ks])
    return np.array(out)


def ldmatrix(number: int, trans: bool, per_word: int) -> list[tuple[int, int, int]]:
    """PTX ISA, "ldmatrix": for (lane, element) in order, the (matrix, row, column) that it holds."""
    out = []
    for lane in range(32):
        for matrix in range(number):
            for e in range(per_word):
                at = (lane // 4, per_word * (lane % 4) + e)
                out.append((matrix, *(at[::-1] if trans else at)))
    return out
