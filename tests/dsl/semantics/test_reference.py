"""The reference evaluator: shapes, halos, NaN, wrapping, blocks, arguments, error bounds."""

import pickle

import numpy as np
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.ops.resolve_op import resolve_op
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics import evaluate
from andiron.dsl.semantics.evaluate import NumpyArithmetic
from andiron.dsl.semantics.reference import reference
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse, parse_text

from ...support.paths import STDLIB

ROOT = STDLIB / "ops"
OPS = {d.name: resolve_op(d) for f in sorted(ROOT.glob("*.sched")) for d in parse(Source(f.name, f.read_text())).declarations}
f32 = np.float32
nan = np.nan


def run(text, *arrays, **params):
    return reference(resolve_op(parse_text(text).declarations[0]))(*arrays, **params)


def test_halo_values():
    x = np.arange(1, 5, dtype=f32)
    assert run("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i - 1 else 7] + X[i + 1 else X[0]]\n", x).tolist() == [
        9,
        4,
        6,
        4,
    ]
    assert (
        run("op f[N](X: f32[N]) -> (Y: f32[P]) where P = N + 2:\n    Y[i] = X[i - 1 else -inf]\n", x[:0]).tolist()
        == [-np.inf] * 2
    )


def test_nan_propagates_through_extremes_and_zero_products():
    x = np.array([[1, nan, 0], [2, 1, 3]], f32)
    got = run(
        "op f[M, N](X: f32[M, N]) -> (Y: f32[M], Z: f32[M]):\n    Y[i] = max(j) X[i, j]\n    Z[i] = sum(j) X[i, j] * 0\n", x
    )
    assert np.isnan(got[0]).tolist() == np.isnan(got[1]).tolist() == [True, False]


def test_integers_wrap_as_declared():
    a = np.full((2, 3), 2**30, np.int32)
    assert run("op f[M, N](A: i32[M, N]) -> (Y: i32[M]):\n    Y[i] = sum(j) A[i, j]\n", a).tolist() == [3 * 2**30 - 2**32] * 2
    assert run("op f[M, N](A: i32[M, N]) -> (Y: i64[M]):\n    Y[i] = sum(j) i64(A[i, j])\n", a).tolist() == [3 * 2**30] * 2
    big = np.full((4, 4), 2**31 - 1, np.int32)
    text = "op f[N](A: i32[N, N], B: i32[N, N]) -> (C: i32[N, N]):\n    C[i, j] = sum(k) A[i, k] * B[k, j]\n"
    assert (run(text, big, big) == 4).all()  # (2^31 - 1)^2 = 1 modulo 2^32


def test_casts_round_but_arithmetic_does_not():
    x = np.array([2049.0, 1e-4], f32)
    assert run("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = f32(f16(X[i]))\n", x).tolist() == [2048, float(np.float16(1e-4))]
    tiny = np.full(3, 2.0**-30, f32)
    assert run("op f[N](X: f32[N]) -> (Y: f64[N]):\n    Y[i] = f64((X[i] + 1) - 1)\n", tiny).tolist() == [2.0**-30] * 3


def test_a_reader_of_an_output_sees_it_rounded():
    x = np.array([2049.0], f32)
    got = run("op f[N](X: f32[N]) -> (Y: f16[N], Z: f32[N]):\n    Y[i] = X[i]\n    Z[i] = Y[i] + 0\n", x)
    assert [float(a[0]) for a in got] == [2048, 2048]


def test_argmax_of_nothing_is_refused():
    for name in ("row_argmax", "row_argmin"):
        with pytest.raises(UserError) as e:
            reference(OPS[name])(np.zeros((2, 0), f32))
        assert e.value.id == "empty-argmax"
        assert reference(OPS[name])(np.zeros((0, 0), f32)).shape == (0,)


def test_nothing_is_read_where_there_is_nothing_to_do():
    nothing = np.zeros(0, f32)
    assert run("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] + X[0]\n", nothing).shape == (0,)
    assert run("op f[N](X: f32[N]) -> (Y: f32[]):\n    Y = sum(i) X[i] * X[0]\n", nothing) == 0
    assert run("op f[N](X: i32[N]) -> (Y: i32[]):\n    Y = max(i) X[0] * X[i]\n", nothing.astype(np.int32)) == -(2**31)


def test_argmax_over_two_indices_is_row_major():
    x = np.zeros((3, 4), f32)
    x[1, 2] = x[2, 0] = 5
    assert reference(OPS["full_argmax"])(x) == 6
    assert run("op f[M, N](X: f32[M, N]) -> (Y: i64[]):\n    Y = argmax(j, i) X[i, j]\n", x) == 2


def test_arguments_are_checked():
    gemm = reference(OPS["gemm"])
    a = np.zeros((3, 4), f32)
    for arrays in [(a,), (a, np.zeros((5, 2), f32)), (a, np.zeros((4, 2))), (a, np.zeros(4, f32))]:
        with pytest.raises(UserError) as e:
            gemm(*arrays)
        assert e.value.id == "wrong-argument"
    with pytest.raises(UserError) as e:
        gemm(a, a.T.copy(), pad=1)
    assert e.value.id == "unknown-size"


