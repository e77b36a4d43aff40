"""Kernels that nothing was written for compute what they should, at odd sizes, without a race, on machines of every kind."""

from __future__ import annotations

import os

import numpy as np
import pytest
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.codegen.interpret.machine import interpret
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.dsl.text.print_node import format_node
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ...support.library.unscheduled import AMD, NVIDIA, compiled, library, op_of
from ...support.library.unscheduled_walk import sizes_of
from ...support.rotation import rotated

MATRIX = dict(M=37, N=45, K=21)
IMAGE = dict(N=2, C=5, H=7, W=6, O=4, R=3, S=2)
HEADS = dict(H=2, Q=5, T=19, D=6)
CASES = [
    *(
        (name, MATRIX)
        for name in ("gemm", "gemm_tt", "gemm_f16", "gemm_f16_nt", "gemm_i8", "gemm_tf32", "gemm_axpby", "linear_gelu")
    ),
    ("gemm", dict(M=1, N=1, K=1)),
    ("gemm_f16", dict(M=2, N=3, K=0)),
    ("gemv", dict(M=35, K=300)),
    ("gemv_t", dict(M=35, K=300)),
    ("dot", dict(N=5000)),
    ("batched_gemm_f16", dict(B=3, M=17, N=9, K=11)),
    *((name, IMAGE) for name in ("conv2d", "conv2d_nhwc_f16", "conv2d_i8", "depthwise_conv2d")),
    ("grouped_conv2d", {**IMAGE, "G": 2}),
    ("max_pool2d", dict(N=2, C=3, H=9, W=11)),
    ("mttkrp", dict(I=9, J=4, K=7, R=5)),
    ("contract_4d", dict(A=3, B=4, C=5, D=2, E=6, F=3)),
    ("distances", dict(M=19, N=23, D=5)),
    *((name, HEADS) for name in ("attention", "causal_attention")),
    *((name, dict(M=5, N=700)) for name in ("softmax", "layernorm", "row_sum", "row_argmax", "row_logsumexp")),
    *((name, dict(M=300, N=37)) for name in ("col_sum", "full_max", "transpose", "add_row", "stencil5", "tril")),
    ("permute_210", dict(A=5, B=6, C=70)),
    ("copy", dict(N=1000)),
    ("row_any", dict(M=3, N=70)),
]
SLOW = {"conv2d_i8", "causal_attention", "layernorm", "gemm_tt", "gemm_axpby"}  # to interpret as another machine's


def named(name: str, sizes: dict[str, int]) -> str:
    return f"{name}-{'x'.join(map(str, sizes.values()))}"


