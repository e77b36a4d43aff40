"""Sizes, inputs and verdicts that commands try an op with."""

import andiron
import numpy as np
import pytest
from andiron.dsl.ops.resolve_op import resolve_op
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from andiron.runtime import check_results
from andiron.runtime.op_counts import argument_bytes, flops, too_small_for_threads
from andiron.runtime.random_inputs import default_sizes, random_inputs
from andiron.tools.einsum import einsum_of
from andiron.tools.size_arguments import BadAssignment, assignments

from ..support.gemm_file import GEMM_OP


def op_of(text):
    return resolve_op(parse(Source("<test>", text)).declarations[0])


GEMM = op_of(GEMM_OP)
CONV = op_of(
    "op conv[N, C, H, W, O, R, S](I: f32[N, C, H, W], F: f32[O, C, R, S]) -> (Y: f32[N, O, P, Q])\n"
    "        where P = H - R + 1, Q = W - S + 1:\n"
    "    Y[n, o, p, q] = sum(c, r, s) I[n, c, p + r, q + s] * F[o, c, r, s]\n"
)


def test_work_is_counted():
    sizes = {"M": 2, "N": 3, "K": 4}
    assert flops(GEMM, sizes) == 48
    assert argument_bytes(GEMM, sizes) == 4 * (8 + 12 + 6)


CAUSAL = (
    "op f[Q, T](q: f32[Q, 8], k: f32[T, 8]) -> (Y: f32[Q]):\n"
    "    s[i, t] where {} = sum(d) q[i, d] * k[t, d]\n"
    "    Y[i] = sum(t) exp(s[i, t])\n"
)


@pytest.mark.parametrize("sizes", [(9, 9), (5, 12), (12, 5), (1, 1), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize(
    ("domain", "inside"),
    [
        ("t <= i + T - Q", lambda i, t, Q, T: t <= i + T - Q),
        ("t <= i, t > i - 3", lambda i, t, Q, T: i - 3 < t <= i),
        ("2 * t >= 3 * i + 1", lambda i, t, Q, T: 2 * t >= 3 * i + 1),
        ("t / 2 <= i / 3", lambda i, t, Q, T: t // 2 <= i // 3),
        ("t % 3 <= i % 2, t <= 4", lambda i, t, Q, T: t % 3 <= i % 2 and t <= 4),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_terms_outside_of_a_domain_do_not_count(domain, inside, sizes):
    """Nor what only such terms would read: 16 operations for each score, one for its exponential and one for the sum."""
    Q, T = sizes
    points = sum(inside(i, t, Q, T) for i in range(Q) for t in range(T))
    assert flops(op_of(CAUSAL.format(domain)), {"Q": Q, "T": T}) == (16 + 2) * points


def test_what_others_read_as_well_counts():
    """An output, or what a reader without the condition reads, or one that reads it elsewhere."""
    text = CAUSAL.format("t <= i")
    whole = text.replace(" where t <= i", "").replace("sum(t) exp", "sum(t where t <= i) exp")
    sizes, half = {"Q": 4, "T": 4}, 10
    assert flops(op_of(whole), sizes) == 18 * half
    more = whole.replace("(Y: f32[Q])", "(Y: f32[Q], Z: f32[Q])") + "    Z[i] = sum(t) s[i, t]\n"
    assert flops(op_of(more), sizes) == 16 * 16 + 2 * half + 16
    out = whole.replace("(Y: f32[Q])", "(Y: f32[Q], s: f32[Q, T])")
    assert flops(op_of(out), sizes) == 16 * 16 + 2 * half
    turned = whole.replace("exp(s[i, t])", "exp(s[t, i])").replace("[Q, T]", "[T]").replace("Q", "T")
    assert flops(op_of(turned), sizes) == 18 * half


def test_small_ones_wake_no_threads():
    small = too_small_for_threads(GEMM)
    assert small.evaluate({"M": 32, "N": 32, "K": 32}) >= 0
    assert small.evaluate({"M": 256, "N": 256, "K": 256}) < 0


def test_windows_are_small_by_default():
    sizes = default_sizes(CONV, {})
    assert (sizes["R"], sizes["S"]) == (3, 3)
    assert sizes["H"] == sizes["C"] > 8


def test_default_sizes_stay_affordable():
    assert default_sizes(GEMM, {}) == {"M": 512, "N": 512, "K": 512}
    assert default_sizes(GEMM, {"K": 7}) == {"M": 512, "N": 512, "K": 7}
    sizes = default_sizes(CONV, {})
    assert flops(CONV, CONV.all_sizes(sizes)) <= 1 << 30
    assert set(sizes) == {"N", "C", "H", "W", "O", "R", "S"}


def test_inputs_follow_the_types_and_the_seed():
    op = op_of("op f[N](a: f64[N], b: i8[N], c: bool[N], d: u8[N], e: f16[N]) -> (y: f64[N]):\n    y[i] = a[i]\n")
    inputs = random_inputs(op, {"N": 100}, seed=1)
    assert [str(x.dtype) for x in inputs] == ["float64", "int8", "bool", "uint8", "float16"]
    assert all(x.shape == (100,) for x in inputs)
    again = random_inputs(op, {"N": 100}, seed=1)
    assert all(np.array_equal(x, y) for x, y in zip(inputs, again, strict=True))
    assert not np.array_equal(inputs[0], random_inputs(op, {"N": 100}, seed=2)[0])


def test_a_right_result_passes_and_a_wrong_one_does_not():
    a, b = random_inputs(GEMM, {"M": 20, "N": 30, "K": 40})
    c = a @ b
    good = check_results.check(GEMM, [a, b], [c])
    assert good.ok
    assert 0 <= good.error <= good.allowed
    c[3, 4] += 1e-3
    bad = check_results.check(GEMM, [a, b], [c])
    assert not bad.ok
    assert bad.error == pytest.approx(1e-3, rel=0.1)
    c[3, 4] = np.nan
    assert not check_results.check(GEMM, [a, b], [c]).ok


def test_infinities_and_nans_of_the_reference_are_right():
    op = op_of("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = log(X[i])\n")
    x = np.array([-1, 0, 1], np.float32)
    assert check_results.check(op, [x], [np.array([np.nan, -np.inf, 0], np.float32)]).ok
    assert not check_results.check(op, [x], [np.array([np.nan, -np.inf, np.nan], np.float32)]).ok
    assert not check_results.check(op, [x], [np.array([np.nan, -np.inf, np.inf], np.float32)]).ok


def test_a_result_rounded_to_integers_is_right_on_both_sides_of_a_tie():
    op = op_of(
        "op f[M, K](A: f32[M, K], W: i8[K]) -> (Y: i32[M]):\n    s[i] = (max(k) abs(A[i, k])) / 127\n"
        "    q[i, k] = i8(round(A[i, k] / s[i]))\n    Y[i] = sum(k) i32(q[i, k]) * i32(W[k])\n"
    )
    a, w = np.array([[254, 3, 1, 1, 7], [127, 3, 2, 6, 7]], np.float32), np.array([1, 1, 1, 50, 1], np.int8)
    even = 127 + 2 + 0 + 50 * 0 + 4, 127 + 3 + 2 + 50 * 6 + 7  # the first row has quotients of 1.5, 0.5, 0.5 and 3.5
    assert check_results.check(op, [a, w], [np.array(even, np.int32)]).ok
    assert check_results.check(op, [a, w], [np.array([even[0] + 51, even[1]], np.int32)]).ok
    assert not check_results.check(op, [a, w], [np.array([even[0] + 60, even[1]], np.int32)]).ok
    assert not check_results.check(op, [a, w], [np.array([even[0], even[1] + 1], np.int32)]).ok


def test_nothing_is_right():
    assert check_results.check(
        GEMM, [np.ones((0, 3), np.float32), np.ones((3, 4), np.float32)], [np.ones((0, 4), np.float32)]
    ).ok


def test_large_ones_are_checked_by_rows(monkeypatch):
    monkeypatch.setattr(check_results, "_REFERENCE_FLOPS", 1000)
    a, b = random_inputs(GEMM, {"M": 100, "N": 10, "K": 10})
    c = a @ b
    said = check_results.check(GEMM, [a, b], [c])
    assert said.ok
    assert "16 of 100 rows along M" in said.note
    c[-1] += 1
    assert not check_results.check(GEMM, [a, b], [c]).ok


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("op f[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) X[i, j]\n", "M"),
        ("op f[M, N](X: f32[M, N]) -> (Y: f32[N]):\n    Y[j] = sum(i) X[i, j]\n", "N"),
        ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] + X[i + 1 else 0.0]\n", None),  # a stencil
        ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] * f32(i)\n", None),  # the number of the row matters
        ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] / f32(N)\n", None),  # so does how many there are
        ("op f[N](X: f32[N, N]) -> (Y: f32[N, N]):\n    Y[i, j] = X[j, i]\n", None),  # one size, two axes
        ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] - (max(j) X[j])\n", None),
        ("op f[M, N](X: f32[M, N]) -> (Y: f32[M, N], Z: f32[N]):\n    Y[i, j] = X[i, j]\n    Z[j] = sum(i) X[i, j]\n", "N"),
    ],
)
def test_rows_that_stand_alone(text, dim):
    assert check_results.row_dim(op_of(text)) == dim


