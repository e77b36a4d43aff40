"""Every op of the library on every GPU of the library, with no schedule: it compiles, and asks for no more than the device has.

A part of the pairs here; ALL_OPS=1 takes them all, at sizes of every kind (`walk` does so and prints what fails).
"""

from __future__ import annotations

import os
from math import prod

import pytest
from andiron.codegen.ir.tile_ir import Alloc
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.library.unscheduled import GPUS, compiled, library
from ....support.library.unscheduled_walk import MODES, sizes_of, wrong

OPS = sorted(library().ops)
# One op of each kind of nest, and of each kind of operand.
KINDS = [
    *(
        "gemm",
        "gemm_f16",
        "gemm_f16_nt",
        "gemm_bf16_f32",
        "gemm_tf32",
        "gemm_f8",
        "gemm_i8",
        "gemm_u8i8",
        "gemm_f64",
        "gemm_tt",
    ),
    *("gemm_axpby", "gemv", "gemv_t", "dot", "outer", "batched_gemm_f16", "linear_gelu_f16", "conv2d", "conv2d_i8", "mttkrp"),
    *("conv2d_nhwc_f16", "depthwise_conv2d", "grouped_conv2d", "contract_4d", "distances", "attention", "causal_attention"),
    *("softmax", "layernorm_f16", "row_argmax", "full_max", "col_sum", "row_any", "transpose", "permute_210", "stencil5"),
    "max_pool2d",
]
# Each op on one device, with another start each, so that all devices have each kind; ALL_OPS=1: all on all.
EVERY = 1 if os.environ.get("ALL_OPS") else 13
PAIRS = [(name, device) for n, name in enumerate(OPS) for k, device in enumerate(GPUS) if (n + k) % EVERY == 0]
EXTREME = {
    "gemm": [dict(M=1, N=35, K=500000), dict(M=35, N=1, K=7), dict(M=100000, N=1, K=1), dict(M=1, N=1, K=1)],
    "gemm_f16": [dict(M=1, N=35, K=500000), dict(M=8192, N=8192, K=8192), dict(M=16, N=4096, K=1)],
    "gemv": [dict(M=1, K=500000), dict(M=500000, K=1), dict(M=35, K=35)],
    "softmax": [dict(M=1, N=500000), dict(M=500000, N=1), dict(M=35, N=4)],
    "col_sum": [dict(M=500000, N=1), dict(M=1, N=500000)],
    "full_sum": [dict(M=500000, N=35), dict(M=1, N=1)],
    "transpose": [dict(M=1, N=500000), dict(M=35, N=2)],
    "add_row": [dict(M=1, N=500000), dict(M=500000, N=1)],
    "conv2d_nhwc_f16": [dict(N=1, C=3, H=224, W=224, O=64, R=7, S=7), dict(N=64, C=1024, H=7, W=7, O=2048, R=1, S=1)],
    "conv2d": [dict(N=1, C=1, H=5000, W=4, O=1, R=3, S=3), dict(N=1, C=2048, H=1, W=1, O=1000, R=1, S=1)],
    "attention": [dict(H=1, Q=1, T=100000, D=64), dict(H=96, Q=2048, T=2048, D=128)],
    # more points than 64 bits count
    "conv2d_i8": [dict(N=4096, C=35, H=500000, W=4096, O=500000, R=3, S=2)],
    "contract_4d": [dict(A=500000, B=4096, C=500000, D=4096, E=500000, F=1)],
    "batched_gemm_f16": [dict(B=100000, M=4, N=4, K=4), dict(B=1, M=35, N=35, K=100000)],
}


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_it_fits(name: str, device: str) -> None:
    for mode in MODES if EVERY == 1 else [("open", "odd")[(OPS.index(name) + GPUS.index(device)) // EVERY % 2]]:
        for sizes in sizes_of(name, mode):
            assert wrong(compiled(name, device, sizes)) == [], sizes


@pytest.mark.every_second
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("device", ["sm_80", "gfx1100"])
def test_nothing_but_ones(device: str, name: str) -> None:
    for sizes in sizes_of(name, "one"):
        assert wrong(compiled(name, device, sizes)) == [], sizes


@pytest.mark.every_second
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", EXTREME)
@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_extreme_sizes(device: str, name: str) -> None:
    for sizes in EXTREME[name]:
        assert wrong(compiled(name, device, sizes)) == [], sizes


@pytest.mark.parametrize("kind", ["sum", "argmax"])
def test_the_parts_that_groups_exchange_fit(kind: str) -> None:
    """An index is exchanged with its value: of few bytes of shared memory fewer groups may share a row."""
    text = f"op f[N](A: f32[N]) -> (Y: {'f32' if kind == 'sum' else 'i64'}[]):\n    Y = {kind}(n) A[n]\n"
    text += "device small extends sm_80:\n    memory shared of block: 2 KiB\n"
    mod = loads("import std.devices.nvidia\n" + text)
    for n in (23, 700, 5000):
        program = compile_program(mod, specialise(mod.ops["f"], {"N": n}), None, mod.device("small")).program
        shared = [
            s.buffer for s in statements(program.launches[0].body) if isinstance(s, Alloc) and s.buffer.memory == "shared"
        ]
        assert n < 5000 or shared  # many groups share a long row


FEW = """import std.devices.amd
import std.devices.nvidia
op total[N](X: f32[N]) -> (Y: f32[]):
    Y = sum(n) X[n]
op rows[M, N](X: f32[M, N]) -> (Y: bool[M]):
    Y[m] = all(n) (X[m, n] > 0)
op turned[M, N](X: f32[M, N]) -> (Y: f32[N, M]):
    Y[n, m] = X[m, n] + 1
op matmul[M, N, K](A: f16[M, K], B: f16[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])
device wave extends gfx90a:
    memory register of thread: 32 x 4 B
    level block: at most 128 threads
device warp extends sm_80:
    memory register of thread: 24 x 4 B
    level block: at most 32 threads
"""


@pytest.mark.parametrize("device", ["wave", "warp"])
@pytest.mark.parametrize("op", ["total", "rows", "turned", "matmul"])
def test_few_registers_and_few_threads(op: str, device: str) -> None:
    """Where threads have fewer registers than are usually reserved, and blocks no more threads than a group or two."""
    mod = loads(FEW)
    for fixed in ({}, {v.name: 70 for v in mod.ops[op].dims}):
        program = compile_program(mod, specialise(mod.ops[op], fixed), None, mod.device(device)).program
        most = 128 if device == "wave" else 32
        for launch in program.launches:
            assert prod(u.count.constant or 1 for u in launch.units if u.level not in ("grid", "block")) <= most
