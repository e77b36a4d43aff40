"""Ops at odd sizes, on CPUs with vectors: right, and by whole vectors, with masks or counts at edges and no loop over lanes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ..support.cpp.build import run_here, skip_unless_run_here
from ..support.rotation import rotated

pytestmark = pytest.mark.usefixtures("first_choices")

OPS = """
import std.ops.gemm
import std.ops.conv
import std.ops.pool
import std.ops.stencil

op depthwise_nhwc[N, C, H, W, R, S](I: f32[N, H, W, C], F: f32[R, S, C], stride: int = 1, pad: int = 1)
        -> (Y: f32[N, P, Q, C])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, p, q, c] = sum(r, s) I[n, p*stride + r - pad, q*stride + s - pad, c else 0] * F[r, s, c]
op conv2d_nhwc_i8[N, C, H, W, O, R, S](I: i8[N, H, W, C], F: i8[O, R, S, C], stride: int = 1, pad: int = 0)
        -> (Y: i32[N, P, Q, O])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, p, q, o] = sum(r, s, c) i32(I[n, p*stride + r - pad, q*stride + s - pad, c else 0]) * i32(F[o, r, s, c])
op causal[B, T, D, K](X: f32[B, T, D], W: f32[D, K]) -> (Y: f32[B, T, D]):
    Y[b, t, d] = sum(k) X[b, t + k - 3, d else 0] * W[d, k]
op causal_last[B, D, T, K](X: f32[B, D, T], W: f32[D, K]) -> (Y: f32[B, D, T]):
    Y[b, d, t] = sum(k) X[b, d, t + k - 3 else 0] * W[d, k]
op turned[M, N](X: f32[N, M]) -> (Y: f32[M, N]):
    Y[m, n] = X[n, m] * 2
op third[M, L](X: f32[M, L]) -> (Y: f32[M, N]) where N = L / 3:
    Y[m, n] = X[m, 3*n] + X[m, 3*n + 1] + X[m, 3*n + 2]
op padded_third[M, L](X: f32[M, L]) -> (Y: f32[M, N]) where N = L / 3:
    Y[m, n] = X[m, 3*n - 4 else 0] + X[m, 3*n + 7 else 0]
"""

CASES = {
    "depthwise_nhwc": dict(N=1, C=37, H=11, W=9, R=3, S=3),
    "depthwise_nhwc strided": dict(N=3, C=5, H=11, W=9, R=3, S=3, stride=2),
    "depthwise_conv2d": dict(N=1, C=7, H=13, W=21, R=3, S=3, pad=1),
    "causal": dict(B=1, T=33, D=45, K=4),
    "causal_last": dict(B=3, D=5, T=37, K=4),
    "conv2d_nhwc": dict(N=1, C=5, H=9, W=7, O=33, R=3, S=3, pad=1),
    "conv2d": dict(N=1, C=5, H=9, W=7, O=11, R=3, S=3, pad=1),
    "conv2d_i8": dict(N=1, C=19, H=9, W=7, O=33, R=3, S=3, pad=1),
    "conv2d_f16": dict(N=1, C=19, H=9, W=7, O=33, R=3, S=3, pad=1),
    "conv2d_nhwc_i8": dict(N=1, C=19, H=9, W=7, O=33, R=3, S=3, pad=1),
    "conv2d_nhwc_f16": dict(N=1, C=19, H=9, W=7, O=33, R=3, S=3, pad=1),
    "turned": dict(M=35, N=21),
    "third": dict(M=5, L=137),
    "padded_third": dict(M=5, L=137),
    "max_pool2d": dict(N=1, C=3, H=17, W=33),
    "max_pool2d padded": dict(N=1, C=3, H=17, W=33, size=3, stride=2, pad=1),
    "avg_pool2d": dict(N=1, C=3, H=17, W=33, size=3, stride=1, pad=1),
    "blur3x3": dict(M=17, N=43),
    "stencil5": dict(M=17, N=43),
}
# A vector that crosses lines of an image is no run of memory, and its edges are no range of lanes.
APART = {"conv2d", "conv2d_i8", "conv2d_f16"}


@cache
def module():
    return loads(OPS, "<test>")


def text(name: str, device: str, fixed: bool) -> str:
    op, sizes = module().ops[name.split()[0]], CASES[name]
    params = {k: v for k, v in sizes.items() if k in dict(op.params)}
    op = bind_params(op, params)
    op = specialise(op, {k: v for k, v in sizes.items() if k not in params}) if fixed else op
    return emit(compile_program(module(), op, None, module().device(device)).program)


@pytest.mark.parametrize(
    ("name", "target"),
    rotated(CASES, [f"{t} {s}" for s in ("open", "fixed") for t in run_here("cpu:avx2", "cpu:avx512", "cpu:generic")]),
)
def test_right(name, target):
    target, form = target.split()
    skip_unless_run_here(target)
    op, sizes = name.split()[0], CASES[name]
    params = {k: v for k, v in sizes.items() if k in dict(module().ops[op].params)}
    given = params if form == "open" else sizes
    kernel = compile(module(), op=op, target=target, threads=1, **given)  # pyright: ignore[reportArgumentType]
    inputs = random_inputs(kernel.op, {k: v for k, v in sizes.items() if k not in params})
    expected = listed(reference(kernel.op)(*inputs))[0]
    out = np.full(expected.shape, -1 if expected.dtype.kind == "i" else np.nan, expected.dtype)
    kernel(*inputs, out=out)
    exact = 1e-3 if expected.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(out, expected, rtol=exact, atol=exact)


@pytest.mark.parametrize("name", ["conv2d_i8", "conv2d_f16", "conv2d_nhwc_i8", "conv2d_nhwc_f16"])
def test_windows_are_converted_once(name):
    """A tensor of 8 or 16 bits is converted as it is, not once for each window; and the schedule says so, and is read back."""
    sizes = CASES[name] | {"pad": 1}
    kernel = compile(module(), op=name, target="cpu:avx2", threads=1, **sizes)  # pyright: ignore[reportArgumentType]
    made = f"keep Y.I_{'i16' if name.endswith('i8') else 'f32'} in dram:"
    assert made in kernel.schedule
    again = loads(OPS + kernel.schedule, "<again>")
    other = compile(again, op=name, schedule=f"{name}_auto", target="cpu:avx2", threads=1, **sizes)  # pyright: ignore
    assert other.schedule == kernel.schedule
    assert other.source == kernel.source


def test_few_reads_convert_as_they_read():
    text = """
