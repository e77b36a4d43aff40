"""Resolving ops: names, ranges, types, split reductions, one name for one axis."""

import pytest
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.ops.resolve_op import resolve_op
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.text.parser import parse_text
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, Const, IndexValue, Load

from ...support.gemm_file import GEMM_OP

F16, F32, F64, I32, I64, BOOL = (TYPES[n] for n in ("f16", "f32", "f64", "i32", "i64", "bool"))


def op(text):
    return resolve_op(parse_text(text).declarations[0])


def body(value, declared="A: f32[N], B: f16[N], D: f64[N], a: i32[N], b: i8[N], d: i64[N], c: bool[N]", out="f32"):
    """The value of `Y[i] = value`."""
    return op(f"op f[N]({declared}) -> (Y: {out}[N]):\n    Y[i] = {value}\n").statements[-1].value


def ids(text):
    with pytest.raises(UserError) as e:
        op(text)
    errors = e.value.errors if isinstance(e.value, UserErrors) else (e.value,)
    return [x.id for x in errors]


CONV = """
op conv[W, S](I: f32[W], F: f32[S], stride: int = 1, pad: int = 0) -> (Y: f32[Q])
        where Q = (W + 2*pad - S) / stride + 1:
    Y[q] = sum(s) I[q*stride + s - pad{}] * F[s]
"""


def test_gemm():
    gemm = op(GEMM_OP)
    (s,) = gemm.statements
    assert (s.target, s.indices, s.reduction.kind, s.reduction.indices) == ("C", ("m", "n"), "sum", ("k",))
    assert [(i, str(e)) for i, e in s.ranges] == [("m", "M"), ("n", "N"), ("k", "K")]
    assert [t.name for t in gemm.inputs] == ["A", "B"]
    assert [d.name for d in gemm.dims] == ["M", "N", "K"]


def test_nested_reductions_are_split_and_named():
    s = op("""
op f[M, N, K](A: f32[M, N], B: f32[N, K]) -> (Y: f32[M]):
    Y[i] = exp(sum(j) A[i, j] * (max(k) B[j, k])) + (sum(j) A[i, j]) + (max(i2, j) A[i2, j])
""").statements
    assert [(x.target, x.indices, x.reduction and x.reduction.kind) for x in s] == [
        ("Y.max1", ("j",), "max"),
        ("Y.sum1", ("i",), "sum"),
        ("Y.sum2", ("i",), "sum"),
        ("Y.max2", (), "max"),
        ("Y", ("i",), None),
    ]


def test_free_indices_of_a_split_reduction_come_in_the_targets_order():
    s = op("""
op f[M, N, K](A: f32[K, N, M]) -> (Y: f32[M, N]):
    Y[i, j] = relu(sum(k) A[k, j, i])
""").statements
    assert s[0].indices == ("i", "j")


def test_one_axis_has_one_name():
    s = op("""
op softmax[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    e[r, j] = exp(X[r, j])
    t[q] = sum(j2) e[q, j2]
    Y[i, k] = e[i, k] / t[i]
""").statements
    assert [x.indices for x in s] == [("r", "j"), ("r",), ("r", "j")]
    assert s[1].reduction.indices == ("j",)
    assert {str(e) for load in (s[2].value.args) for e in load.indices} == {"r", "j"}


def test_a_transposed_reader_keeps_its_indices_apart():
    s = op("""
op f[N](X: f32[N]) -> (Y: f32[N, N]):
    S[i, j] = X[i] - 2 * X[j]
    Y[i, j] = S[i, j] * S[j, i]
""").statements
    assert s[1].indices == ("i", "j")
    assert [[str(e) for e in x.indices] for x in s[1].value.args] == [["i", "j"], ["j", "i"]]


def test_one_name_with_two_extents_is_split():
    s = op("""
op f[M, N](A: f32[M], B: f32[N]) -> (Y: f32[], Z: f32[]):
    Y = sum(k) A[k]
    Z = sum(k) B[k]
""").statements
    assert [x.reduction.indices for x in s] == [("k",), ("k.2",)]
    assert [str(x.value.indices[0]) for x in s] == ["k", "k.2"]