@pytest.mark.parametrize(
    ("name", "sizes", "device"),
    [
        pytest.param(*CASES[n], device, id=f"{named(*CASES[n])}-{device}")
        for n, d in rotated(range(len(CASES)), ["sm_80", "gfx90a"])
        for device in ["sm_80" if CASES[n][0] in SLOW else d]
    ],
)
def test_right(name: str, sizes: dict[str, int], device: str) -> None:
    op = op_of(name)
    env = op.all_sizes(sizes)
    rng = np.random.default_rng(1)
    arrays = {t.name: rng.integers(-3, 4, [int(e.evaluate(env)) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    faults: list = []
    out = interpret(compiled(name, device).program, arrays, sizes=sizes, on_fault=faults)
    want = reference(op)(*arrays.values())
    assert not faults
    for got, w in zip(out.values(), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(np.asarray(got, "f8"), np.asarray(w, "f8"), rtol=1e-2, atol=1e-2)


# Long, thin and tiny ones, fixed when compiled, as far as a processor can play them: split reductions, single rows, odd tails.
EXTREME = [
    ("gemm", dict(M=1, N=35, K=20000)),
    ("gemm_f16", dict(M=1, N=35, K=20000)),
    ("gemm_f16", dict(M=4, N=300, K=4099)),
    ("gemm_f16_nt", dict(M=3001, N=1, K=5)),
    ("gemm_i8", dict(M=1, N=35, K=9001)),
    ("gemm_f64", dict(M=2, N=3, K=5000)),
    ("gemm_bf16_f32", dict(M=35, N=35, K=35)),
    ("gemv", dict(M=1, K=100003)),
    ("gemv_t", dict(M=35, K=20001)),
    ("gemv_f16", dict(M=20001, K=1)),
    ("dot", dict(N=200003)),
    ("batched_gemm_f16", dict(B=35, M=1, N=35, K=500)),
    ("softmax", dict(M=1, N=100003)),
    ("softmax", dict(M=5001, N=1)),
    ("layernorm", dict(M=2, N=35001)),
    ("row_argmax", dict(M=1, N=100003)),
    ("col_sum", dict(M=50001, N=1)),
    ("full_sum", dict(M=5001, N=35)),
    ("transpose", dict(M=1, N=50001)),
    ("add_row", dict(M=50001, N=1)),
    ("conv2d_nhwc_f16", dict(N=1, C=3, H=33, W=31, O=35, R=7, S=7)),
    ("conv2d", dict(N=1, C=600, H=1, W=1, O=100, R=1, S=1)),
    ("attention", dict(H=1, Q=1, T=3001, D=35)),
    ("attention", dict(H=1, Q=70, T=600, D=64)),
]


@pytest.mark.parametrize(
    ("name", "sizes", "device"),
    [
        pytest.param(*EXTREME[n], device, id=f"{named(*EXTREME[n])}-{device}")
        for n, device in rotated(range(len(EXTREME)), ["sm_80", "gfx90a", "sm_75", "gfx1100"])
    ],
)
def test_extreme_shapes_emulated(name: str, sizes: dict[str, int], device: str) -> None:
    kernel = compile(library(), name, None, f"emulate:{device}", None, **sizes)
    op = op_of(name)
    env = op.all_sizes(sizes)
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 4, [int(e.evaluate(env)) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
    out = kernel(*arrays)
    verdict = check(op, arrays, out if isinstance(out, tuple) else (out,))
    assert verdict.ok, verdict


# Every op with its sizes fixed when it is compiled, odd ones and nothing but ones, on one device of each vendor, all devices in
# turn; a part of them here, with ALL_OPS=1 all.
FIXED = [
    (name, devices[n % len(devices)], n + k)
    for k, devices in enumerate((NVIDIA, AMD))
    for n, name in enumerate(sorted(library().ops))
]
EVERY = 1 if os.environ.get("ALL_OPS") else 12


@pytest.mark.parametrize(("name", "device"), [x[:2] for x in FIXED if x[2] % EVERY == 0])
def test_fixed_sizes_emulated(name: str, device: str) -> None:
    op = op_of(name)
    for mode in ("odd", "one"):
        for sizes in sizes_of(name, mode):
            kernel = compile(library(), name, None, f"emulate:{device}", None, **sizes)
            arrays = random_inputs(op, sizes)
            out = kernel(*arrays)
            verdict = check(op, arrays, out if isinstance(out, tuple) else (out,))
            assert verdict.ok, (sizes, verdict)


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_squares_are_turned_in_registers(device: str) -> None:
    """With sizes that are multiples of a side, not of a tile."""
    sizes = dict(M=132, N=68)
    op = op_of("transpose", sizes)
    found = (c.schedule for c in candidate_schedules(op, library().device(device)))
    schedule = next(s for s in found if s is not None and "tile j: 4, i: 4 -> thread" in format_node(s))
    (x,) = random_inputs(op, sizes)
    out = compile(library(), "transpose", schedule, f"emulate:{device}", None, **sizes)(x)
    np.testing.assert_array_equal(out, x.T)


# A product whose left factor is computed in the fragments of an instruction: nothing is padded along the reduction.
EXPONENTIALS = """
import std.devices.nvidia
import std.devices.amd
op f[M, N, K](X: f32[M, K], Y: f16[K, N]) -> (Z: f32[M, N]):
    Z[m, n] = sum(k) f32(f16(exp(X[m, k]))) * f32(Y[k, n])
schedule sm_80 for f on sm_80:
    auto
    compute with mma_m16n8k16_f16
schedule gfx90a for f on gfx90a:
    auto
    compute with mfma_16x16x16_f16
"""


@pytest.mark.every_second
@pytest.mark.parametrize("sizes", [(1, 1, 16), (33, 40, 48), (65, 17, 4096), (0, 5, 32), (16, 72, 64)])
@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_factors_computed_in_fragments(device: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    kernel = compile(loads(EXPONENTIALS), "f", device, f"emulate:{device}", None, M=m, N=n, K=k)
    leaves = [x for x in kernel.schedule.splitlines() if "compute with m" in x]
    assert len(leaves) == 1
    assert "Z.left" not in kernel.schedule
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((m, k)).astype("f4"), rng.integers(-3, 4, (k, n)).astype("f2")
    out = kernel(x, y, out=np.full((m, n), np.nan, "f4"))
    np.testing.assert_allclose(out, np.exp(x).astype("f2").astype("f8") @ y.astype("f8"), rtol=1e-3, atol=1e-3 * k**0.5)