op blur[N](X: f16[N]) -> (Y: f32[M]) where M = N - 2:
    Y[i] = sum(r: 3) f32(X[i + r]) * f32(X[i])
"""
    assert "keep Y.X_f32" not in compile(loads(text, "<test>"), target="cpu:avx2", threads=1, N=1001).schedule


def listed(x):
    return x if isinstance(x, (list, tuple)) else [x]


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("name", [n for n in CASES if n.split()[0] not in APART])
def test_no_loop_over_lanes(name, device):
    made = text(name, device, True)
    assert re.search(r"\b(store|load)_?\w*\(", made)
    assert not re.search(r"for \(\w+ lane = ", made), made[made.index("static void launch") :]


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("name", ["depthwise_nhwc", "causal"])
def test_windows_that_are_inside_ask_nothing(name, device):
    """One version of what a window adds up asks nothing, not even for parts of vectors; another one only for these."""
    made = text(name, device, True)
    asked = [body for body in unrolled_loops(made) if "fma(" in body]
    assert any("?" not in body and "if (" not in body and "part" not in body for body in asked), made
    assert any("?" not in body and "if (" not in body and "part" in body for body in asked), made


def unrolled_loops(made: str) -> list[str]:
    """What stands in each loop that is written out, and in no loop but such ones."""
    lines = made[made.index("static void launch") :].splitlines()
    found = []
    for n, line in enumerate(lines):
        if line.strip().startswith("m_unroll("):
            indent = lines[n + 1][: len(lines[n + 1]) - len(lines[n + 1].lstrip())]
            end = next(m for m in range(n + 2, len(lines)) if lines[m] == f"{indent}}}")
            found.append("\n".join(lines[n + 1 : end]))
    return found


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("sizes", [(5, 7, 3, 3), (1, 1, 1, 3), (9, 1, 5, 7), (0, 3, 3, 3), (33, 9, 2, 3)])
def test_short_rows_are_one_after_another(sizes, device):
    """Where all tensors lie alike, what is computed point by point has one remainder, not one for each row."""
    skip_unless_run_here(device)
    op = """
op widened[A, B, C, D](X: i8[A, B, C, D], Z: i8[A, B, C, D]) -> (Y: i16[A, B, C, D]):
    Y[a, b, c, d] = i16(X[a, b, c, d]) * 3 - i16(Z[a, b, c, d])
"""
    rng = np.random.default_rng(0)
    x, z = (rng.integers(-128, 128, sizes).astype(np.int8) for _ in range(2))
    a, b, c, d = sizes
    kernel = compile(loads(op, "<test>"), op="widened", target=device, threads=1, A=a, B=b, C=c, D=d)
    out = np.full(sizes, 12345, np.int16)
    kernel(x, z, out=out)
    np.testing.assert_array_equal(out, x.astype(np.int16) * 3 - z)
    assert ("fuse a, b, c, d as abcd" in kernel.schedule) == (0 not in sizes)


def test_rows_that_lie_apart_stay_rows():
    op = """
op turned[A, B](X: f32[B, A]) -> (Y: f32[A, B]):
    Y[a, b] = X[b, a] * 2
op cut[A, L](X: f32[A, L]) -> (Y: f32[A, B]) where B = L - 1:
    Y[a, b] = X[a, b] * 2
"""
    for name, sizes in (("turned", dict(A=7, B=3)), ("cut", dict(A=7, L=4))):
        kernel: Any = compile(loads(op, "<test>"), op=name, target="cpu:avx2", threads=1, **sizes)  # pyright: ignore
        assert "fuse" not in kernel.schedule
