"""Features: the same ones for every program, finite where the program and the device have them, and of the loops there are."""

import math

import pytest
from andiron.codegen.ir.limits import CACHE_LINE
from andiron.runtime.compile import CompileRequest
from andiron.runtime.random_inputs import default_sizes
from andiron.runtime.tuning.learn.cache_traffic import LaunchTraffic
from andiron.runtime.tuning.learn.features import NAMES
from andiron.runtime.tuning.learn.schedule_features import features_of_text
from andiron.runtime.tuning.learn.walk_program import walk_program

GEMM = "op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n"
ODD = {
    "sizes of 1": (GEMM, "gemm", {"M": 1, "N": 1, "K": 1}),
    "no terms": (GEMM, "gemm", {"M": 8, "N": 8, "K": 0}),
    "nothing": (GEMM, "gemm", {"M": 0, "N": 8, "K": 8}),
    "open": (GEMM, "gemm", {"K": 64}),
    "a scalar": ("op one(x: f64[]) -> (y: f64[]):\n    y[] = x[] + 1\n", "one", {}),
    "places": (
        "op where_max[M, N](X: i8[M, N]) -> (P: i64[M]):\n    P[i] = argmax(j) X[i, j]\n",
        "where_max",
        {"M": 3, "N": 5},
    ),
    "a domain": ("op part[N](X: f16[N, N]) -> (s: f16[N]):\n    s[i] = sum(t where t <= i) X[i, t]\n", "part", {"N": 40}),
}


def request(text, op, sizes, target="cpu:avx2"):
    return CompileRequest.from_text(text, op, "auto", target, 1, sizes)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("target", ["cpu:avx512", "cuda:sm_80"])
def test_odd_ops(name, target):
    asked = request(*ODD[name], target)
    schedule = asked.variant(asked.schedules[-1]).schedule
    sample = features_of_text(asked, schedule, default_sizes(asked.op, asked.sizes))
    assert len(sample.features) == len(NAMES) == len(set(NAMES))
    assert 0 < sample.seconds < math.inf
    missing = {n for n, x in zip(NAMES, sample.features, strict=True) if not math.isfinite(x)}
    assert all(n.startswith(("cache", "predicted", "bytes predicted", "issued per")) for n in missing)


def test_counts_and_footprints():
    """A copy of rows by vectors of 8: each element is loaded once, and a cache of a row fetches all rows once."""
    op = "op scale[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = 2 * X[i, j]\n"
    schedule = "schedule s for scale:\n    tile i: 1 -> core\n    tile j: 8\n    tile j: 1 -> lane\n    compute\n"
    asked = CompileRequest.from_text(op + schedule, "scale", "s", "cpu:avx2", 1, {"M": 32, "N": 64})
    (walk,) = walk_program(asked.variant(asked.schedules[0]).program, asked.sizes, {"core": 1})
    assert walk.counts["loaded beside"] == walk.counts["stored beside"] == pytest.approx(32 * 64 / 8)
    assert walk.counts["operations"] == pytest.approx(32 * 64 / 8)
    assert walk.tasks == pytest.approx(32)
    traffic = LaunchTraffic(walk.top)
    least = 2 * 32 * 64 * 4
    assert least <= traffic.fetched(1 << 20) <= least + 2 * 32 * CACHE_LINE
    assert traffic.innermost_fitting(2048) <= 2048 < traffic.footprint()
