"""The closed form's price of a written schedule is what it predicts for the candidate that has this text."""

from itertools import islice

import pytest
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.codegen.pipeline import compile_program
from andiron.codegen.price_schedule import price_schedule
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse

OPS = loads("""
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

op gemm_nt[M, N, K](A: f32[M, K], B: f32[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[n, k]

op softmax[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    m[i] = max(j) X[i, j]
    s[i] = sum(j) exp(X[i, j] - m[i])
    Y[i, j] = exp(X[i, j] - m[i]) / s[i]

op conv[C, H, W, O, R](I: f32[C, H, W], F: f32[O, C, R, R]) -> (Y: f32[O, P, Q]) where P = H - R + 1, Q = W - R + 1:
    Y[o, p, q] = sum(c, r, s) I[c, p + r, q + s] * F[o, c, r, s]

op conv_last[C, H, W, O, R](I: f32[H, W, C], F: f32[R, R, C, O]) -> (Y: f32[P, Q, O]) where P = H - R + 1, Q = W - R + 1:
    Y[p, q, o] = sum(r, s, c) I[p + r, q + s, c] * F[r, s, c, o]
""")
SIZES = {"M": 96, "N": 80, "K": 48, "C": 16, "H": 18, "W": 34, "O": 32, "R": 3}


@pytest.mark.parametrize(
    ("name", "device", "sizes"),
    [
        ("gemm", "cpu:avx512", {}),
        ("gemm", "cpu:avx2", {"N": 3}),
        ("gemm_nt", "cpu:avx2", {"M": 2}),
        ("softmax", "cpu:avx512", {}),
        ("conv", "cpu:avx512", {}),
        ("conv_last", "cpu:avx2", {}),
        ("gemm", "gfx942", {"M": 512, "N": 256, "K": 128}),
    ],
)
def test_a_text_has_the_price_of_its_candidate(name, device, sizes):
    op = specialise(OPS.ops[name], {v.name: {**SIZES, **sizes}[v.name] for v in OPS.ops[name].dims})
    on = OPS.device(device)
    listed = [c for c in islice(candidate_schedules(op, on), 0, 30, 6) if c.seconds]
    for c in listed:
        (decl,) = parse(Source("x", compile_program(OPS, op, c.schedule, on).schedule)).declarations
        assert price_schedule(op, on, decl, OPS).seconds == pytest.approx(c.seconds)
    assert listed


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [("tile k: 64\nauto", {"M": 256, "N": 3, "K": 700}), ("tile n: 64 -> core\nauto", {}), ("auto\ntile m: 4\nauto", {})],
)
def test_a_product_with_some_written_lines_has_the_price_of_its_text(lines, sizes):
    """It was priced as the nest that the lines were put into, with the sizes that a reader of its own found in them."""
    text = "schedule s for gemm:\n" + "".join(f"    {x}\n" for x in lines.split("\n"))
    (written,) = parse(Source("x", text)).declarations
    op, on = specialise(OPS.ops["gemm"], {**{i: SIZES[i] for i in "MNK"}, **sizes}), OPS.device("cpu:avx2")
    for c in islice(candidate_schedules(op, on, written, OPS), 2):
        (decl,) = parse(Source("x", compile_program(OPS, op, c.schedule, on).schedule)).declarations
        assert price_schedule(op, on, decl, OPS).seconds == pytest.approx(c.seconds)