@pytest.mark.parametrize("scalar", ["x", b"x", {}, None, 1 + 2j, object()])
def test_a_scalar_is_a_number(scalar):
    text = "op f(a: f32[]) -> (Y: f32[]):\n    Y = a + 1.0\n"
    with pytest.raises(UserError, match="`a` of op `f` is one f32"):
        run(text, scalar)
    assert run(text, 2) == run(text, np.float32(2)) == 3


def test_strided_arguments_are_fine():
    a = np.random.default_rng(0).normal(size=(8, 9)).astype(f32)
    gemm = reference(OPS["gemm"])
    np.testing.assert_array_equal(gemm(a[::2, ::3], a.T[::3, ::-1]), gemm(a[::2, ::3].copy(), a.T[::3, ::-1].copy()))


def test_blocks_do_not_change_results(monkeypatch):
    rng = np.random.default_rng(0)
    inputs = {
        "gemm_i8": [rng.integers(-9, 9, (5, 7)).astype(np.int8), rng.integers(-9, 9, (7, 6)).astype(np.int8)],
        "conv2d_i8": [rng.integers(-9, 9, (2, 3, 6, 5)).astype(np.int8), rng.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)],
        "row_max": [rng.normal(size=(7, 9)).astype(f32)],
        "full_argmax": [rng.normal(size=(7, 9)).astype(f32)],
        "max_pool2d": [rng.normal(size=(2, 3, 7, 6)).astype(f32)],
        "softmax": [rng.normal(size=(7, 9)).astype(f32)],
    }
    whole = {n: reference(OPS[n])(*a) for n, a in inputs.items()}
    for block in (1, 5, 20):
        monkeypatch.setattr(evaluate, "BLOCK", block)
        for n, a in inputs.items():
            np.testing.assert_allclose(reference(OPS[n])(*a), whole[n], rtol=1e-6)


def test_gemm_of_512_is_quick():
    a = np.random.default_rng(0).normal(size=(512, 512)).astype(f32)
    np.testing.assert_allclose(reference(OPS["gemm"])(a, a), a.astype(float) @ a.astype(float), rtol=1e-6, atol=1e-5)


FLOAT = [n for n, o in OPS.items() if all(t.dtype.kind == "float" for t in o.tensors)]


@pytest.mark.parametrize("name", FLOAT)
def test_plain_evaluation_is_within_the_bound(name):
    """Evaluating in the declared types, as a simple kernel does, stays within the bound that `exact` promises."""
    op = OPS[name]
    sizes = {v.name: 7 + i for i, v in enumerate(op.dims)} | {v.name: 3 for v in op.dims if v.name in "RST" and "conv" in name}
    rng = np.random.default_rng(0)
    arrays = [np.abs(rng.normal(size=tuple(e.evaluate(sizes) for e in t.shape))).astype(t.dtype.numpy) for t in op.inputs]
    arrays = [np.asarray(a, t.dtype.numpy) for a, t in zip(arrays, op.inputs, strict=True)]
    concrete = specialise(bind_params(op), sizes)
    got = evaluate.evaluate(concrete, {t.name: a for t, a in zip(op.inputs, arrays, strict=True)}, NumpyArithmetic(None))
    exact = reference(op, exact=True)(*arrays)
    rounded = reference(op)(*arrays)
    pairs = [exact] if len(op.outputs) == 1 else exact
    rounded = [rounded] if len(op.outputs) == 1 else rounded
    for t, (value, bound), ref in zip(op.outputs, pairs, rounded, strict=True):
        for y in (got[t.name], ref):
            assert (np.abs(y.astype(float) - value) <= bound).all(), t.name
        scale = np.abs(value).max(initial=0) + 1
        assert np.median(bound) <= {"f64": 1e-10, "f32": 1e-3, "f16": 0.1, "bf16": 0.5}[t.dtype.name] * scale, (
            "a bound that says nothing"
        )


def test_it_can_be_pickled():
    op = OPS["softmax"]
    again = pickle.loads(pickle.dumps(reference(op)))
    x = np.ones((2, 3), f32)
    assert (again(x) == reference(op)(x)).all()
    assert again.__name__ == "softmax"


def test_a_near_tie_leaves_argmax_undetermined():
    text = "op f[N](X: f32[N]) -> (Y: i64[]):\n    e[i] = exp(X[i])\n    Y = argmax(i) e[i]\n"
    op = resolve_op(parse_text(text).declarations[0])
    _, bound = reference(op, exact=True)(np.array([1, 1 + 2.0**-23, 0], f32))
    assert bound == np.inf
    value, bound = reference(op, exact=True)(np.array([1, 2, 0], f32))
    assert (value, bound) == (1, 0)
