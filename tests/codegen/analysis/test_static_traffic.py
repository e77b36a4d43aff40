"""Traffic counted in closed form is what the interpreter counts when it runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from andiron.codegen.abi import chosen
from andiron.codegen.analysis import static_traffic as rules
from andiron.codegen.analysis.roofline import bytes_between_launches
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params

from ...support.paths import DEVICES

CPU = """
schedule blis for gemm on cpu:avx2:
    tile n: 32
    tile k: 8
    move B -> l3 layout panels(n: 16)
    tile m: 12 -> core
    move A -> l2 layout panels(m: 6)
    tile n: 16
    tile m: 6
    keep C in register
    tile k: 1 unroll 4
    compute with fma_f32x8
schedule both for gemm on cpu:avx2:
    tile m: 12, n: 8 -> core
    tile m: 8 -> core
    tile k: 4
    compute
"""
CASES = [
    ("blis", "gemm", [(25, 35, 9), (24, 32, 16), (1, 1, 1)]),
    ("both", "gemm", [(25, 19, 9), (5, 4, 0)]),
    ("maxwell", "gemm", [(150, 131, 21)]),
    ("ampere", "hgemm", [(150, 136, 56)]),
    ("tall", "gemm", [(13, 17, 150)]),
    ("row", "softmax", [(3, 1500)]),
    ("tiled", "transpose", [(37, 45)]),
    (None, "gemm", [(20, 24, 10)]),
]


@pytest.fixture(scope="module")
def module():
    return loads((DEVICES / "simt.sched").read_text() + (DEVICES / "simt_sketches.sched").read_text() + CPU)


@pytest.mark.parametrize(("name", "op", "shapes"), CASES, ids=lambda x: str(x))
def test_as_the_interpreter_counts(module, name, op, shapes):
    op = bind_params(module.ops[op], {})
    schedule = module.schedules.get(name)
    device = module.device(schedule.device if schedule else "cpu:avx2")
    program = compile_program(module, op, schedule, device).program
    for shape in shapes:
        sizes = dict(zip([v.name for v in op.dims], shape, strict=False))
        rng = np.random.default_rng(1)
        arrays = {t.name: rng.random([e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
        seen: dict[tuple[str, str], int] = {}
        interpret(chosen(program, sizes, {}), arrays, sizes, {"core": 3}, traffic=seen)
        known = static_traffic(program, sizes, {"core": 3})
        assert known.exact
        registers = device.memories[-1].name
        assert known.read == {m: n for (m, how), n in seen.items() if how == "read" and m != registers and n}
        assert known.written == {m: n for (m, how), n in seen.items() if how == "written" and m != registers and n}


def test_long_loops_are_looked_at_where_they_differ(module, monkeypatch):
    """The first, the second and the last turn stand for all: right where only the last tile is partial."""
    program = compile_program(module, module.ops["gemm"], module.schedules["blis"], module.device("cpu:avx2")).program
    sizes = dict(M=12 * 40, N=32 * 9 + 5, K=8 * 30)
    whole = static_traffic(program, sizes, {"core": 1})
    monkeypatch.setattr(rules, "_POINTS", 400)
    short = static_traffic(program, sizes, {"core": 1})
    assert not short.exact
    for memory in whole.read:
        assert short.moved(memory) == pytest.approx(whole.moved(memory), rel=0.1)


def test_the_report(module):
    import andiron

    kernel = andiron.compile(module, op="gemm", target="cpu:avx2", schedule="blis", threads=2)
    assert kernel.report.seconds == {}
    assert kernel.report.footprints["l2"] == (12 * 8 * 4, 512 << 10)
    kernel = andiron.compile(module, op="gemm", target="cpu:avx2", schedule="blis", threads=2, M=96, N=64, K=32)
    report = kernel.report
    assert report.flops == 2 * 96 * 64 * 32
    assert report.read["dram"] >= report.bytes - 96 * 64 * 4
    assert report.units == ({"core": 2, "lane": 8},)
    assert report.bound in report.seconds
    assert report.seconds["dram"] == pytest.approx(report.bytes / 25.6e9)
    assert "bound by" in str(report)
    assert "held in l3" in str(report)


def test_products_of_matrices_run_at_their_own_rate():
    import andiron

    text = (
        "op hgemm[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
    )
    for target, least in (("cuda:sm_80", 2 * 1024**3 / 312e12), ("hip:gfx90a", 2 * 1024**3 / 181e12)):
        report = andiron.compile(text, target=target, M=1024, N=1024, K=1024).report
        assert report.seconds["arithmetic"] == pytest.approx(least, rel=0.02)


TWO_LAUNCHES = """
op pair[M, N](X: f32[M, N], w: f32[N]) -> (Z: f32[M, N], t: f32[M]):
    E[i, j] = exp(X[i, j])
    t[i] = sum(j) E[i, j]
    Z[i, j] = E[i, j] / t[i] * w[j]
