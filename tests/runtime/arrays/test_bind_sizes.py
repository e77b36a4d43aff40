"""Sizes near 2^31 and 2^63, without the memory for them: index arithmetic has 64 bits, and what goes beyond is refused."""

from __future__ import annotations

import re

import andiron
import pytest
from andiron.dsl.errors.run import SizeRefused
from andiron.dsl.module import loads
from andiron.runtime.arrays.bind_sizes import bind_sizes, output_shapes

TEXT = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
op grow[N](x: i8[N]) -> (y: i8[P]) where P = 3*N + 7:
    y[i] = x[i else 0]
op twice[M, N](X: f32[M, N]) -> (s: f32[M]):
    E[i, j, k] = X[i, j] * X[i, k]
    s[i] = sum(j, k) E[i, j, k]
"""


@pytest.fixture(scope="module")
def ops():
    return loads(TEXT).ops


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("gemm", [(2**31, 1), (1, 2**29)]),
        ("gemm", [(2**31 + 1, 3), (3, 2**20)]),
        ("gemm", [(2**20, 2**20), (2**20, 2**20)]),
        ("gemm", [(0, 2**40), (2**40, 0)]),
        ("grow", [(2**60,)]),
    ],
)
def test_taken(ops, op, shapes):
    sizes = bind_sizes(ops[op], shapes, {})
    assert output_shapes(ops[op], sizes)


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        ("gemm", [(2**31, 1), (1, 2**31)], r"C: f32\[M, N\] would have the shape \(2147483648, 2147483648\)"),
        ("gemm", [(2**62 + 1, 0), (0, 1)], r"M is 4611686018427387905: sizes go up to 2\*\*62"),
        ("gemm", [(2**22, 2**22), (2**22, 2**22)], r"goes over 2\*\*63 points or more: 4194304 of `m`"),
        ("gemm", [(2**50, 0), (0, 2**50)], "more than memory can address"),
        ("grow", [(2**61,)], r"P is \d+: sizes go up to"),
        ("twice", [(2**21, 2**21)], r"E: f32\[M, N, N\] would have|goes over"),
    ],
)
def test_refused(ops, op, shapes, message):
    with pytest.raises(SizeRefused, match=message):
        bind_sizes(ops[op], shapes, {})


def test_the_text_counts_in_64_bits():
    source = andiron.compile(TEXT, op="gemm").source
    kernel = source[source.index("gemm_C(") :]
    loops = re.findall(r"\bfor \((\w+) ", kernel)
    assert set(loops) == {"int64_t"}
    fixed = andiron.compile(TEXT, op="gemm", M=2**31 + 5, N=2**28, K=3).source
    assert str(2**31 + 5) in fixed
    assert str(2**28) in fixed
