"""Attention over blocks of keys: domains of quotients are one pass by default, which skips tiles without a key that counts."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.printer import show
from andiron.dsl.module import loads
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

OP = """
op attend[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D]):
    s[h, i, t] where DOMAIN = (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * 0.125
    m[h, i] = max(t where DOMAIN) s[h, i, t]
    p[h, i, t] where DOMAIN = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t where DOMAIN) p[h, i, t]
    o[h, i, e] = f16((sum(t where DOMAIN) f32(f16(p[h, i, t])) * f32(v[h, t, e])) / l[h, i])
"""
DOMAINS = ["t/4 <= i/4", "t/64 == i/64", "t/8 < i/8", "2*t <= i", "t/16 <= (i + T - Q)/16, t/16 + 2 > (i + T - Q)/16"]
SIZES = [(1, 5, 7, 3), (2, 70, 130, 33), (1, 1, 1, 1), (2, 65, 64, 16), (1, 3, 0, 8)]


@pytest.mark.fewest
@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx942", "cpu"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_right(domain: str, target: str) -> None:
    """Rows without a key too: those of the first blocks where `t/8 < i/8`."""
    kernel = compile(loads(OP.replace("DOMAIN", domain)), None, None, target)
    for n, (h, q, t, d) in enumerate(SIZES):
        arrays = random_inputs(kernel.op, {"H": h, "Q": q, "T": t, "D": d}, n)
        assert check(kernel.op, arrays, [kernel(*arrays)]).ok, (h, q, t, d)


@pytest.mark.parametrize("domain", DOMAINS)
def test_one_launch_without_scores_in_memory(domain: str) -> None:
    module = loads(OP.replace("DOMAIN", domain))
    program = compile(module, None, None, "emulate:sm_80", H=64, Q=2048, T=2048, D=64).variants[0].program
    assert len(program.launches) == 1
    assert {b.kind for b in program.buffers} == {"input", "output"}


def test_documents_of_one_length_are_a_tile_each() -> None:
    module = loads(OP.replace("DOMAIN", "t/64 == i/64"))
    large = compile(module, None, None, "emulate:sm_80", H=64, Q=2048, T=2048, D=64).variants[0].program
    assert "for t1 in i1 .. i1 + 1:" in show(large)
    arrays = random_inputs(module.ops["attend"], {"H": 2, "Q": 256, "T": 256, "D": 64}, 0)
    q, k, v = (x.astype(np.float32).reshape(2, 4, 64, 64) for x in arrays)
    s = q @ k.swapaxes(-1, -2) * 0.125
    p = np.exp(s - s.max(-1, keepdims=True))
    want = (p @ v / p.sum(-1, keepdims=True)).reshape(2, 256, 64)
    got = compile(module, None, None, "emulate:sm_80", H=2, Q=256, T=256, D=64)(*arrays)
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=5e-3, atol=5e-3)
