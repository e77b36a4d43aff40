"""A step of argmax stores an index and a value: what both read is loaded in vectors, and steps go one after another."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ....support.library.cases import poisoned


def text(op: str, tile: str) -> str:
    return f"""op f[M, N](X: f32[M, N]) -> (Y: i64[M]):
    Y[i] = {op}(j) X[i, j]
schedule s for f on sm_80:
    tile i: 2 -> block
    keep Y in register
    tile j: 64
    {tile}
    compute
"""


ROWS = ["tile j: 4 -> thread", "tile i: 1, j: 4 -> thread", "tile j: 16 -> thread", "tile i: 1 -> thread"]


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("tile", ROWS)
def test_the_first_of_equals_and_nan(op: str, tile: str) -> None:
    kernel = andiron.compile(text(op, tile), target="emulate:sm_80")
    rng = np.random.default_rng(1)
    for m, n in [(3, 64), (5, 128), (2, 260), (3, 67), (4, 1), (0, 8)]:
        x = rng.integers(-2, 3, (m, n)).astype(np.float32)  # many are equal
        if m > 2:
            x[1, n // 2] = x[1, n - 1] = np.nan
            x[2] = -np.inf if op == "argmax" else np.inf
        out = poisoned((m,), np.dtype(np.int64))
        kernel(x, out=out)
        np.testing.assert_array_equal(out, getattr(np, op)(x, axis=1))


def test_vectors_are_loaded_once() -> None:
    kernel = andiron.compile(text("argmax", ROWS[1]), target="cuda:sm_80", sizes={"M": 8, "N": 128})
    kernel_text = kernel.source[kernel.source.index("__global__") :].split("_any")[0]
    assert "i__load_global_f32x4(X" in kernel_text
    assert "X_j1[" not in kernel_text