schedule apart for pair on cpu:avx2:
    keep E in dram:
        compute
    keep t in dram:
        compute
    compute
schedule together for pair on cpu:avx2:
    tile i: 1 -> core
    keep E in l1
    keep t in l1
    compute
"""


def test_what_launches_hand_over_counts_once_for_each_of_them():
    import andiron

    report = andiron.compile(TWO_LAUNCHES, target="cpu:avx2", schedule="apart", threads=1, M=4096, N=4096).report
    tensor, row = 4 * 4096 * 4096, 4 * 4096
    caches = (32 << 20) + (512 << 10) + (32 << 10)
    # `E` is written by the first launch, and read by both others. `t` is an output, read again. Caches keep some of it.
    assert report.launches == 3
    assert report.between_launches == (tensor - caches) + (tensor - caches) + (tensor + row - caches)
    assert report.bytes == 2 * tensor + 2 * row
    assert report.seconds["dram"] == pytest.approx((report.bytes + report.between_launches) / 25.6e9)
    assert f"between launches  {report.between_launches:,} bytes at least" in str(report)


def test_what_the_caches_can_keep_is_no_traffic_between_launches():
    import andiron

    report = andiron.compile(TWO_LAUNCHES, target="cpu:avx2", schedule="apart", threads=1, M=64, N=64).report
    assert report.launches == 3
    assert report.between_launches == 0
    assert "between launches" not in str(report)


def test_one_launch_hands_nothing_over():
    import andiron

    report = andiron.compile(TWO_LAUNCHES, target="cpu:avx2", schedule="together", threads=1, M=4096, N=4096).report
    assert (report.launches, report.between_launches) == (1, 0)


def test_a_cache_of_unknown_capacity_may_keep_everything(module):
    device = module.device("sm_80")
    known = rules.StaticTraffic({}, {}, 2, 0, (), True, ((0, 1 << 30), (1 << 30, 0)))
    assert bytes_between_launches(device, known) == 2 * ((1 << 30) - (40 << 20))
    unknown = [replace(m, capacity=None) if m.backing else m for m in device.memories]
    assert bytes_between_launches(replace(device, memories=tuple(unknown)), known) == 0
    none = [m for m in device.memories if not m.backing]
    assert bytes_between_launches(replace(device, memories=tuple(none)), known) == 2 << 30


STAGED = """
op hgemm[M, N, K](A: f16[M, K], B: f16[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])

schedule filled for hgemm on sm_80:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: 32 pipeline 2
    move A -> shared swizzle with cp_async
    move B -> shared swizzle with cp_async
    tile m: 16, n: 16 -> warp
    tile k: 16
    move A -> register with ldmatrix
    move B -> register with ldmatrix_x2_b_f16x2
    compute with mma_m16n8k16_f16
"""


@pytest.mark.parametrize("shape", [(33, 40, 40), (1, 8, 8), (70, 64, 96), (5, 8, 0)])
def test_instructions_count_as_the_emulator_counts(shape):
    """Lanes that repeat an address read it once, and a copy that fills with zeros reads what is live."""
    import andiron

    kernel = andiron.compile(STAGED, target="emulate:sm_80")
    rng, (m, n, k) = np.random.default_rng(2), shape
    arrays = rng.random((m, k)).astype(np.float16), rng.random((n, k)).astype(np.float16)
    kernel.counting = True
    kernel(*arrays)
    seen = kernel.report.counts.moved
    sizes = dict(zip("MNK", shape, strict=True))
    known = static_traffic(kernel.program, sizes)
    assert known.exact
    for memory in ("global", "shared"):
        assert known.read.get(memory, 0) == seen.get(memory, {}).get("read", 0), memory
        assert known.written.get(memory, 0) == seen.get(memory, {}).get("written", 0), memory
    interpreted: dict[tuple[str, str], int] = {}
    interpret(chosen(kernel.program, sizes, {}), dict(zip("AB", arrays, strict=True)), sizes, traffic=interpreted)
    interpreted_reads = {m: b for (m, how), b in interpreted.items() if how == "read" and b and m != "register"}
    assert {m: b for m, b in known.read.items() if b} == interpreted_reads
