"""Reductions of the rows of a product: the product is a launch, and they are one more. Right at 0, 1 and odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

OPS = """
op loss[M, N, K](X: f16[M, K], W: f16[N, K], L: i32[M]) -> (Y: f32[M]):
    Z[i, j] = sum(k) f32(X[i, k]) * f32(W[j, k])
    top[i] = max(j) Z[i, j]
    total[i] = sum(j) exp(Z[i, j] - top[i])
    mine[i] = sum(j) where(j == L[i], Z[i, j], 0)
    Y[i] = top[i] + log(total[i]) - mine[i]
op normalised[M, N, K](X: f32[M, K], W: f32[N, K]) -> (Y: f32[M, N]):
    Z[i, j] = sum(k) X[i, k] * W[j, k]
    squares[i] = sum(j) Z[i, j] * Z[i, j]
    Y[i, j] = Z[i, j] * rsqrt(squares[i] / N + 1e-5)
"""
SIZES = ({"M": 35, "N": 67, "K": 5}, {"M": 1, "N": 1, "K": 1}, {"M": 3, "N": 9, "K": 0}, {"M": 0, "N": 5, "K": 4})


@pytest.mark.parametrize(("op", "device"), [("loss", "sm_80"), ("normalised", "gfx1100"), ("normalised", "cpu:avx2")])
def test_two_launches(op: str, device: str) -> None:
    module = loads(OPS)
    made = compile_program(module, module.ops[op], None, module.device(device))
    assert len(made.program.launches) == 2
    assert "online" not in made.schedule


@pytest.mark.parametrize(("op", "device"), [("loss", "gfx1100"), ("normalised", "sm_80")])
def test_results(op: str, device: str) -> None:
    module, kernel = loads(OPS), compile(OPS, op=op, target=f"emulate:{device}")
    rng = np.random.default_rng(0)
    for sizes in SIZES:
        arrays = []
        for t in module.ops[op].inputs:
            shape = tuple(e.evaluate(sizes) for e in t.shape)
            drawn = rng.integers(0, sizes["N"], shape) if t.dtype.kind == "int" else rng.normal(size=shape)
            arrays.append(drawn.astype(t.dtype.numpy))
        verdict = check(module.ops[op], arrays, [kernel(*arrays)])
        assert verdict.ok, (sizes, verdict)
