"""The same C++ text on AArch64: what is emitted for cpu:neon compiles there without a warning, and computes the same."""

import importlib.util

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.dsl.module import loads
from andiron.dsl.semantics.numerics import cast
from andiron.dsl.types import TYPES
from andiron.runtime.compile import compile

from ....support.cpp.aarch64 import QEMU, compiles
from ....support.cpp.build import run
from ....support.cpp.programs import gemm
from ....support.cpp.scalar_functions import EXACT, F32, F64, OWN, conversions, functions, samples, truth, ulps, values_of

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang to cross-compile")
emulated = pytest.mark.skipif(QEMU is None, reason="needs qemu-aarch64 (Debian: qemu-user)")

TEXT = """
op linear[M, N, K](X: f16[M, K], W: f16[N, K], b: f32[N]) -> (Y: f16[M, N]):
    H[m, n] = sum(k) f32(X[m, k]) * f32(W[n, k])
    Y[m, n] = gelu(H[m, n] + b[n])

op softmax[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    top[i]  = max(j) X[i, j]
    e[i, j] = exp(X[i, j] - top[i])
    Y[i, j] = e[i, j] / (sum(j2) e[i, j2])

op narrow[N](X: f64[N]) -> (Y: bf16[N], Z: i8[N]):
    Y[i] = bf16(X[i])
    Z[i] = i8(X[i])
"""


@pytest.mark.parametrize("op", ["linear", "softmax", "narrow"])
def test_compiles_for_neon(op):
    compiles(compile(loads(TEXT), op=op, target="cpu:neon").source)


@pytest.mark.parametrize("width", [1, 4, 8])
def test_functions_compile(width):
    compiles(emit(functions([*OWN, *EXACT], F32, width)))


@emulated
def test_gemm():
    prog = gemm(4, 4, kc=16, mc=12, nc=32)
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (20, 33, 37)]:
        a, b = rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (k, n)).astype(np.float32)
        for threads in (1, 2):
            out = run(prog, {"A": a, "B": b}, {"M": m, "N": n, "K": k}, "arm", threads=threads)
            np.testing.assert_array_equal(out["C"], a @ b)


@emulated
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_functions(dtype):
    x = samples(dtype)
    names = [*OWN, *EXACT]
    out = run(functions(names, dtype, 128 // dtype.bits), {"X": x}, {"N": x.size}, "arm")
    for fn in names:
        error = ulps(out[f"Y_{fn}"], truth(fn, x), dtype)
        assert error.max() <= (5 if fn == "gelu" else 4 if fn in ("sigmoid", "silu") else 3), (
            fn,
            error.max(),
            x[int(np.argmax(error))],
        )


@emulated
@pytest.mark.parametrize("source", ["f64", "f32", "f16", "i64", "i32", "f8e4m3"])
def test_conversions(source):
    pytest.importorskip("ml_dtypes")
    targets = "f64 f32 tf32 bf16 f16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool".split()  # noqa: SIM905
    s, x = TYPES[source], values_of(TYPES[source])
    out = run(conversions(s, targets, 4), {"X": x}, {"N": x.size}, "arm")
    for t in targets:
        got, want = out[f"Y_{t}"], np.asarray(cast(x, s, TYPES[t]), out[f"Y_{t}"].dtype)
        same = (got.view(np.uint8) == want.view(np.uint8)).reshape(x.size, -1).all(1)
        if TYPES[t].kind == "float":
            same |= np.isnan(got.astype(float)) & np.isnan(want.astype(float))
        assert same.all(), (t, x[~same][:5], got[~same][:5], want[~same][:5])
