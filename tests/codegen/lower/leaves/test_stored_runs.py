"""Products whose results go through shared memory: lanes store as many neighbours at once as their fragments have."""

from __future__ import annotations

import pytest
from andiron.runtime.check_results import ExpectedResults
from andiron.runtime.compile import compile
from andiron.runtime.kernel import Kernel
from andiron.runtime.random_inputs import random_inputs

PRODUCT = """
op f[M, N, K](A: f16[M, K], B: f16[K, N], b: f16[N]) -> (C: f16[M, N]):
    C[m, n] = f16(sum(k) {term} + f32(b[n]))
"""
CONVOLUTION = """
op f[B, H, W, C, O](X: f16[B, H, W, C], F: f16[O, C]) -> (Y: f16[B, H, W, O]):
    Y[b, h, w, o] = f16(sum(c) f32(X[b, h, w, c]) * f32(F[o, c]))
"""
PAIR = """
op f[M, N, K](A: f16[M, K], B: f16[K, N], G: f16[K, N]) -> (C: f16[M, N]):
    g[m, n] = sum(k) f32(A[m, k]) * f32(G[k, n])
    C[m, n] = f16((sum(k) f32(A[m, k]) * f32(B[k, n])) * tanh(g[m, n]))
"""
LINES_OF_PAIR = """
schedule s for f:
    tile m: 64, n: 64 -> block
    keep g in register
    keep C in register:
        move C -> shared
    tile k: 32
    move A -> shared
    move B -> shared
    move G -> shared
    tile m: 32, n: 32 -> wave
    compute with mfma_32x32x8_f16
"""
TERM = "f32(A[m, k]) * f32(B[k, n])"
LINES = """
schedule s for f:
    tile m: 64, n: 64 -> block
    keep C in register{block}
    tile k: 32
    move A -> shared
    move B -> shared
    tile m: 32, n: 32 -> {group}
    compute with {instr}
"""
FUSED = """
schedule s for f:
    fuse b, h, w as p
    tile p: 64, o: 64 -> block
    keep Y in register:
        move Y -> shared
    tile c: 32
    move X -> shared
    move F -> shared
    tile p: 32, o: 32 -> wave
    compute with mfma_32x32x8_f16
"""
STAGED = ":\n        move C -> shared"
SIZES = (dict(M=64, N=128, K=64), dict(M=65, N=129, K=33), dict(M=3, N=8, K=70), dict(M=70, N=136, K=8), dict(M=0, N=8, K=8))


def product(device: str, instr: str, group: str = "wave", block: str = STAGED, term: str = TERM, **sizes: int) -> Kernel:
    lines = LINES.format(instr=instr, group=group, block=block)
    return compile(PRODUCT.format(term=term) + lines, target=f"emulate:{device}", sizes=sizes)


def stored(kernel: Kernel, sizes: dict[str, int], memory: str) -> set[int]:
    """Bytes of the stores of results to a memory; the results are checked."""
    inputs = random_inputs(kernel.op, sizes)
    kernel.counting = True
    assert ExpectedResults(kernel.op, inputs).check([kernel(*inputs)]).ok
    assert kernel.report.counts is not None
    sites = (s for s in kernel.report.counts.sites if s.access == "written" and s.memory == memory and s.accesses)
    return {s.bytes // s.accesses for s in sites if not s.said.startswith(("move A", "move B", "move G"))}


@pytest.mark.parametrize(
    ("device", "instr", "group", "width"),
    [
        ("gfx942", "mfma_32x32x16_f16", "wave", 8),
        ("gfx90a", "mfma_16x16x16_f16", "wave", 8),
        ("gfx1201", "wmma_16x16x16_f16", "wave", 16),
        ("gfx1100", "wmma_16x16x16_f16", "wave", 2),  # a lane has every second row, so no neighbours in a column
        ("sm_80", "mma_m16n8k16_f16", "warp", 4),  # and here neighbours in a row, as it is
    ],
)
def test_lanes_store_the_neighbours_that_they_have(device: str, instr: str, group: str, width: int) -> None:
    assert stored(product(device, instr, group), SIZES[0], "shared") == {width}


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_edges(sizes: dict[str, int], fixed: bool) -> None:
    stored(product("gfx942", "mfma_32x32x8_f16", **(sizes if fixed else {})), sizes, "shared")


def test_rows_stay_long_without_the_step() -> None:
    """Each lane would store two times eight bytes of 32 rows, where 32 lanes store a row of 64 bytes."""
    assert stored(product("gfx942", "mfma_32x32x8_f16", block=""), SIZES[0], "global") == {2}


def test_a_layout_that_says_otherwise() -> None:
    assert stored(product("gfx942", "mfma_32x32x8_f16", block=STAGED + " layout (n, m)"), SIZES[0], "shared") == {8}


@pytest.mark.parametrize(("domain", "width"), [("k <= n", 2), ("k <= m", 8)])
def test_terms_that_only_one_way_can_choose(domain: str, width: int) -> None:
    """The instruction that is told which terms count is told by its columns."""
    kernel = product("gfx942", "mfma_32x32x8_f16", term=f"where({domain}, {TERM}, 0)")
    assert stored(kernel, SIZES[0], "shared") == {width}
    stored(kernel, SIZES[1], "shared")


def test_fused_rows() -> None:
    kernel = compile(CONVOLUTION + FUSED, target="emulate:gfx942")
    for b, h, w, c, o in ((2, 5, 7, 40, 72), (1, 8, 8, 32, 64)):
        inputs = random_inputs(kernel.op, dict(B=b, H=h, W=w, C=c, O=o))
        kernel.counting = True
        assert ExpectedResults(kernel.op, inputs).check([kernel(*inputs)]).ok
        assert kernel.report.counts is not None
        sites = [s for s in kernel.report.counts.sites if s.said == "move Y -> shared" and s.access == "written"]
        assert [s.bytes // s.accesses for s in sites if s.accesses] == [8]


def test_results_side_by_side_lie_alike() -> None:
    """The one that is stored reads the other in registers, element by element."""
    kernel = compile(PAIR + LINES_OF_PAIR, target="emulate:gfx942")
    assert stored(kernel, SIZES[0], "shared") == {8}
    for sizes in SIZES[1:]:
        stored(kernel, sizes, "shared")
