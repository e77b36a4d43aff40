"""The problems of `beside_triton.py` in Triton, as its tutorials write them, with all sizes fixed.

Products are tutorial 3, rows of softmax tutorial 2, rows of layernorm tutorial 5 without what it keeps for the gradient,
attention tutorial 6 without a mask and without what it keeps. For convolutions and transposes it has none: these are the usual
implicit product, and a tile that is turned. Sizes divide, so nothing is masked but the rim of a convolution.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def product(a, b, bias, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP: tl.constexpr, TURNED: tl.constexpr, GELU: tl.constexpr, PRECISION: tl.constexpr,
            SUM: tl.constexpr):  # fmt: skip
    """c = a b, or with `TURNED` a b^T, or with `GELU` the gelu of that and a bias."""
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BM)
    columns = tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    pid_m = first + pid % (GROUP * columns) % size
    pid_n = pid % (GROUP * columns) // size
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at_a = a + m[:, None] * K + k[None, :]
    at_b = b + n[None, :] * K + k[:, None] if TURNED else b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), dtype=SUM)
    for _ in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(at_a), tl.load(at_b), acc, input_precision=PRECISION, out_dtype=SUM)
        at_a += BK
        at_b += BK if TURNED else BK * N
    if GELU:
        acc += tl.load(bias + n)[None, :]
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def convolution(x, f, y, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
                PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Stride 1, as many pixels out as in: pixels by filters, over rows and columns of the filter and channels."""
    pid = tl.program_id(0)
    columns = tl.cdiv(O, BN)
    m = pid // columns * BM + tl.arange(0, BM)
    n = pid % columns * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    p = m // W % H
    q = m % W
    at_f = f + n[None, :] * (R * S * C) + k[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for rsc in range(0, R * S * (C // BK)):
        r = rsc // (C // BK) // S
        s = rsc // (C // BK) % S
        c = rsc % (C // BK) * BK
        inside = (p + r >= PAD) & (p + r < H + PAD) & (q + s >= PAD) & (q + s < W + PAD)
        at = (m + (r - PAD) * W + (s - PAD)) * C + c
        tile = tl.load(x + at[:, None] + k[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(tile, tl.load(at_f), acc)
        at_f += BK
    tl.store(y + m[:, None] * O + n[None, :], acc.to(y.dtype.element_ty))


@triton.jit
def attention(q, k, v, o, H: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, SCALE: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Rows of one head by all of its keys; a head has `BN` features, and is a row of programs."""
    head = tl.program_id(0) // (Q // BM)
    m = tl.program_id(0) % (Q // BM) * BM + tl.arange(0, BM)
    d = tl.arange(0, BN)
    t = tl.arange(0, BK)
    rows = tl.load(q + head * Q * BN + m[:, None] * BN + d[None, :])
    at_k = k + head * T * BN + t[None, :] * BN + d[:, None]
    at_v = v + head * T * BN + t[:, None] * BN + d[None, :]
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, T // BK):
        scores = tl.dot(rows, tl.load(at_k))
        higher = tl.maximum(top, tl.max(scores, 1) * SCALE)  # SCALE has the logarithm of e
        p = tl.exp2(scores * SCALE - higher[:, None])
        less = tl.exp2(top - higher)
        total = total * less + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(at_v), acc * less[:, None])
        top = higher
        at_k += BK * BN
        at_v += BK * BN
    tl.store(o + head * Q * BN + m[:, None] * BN + d[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def softmax(x, y, M: tl.constexpr, N: tl.constexpr, PROGRAMS: tl.constexpr, STAGES: tl.constexpr):
    """A row at a time: `PROGRAMS` programs deal the rows out, or 0 for one program a row."""
    if PROGRAMS:
        for row in tl.range(tl.program_id(0), M, PROGRAMS, num_stages=STAGES):
            softmax_row(x + row * N, y + row * N, N)
    else:
        softmax_row(x + tl.program_id(0) * N, y + tl.program_id(0) * N, N)


@triton.jit
def softmax_row(x, y, N: tl.constexpr):
    j = tl.arange(0, N)
    row = tl.load(x + j)
    top = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + j, top / tl.sum(top, axis=0))


@triton.jit
def layernorm(x, gain, bias, eps, y, N: tl.constexpr):
    j = tl.arange(0, N)
    x += tl.program_id(0) * N
    y += tl.program_id(0) * N
    row = tl.load(x + j)
    apart = row - tl.sum(row, axis=0) / N
    scale = 1 / tl.sqrt(tl.sum(apart * apart, axis=0) / N + eps)
    tl.store(y + j, apart * scale * tl.load(gain + j) + tl.load(bias + j))


@triton.jit
def transpose(x, y, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) // tl.cdiv(N, BN) * BM + tl.arange(0, BM)
    n = tl.program_id(0) % tl.cdiv(N, BN) * BN + tl.arange(0, BN)
    tile = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(y + n[:, None] * M + m[None, :], tl.trans(tile))


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], warps: int, stages: int, arch: int) -> Any:
    """Without a GPU. `types`: of the arguments that are no constants; pointers are aligned to 16 bytes."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    aligned = {(n,): [["tt.divisibility", 16]] for n, t in enumerate(signature.values()) if t.startswith("*")}
    typed = {name: getattr(tl, value) if name == "SUM" else value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=typed, attrs=aligned)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps, "num_stages": stages})
