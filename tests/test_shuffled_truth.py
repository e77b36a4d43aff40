"""Truth values that threads of a warp combine by shuffles, beside values of other types."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from .gpu_compilers import accepted

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
