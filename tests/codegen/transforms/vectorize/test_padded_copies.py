"""Padding is all or nothing for the channels that an instruction copies: every unit executes it, and it reads them or none.

Where a branch chose between the copy and zeros, compilers computed each address twice.
"""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.dsl.module import loads

from ....support.library.cases import poisoned

TEXT = """import std.devices.nvidia
op conv[N, H, W, C, O](X: f16[N, H, W, C], F: f16[O, 3, 3, C]) -> (Y: f32[N, H, W, O]):
    Y[n, p, q, o] = sum(r, s, c) f32(X[n, p + r - 1, q + s - 1, c else 0]) * f32(F[o, r, s, c])
schedule staged for conv on sm_80:
    fuse n, p, q as npq
    fuse r, s, c as rsc
    tile npq: 32, o: 16 -> block
    keep Y in register
    tile rsc: 16 pipeline 2
    move X -> shared with cp_async
    move F -> shared with cp_async
    tile npq: 16 -> warp
    move X -> register
    move F -> register
    compute with mma_m16n8k16_f16
"""


@pytest.mark.parametrize("sizes", [(1, 5, 3, 16, 8), (2, 4, 7, 32, 16), (1, 1, 1, 16, 3), (0, 3, 2, 16, 8), (1, 2, 3, 8, 5)])
def test_padded_channels_are_copied_whole_or_not(sizes: tuple[int, ...]) -> None:
    n, h, w, c, o = sizes
    kernel = andiron.compile(loads(TEXT), op="conv", schedule="staged", target="emulate:sm_80", sizes={"C": c})
    if c % 8 == 0:
        assert "cp_async_zero_f16x8" in {i.name for i in kernel.program.instrs}
        assert "i__cp_async_f16x8(X" not in kernel.source
    rng = np.random.default_rng(3)
    x, f = rng.normal(size=(n, h, w, c)).astype(np.float16), rng.normal(size=(o, 3, 3, c)).astype(np.float16)
    padded = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = np.zeros((n, h, w, o))
    for r, s in np.ndindex(3, 3):
        want += np.einsum("nhwc,oc->nhwo", padded[:, r : r + h, s : s + w], f[:, r, s].astype(float))
    out = poisoned((n, h, w, o), np.dtype(np.float32))
    kernel(x, f, out=out)
    np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-2)


def test_a_zero_with_a_sign_is_stored() -> None:
    text = "import std.devices.nvidia\nop f[N, C](X: f16[N, C]) -> (Y: f16[N, C]):\n    Y[n, c] = X[n - 1, c else -0.0]\n"
    text += "schedule s for f on sm_80:\n    tile n: 4, c: 16 -> block\n    move X -> shared with cp_async\n"
    text += "    tile n: 1, c: 1 -> thread\n    compute\n"
    kernel = andiron.compile(loads(text), op="f", schedule="s", target="emulate:sm_80", sizes={"C": 16})
    y = np.asarray(kernel(np.ones((5, 16), np.float16)))
    np.testing.assert_array_equal(np.signbit(y[0]), True)
    np.testing.assert_array_equal(y[1:], 1)
