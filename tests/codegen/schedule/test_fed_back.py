"""A printed schedule, fed back, is accepted and gives the same program: what the compiler chose beside the author's lines."""

from __future__ import annotations

import pytest
from andiron.codegen.ir.printer import show
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.module import loads

TWO_OUTPUTS = (
    "op t[M, N](X: f32[M, N]) -> (p: f32[M, N], q: f32[M, N]):\n    p[i, j] = X[i, j] + 1.0\n    q[i, j] = X[i, j] * 2.0\n"
)
SOFTMAX = (
    "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    top[i] = max(j) X[i, j]\n"
    "    total[i] = sum(j) exp(X[i, j] - top[i])\n    Y[i, j] = exp(X[i, j] - top[i]) / total[i]\n"
)
MEAN = "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    mean[i] = (sum(j) X[i, j]) / f32(N)\n    Y[i, j] = X[i, j] - mean[i]\n"
SCALED = (
    "op t[M, N](X: f32[M], Z: f32[M, N]) -> (Y: f32[M, N]):\n    total = (sum(i) X[i]) * 3.0\n    Y[i, j] = total * Z[i, j]\n"
)
PRODUCT = "op t[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n"
FACTOR = (
    "op t[M, N, K](A: f16[M, K], B: f16[K, N], s: f16[K]) -> (C: f32[M, N]):\n"
    "    C[m, n] = sum(k) f32(A[m, k]) * f32(f16(f32(B[k, n]) * f32(s[k])))\n"
)
PADDED = (
    "op t[M, N](X: f32[M, N]) -> (Y: f32[N, M]):\n    t[i, j] = X[i, j] * 2.0\n    Y[j, i] = t[i, j] - t[i + 1, j else 0]\n"
)
TWO_PRODUCTS = (
    "op t[W, R, N, K, Q, M, P, L](A: f8e5m2[W], B: i8[R], C: f16[N, K, Q, M, P], D: f8e5m2[K, N, Q, P, L])"
    " -> (Y: f32[V], Z: f32[M, L, P]) where V = W - R + 1:\n"
    "    Y[p] = sum(r) f32(A[p + r]) * f32(B[r])\n"
    "    Z[m, l, p] = sum(n, k, q) f32(C[n, k, q, m, p]) * f32(D[k, n, q, p, l])\n"
)
SUMMED = (
    "op t(A: i8[48], B: f32[1, 48, 24]) -> (Y: f32[24, 1, 48]):\n"
    "    total = sum(n) f32(A[n]) * f32(A[n])\n    Y[m, k, n] = (B[k, n, m] - total) + f32(A[n])\n"
)
BYTES = "op t[M, N](A: u8[M, N], B: i8[N]) -> (Y: i32[M]):\n    Y[m] = sum(n) A[m, n] * i32(B[n])\n"
TWICE = (
    "op t[M, K](A: f32[M, K], B: f32[K, 17]) -> (E: f32[M, K]):\n"
    "    C[m, n] = sum(k) A[m, k] * B[k, n]\n    E[m, j] = sum(n) C[m, n] * B[j, n]\n"
)
HALVES = "op t[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]):\n    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
SMALL = "op t(A: i8[12, 64], B: i8[64, 64]) -> (C: i32[12, 64]):\n    C[m, n] = sum(k) i32(A[m, k]) * i32(B[k, n])\n"
TOTAL = (
    "op t(D: f32[64], B: f32[64, 64]) -> (total: f32[], Y: f32[64, 64]):\n    total = sum(i, j) B[i, j]\n    h[i] = total\n"
    "    Y[i, j] = D[i] + h[j]\n"
)

