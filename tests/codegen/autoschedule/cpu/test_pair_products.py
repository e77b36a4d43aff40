"""Products of 8 and 16 bits on CPUs: by an instruction that multiplies and adds neighbours along the sum in pairs.

An odd number of terms leaves half a pair, which counts as zero. What is more than 32 bits hold wraps, as sums of i32 do: the
largest pair of i16, `2 * (-32768)**2`, is 2^31.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from andiron import compile, loads
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.ops.specialise import bind_params, specialise

from ....support.cpp.build import run_here, skip_unless_run_here
from ....support.rotation import rotated

OPS = """
import std.ops.gemm
import std.ops.conv

op gemm_i16[M, N, K](A: i16[M, K], B: i16[K, N]) -> (C: i32[M, N]):
    C[m, n] = sum(k) i32(A[m, k]) * i32(B[k, n])
op gemm_i8_nt[M, N, K](A: i8[M, K], B: i8[N, K]) -> (C: i32[M, N]):
    C[m, n] = sum(k) i32(A[m, k]) * i32(B[n, k])
op gemm_i8_tn[M, N, K](A: i8[K, M], B: i8[K, N]) -> (C: i32[M, N]):
    C[m, n] = sum(k) i32(A[k, m]) * i32(B[k, n])
op batched_i8[B, M, N, K](X: i8[B, M, K], Y: i8[B, K, N]) -> (Z: i32[B, M, N]):
    Z[b, m, n] = sum(k) i32(X[b, m, k]) * i32(Y[b, k, n])
op conv2d_nhwc_i8[N, C, H, W, O, R, S](I: i8[N, H, W, C], F: i8[O, R, S, C], stride: int = 1, pad: int = 0)
        -> (Y: i32[N, P, Q, O])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, p, q, o] = sum(r, s, c) i32(I[n, p*stride + r - pad, q*stride + s - pad, c else 0]) * i32(F[o, r, s, c])
op conv2d_nhwc_u8[N, C, H, W, O, R, S](I: u8[N, H, W, C], F: i8[O, R, S, C]) -> (Y: i32[N, P, Q, O])
        where P = H - R + 1, Q = W - S + 1:
    Y[n, p, q, o] = sum(r, s, c) i32(I[n, p + r, q + s, c]) * i32(F[o, r, s, c])
op wide[M, N, K](A: i8[M, K], B: i8[K, N]) -> (C: i64[M, N]):
    C[m, n] = sum(k) i64(A[m, k]) * i64(B[k, n])
