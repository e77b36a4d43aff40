"""Kernels as operators of PyTorch: called, traced, compiled, with fixed and with open sizes."""

from __future__ import annotations

import sys

import andiron
import pytest
from andiron.dsl.errors.run import NoPackage

from ..support.gemm_file import GEMM_OP as GEMM

ROWS = """\
op rows[M, N](X: f32[M, N]) -> (S: f32[M], P: i64[M]):
    S[i] = sum(j) X[i, j]
    P[i] = argmax(j) X[i, j]
"""
POOL = """\
op pairs[N](X: f32[N]) -> (Y: f32[P]) where P = N / 2:
    Y[i] = X[2*i] + X[2*i + 1]
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))


def test_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NoPackage, match="PyTorch"):
        andiron.torch_op(andiron.compile(GEMM))


def small_integers(*shape: int):
    import torch

    return torch.randint(-4, 5, shape).to(torch.float32)


def test_called(torch):
    gemm = andiron.torch_op(andiron.compile(GEMM), "andiron_test::gemm")
    a, b = small_integers(5, 7), small_integers(7, 3)
    assert torch.equal(gemm(a, b), a @ b)
    assert torch.equal(gemm(b.T, a.T), (a @ b).T)  # not contiguous
    assert torch.equal(torch.ops.andiron_test.gemm(a, b), a @ b)
    torch.library.opcheck(gemm, (a, b), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_in_a_compiled_graph(torch, dynamic):
    gemm = andiron.torch_op(andiron.compile(GEMM), "andiron_test::gemm_graph")
    calls = []

    def backend(graph, inputs):
        calls.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return graph.forward

    f = torch.compile(lambda a, b: gemm(a + 1, b) * 2, backend=backend, fullgraph=True, dynamic=dynamic)
    for m in (4, 6, 9):
        a, b = small_integers(m, 7), small_integers(7, 3)
        assert torch.equal(f(a, b), ((a + 1) @ b) * 2)
    assert all(any("gemm_graph" in target for target in found) for found in calls)
    assert not dynamic or len(calls) == 1  # one graph for all sizes


def test_several_outputs_and_other_types(torch):
    rows = andiron.torch_op(andiron.compile(ROWS), "andiron_test::rows")
    x = small_integers(6, 10) + torch.arange(10) / 64
    s, p = torch.compile(rows, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(p, x.argmax(1))
    assert torch.allclose(s, x.sum(1))
    assert p.dtype == torch.int64


def test_sizes_that_follow_from_others(torch):
    pairs = andiron.torch_op(andiron.compile(POOL), "andiron_test::pairs")
    f = torch.compile(pairs, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (10, 14):
        x = small_integers(n)
        assert torch.equal(f(x), x[0::2] + x[1::2])


def test_fixed_sizes_and_wrong_shapes(torch):
    gemm = andiron.torch_op(andiron.compile(GEMM, K=7), "andiron_test::gemm7")
    with torch._subclasses.FakeTensorMode():
        assert gemm(torch.empty(5, 7), torch.empty(7, 3)).shape == (5, 3)
        with pytest.raises(RuntimeError, match="another shape"):
            gemm(torch.empty(5, 8), torch.empty(8, 3))
        with pytest.raises(RuntimeError, match="number of axes"):
            gemm(torch.empty(5), torch.empty(7, 3))
    with pytest.raises(andiron.AndironError):
        gemm(small_integers(5, 8), small_integers(8, 3))


def test_a_gradient_is_given_to_it(torch):
    gemm = andiron.torch_op(andiron.compile(GEMM), "andiron_test::gemm_grad")
    gemm.register_autograd(
        lambda ctx, g: (g @ ctx.saved_tensors[1].T, ctx.saved_tensors[0].T @ g),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    a, b = small_integers(4, 5).requires_grad_(), small_integers(5, 6).requires_grad_()
    gemm(a, b).sum().backward()
    assert torch.equal(a.grad, torch.ones(4, 6) @ b.detach().T)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")
