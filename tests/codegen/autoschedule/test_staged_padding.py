"""What is chosen stages no operand whose padding depends on an index: a copy has one value for all reads of an element. And no
instruction computes with an operand that depends on an index which it does not have for it."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference

CONVOLUTION = """op f[N, C, H, W, O, R, S](I: {t}[N, C, H, W], Z: {t}[C], F: {t}[O, C, R, S]) -> (Y: f32[N, O, H, W]):
    Y[n, o, p, q] = sum(c, r, s) f32(I[n, c, p + r - 1, q + s - 1 else {e}]) * f32(F[o, c, r, s])
"""
CHANNELS_LAST = """op f[N, C, H, W, O, R, S](I: {t}[N, H, W, C], Z: {t}[C], F: {t}[O, R, S, C]) -> (Y: f32[N, H, W, O]):
    Y[n, p, q, o] = sum(r, s, c) f32(I[n, p + r - 1, q + s - 1, c else {e}]) * f32(F[o, r, s, c])
"""
ROWS = """op f[M, N, K](A: {t}[M, K], Z: {t}[K], B: {t}[K, N]) -> (Y: f32[M, N]):
    Y[m, n] = sum(k) f32(A[m - 1, k else {e}]) * f32(B[k, n])
"""
COLUMNS = """op f[M, N, K](A: {t}[M, K], Z: {t}[N], B: {t}[K, N]) -> (Y: f32[M, N]):
    Y[m, n] = sum(k) f32(A[m, k]) * f32(B[k - 1, n else {e}])
"""
IMAGE = dict(N=1, C=3, H=4, W=7, O=9, R=3, S=3)
MATRIX = dict(M=11, N=19, K=10)
CASES = [
    (CONVOLUTION, "Z[c]", IMAGE),
    (CONVOLUTION, "p", IMAGE),
    (CONVOLUTION, "o", IMAGE),
    (CHANNELS_LAST, "{t}(where(q > 3, f32(Z[c]), f32(p)))", IMAGE),
    (ROWS, "m", MATRIX),
    (ROWS, "Z[k]", MATRIX),
    (COLUMNS, "n", MATRIX),
]
SIZED, OPEN = True, False


@pytest.mark.fewest
@pytest.mark.parametrize(
    ("target", "dtype", "sized"),
    [
        ("cpu:avx2", "f32", SIZED),
        ("cpu:avx2", "f32", OPEN),
        ("cpu:avx512", "f16", SIZED),
        ("emulate:gfx942", "f16", SIZED),
        ("emulate:gfx942", "f32", OPEN),
        ("emulate:sm_80", "f16", OPEN),
    ],
)
@pytest.mark.parametrize(("text", "padding", "sizes"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_padding_that_depends_on_an_index(text, padding, sizes, target, dtype, sized):
    _check(text.format(t=dtype, e=padding.format(t=dtype)), target, dtype, sizes, sized)


PRODUCT = """op f[M, N, K](A: {t}[M, K], B: {t}[K, N], C: {t}[N]) -> (Y: f32[M, N]):
    Y[m, n] = sum(k) f32({a}) * f32(B[k, n])
"""


@pytest.mark.every_second
@pytest.mark.parametrize(
    "operand", ["A[m, k] + {t}(n)", "A[m - 1, k else n]", "A[m - 1, k else C[n]]", "{t}(where(n > 5, f32(A[m, k]), 1.0))"]
)
@pytest.mark.parametrize(("target", "dtype"), [("emulate:sm_80", "f16"), ("emulate:gfx942", "f16"), ("emulate:gfx942", "f32")])
def test_an_operand_that_depends_on_an_index_of_the_other(operand, target, dtype):
    _check(PRODUCT.format(a=operand.format(t=dtype), t=dtype), target, dtype, MATRIX, OPEN)


def _check(text: str, target: str, dtype: str, sizes: dict[str, int], sized: bool) -> None:
    kernel = andiron.compile(text, target=target, **(sizes if sized else {}))
    op = loads(text).ops["f"]
    rng = np.random.default_rng(1)
    shapes = [[sizes[str(e)] for e in t.shape] for t in op.inputs]
    given = [rng.integers(-3, 4, x).astype({"f32": np.float32, "f16": np.float16}[dtype]) for x in shapes]
    named = dict(zip([t.name for t in op.inputs], given, strict=True))
    programs = (v.program for v in kernel.variants)  # by the schedule that is for these sizes
    program = next(x for x in programs if all(e.evaluate(sizes) >= 0 for e, _ in x.conditions))
    found = interpret(program, named, {} if sized else sizes, {"core": 2} if target.startswith("cpu") else None)
    np.testing.assert_array_equal(found["Y"], reference(op)(*given))


def test_where_the_padding_is_one_value_it_is_staged():
    kernel = andiron.compile(CONVOLUTION.format(t="f32", e="1.5"), target="cpu:avx2", **IMAGE)
    assert "move I -> l2" in kernel.schedule