"""
PRODUCTS = {
    "gemm_i8": "mk,kn->mn", "gemm_u8i8": "mk,kn->mn", "gemm_i16": "mk,kn->mn", "wide": "mk,kn->mn",
    "gemm_i8_nt": "mk,nk->mn", "gemm_i8_tn": "km,kn->mn", "batched_i8": "bmk,bkn->bmn",
}  # fmt: skip
CPUS = ("cpu:avx2", "cpu:avx512")
HERE = run_here(*CPUS)


@cache
def module():
    return loads(OPS, "<test>")


def compiled(name: str, device: str, sizes: dict[str, int]):
    op = module().ops[name]
    params = {k: v for k, v in sizes.items() if k in dict(op.params)}
    op = specialise(bind_params(op, params), {k: v for k, v in sizes.items() if k not in params})
    return compile_program(module(), op, None, module().device(device))


def fixed(name: str, device: str, sizes: dict[str, int]) -> Any:
    return compile(module(), op=name, target=device, threads=1, **sizes)  # pyright: ignore[reportArgumentType]


def extremes(dtype, shape: tuple[int, ...], kind: str, rng) -> np.ndarray:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if kind == "lowest":
        return np.full(shape, low, dtype)
    if kind == "ends":
        return rng.choice(np.array([low, high], dtype), shape)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def inputs(name: str, sizes: dict[str, int], kind: str) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name) + sum(sizes.values()))
    found = []
    for t in module().ops[name].inputs:
        shape = tuple(int(e.evaluate(sizes)) for e in t.shape)
        found.append(extremes(t.dtype.numpy, shape, kind, rng))
    return found


def wrapped(exact: np.ndarray, dtype) -> np.ndarray:
    return exact.astype(np.int64).astype(dtype)


def product(name: str, arrays: list[np.ndarray]) -> np.ndarray:
    return np.einsum(PRODUCTS[name], *(x.astype(np.int64) for x in arrays))


def convolution(image: np.ndarray, filters: np.ndarray, stride: int, pad: int) -> np.ndarray:
    """Of images and filters with channels last, place by place of the filter."""
    image = np.pad(image.astype(np.int64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    _, rows, columns, _ = filters.shape
    high, wide = ((n - f) // stride + 1 for n, f in zip(image.shape[1:3], (rows, columns), strict=True))
    total = np.zeros((image.shape[0], high, wide, len(filters)), np.int64)
    for r in range(rows):
        for s in range(columns):
            window = image[:, r : r + high * stride : stride, s : s + wide * stride : stride][:, :high, :wide]
            total += np.einsum("npqc,oc->npqo", window, filters[:, r, s].astype(np.int64))
    return total


def check_product(name: str, device: str, sizes: dict[str, int], kind: str = "any") -> None:
    skip_unless_run_here(device)
    arrays = inputs(name, sizes, kind)
    kernel = fixed(name, device, sizes)
    exact = product(name, arrays)
    np.testing.assert_array_equal(kernel(*arrays), wrapped(exact, np.int64 if name == "wide" else np.int32))


@pytest.mark.parametrize(("k", "device"), rotated([0, 1, 2, 3, 515, 260], HERE))
def test_any_number_of_terms(k, device):
    check_product("gemm_i8", device, dict(M=37, N=41, K=k))


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["cpu", *CPUS])  # the machine at hand may have one for pairs and the sum
@pytest.mark.parametrize("kind", ["lowest", "ends"])
@pytest.mark.parametrize("name", ["gemm_i8", "gemm_u8i8", "gemm_i16"])
def test_the_largest_pairs(device, kind, name):
    check_product(name, device, dict(M=33, N=35, K=7), kind)


@pytest.mark.parametrize("device", CPUS)
@pytest.mark.parametrize("name", ["gemm_i8_nt", "gemm_i8_tn", "batched_i8", "wide"])
def test_other_operands(device, name):
    check_product(name, device, dict(M=65, N=43, K=21) | (dict(B=3) if name == "batched_i8" else {}))


@pytest.mark.parametrize(("size", "device"), rotated([(0, 33), (33, 0), (1, 65), (9, 9), (65, 1), (129, 127)], HERE))
def test_few_rows_and_columns(size, device):
    check_product("gemm_i8", device, dict(M=size[0], N=size[1], K=5))


@pytest.mark.parametrize("device", CPUS)
def test_open_sizes(device):
    skip_unless_run_here(device)
    kernel = compile(module(), op="gemm_i8", target=device, threads=1)
    for m, n, k in ((37, 41, 515), (64, 64, 64), (1, 1, 1), (33, 70, 0), (40, 3, 9), (0, 5, 5)):
        arrays = inputs("gemm_i8", dict(M=m, N=n, K=k), "ends")
        np.testing.assert_array_equal(kernel(*arrays), wrapped(product("gemm_i8", arrays), np.int32))


WINDOWS = {
    "one channel": dict(N=2, C=1, H=9, W=11, O=35, R=3, S=3, pad=1),
    "odd": dict(N=1, C=19, H=9, W=23, O=33, R=3, S=3, pad=1),
    "even": dict(N=1, C=16, H=12, W=16, O=32, R=3, S=3, pad=1),
    "strided": dict(N=1, C=5, H=19, W=21, O=17, R=3, S=3, stride=2, pad=1),
    "one element": dict(N=1, C=37, H=7, W=15, O=33, R=1, S=1),
    "one filter": dict(N=1, C=5, H=9, W=33, O=1, R=3, S=3, pad=1),
    "many": dict(N=1, C=131, H=7, W=7, O=65, R=3, S=3, pad=1),
}


IMAGES = [(name, case) for case in WINDOWS for name in ("conv2d_i8", "conv2d_nhwc_i8", "conv2d_nhwc")]


@pytest.mark.parametrize(("image", "device"), rotated(IMAGES, HERE))
def test_convolutions(image, device):
    skip_unless_run_here(device)
    name, case = image
    sizes = WINDOWS[case]
    first = name == "conv2d_i8"
    arrays = inputs(name, sizes, "any") if name != "conv2d_nhwc" else small(name, sizes)
    image, filters = (np.moveaxis(x, 1, -1) if first else x for x in arrays)
    expected = convolution(image, filters, sizes.get("stride", 1), sizes.get("pad", 0))
    kernel = fixed(name, device, sizes)
    got = kernel(*arrays)
    np.testing.assert_array_equal(got, np.moveaxis(expected, -1, 1) if first else expected)


def small(name: str, sizes: dict[str, int]) -> list[np.ndarray]:
    """Floats whose sums are exact."""
    rng = np.random.default_rng(1)
    shapes = [tuple(int(e.evaluate(sizes)) for e in t.shape) for t in module().ops[name].inputs]
    return [rng.integers(-8, 9, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("device", CPUS)
def test_unsigned_images(device):
    skip_unless_run_here(device)
    sizes = dict(N=1, C=7, H=9, W=13, O=33, R=3, S=3)
    for kind in ("lowest", "ends"):
        image, filters = inputs("conv2d_nhwc_u8", sizes, kind)
        kernel = fixed("conv2d_nhwc_u8", device, sizes)
        np.testing.assert_array_equal(kernel(image, filters), convolution(image, filters, 1, 0))


@pytest.mark.parametrize(("name", "device"), rotated(["gemm_i8", "conv2d_i8", "conv2d_nhwc_i8"], CPUS))
def test_the_interpreter_says_the_same(device, name):
    sizes = dict(M=37, N=41, K=5) if name == "gemm_i8" else dict(N=1, C=3, H=3, W=5, O=33, R=3, S=3, pad=1)
    arrays = inputs(name, sizes, "ends")
    made = compiled(name, device, sizes)
    check_well_formed(made.program)
    params = {k: v for k, v in sizes.items() if k in dict(module().ops[name].params)}
    check_once(made.program, bind_params(module().ops[name], params), sizes)
    names = [t.name for t in module().ops[name].inputs]
    (got,) = interpret(made.program, dict(zip(names, arrays, strict=True))).values()
    if name == "gemm_i8":
        expected = wrapped(product(name, arrays), np.int32)
    else:
        first = name == "conv2d_i8"
        image, filters = (np.moveaxis(x, 1, -1) if first else x for x in arrays)
        expected = convolution(image, filters, 1, 1)
        expected = np.moveaxis(expected, -1, 1) if first else expected
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["gemm_i8", "gemm_u8i8", "gemm_i8_nt", "conv2d_i8", "conv2d_nhwc_i8"])
def test_pairs_are_what_the_device_says(name):
    sizes = dict(M=64, N=64, K=64) if name.startswith("gemm") else dict(N=1, C=16, H=16, W=16, O=32, R=3, S=3, pad=1)
    assert "compute with dot2_i16x8" in compiled(name, "cpu:avx2", sizes).schedule
    assert "_i16 in dram" in compiled(name, "cpu:avx2", sizes).schedule
    assert "i16" not in compiled(name, "cpu:generic", sizes).schedule
    assert "i16" not in compiled(name, "cpu:neon", sizes).schedule


def test_a_sum_of_more_bits_is_not_for_them():
    assert "dot2" not in compiled("wide", "cpu:avx2", dict(M=64, N=64, K=64)).schedule


SCHEDULE = """
schedule pairs for gemm_i8 on cpu:avx2:
    tile m: 12, n: 32 -> core
    tile k: 6
    move C.right_i16 -> l2 layout (n/16, k/2, n % 16, k % 2)
    move C.left_i16 -> l2
    tile n: 16
    tile m: 6
    keep C in register
    tile k: 2
    compute with dot
"""


@pytest.mark.parametrize("size", [(13, 33, 7), (12, 32, 6), (1, 1, 1), (5, 17, 0)])
def test_a_schedule_may_name_the_steps_itself(size):
    skip_unless_run_here("cpu:avx2")
    sizes = dict(zip("MNK", size, strict=True))
    arrays = inputs("gemm_i8", sizes, "ends")
    kernel: Any = compile(
        loads(OPS + SCHEDULE, "<test>"), op="gemm_i8", schedule="pairs", target="cpu:avx2", threads=1, **sizes
    )
    np.testing.assert_array_equal(kernel(*arrays), wrapped(product("gemm_i8", arrays), np.int32))
    assert not sizes["K"] or "i__dot2_i16x8(" in kernel.source
    assert "in dram" not in kernel.schedule


def test_an_index_that_tiles_leave_enough_of_is_taken():
    """Of the filter's places and channels, all of which are summed up, pairs are of the index whose tile has two."""
    made = compiled("conv2d_i8", "cpu:avx2", dict(N=1, C=16, H=16, W=16, O=32, R=3, S=3, pad=1))
    assert "tile c: 2, r: 1, s: 1" in made.schedule
    assert "layout panels(c: 2)" in made.schedule
