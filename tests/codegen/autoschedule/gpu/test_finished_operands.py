"""What finishes a product, and is a factor of the next one, is computed once by default, where the first stores its results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.materialised_operands import finished_operands
from andiron.codegen.autoschedule.launches import named_factors
from andiron.codegen.pipeline import compile_program
from andiron.codegen.plan.name_factors import name_factors
from andiron.dsl.module import loads
from andiron.dsl.op import Op
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
op gradients[Q, T, D](s: f32[Q, T], g: f16[Q, D], v: f16[T, D], q: f16[Q, D], k: f16[T, D]) -> (a: f16[Q, D], b: f16[T, D]):
    P[i, t] = sum(d) f32(g[i, d]) * f32(v[t, d])
    S[i, t] = s[i, t] * P[i, t]
    a[i, d] = sum(t) f32(f16(S[i, t])) * f32(k[t, d])
    b[t, d] = sum(i) f32(f16(S[i, t])) * f32(q[i, d])
op gradients_too[Q, T, D](s: f32[Q, T], g: f16[Q, D], v: f16[T, D], q: f16[Q, D], k: f16[T, D])
        -> (a: f16[Q, D], b: f16[T, D], P: f32[Q, T]):
    P[i, t] = sum(d) f32(g[i, d]) * f32(v[t, d])
    S[i, t] = s[i, t] * P[i, t]
    a[i, d] = sum(t) f32(f16(S[i, t])) * f32(k[t, d])
    b[t, d] = sum(i) f32(f16(S[i, t])) * f32(q[i, d])
op both[M, K, F, N](X: f16[M, K], W: f16[K, F], b: f16[F], V: f16[F, N]) -> (Y: f16[M, N], S: f32[M, F]):
    S[m, f] = sum(k) f32(X[m, k]) * f32(W[k, f])
    A[m, f] = f16(S[m, f] + f32(b[f]))
    Y[m, n] = sum(f) f32(A[m, f]) * f32(V[f, n])
"""
LARGE = {"M": 4096, "K": 1024, "F": 4096, "N": 1024, "Q": 2048, "T": 2048, "D": 64}
LAUNCHES = {"layers": 2, "unnamed": 2, "in_steps": 2, "gated": 2, "gradients": 3}  # the two products of `gated` share one


@pytest.mark.parametrize("sizes", [LARGE, {}], ids=["fixed", "open"])
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_for_each_product(name: str, sizes: dict[str, int]) -> None:
    """All of them on matrix instructions; siblings share one."""
    module = loads(OPS)
    op = module.ops[name]
    made = compile_program(module, specialise(op, _of(op, sizes)), None, module.device("sm_80"))
    assert len(made.program.launches) == LAUNCHES[name]
    assert made.schedule.count("compute with mma_m16n8k16_f16") == LAUNCHES[name]


def test_factors_of_several_products_are_stored_side_by_side() -> None:
    """Sums over either index of what finishes one product: no launch shares tiles of both and adds parts of them in memory."""
    op = loads(OPS).ops["gradients"]
    named = name_factors(op)
    assert finished_operands(named, frozenset({"a.left", "b.left"})) == {"a.left", "b.left"}
    for name in ("gradients", "gradients_too"):
        module = loads(OPS)
        made = compile_program(module, module.ops[name], None, module.device("sm_80"))
        assert made.schedule.count("compute with mma_m16n8k16_f16") == 3
        assert not any("parts" in b.name for b in made.program.buffers)
        assert "b.left" not in {b.name for b in made.program.buffers}  # it equals the other one


@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_completed_lines_mean_the_same(device: str) -> None:
    module = loads(OPS)
    op = specialise(module.ops["gradients"], {"Q": 256, "T": 512, "D": 64})
    made = compile_program(module, op, None, module.device(device))
    again = loads(OPS + made.schedule)
    (printed,) = {*again.schedules} - {*module.schedules}
    fed = compile_program(again, op, again.schedules[printed], again.device(device))
    assert fed.program.launches == made.program.launches


def test_what_others_read_too_is_computed_where_it_is_read() -> None:
    """Sums that are stored anyway; and probabilities, which other reductions of the scores come before."""
    ops = loads(OPS).ops
    assert finished_operands(ops["layers"], frozenset({"A"})) == {"A"}
    assert not finished_operands(ops["both"], frozenset({"A"}))
    assert not finished_operands(ops["attention"], frozenset({"s", "p"}))


@pytest.mark.parametrize(("name", "count"), [("attention_backward", 1), ("attention", 1), ("layers", 0)])
def test_what_is_materialised_is_decided_once(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the op whose factors all have names, whether it is asked about names or about launches."""
    asked = []
    decide = named_factors.materialised_operands
    monkeypatch.setattr(named_factors, "materialised_operands", lambda *args: asked.append(args) or decide(*args))
    module = loads(OPS)
    compile_program(module, module.ops[name], None, module.device("sm_80"))
    assert len(asked) == count


def _of(op: Op, sizes: Mapping[str, int]) -> dict[str, int]:
    return {v.name: sizes[v.name] for v in op.dims if v.name in sizes}


ODD = {"M": 35, "K": 9, "F": 41, "N": 13, "Q": 35, "T": 41, "D": 9}
SIZES = (ODD, dict.fromkeys(ODD, 1), {"M": 5, "K": 0, "F": 9, "N": 3, "Q": 5, "T": 9, "D": 0})
MORE = ({"M": 5, "K": 4, "F": 0, "N": 3, "Q": 5, "T": 0, "D": 3}, {"M": 0, "K": 4, "F": 9, "N": 3, "Q": 0, "T": 9, "D": 3})


@pytest.mark.parametrize(
    ("name", "device"),
    [
        *(("layers", "sm_80"), ("unnamed", "gfx942"), ("gated", "gfx1100"), ("both", "sm_90a")),
        *(("gradients", "gfx942"), ("gradients", "sm_80"), ("gradients_too", "gfx1100")),
    ],
)
def test_results(name: str, device: str) -> None:
    op, kernel = loads(OPS).ops[name], compile(OPS, op=name, target=f"emulate:{device}")
    rng = np.random.default_rng(0)
    for given in (*SIZES, *MORE):
        sizes = _of(op, given)
        arrays = [rng.normal(size=[e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
        out = kernel(*arrays)
        verdict = check(op, arrays, list(out) if isinstance(out, tuple) else [out])
        assert verdict.ok, (sizes, verdict)
