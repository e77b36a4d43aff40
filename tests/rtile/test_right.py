"""Kernels that nothing was written for compute what they should, at odd sizes, without a race, on machines of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret import interpret
from andiron.dsl.meaning.reference import reference

from .common import compiled, op_of

MATRIX = dict(M=37, N=45, K=21)
IMAGE = dict(N=2, C=5, H=7, W=6, O=4, R=3, S=2)
HEADS = dict(H=2, Q=5, T=19, D=6)
CASES = [
    *(
        (name, MATRIX)
        for name in ("gemm", "gemm_tt", "gemm_f16", "gemm_f16_nt", "gemm_i8", "gemm_tf32", "gemm_axpby", "linear_gelu")
    ),
    ("gemm", dict(M=1, N=1, K=1)),
    ("gemm_f16", dict(M=2, N=3, K=0)),
    ("gemv", dict(M=35, K=300)),
    ("gemv_t", dict(M=35, K=300)),
    ("dot", dict(N=5000)),
    ("batched_gemm_f16", dict(B=3, M=17, N=9, K=11)),
    *((name, IMAGE) for name in ("conv2d", "conv2d_nhwc_f16", "conv2d_i8", "depthwise_conv2d")),
    ("grouped_conv2d", {**IMAGE, "G": 2}),
    ("max_pool2d", dict(N=2, C=3, H=9, W=11)),
    ("mttkrp", dict(I=9, J=4, K=7, R=5)),
    ("contract_4d", dict(A=3, B=4, C=5, D=2, E=6, F=3)),
    ("distances", dict(M=19, N=23, D=5)),
    *((name, HEADS) for name in ("attention", "causal_attention")),
    *((name, dict(M=5, N=700)) for name in ("softmax", "layernorm", "row_sum", "row_argmax", "row_logsumexp")),
    *((name, dict(M=300, N=37)) for name in ("col_sum", "full_max", "transpose", "add_row", "stencil5", "tril")),
    ("permute_210", dict(A=5, B=6, C=70)),
    ("copy", dict(N=1000)),
    ("row_any", dict(M=3, N=70)),
]
SLOW = {"conv2d_i8", "causal_attention", "layernorm", "gemm_tt", "gemm_axpby"}  # on one machine only


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
@pytest.mark.parametrize(("name", "sizes"), [pytest.param(n, s, id=f"{n}-{'x'.join(map(str, s.values()))}") for n, s in CASES])
def test_right(name: str, sizes: dict[str, int], device: str) -> None:
    if name in SLOW and device != "sm_80":
        pytest.skip("on another machine")
    op = op_of(name)
    env = dict(sizes)
    for v, e in op.derived:
        env[v.name] = int(e.evaluate(env))
    rng = np.random.default_rng(1)
    arrays = {t.name: rng.integers(-3, 4, [int(e.evaluate(env)) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    faults: list = []
    out = interpret(compiled(name, device).program, arrays, sizes=sizes, on_fault=faults)
    want = reference(op)(*arrays.values())
    assert not faults
    for got, w in zip(out.values(), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(np.asarray(got, "f8"), np.asarray(w, "f8"), rtol=1e-2, atol=1e-2)
