"""Outputs that other statements read: kept in the launch of these, by a line or by default, and stored besides."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

OPS = """
op normalised[M, N](X: f16[M, N], g: f32[N], b: f32[N]) -> (Y: f16[M, N], mean: f32[M], r: f32[M]):
    mean[m] = (sum(n) f32(X[m, n])) / N
    var[m] = (sum(n) pow(f32(X[m, n]) - mean[m], 2)) / N
    r[m] = rsqrt(var[m] + 1e-5)
    Y[m, n] = f16((f32(X[m, n]) - mean[m]) * r[m] * g[n] + b[n])
op probabilities[M, N](X: f32[M, N]) -> (Y: f32[M, N], m: f32[M], l: f32[M]):
    m[i] = max(j) X[i, j]
    l[i] = sum(j) exp(X[i, j] - m[i])
    Y[i, j] = exp(X[i, j] - m[i]) / l[i]
op added[M, N](X: f16[M, N], R: f16[M, N], g: f32[N]) -> (Y: f16[M, N], S: f16[M, N]):
    S[m, n] = f16(f32(X[m, n]) + f32(R[m, n]))
    r[m] = rsqrt((sum(n) f32(S[m, n]) * f32(S[m, n])) / N + 1e-5)
    Y[m, n] = f16(f32(S[m, n]) * r[m] * g[n])
op gradients[M, N](X: f32[M, N], dY: f32[M, N], g: f32[N]) -> (dX: f32[M, N], dg: f32[N]):
    a[m] = sum(n) dY[m, n] * g[n]
    c[m] = sum(n) dY[m, n] * g[n] * X[m, n]
    dX[m, n] = dY[m, n] * g[n] - a[m] / N - X[m, n] * c[m] / N
    dg[n] = sum(m) dY[m, n] * X[m, n]
op centred[M, N](X: f32[M, N]) -> (Y: f32[M, N], total: f32):
    mean[m] = (sum(n) X[m, n]) / N
    Y[m, n] = X[m, n] - mean[m]
    total = sum(m) mean[m]
op summed[M, N](X: f32[M, N]) -> (Y: f32[M], s: f32[M]):
    s[m] = sum(n) X[m, n]
    q[m] = sum(n) X[m, n] * X[m, n]
    Y[m] = q[m] / N - s[m] * s[m]
op optimised[M, N](p: f32[M, N], g: f16[M, N], m: f32[M, N], v: f32[M, N], lr: f32)
        -> (p2: f32[M, N], m2: f32[M, N], v2: f32[M, N]):
    m2[i, j] = 0.9 * m[i, j] + 0.1 * f32(g[i, j])
    v2[i, j] = 0.999 * v[i, j] + 0.001 * f32(g[i, j]) * f32(g[i, j])
    p2[i, j] = p[i, j] - lr * m2[i, j] / (sqrt(abs(v2[i, j])) + 1e-3)
op turned[M, N](X: f32[N, M], Z: f32[M, N]) -> (A: f32[M, N], B: f32[M, N], C: f32[N]):
    A[i, j] = X[j, i]
    B[i, j] = A[i, j] + Z[i, j]
    C[j] = sum(i) B[i, j]
op finished[M, N](X: f32[M, N]) -> (t: f32[M], Y: f32[M, N], l: f32[M]):
    t[i] = sum(j) X[i, j]
    Y[i, j] = X[i, j] / t[i]
    l[i] = t[i] + log(abs(t[i]) + 1)
op logged[M, N](X: f32[M, N]) -> (Y: f32[M, N], lse: f32[M]):
    m[i] = max(j) X[i, j]
    l[i] = sum(j) exp(X[i, j] - m[i])
    Y[i, j] = exp(X[i, j] - m[i]) / l[i]
    lse[i] = m[i] + log(l[i])
op shifted[M, N](X: f32[M, N]) -> (C: f32[M, N], D: f32[M, N]):
    C[y, x] = X[y, x] * 2.0
    D[y, x] = C[y, x - 1 else 0]
op multiplied[M, K, N](X: f16[M, K], g: f32[K], W: f16[N, K]) -> (Z: f16[M, K], Y: f16[M, N]):
    R[m] = rsqrt((sum(k) f32(X[m, k]) * f32(X[m, k])) / K + 0.001)
    Z[m, k] = f32(X[m, k]) * R[m] * g[k]
    Y[m, n] = sum(k) f32(Z[m, k]) * f32(W[n, k])
op chained[M, K, F, N](A: f16[M, K], B: f16[K, F], D: f16[F, N]) -> (C: f16[M, F], E: f16[M, N]):
    C[m, f] = f16(sum(k) f32(A[m, k]) * f32(B[k, f]))
    E[m, n] = f16(sum(f) f32(C[m, f]) * f32(D[f, n]))
