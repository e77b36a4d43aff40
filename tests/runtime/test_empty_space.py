"""A call at which a statement has no iteration ends at once, however many another of its indices would have."""

from __future__ import annotations

import subprocess
import sys

import pytest

HUGE = 1 << 40  # of an index of which no array has a byte
PRODUCT = "op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\\n    C[m, n] = sum(k) A[m, k] * B[k, n]\\n"
SUMS = "op f[M, K, L](A: f32[M, K, L]) -> (C: f32[M]):\\n    C[m] = sum(k, l) A[m, k, l]\\n"
MOST = "op f[M, K, L](A: f32[L, M, K]) -> (C: f32[M]):\\n    C[m] = max(k, l) A[l, m, k]\\n"
SCHEDULED = SUMS + "schedule s for f:\\n    tile k: 4\\n    compute\\n"
# the text, the shapes of the inputs, the result
CASES = {
    "no result": (PRODUCT, [(0, HUGE), (HUGE, 0)], "np.zeros((0, 0))"),
    "one row of no columns": (PRODUCT, [(1, 0), (0, 0)], "np.zeros((1, 0))"),
    "sums of nothing": (SUMS, [(2, HUGE, 0)], "np.zeros(2)"),
    "by a schedule": (SCHEDULED, [(2, HUGE, 0)], "np.zeros(2)"),
    "the largest of nothing": (MOST, [(0, 2, HUGE)], "np.full(2, -np.inf)"),
}


@pytest.mark.parametrize("target", ["cpu:generic", "emulate:sm_80"])
def test_nothing_takes_no_time(target):
    """Loops over `k` made 2^40 iterations around nothing, and the buffers of a split sum did not fit in memory."""
    code = "import andiron, numpy as np\n"
    for name, (text, shapes, result) in CASES.items():
        code += f'k = andiron.compile("{text}", target="{target}")\n'
        code += f"for _ in range(3):\n    y = k(*[np.zeros(s, np.float32) for s in {shapes}])\n"
        code += f"    assert np.array_equal(y, {result}), ({name!r}, y)\n"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