def test_ranges_of_conv():
    conv = op(CONV.format(" else 0"))
    (s,) = conv.statements
    assert [(i, str(e)) for i, e in s.ranges] == [("q", "Q"), ("s", "S")]
    assert [v.name for v, _ in conv.derived] == ["Q"]
    bound = bind_params(conv, {"stride": 2, "pad": 1})
    assert bound.params == ()
    assert str(bound.statements[0].value.args[0].indices[0]) == "2*q + s - 1"
    known = specialise(bound, {"W": 9, "S": 3})
    assert known.derived == known.dims == known.conditions == ()
    assert known.tensor("Y").shape == (as_expr(5),)


def test_an_access_proven_inside_needs_no_else():
    conv = op(CONV.format(""))
    bind_params(conv, {"stride": 3})
    with pytest.raises(UserError, match=r"may leave") as e:
        bind_params(conv, {"pad": 1})
    assert e.value.id == "may-leave-tensor"


def test_conditions_help_to_prove():
    op("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[0] * X[i]\n")  # there is an i, so N >= 1
    op("op f[N](X: f32[N]) -> (Y: f32[]) where N >= 1:\n    Y = X[0]\n")
    assert ids("op f[N](X: f32[N]) -> (Y: f32[]):\n    Y = X[0]\n") == ["may-leave-tensor"]
    op("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[N - 1 - i]\n")
    op("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i / 2]\n")


def test_an_output_may_be_shorter_than_what_it_reads():
    s = op("op f[N](X: f32[N]) -> (Y: f32[P]) where P = N - 1:\n    Y[i] = X[i] + X[i + 1]\n").statements
    assert str(s[0].extent("i")) == "P"
    assert ids("op f[N](X: f32[N]) -> (Y: f32[P]) where P = N + 1:\n    Y[i] = X[i]\n") == ["inconsistent-range"]


def test_an_intermediate_gets_its_range_from_the_output():
    f = op("""
op f[W, S](I: f32[W], F: f32[S]) -> (Y: f32[Q]) where Q = W - S + 1:
    A[q] = sum(s) I[q + s] * F[s]
    B[p] = A[p] + 1
    Y[i] = relu(B[i])
""")
    assert str(f.statements[0].extent("q")) == "Q"


def test_a_reduction_may_state_its_extent():
    f = op("""
op f[N](X: f32[N], size: int = 2) -> (Y: f32[P]) where P = N / size:
    Y[i] = max(r: size) X[i*size + r]
""")
    assert str(bind_params(f, {"size": 3}).statements[0].extent("r")) == "3"


def test_unused_statements_are_dropped():
    f = op("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Z[i] = sum(j) X[j] * X[i]\n    Y[i] = X[i]\n")
    assert [s.target for s in f.statements] == ["Y"]
    assert [t.name for t in f.tensors] == ["X", "Y"]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("A[i] + B[i]", F32),
        ("B[i] * B[i]", F32),
        ("A[i] + D[i]", F64),
        ("D[i] * 0.1", F64),
        ("a[i] * 0.5", F32),
        ("A[i] / N", F32),
        ("A[i] * a[i]", F32),
        ("b[i] + b[i]", I32),
        ("b[i] + 1", I32),
        ("a[i] + d[i]", I64),
        ("a[i] + i", I64),
        ("rsqrt(N)", F32),
        ("D[i] * rsqrt(N)", F64),
        ("f16(A[i])", F16),
        ("f16(A[i]) + f16(A[i])", F32),
        ("where(c[i], B[i], 0)", F32),
        ("where(A[i] < 0, a[i], 1)", I32),
        ("i32(c[i]) + 1", I32),
        ("-b[i]", I32),
        ("max(A[i], B[i], 0)", F32),
        ("B[i]", F16),
        ("abs(d[i])", I64),
    ],
)
def test_types(text, dtype):
    out = "f64" if dtype.kind == "float" else "i64"
    value = body(text, out=out)
    assert value.dtype == (F64 if text == "rsqrt(N)" else dtype)