op layers[M, K, F, N](X: f32[M, K], W: f32[K, F], V: f32[F, N]) -> (S: f32[M, F], Y: f32[M, N]):
    S[m, f] = sum(k) X[m, k] * W[k, f]
    Y[m, n] = sum(f) S[m, f] * V[f, n]
schedule by_hand for probabilities where N <= 4096:
    tile i: 4 -> block
    tile i: 1 -> warp
    keep m, l in register
    tile j: 1 -> thread
    compute
schedule by_hand_too for added where N <= 128:
    tile m: 1 -> block
    keep S in register
    keep r in register
    tile n: 1 -> thread
    compute
schedule as_before for layers:
    tile m: 16, f: 16 -> block
    tile m: 1, f: 1 -> thread
    keep S in register
    tile k: 8
    compute
"""
ROWS = {"normalised": 1, "probabilities": 1, "gradients": 2, "summed": 1, "optimised": 1, "finished": 1, "logged": 1}
DEVICES = ("sm_80", "gfx942", "cpu:avx2")


def compiled(name: str, device: str, schedule: str | None = None, **sizes: int) -> CompiledProgram:
    module = loads(OPS)
    lines = module.schedules[schedule] if schedule is not None else None
    return compile_program(module, specialise(module.ops[name], sizes), lines, module.device(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROWS)
def test_statistics_that_are_stored_share_the_launch_of_their_rows(name: str, device: str) -> None:
    """Also where the op has more than these; sums over rows may be split for a launch that follows."""
    launches = [x for x in compiled(name, device).program.launches if "dg" not in x.name]
    assert len(launches) <= ROWS[name]


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_fit_are_computed_once(device: str) -> None:
    assert len(compiled("added", device, M=64, N=1024).program.launches) == 1
    assert len(compiled("added", device).program.launches) == 2


def test_what_others_reduce_has_a_launch_of_its_own() -> None:
    """`mean` is summed over its rows; a product's results are another one's operand."""
    assert len(compiled("centred", "sm_80", M=8, N=64).program.launches) > 1
    for schedule in (None, "as_before"):
        assert len(compiled("layers", "sm_80", schedule).program.launches) == 2


def test_products_that_read_rows_are_apart() -> None:
    """Rows that fit registers, too: instructions compute products."""
    made = compiled("multiplied", "sm_80", M=256, K=128, N=512)
    assert len(made.program.launches) == 2
    assert "mma" in made.schedule


FED = ["normalised", "added", "gradients", "optimised", "finished", "logged", "shifted", "multiplied", "chained"]


@pytest.mark.parametrize("name", FED)
def test_completed_lines_mean_the_same(name: str) -> None:
    module = loads(OPS)
    for device in DEVICES:
        op = specialise(module.ops[name], {v.name: 64 if v.name == "N" else 35 for v in module.ops[name].dims})
        made = compile_program(module, op, None, module.device(device))
        again = loads(OPS + made.schedule)
        (printed,) = {*again.schedules} - {*module.schedules}
        fed = compile_program(again, op, again.schedules[printed], again.device(device))
        assert fed.program.launches == made.program.launches


SIZES = tuple(
    dict(zip("MNKF", x, strict=True)) for x in ((35, 77, 5, 9), (1, 1, 1, 1), (5, 128, 3, 17), (0, 5, 2, 2), (3, 0, 4, 4))
)
SCHEDULES = {"probabilities": "by_hand", "added": "by_hand_too", "layers": "as_before"}
NAMES = ("normalised", "probabilities", "added", "gradients", "centred", "summed", "layers", "optimised", "turned", *FED[4:])


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["emulate:sm_80", "emulate:gfx942", "cpu:avx2"])
@pytest.mark.parametrize("name", NAMES)
def test_results(name: str, device: str) -> None:
    """At sizes that are known, at open ones, and by hand."""
    module, rng = loads(OPS), np.random.default_rng(0)
    op = module.ops[name]
    hand = SCHEDULES.get(name) if device == "emulate:sm_80" else None
    anything = [compile(OPS, op=name, target=device, schedule=s) for s in (None, hand)]
    for given in SIZES:
        sizes = {v.name: given[v.name] for v in op.dims}
        for kernel in (*anything, *([compile(OPS, op=name, target=device, sizes=sizes)] if name == "added" else [])):
            arrays = [rng.normal(size=[e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
            out = kernel(*arrays)
            verdict = check(op, arrays, list(out) if isinstance(out, tuple) else [out])
            assert verdict.ok, (sizes, verdict)
