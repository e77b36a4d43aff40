"""Truth values that threads of a warp combine by shuffles, beside values of other types."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ....support.gpu.compilers import accepted

TEXT = """
op verdicts[M, N](X: f32[M, N]) -> (some: bool[M], every: bool[M], total: f32[M], first: i64[M]):
    some[i] = any(j) (X[i, j] > 3)
    every[i] = all(j) (X[i, j] > -3)
    total[i] = sum(j) X[i, j]
    first[i] = argmax(j) X[i, j]
"""
DEVICES = {"sm_80": "cuda", "sm_90a": "cuda", "gfx90a": "hip", "gfx1100": "hip"}


@pytest.mark.parametrize("device", DEVICES)
def test_compilers_take_it(device, tmp_path):
    source = andiron.compile(TEXT, target=f"{DEVICES[device]}:{device}").source
    assert "shfl_xor" in source or "m_shuffle_xor(bool" in source
    accepted(DEVICES[device], source, tmp_path, device)


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_right(device):
    kernel = andiron.compile(TEXT, target=f"emulate:{device}")
    x = np.random.default_rng(1).integers(-3, 5, (7, 45)).astype(np.float32)
    x[0], x[1] = 1, 4
    some, every, total, first = kernel(x)
    assert np.array_equal(some, (x > 3).any(1))
    assert np.array_equal(every, (x > -3).all(1))
    assert np.array_equal(total, x.sum(1))
    assert np.array_equal(first, x.argmax(1))


MANY = """
op meets[M, N, K](A: bool[M, K], B: bool[K, N]) -> (some: bool[M, N], every: bool[M, N]):
    some[m, n] = any(k) (A[m, k] and B[k, n])
    every[m, n] = all(k) (A[m, k] or B[k, n])

schedule s for meets where N <= 65:
    tile m: 8 -> block
    tile k: 24
    tile k: 4 -> thread
    compute
"""


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_more_registers_than_names(device):
    """8 x 65 accumulators are an array, and its elements are combined."""
    kernel = andiron.compile(MANY, target=f"emulate:{device}")
    rng = np.random.default_rng(2)
    a, b = rng.random((13, 37)) < 0.2, rng.random((37, 9)) < 0.2
    some, every = kernel(a, b)
    assert np.array_equal(some, (a[:, :, None] & b).any(1))
    assert np.array_equal(every, (a[:, :, None] | b).all(1))
