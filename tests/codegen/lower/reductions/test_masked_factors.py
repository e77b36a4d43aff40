"""MASKED factors: of a product under a sum, a staged factor is zero where the sum runs over, so only the others are masked."""

from __future__ import annotations

import re

import andiron
import numpy as np
import pytest

from ....support.library.cases import poisoned

# `W` is computed by each thread, so nothing fills it beyond the end of t; `V` is staged, and filled with zeros.
TEXT = """op f[M, T, D](S: f32[M, T], V: f32[T, D]) -> (O: f32[M, D]):
    W[i, t] = 1.0 / S[i, t]
    O[i, d] = sum(t) W[i, t] * V[t, d]
schedule s for f on sm_80:
    tile i: 8 -> block
    keep O in register
    tile t: 8
    move V -> shared
    keep W in register
    tile i: 1, d: 4 every 16 -> thread
    compute
"""


def source(text: str) -> str:
    kernel = andiron.compile(text, target="cuda:sm_80", sizes={"D": 16})
    return kernel.source[kernel.source.index("__global__") :].split("_any")[0]


def test_one_multiply_add_and_no_branch_around_loads() -> None:
    found = source(TEXT)
    sums = [line for line in found.splitlines() if re.search(r"\bo\[.*\] (=|\+=) .*v_shared", line)]
    assert sums
    assert all(" = fma(" in line for line in sums)
    assert any("? " in line and ": 0.0f" in line for line in sums)  # W is masked in the last tile
    loads = re.findall(r"if \([^{]*\) \{\s*i__load_shared", found)
    assert not loads


def test_no_branch_around_loads_of_a_domain() -> None:
    """Which terms count differs between rows; the elements are in the tile for all of them."""
    found = source(TEXT.replace("sum(t)", "sum(t where t <= i)"))
    assert re.search(r"<= .* \? fma\(.*v_shared", found)
    assert not re.findall(r"if \([^{]*\) \{\s*i__load_shared", found)


@pytest.mark.parametrize("sizes", [(8, 8, 16), (21, 13, 16), (1, 5, 16), (3, 0, 16)])
def test_terms_outside_of_a_domain_do_not_count(sizes: tuple[int, int, int]) -> None:
    m, t, d = sizes
    kernel = andiron.compile(TEXT.replace("sum(t)", "sum(t where t <= i)"), target="emulate:sm_80", sizes={"D": d})
    rng = np.random.default_rng(3)
    s, v = rng.uniform(0.5, 2, (m, t)).astype(np.float32), rng.normal(size=(t, d)).astype(np.float32)
    out = poisoned((m, d), np.dtype(np.float32))
    kernel(s, v, out=out)
    counts = np.arange(t)[None, :] <= np.arange(m)[:, None]
    np.testing.assert_allclose(out, (counts / s.astype(float)) @ v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(8, 8, 16), (9, 13, 16), (1, 1, 16), (3, 0, 16), (16, 7, 16)])
def test_what_is_beyond_the_end_does_not_count(sizes: tuple[int, int, int]) -> None:
    """There 1 / S is infinite, and V is 0."""
    m, t, d = sizes
    kernel = andiron.compile(TEXT, target="emulate:sm_80", sizes={"D": d})
    rng = np.random.default_rng(2)
    s, v = rng.uniform(0.5, 2, (m, t)).astype(np.float32), rng.normal(size=(t, d)).astype(np.float32)
    out = poisoned((m, d), np.dtype(np.float32))
    kernel(s, v, out=out)
    np.testing.assert_allclose(out, (1 / s.astype(float)) @ v, rtol=1e-5, atol=1e-5)