def test_assignments():
    assert assignments(["M=512,N=64", "K=1_024", "P=0x10"], "size") == {"M": 512, "N": 64, "K": 1024, "P": 16}
    for wrong in ("M", "M=", "=3", "M=x", "1=2", "M=1.5"):
        with pytest.raises(BadAssignment):
            assignments([wrong], "size")


def test_products_in_einsum():
    subscripts, order = einsum_of(GEMM)
    a, b = random_inputs(GEMM, {"M": 4, "N": 3, "K": 5})
    np.testing.assert_allclose(np.einsum(subscripts, *[[a, b][i] for i in order]), a @ b, rtol=1e-5)
    assert einsum_of(CONV) is None
    assert einsum_of(op_of("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] * X[i]\n")) is None


def test_elements_without_a_bound_are_told():
    op = andiron.loads("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 1.0 / (X[i] * 0.1 - 0.1)\n").ops["f"]
    x = np.array([11.0, 2.0, 1.0], np.float32)
    said = check_results.check(op, [x], [np.array([1, 10, np.nan], np.float32)])
    assert said.ok
    assert "1 of 3 elements, which were not compared" in said.note


def test_a_prefix_that_is_carried_has_each_term_once() -> None:
    text = "op f[R, N](X: f32[R, N]) -> (Y: f32[R, N]):\n    Y[r, i] = {} (sum(j where j <= i) X[r, j])\n"
    sizes = {"R": 3, "N": 1000}
    for value, more in (("1.0 *", 3000), ("", 0)):
        op = op_of(text.format(value))
        assert flops(op, sizes) == 3 * 1000 * 1001 // 2 + more
        (target,) = (s.target for s in op.statements if s.reduction is not None)
        assert flops(op, sizes, {target}) == 3 * 2000 + more
    report = andiron.compile(text.format(""), target="cpu:avx2", sizes=sizes, tune=0).report
    assert report.seconds["arithmetic"] < 1e-6
