"""The blocking that lines follow is the one that they were made from."""

from random import Random

import pytest
from andiron.codegen.autoschedule.cpu import matmul_cost
from andiron.codegen.autoschedule.cpu.matmul import blockings, lines_of, sample_problem
from andiron.codegen.autoschedule.cpu.read_blocking import read_blocking
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.schedule.build_tree import schedule_tree
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

OPS = loads("""
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

op gemm_tn[M, N, K](A: f32[K, M], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[k, m] * B[k, n]

op gemm_nt[M, N, K](A: f32[M, K], B: f32[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[n, k]

op batched[B, M, N, K](X: f32[B, M, K], Y: f32[B, K, N]) -> (C: f32[B, M, N]):
    C[b, m, n] = sum(k) X[b, m, k] * Y[b, k, n]

op gemm_i16[M, N, K](A: i16[M, K], B: i16[K, N]) -> (C: i32[M, N]):
    C[m, n] = sum(k) i32(A[m, k]) * i32(B[k, n])

op conv[C, H, W, O, R](I: f32[C, H, W], F: f32[O, C, R, R]) -> (Y: f32[O, P, Q]) where P = H - R + 1, Q = W - R + 1:
    Y[o, p, q] = sum(c, r, s) I[c, p + r, q + s] * F[o, c, r, s]

op conv1d[C, W, O, R](I: f32[C, W], F: f32[O, C, R]) -> (Y: f32[O, Q]) where Q = W - R + 1:
    Y[o, q] = sum(c, r) I[c, q + r] * F[o, c, r]

op conv_last[C, H, W, O, R](I: f32[H, W, C], F: f32[R, R, C, O]) -> (Y: f32[P, Q, O]) where P = H - R + 1, Q = W - R + 1:
    Y[p, q, o] = sum(r, s, c) I[p + r, q + s, c] * F[r, s, c, o]
""")
KINDS = {
    "gemm": {"panels", "dots"},
    "gemm_tn": {"panels"},
    "gemm_nt": {"panels", "few rows", "dots"},
    "batched": {"panels"},
    "gemm_i16": {"panels", "dots"},
    "conv": {"panels", "windows"},
    "conv1d": {"panels"},
    "conv_last": {"channels last"},
}


@pytest.mark.parametrize("name", KINDS)
def test_lines_have_the_price_of_their_blocking(name):
    """Of all blockings, at open sizes and at random ones, some of them 1."""
    random = Random(name)
    found = set()
    for n in range(5):
        sizes = {v.name: random.choice([1, 2, 5, 16, 33, 96, 500]) for v in OPS.ops[name].dims} if n else {}
        if "R" in sizes:
            sizes["R"] = random.choice([1, 3])
            sizes |= {i: sizes[i] + sizes["R"] for i in ("H", "W") if i in sizes}
        if n in (1, 2):
            sizes |= {"N" if n == 1 else "M": 3} if "M" in sizes else {}
        op = specialise(OPS.ops[name], sizes)
        for on in ("cpu:avx2", "cpu:avx512", "cpu:neon"):
            device = OPS.device(on)
            ctx = context_of(op, device)
            ((computations, _),) = launches_of(op, device, (), frozenset())
            product = sample_problem(device, computations[0], ctx.shapes)
            if product is None:
                continue
            cpu, p = product
            for b in dict.fromkeys(blockings(p, cpu)):
                found.add(b.kind)
                read = read_blocking(p, cpu, schedule_tree(lines_of(p, cpu, b)), p.typical_extents)
                assert read is not None
                assert read.kind == b.kind
                priced = [matmul_cost.seconds(p, cpu, x, p.typical_extents).seconds for x in (read, b)]
                assert priced[0] == pytest.approx(priced[1])
    assert found == KINDS[name]