def test_operands_are_converted_to_the_type_of_the_operation():
    assert body("A[i] + B[i]").args[1] == Cast(Load("B", (as_expr(Var("i")),), F16), F32)
    assert body("A[i] * 2").args[1] == Const(2.0, F32)
    assert body("A[i] * -0.5").args[1] == Const(-0.5, F32)
    assert body("A[i] / N").args[1] == Cast(IndexValue(as_expr(Var("N")), I64), F32)
    assert body("a[i] / 2", out="i32").fn == "floordiv"
    assert body("A[i] / 2").fn == "div"


def test_index_arithmetic_stays_an_index_expression():
    assert body("2*i + N - 1", out="i64") == IndexValue(2 * Var("i") + Var("N") - 1, I64)
    assert isinstance(body("i * i", out="i64"), Apply)


def test_a_sum_accumulates_wide():
    s = op(
        "op f[N](X: f16[N], c: bool[N]) -> (Y: f16[], Z: i32[]):\n    Y = sum(i) X[i]\n    Z = sum(i) i32(c[i])\n"
    ).statements
    assert s[0].value.dtype == F32
    assert s[1].value.dtype == I32


def test_else_values_have_the_tensors_type():
    assert body("B[i - 1 else 0]").otherwise == Const(0.0, F16)
    assert body("A[i - 1 else -inf]").otherwise == Const(float("-inf"), F32)
    assert body("A[i - 1 else A[i]]").otherwise == Load("A", (as_expr(Var("i")),), F32)


def test_argmax_is_an_i64():
    f = op("op f[N](X: f32[N]) -> (Y: f32[]):\n    a = argmax(i) X[i]\n    Y = a\n")
    assert f.tensor("a").dtype == I64


def test_several_mistakes_are_reported_at_once():
    assert ids("""
op f[M, N](A: f32[M, N]) -> (Y: f32[M], Z: f32[M]):
    Y[i] = sum(j) A[i, j, 0] + foo(A[i, 0]) + B[i] + q
""") == ["never-assigned", "wrong-rank", "unknown-function", "unknown-tensor", "unknown-name"]


def test_parameters_must_be_given_unless_they_have_a_default():
    f = op("op f[N](X: f32[N], P: int) -> (Y: f32[Q]) where Q = N - P:\n    Y[i] = X[i + P]\n")
    bind_params(f, {"P": 2})
    for values, id in [
        ({}, "missing-parameter"),
        ({"P": 1, "Q": 2}, "unknown-size"),
        ({"P": 1.5}, "bad-size"),
        ({"P": True}, "bad-size"),
    ]:
        with pytest.raises(UserError) as e:
            bind_params(f, values)
        assert e.value.id == id
    with pytest.raises(UserError) as e:
        bind_params(f, {"P": -1})
    assert e.value.id == "may-leave-tensor"


def test_sizes_are_checked():
    f = bind_params(op(CONV.format(" else 0")))
    for sizes, id in [({"Q": 3}, "unknown-size"), ({"W": -1}, "bad-size"), ({"W": 2, "S": 9}, "condition-failed")]:
        with pytest.raises(UserError) as e:
            specialise(f, sizes)
        assert e.value.id == id
    with pytest.raises(UserError) as e:
        bind_params(op(CONV.format(" else 0")), {"stride": 0})
    assert e.value.id == "condition-failed"
    with pytest.raises(UserError, match="which no sizes satisfy") as e:  # refused where the op is written
        specialise(op("op g(X: f32[3]) -> (Y: f32[2 - 3]):\n    Y[i] = X[i]\n"), {})
    assert e.value.span is not None
    g = op("op g[M, N](x: f32[M], y: f32[N]) -> (C: f32[M, N]):\n    C[i, j] = x[i] * y[j]\n")
    with pytest.raises(UserError) as e:
        specialise(g, {"M": 2**32, "N": 2**31})
    assert e.value.id == "size-overflow"
    specialise(g, {"M": 2**31, "N": 2**31})
