"""Operands in registers, where the block of a result and the product after it have instructions of different depths."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

PASS = """import std.ops.attention
schedule s for attention on gfx950 where D <= 64:
    tile h: 1, i: 32 -> block
    keep m, l, o in register
    tile t: 64 online
    move k -> shared pad 8
    move v -> shared layout (h, d, t) pad 4
    tile i: 16 -> wave
    move q -> register
    keep s in register:
        tile d: {scores} unroll
        compute with mfma_16x16x{scores}_f16
    tile t: {sums} unroll
    keep p, o.left1 in register
    compute with mfma_16x16x{sums}_f16
"""


@pytest.mark.parametrize(("scores", "sums"), [(16, 32), (32, 16), (32, 32)])
def test_queries_lie_as_the_instruction_of_the_scores_reads_them(scores: int, sums: int) -> None:
    kernel = compile(loads(PASS.format(scores=scores, sums=sums)), op="attention", schedule="s", target="emulate:gfx950")
    rng = np.random.default_rng(scores)
    for rows, keys, features in ((19, 37, 64), (1, 1, 3), (33, 65, 40)):
        q, k, v = (rng.normal(size=(2, n, features)).astype(np.float16) for n in (rows, keys, keys))
        s = np.einsum("hid,htd->hit", q.astype(float), k.astype(float)) / np.sqrt(features)
        p = np.exp(s - s.max(-1, keepdims=True))
        want = p / p.sum(-1, keepdims=True) @ v.astype(float)
        np.testing.assert_allclose(kernel(q, k, v).astype(float), want, atol=2e-3)
