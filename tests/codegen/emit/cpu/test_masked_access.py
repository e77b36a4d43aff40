"""Vectors over the edges of images: loads of a range of lanes (`load_between`), zeros around them."""

import andiron
import numpy as np
import pytest

from ....support.cpp.build import skip_unless_run_here
from ....support.guarded_arrays import HERE, before_guard_page, exit_code

OP = """
op blur[C, W, S](I: f32[C, W], F: f32[C, S], pad: int = 1) -> (Y: f32[C, Q])
        where Q = W + 2*pad - S + 1:
    Y[c, q] = sum(s) I[c, q + s - pad else 0] * F[c, s]

schedule rows for blur:
    tile c: 1 -> core
    tile q: 32
    keep Y in register
    tile s: 1
    tile q: 1 -> lane
    compute

schedule staged for blur:
    tile c: 2, q: 40 -> core
    move I -> l2
    tile c: 1
    tile q: 32
    keep Y in register
    tile s: 1
    tile q: 1 -> lane
    compute
"""


def expected(image, filters, pad):
    padded = np.pad(image, ((0, 0), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, filters.shape[1], axis=1)
    return np.einsum("cqs,cs->cq", windows, filters)


@pytest.mark.every_second
@pytest.mark.parametrize("schedule", ["rows", "staged"])
@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:generic"])
def test_every_width_of_image_and_of_pad(target, schedule):
    skip_unless_run_here(target)
    rng = np.random.default_rng(1)
    for pad, window in ((1, 3), (20, 5), (0, 4)):
        k = andiron.compile(OP, schedule=schedule, target=target, threads=1, pad=pad, S=window)
        assert pad == 0 or "load_between" in k.source
        for width in (4, 7, 15, 16, 17, 33, 50):
            image = rng.standard_normal((3, width), dtype=np.float32)
            filters = rng.standard_normal((3, window), dtype=np.float32)
            # What lies around the image is not read: it would show.
            room = np.full((5, width), np.nan, np.float32)
            room[1:4] = image
            np.testing.assert_allclose(k(room[1:4], filters), expected(image, filters, pad), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:generic"])
def test_windows_of_an_image_as_it_lies(target):
    """Places of all lines are one index, so vectors cross the ends of lines: what lies outside is masked, lane by lane."""
    skip_unless_run_here(target)
    rng = np.random.default_rng(2)
    for height, width, window in ((7, 7, 3), (3, 9, 5), (5, 18, 3)):
        sizes = {"N": 1, "C": 3, "H": height, "W": width, "O": 13, "R": window, "S": window}
        k = andiron.compile(
            WINDOWS, op="conv2d", schedule="gathered", target=target, threads=1, stride=1, pad=window // 2, **sizes
        )
        assert "load_where" in k.source
        room = np.full((3, 3, height, width), np.nan, np.float32)
        room[1] = rng.standard_normal((3, height, width), dtype=np.float32)
        filters = rng.standard_normal((13, 3, window, window), dtype=np.float32)
        padded = np.pad(room[1:2], ((0, 0), (0, 0), *[(window // 2,) * 2] * 2))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))
        want = np.einsum("ncpqrs,ocrs->nopq", windows, filters)
        np.testing.assert_allclose(k(room[1:2], filters), want, rtol=1e-4, atol=1e-5)


WINDOWS = """
import std.ops.conv
schedule gathered for conv2d:
    fuse p, q as pq
    fuse c, r, s as crs
    tile n: 1, o: 8, pq: 64 -> core
    tile crs: 12
    move I -> l2 layout panels(pq: 32):
        tile crs: 1
        tile pq: 1 -> lane
        compute
    tile pq: 32
    tile o: 4
    keep Y in register
    tile crs: 1
    tile o: 1 unroll 4
    tile pq: 1 -> lane
    compute
"""

ROWS = """
op sums[N, W](X: f32[3, N, W], B: f32[W]) -> (Y: f32[N, W]):
    Y[n, w] = sum(k) X[k, n, w] * B[w]
op scaled[N, W](X: f32[N, W], B: f32[W]) -> (Y: f32[N, W]):
    Y[n, w] = X[n, w] * B[w] + 1

schedule whole for sums:
    tile n: 1 -> core
    tile w: 64
    keep Y in register
    tile k: 1
    tile w: 1 -> lane
    compute
schedule held for scaled:
    tile n: 1 -> core
    tile w: 64
    keep Y in register
    tile w: 1 -> lane
    compute
"""


@pytest.mark.parametrize("op", ["sums", "scaled"])
@pytest.mark.parametrize("width", [1, 7, 16, 40, 56, 63])
def test_a_row_in_one_tile_has_no_vector_element_by_element(op, width):
    """Registers of the last vector are set in its first lanes; the others stay as they are."""
    k = andiron.compile(ROWS, op=op, target="cpu", threads=1, W=width)
    assert "_l[lane]" not in k.source
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 5, width) if op == "sums" else (5, width), dtype=np.float32)
    b = rng.standard_normal(width, dtype=np.float32)
    want = (x * b).sum(0) if op == "sums" else x * b + 1
    np.testing.assert_allclose(k(x, b), want, rtol=1e-5, atol=1e-5)


STEPS = """
op steps[C, W, S](I: f32[C, W], F: f32[C, S], stride: int = 2, pad: int = 1) -> (Y: f32[C, Q])
        where Q = (W + 2*pad - S) / stride + 1:
    Y[c, q] = sum(s) I[c, q*stride + s - pad else 0] * F[c, s]

schedule rows for steps:
    tile c: 1 -> core
    tile q: 32
    keep Y in register
    tile s: 1
    tile q: 1 -> lane
    compute
"""


@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:generic"])
def test_every_second_element_is_loaded_by_vectors(target):
    """Two loads of neighbours and a shuffle; no element beyond those wanted is read, at edges neither."""
    skip_unless_run_here(target)
    rng = np.random.default_rng(1)
    for pad, window in ((1, 3), (3, 7), (0, 1)):
        k = andiron.compile(STEPS, target=target, schedule="rows", threads=1, pad=pad, S=window)
        assert "load_even" in k.source
        assert "gather" not in k.source
        for width in (7, 8, 31, 32, 33, 63, 64, 65, 70):
            image = rng.standard_normal((3, width), dtype=np.float32)
            filters = rng.standard_normal((3, window), dtype=np.float32)
            room = np.full((5, width), np.nan, np.float32)
            room[1:4] = image
            got = k(room[1:4], filters)
            np.testing.assert_allclose(got, expected(image, filters, pad)[:, ::2], rtol=1e-5, atol=1e-5)


READS = {  # an op, the types and sizes of its inputs for an M, and the sizes known when it is compiled
    "a range of the lanes that take part": (
        "op f[M](A: f32[M]) -> (Y: f32[]):\n    t = sum(m) A[m]\n    u[m] = A[m] - t + A[m - 3 else 0]\n"
        "    Y = max(m) (A[m] + u[m else 0])\nschedule s for f:\n    tile m: 1\n",
        lambda m: [(np.float32, m)],
        {},
    ),
    "every second of them": (
        "op f[M, K](A: i32[K], B: i32[M]) -> (Y: i32[]):\n    Y = sum(m) (A[2 * m - 1 else 2] + B[m])",
        lambda m: [(np.int32, 4), (np.int32, m)],
        {"M": 3, "K": 4},
    ),
    "one for all lanes, where some vectors have none": (
        "op f[M](A: i64[M], C: i64[(M + 3) / 4]) -> (Y: i64[M]):\n    Y[m] = A[m + 300 else 1] - C[m / 4]",
        lambda m: [(np.int64, m), (np.int64, (m + 3) // 4)],
        {"M": 100},
    ),
}


@pytest.mark.every_second
@pytest.mark.skipif(not HERE, reason="no mprotect")
@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:generic"])
@pytest.mark.parametrize("name", READS)
def test_nothing_beyond_an_input_is_read(name, target):
    skip_unless_run_here(target)
    op, inputs, fixed = READS[name]
    k = andiron.compile(op, target=target, threads=1, **fixed)
    want = andiron.reference(andiron.loads(op).ops["f"])

    def calls():
        for m in [fixed["M"]] if fixed else range(1, 70):
            given = [(np.arange(size) % 7).astype(dtype) for dtype, size in inputs(m)]
            for at_end in (True, False):
                np.testing.assert_array_equal(k(*(before_guard_page(a, at_end) for a in given)), want(*given))

    assert exit_code(calls) == 0


@pytest.mark.parametrize(("height", "channels"), [(16, 4), (16, 3), (7, 4), (5, 2)])
def test_rows_that_a_guard_lets_through_are_copied(height, channels):
    """g++ 12.2 makes them 0 with its if-conversion (`codegen.abi.GCC_FLAGS`)."""
    skip_unless_run_here("cpu:avx2")
    text = """
op down[H, C](X: f32[H, C]) -> (Y: f32[H, C]):
    Y[h, c] = X[h - 1, c else 0]

schedule s for down:
    move X -> l3
    compute
"""
    x = np.arange(1, 1 + height * channels, dtype=np.float32).reshape(height, channels)
    k = andiron.compile(text, schedule="s", target="cpu:avx2", threads=1, H=height, C=channels)
    np.testing.assert_array_equal(k(x), np.concatenate([np.zeros((1, channels), np.float32), x[:-1]]))
