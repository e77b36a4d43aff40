"""Fills and broadcasts: outputs with axes that nothing on the right has, on every CPU device of the library."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ..support.cpp.build import skip_unless_run_here

HEAD = "op spread[M, N](X: f32[M], Z: f32[N]) -> (Y: f32[M, N]):\n    Y[i, j] = "
CASES = {
    "X[i]": lambda x, z: x[:, None],
    "Z[j]": lambda x, z: z[None, :],
    "1.5": lambda x, z: np.float32(1.5),
    "f32(i)": lambda x, z: np.arange(len(x))[:, None],
    "f32(j)": lambda x, z: np.arange(len(z))[None, :],
}


@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("value", CASES)
def test_every_element_gets_it(value, target):
    skip_unless_run_here(target)
    kernel = andiron.compile(HEAD + value + "\n", target=target)
    for m, n in [(1, 1), (3, 37), (64, 96), (65, 0)]:
        x, z = np.arange(m, dtype=np.float32) - 3, np.arange(n, dtype=np.float32) + 7
        got = np.full((m, n), np.nan, np.float32)
        kernel(x, z, out=got)
        assert np.array_equal(got, np.broadcast_to(CASES[value](x, z), (m, n)))
