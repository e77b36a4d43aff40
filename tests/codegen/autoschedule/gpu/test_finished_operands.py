"""What finishes a product, and is a factor of the next one, is computed once by default, where the first stores its results."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.materialised_operands import finished_operands
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

OPS = """
import std.ops.attention
op layers[M, K, F, N](X: f16[M, K], W: f16[K, F], b: f16[F], V: f16[F, N]) -> (Y: f16[M, N]):
    A[m, f] = f16(gelu((sum(k) f32(X[m, k]) * f32(W[k, f])) + f32(b[f])))
    Y[m, n] = sum(f) f32(A[m, f]) * f32(V[f, n])
op unnamed[M, K, F, N](X: f16[M, K], W: f16[K, F], b: f16[F], V: f16[F, N]) -> (Y: f16[M, N]):
    S[m, f] = sum(k) f32(X[m, k]) * f32(W[k, f])
    Y[m, n] = sum(f) f32(f16(max(S[m, f] + f32(b[f]), 0))) * f32(V[f, n])
op in_steps[M, K, F, N](X: f16[M, K], W: f16[K, F], b: f16[F], V: f16[F, N]) -> (Y: f16[M, N]):
    S[m, f] = sum(k) f32(X[m, k]) * f32(W[k, f])
    A[m, f] = tanh(S[m, f] + f32(b[f]))
    Y[m, n] = sum(f) f32(f16(A[m, f])) * f32(V[f, n])
op gated[M, K, F, N](X: f16[M, K], W: f16[K, F], U: f16[K, F], V: f16[F, N]) -> (Y: f16[M, N]):
    A[m, f] = f16(silu(sum(k) f32(X[m, k]) * f32(W[k, f])) * (sum(k) f32(X[m, k]) * f32(U[k, f])))
    Y[m, n] = sum(f) f32(A[m, f]) * f32(V[f, n])
op both[M, K, F, N](X: f16[M, K], W: f16[K, F], b: f16[F], V: f16[F, N]) -> (Y: f16[M, N], S: f32[M, F]):
    S[m, f] = sum(k) f32(X[m, k]) * f32(W[k, f])
    A[m, f] = f16(S[m, f] + f32(b[f]))
    Y[m, n] = sum(f) f32(A[m, f]) * f32(V[f, n])
"""
LARGE = {"M": 4096, "K": 1024, "F": 4096, "N": 1024}
LAUNCHES = {"layers": 2, "unnamed": 2, "in_steps": 2, "gated": 2}  # the two products of `gated` share one


@pytest.mark.parametrize("sizes", [LARGE, {}], ids=["fixed", "open"])
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_for_each_product(name: str, sizes: dict[str, int]) -> None:
    """All of them on matrix instructions; siblings share one."""
    module = loads(OPS)
    made = compile_program(module, specialise(module.ops[name], sizes), None, module.device("sm_80"))
    assert len(made.program.launches) == LAUNCHES[name]
    assert made.schedule.count("compute with mma_m16n8k16_f16") == LAUNCHES[name]


def test_what_others_read_too_is_computed_where_it_is_read() -> None:
    """Sums that are stored anyway; and probabilities, which other reductions of the scores come before."""
    ops = loads(OPS).ops
    assert finished_operands(ops["layers"], frozenset({"A"})) == {"A"}
    assert not finished_operands(ops["both"], frozenset({"A"}))
    assert not finished_operands(ops["attention"], frozenset({"s", "p"}))


SIZES = ({"M": 35, "K": 9, "F": 41, "N": 13}, {"M": 1, "K": 1, "F": 1, "N": 1}, {"M": 5, "K": 0, "F": 9, "N": 3})
MORE = ({"M": 5, "K": 4, "F": 0, "N": 3}, {"M": 0, "K": 4, "F": 9, "N": 3})


@pytest.mark.parametrize(
    ("name", "device"), [("layers", "sm_80"), ("unnamed", "gfx942"), ("gated", "gfx1100"), ("both", "sm_90a")]
)
def test_results(name: str, device: str) -> None:
    op, kernel = loads(OPS).ops[name], compile(OPS, op=name, target=f"emulate:{device}")
    rng = np.random.default_rng(0)
    for sizes in (*SIZES, *MORE):
        arrays = [rng.normal(size=[e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
        out = kernel(*arrays)
        verdict = check(op, arrays, list(out) if isinstance(out, tuple) else [out])
        assert verdict.ok, (sizes, verdict)
