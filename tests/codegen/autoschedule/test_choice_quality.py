"""What is chosen has what makes a kernel fast, whatever its tiles: units in use, bytes near the least, little padding."""

from __future__ import annotations

import pytest
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import sample_sizes
from andiron.codegen.autoschedule.report import CandidateReport, LaunchReport
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise

from ...support.library.unscheduled import chosen, compiled, library, op_of

DEVICES = ("sm_80", "sm_90a", "gfx90a", "gfx1100")
THIN = [
    ("gemm_f16", dict(M=1, N=35, K=500000)),
    ("gemm_f16", dict(M=4, N=64, K=500000)),
    ("gemm", dict(M=2, N=16, K=500000)),
    ("gemv", dict(M=1, K=500000)),
    ("gemv", dict(M=4, K=500000)),
    ("dot", dict(N=1 << 22)),
    ("col_sum", dict(M=500000, N=35)),
    ("full_sum", dict(M=5000, N=3500)),
]
LARGE = [("gemm_f16", dict(M=8192, N=8192, K=8192)), ("gemm_f16", dict(M=4096, N=5120, K=4096))]


def choice(op: str, device: str, sizes: dict[str, int]) -> LaunchReport:
    return compiled(op, device, sizes).report["choices"][0]


def split_count(c: CandidateReport) -> int:
    return c.tile.get("split", 0) or c.tile.get("part", 0)


@pytest.mark.every_second
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("op", "sizes"), THIN, ids=lambda x: x if isinstance(x, str) else "x".join(map(str, x.values())))
def test_long_reductions_with_few_results_are_split(op: str, sizes: dict[str, int], device: str) -> None:
    """So that units have work and memory is what bounds them: close to the time that the operands take to be read once."""
    found = choice(op, device, sizes)
    c, d = found.candidates[0], library().device(device)
    units, bandwidth = d.limit("units") or 1, d.memories[0].bandwidth or 1
    assert split_count(c) > 0
    assert c.blocks >= units / 2
    assert c.busy > 0.55
    assert c.moved < 1.3 * found.least
    assert c.seconds < 1.5 * found.least / bandwidth + 10e-6  # two launches


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("op", "sizes"), LARGE, ids=lambda x: x if isinstance(x, str) else "x".join(map(str, x.values())))
def test_large_products_keep_the_arithmetic_busy(op: str, sizes: dict[str, int], device: str) -> None:
    """Whole waves, next to no padding; the cache serves most of what is asked, as tiles that run together share operands."""
    c = choice(op, device, sizes).candidates[0]
    assert split_count(c) == 0
    assert c.bound in ("pipe", "issue", "staging", "group", "block")
    assert c.parts["group"] < 1.1 * c.parts["pipe"]  # groups wait little, or others of their scheduler work meanwhile
    assert c.parts["block"] < 1.1 * c.parts["pipe"]  # and few cycles at barriers
    assert c.busy > 0.9
    assert c.waste < 0.05
    assert c.moved < 0.4 * c.asked


@pytest.mark.parametrize("device", DEVICES)
def test_of_one_tile_too_many_no_wave_is_made(device: str) -> None:
    """Sizes at which tiles of the largest kind would leave most units idle in a last wave."""
    units = int(library().device(device).limit("units") or 1)
    for tiles in (units // 2, units + 1, 2 * units + 1):
        c = choice("gemm_f16", device, dict(M=128, N=128 * tiles, K=4096)).candidates[0]
        assert c.busy > 0.6


def test_walking_tiles_in_bands_saves_bytes() -> None:
    """`raster` is written where operands exceed the cache, and not where all fits."""
    assert "raster" in compiled("gemm_f16", "sm_80", dict(M=16384, N=16384, K=4096)).schedule
    assert "raster" not in compiled("gemm_f16", "sm_80", dict(M=512, N=512, K=4096)).schedule


@pytest.mark.parametrize("device", DEVICES)
def test_elementwise_work_moves_each_byte_once(device: str) -> None:
    for op, sizes in (("add", dict(N=1 << 24)), ("transpose", dict(M=4096, N=4096)), ("add_row", dict(M=4096, N=4096))):
        found = choice(op, device, sizes)
        c = found.candidates[0]
        assert c.bound == "far"
        assert c.moved < 1.1 * found.least


def judged(op: Op, n: int = 0) -> list[dict[str, int]]:
    """The sizes at which candidates for a launch of the op are judged."""
    device = library().device("sm_80")
    computations = launches_of(op, device, ())[n][0]
    return [sizes for sizes, _ in sample_sizes(context_of(op, device), computations)]


TWO = """op f[A, B, M, N, K](X: f32[A, B, M, K], Y: f32[B, A, K, N]) -> (Z: f32[A, B, M, N]):
    Z[a, b, m, n] = sum(k) X[a, b, m, k] * Y[b, a, k, n]
"""
MIXED = """op f[B, M, N, K, R](X: f32[B, M, K], Y: f32[B, N, K], U: f32[B, M, R], V: f32[N, R]) -> (Z: f32[B, M, N]):
    P[b, m, n] = sum(k) X[b, m, k] * Y[b, n, k]
    Q[b, m, n] = sum(r) U[b, m, r] * V[n, r]
    Z[b, m, n] = P[b, m, n] + Q[b, m, n]
"""


def test_batches_are_judged_at_longer_sides() -> None:
    """What all operands and the result have counts contractions: it is small, also as two indices together."""
    batched = op_of("batched_gemm_f16")
    assert judged(batched) == [dict(B=16, K=n, M=n, N=n) for n in (64, 256, 1024)]
    assert judged(loads(TWO).ops["f"])[-1] == dict(A=4, B=4, M=1024, N=1024, K=1024)
    assert judged(specialise(batched, {"B": 1})) == judged(op_of("gemm_f16"))  # a number counts as it is
    assert judged(specialise(batched, {"B": 64}))[-1] == dict(K=512, M=512, N=512)
    assert [x["B"] for x in judged(specialise(batched, {"M": 64, "N": 64, "K": 64}))] == [40, 102, 256]  # nothing else tells


def test_what_a_contraction_reuses_along_is_no_batch() -> None:
    mixed = loads(MIXED).ops["f"]
    assert judged(mixed)[-1]["B"] == 16
    assert {*judged(mixed, 1)[-1].values()} == {256}  # `V` is read again for each b
    assert {*judged(op_of("depthwise_conv2d"))[-1].values()} == {3, 62, 64}  # no second operand, so all are alike
    assert {*judged(op_of("grouped_conv2d"))[-1].values()} == {3, 26, 28}  # windows
    assert {*judged(op_of("softmax"))[-1].values()} == {4096}
    assert {*judged(op_of("attention"))[-1].values()} == {256}  # blocks of a pass are as many as rows of all heads


@pytest.mark.parametrize("device", DEVICES)
def test_batched_products_of_open_sizes_have_large_tiles(device: str) -> None:
    """A group's tile is as large as in a product without a batch: an element that it reads serves as many others."""
    batched, plain = (r.tile(n) for r, n in (chosen(op, device, {}) for op in ("batched_gemm_f16", "gemm_f16")))
    assert batched["wm"] * batched["wn"] >= plain["wm"] * plain["wn"]