SHIFTED = "op t[N](A: f32[N]) -> (Y: f32[N, N]):\n    a[n] = A[n] + 1.0\n    Y[i, j] = a[j]\n"
CASES = {
    "a move whose block computes what candidates keep in registers": (
        SHIFTED,
        "cpu:generic",
        ":\n    tile n: 1 -> core\n    move a -> l1\n",
    ),
    "a result that another launch reads, which has the author's lines": (TOTAL, "cpu:avx512", ":\n    move D -> l3\n"),
    "an instruction that was chosen for what no line stages": (
        HALVES,
        "sm_80",
        ":\n    tile m: 32, n: 64 -> block\n    keep C in register\n    tile k: 64\n    tile m: 32, n: 64 -> warp\n    auto\n",
    ),
    "an instruction that was chosen for a copy that the author pads": (
        HALVES,
        "sm_80",
        ":\n    tile m: 32, n: 64 -> block\n    keep C in register\n    tile k: 64\n    move A -> shared pad 1\n    auto\n",
    ),
    "an instruction that was chosen for a line of the author's": (
        HALVES,
        "sm_80",
        ":\n    tile m: 32, n: 64 -> block\n    keep C in register\n    tile k: 64\n    tile m: 32, n: 64 -> warp\n"
        "    tile k: 16\n    move A -> register\n    auto\n",
    ),
    "a factor that is widened in steps, and that no line keeps": (
        SMALL,
        "cpu:avx2",
        ":\n    keep C in register\n    tile k: 2\n    auto\n",
    ),
    "a tensor whose conversion would have a launch of its own": (
        SMALL,
        "cpu:avx2",
        ":\n    tile m: 4 -> core\n    move B -> l2\n    auto\n",
    ),
    "an open memory of a copy with a layout": (
        PRODUCT,
        "cpu:avx2",
        ":\n    tile m: 4, n: 16 -> core\n    tile k: 16\n    move B -> auto pad 2\n    auto\n",
    ),
    "an open memory of a copy with a layout, on a GPU": (
        HALVES,
        "sm_80",
        ":\n    tile m: 64, n: 64 -> block\n    tile k: 16\n    move A -> auto pad 8\n"
        "    tile m: 16, n: 32 -> warp\n    auto\n",
    ),
    "an open memory of a copy by an instruction": (
        HALVES,
        "sm_80",
        ":\n    tile m: 64, n: 64 -> block\n    tile k: 16\n    move A -> auto with cp_async\n    tile m: 16, n: 32 -> warp\n"
        "    move A -> register\n    auto\n",
    ),
    "an open memory of an accumulator with a layout": (
        PRODUCT,
        "sm_80",
        ":\n    tile m: 16, n: 16 -> block\n    keep C in auto pad 1\n    auto\n",
    ),
    "a launch of its own keeps its output in its memory": (
        TWO_OUTPUTS,
        "cpu:avx2",
        "where M <= 64, N <= 64:\n    tile i: 4 -> core\n    keep q in dram\n",
    ),
    "no nest keeps what several launches would share: it is moved": (
        SOFTMAX,
        "gfx942",
        ":\n    tile i: 12 -> block\n    move top -> shared\n",
    ),
    "no nest keeps what several launches would share: rows are lanes": (
        MEAN,
        "cpu:avx2",
        ":\n    tile i: 6 -> core\n    tile i: 6 -> lane\n",
    ),
    "the accumulator of an intermediate that has a launch of its own": (
        SCALED,
        "cpu:avx2",
        ":\n    tile i: 6 -> core\n    move total -> l2\n    compute\n",
    ),
    "a copy without units, of another order": (
        BYTES,
        "gfx1100",
        ":\n    tile m: 16 -> block\n    tile n: 4\n    move A -> shared layout (m/2, n, m % 2)\n"
        "    keep Y in register\n    compute\n",
    ),
    "a copy without units by an instruction": (
        PRODUCT,
        "sm_80",
        ":\n    tile m: 1, n: 1 -> block\n    tile k: 8\n    move B -> shared with cp_async\n    compute\n",
    ),
    "a copy that has more tiles than the main nest has lanes": (
        PRODUCT,
        "gfx90a",
        ":\n    tile m: 64, n: 64 -> block\n    keep C in register\n    tile k: 64\n"
        "    move A -> shared\n    compute with mfma\n",
    ),
    "a computed factor that no nest keeps": (
        FACTOR,
        "gfx90a",
        ":\n    tile k: 7\n    auto\n",
    ),
    "an open memory": (
        PRODUCT,
        "cpu:avx512",
        ":\n    tile m: 1, n: 64 -> core\n    tile n: 2 peel\n    tile n: 1\n    keep C:\n        compute\n"
        "    tile k: 8 peel\n    tile k: 3 -> lane\n    compute\n",
    ),
    "an intermediate with a launch of its own is moved": (
        PADDED,
        "gfx1100",
        ":\n    auto\n",
    ),
    "an index whose name ends in a number": (
        TWO_PRODUCTS,
        "sm_90a",
        ":\n    auto\n",
    ),
    "a copy that the author has is not chosen again": (
        SUMMED,
        "cpu:avx2",
        ":\n    tile n: 49 -> core by shuffle\n    tile m: 8, k: 1 peel\n    tile k: 1, m: 3 unroll 3\n"
        "    move B -> l1 layout (n, m, k)\n",
    ),
    "a line that two nests lower, each with indices of its own": (
        TWICE,
        "sm_80",
        ":\n    tile m: 4, j: 4 -> block\n    keep E in register\n    tile n: 8\n    keep C in shared\n    tile j: 2\n"
        "    tile k: 2\n    move B -> shared\n    tile j: 1, m: 1 -> thread\n",
    ),
    "a result of another launch is copied within its memory": (
        SCALED,
        "cpu:avx2",
        ":\n    move total -> dram\n",
    ),
}


def compiled(op: str, device: str, schedule: str) -> CompiledProgram:
    module = loads(op + schedule)
    return compile_program(module, module.ops["t"], module.schedules["s"], module.device(device))


@pytest.mark.parametrize("title", CASES)
def test_it_is_the_same(title: str) -> None:
    op, device, lines = CASES[title]
    first = compiled(op, device, f"schedule s for t{lines if lines[0] == ':' else f' {lines}'}")
    again = compiled(op, device, first.schedule)
    assert again.schedule == first.schedule
    assert " auto" not in first.schedule
    assert show(again.program) == show(first.program), first.schedule


@pytest.mark.parametrize("device", ["cpu:avx2", "sm_80"])
@pytest.mark.parametrize("m", [0, 5])
def test_an_open_memory_is_one_that_has_what_the_line_asks_for(device: str, m: int) -> None:
    """Registers have no layout, whether or not there are elements that would show it."""
    level, memory = {"cpu:avx2": ("core", "l1"), "sm_80": ("block", "shared")}[device]
    op = PRODUCT.replace("[M, N, K]", "[N]").replace("M", str(m)).replace("K", "24")
    lines = f":\n    tile m: 4, n: 16 -> {level}\n    tile k: 16\n    move A -> auto pad 2\n    compute\n"
    assert f"move A -> {memory} pad 2" in compiled(op, device, f"schedule s for t{lines}").schedule
