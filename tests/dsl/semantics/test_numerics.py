"""The arithmetic of the language: rounding, saturation, wrapping, NaN."""

import math

import numpy as np
import pytest
from andiron.dsl.semantics.numerics import apply, cast, constant, fold, identity, round_to
from andiron.dsl.types import TYPES

T = TYPES
inf, nan = float("inf"), float("nan")


def every(bits):
    """All bit patterns of a type of that many bits."""
    return np.arange(1 << bits, dtype=f"uint{bits}")


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_16_bit_floats_round_as_their_libraries_do(name):
    rng = np.random.default_rng(0)
    values = every(16).view(T[name].numpy).astype(np.float32)
    values = values[np.isfinite(values)]
    middle = (values[:-1].astype(float) + values[1:]) / 2
    x = np.concatenate([values, middle, middle * (1 + 1e-7), middle * (1 - 1e-7), rng.normal(size=1000) * 1e5]).astype(
        np.float32
    )
    with np.errstate(over="ignore"):
        want = x.astype(T[name].numpy)
    np.testing.assert_array_equal(cast(x, T["f32"], T[name]).view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2"])
def test_f8_rounds_to_nearest_even_and_saturates(name):
    t = T[name]
    values = np.sort(every(8).view(t.numpy).astype(float))
    values = values[np.isfinite(values)]
    for x in np.concatenate([values, (values[:-1] + values[1:]) / 2, values * 1.01]):
        got = float(cast(np.float32(x), T["f32"], t))
        distance = np.abs(values - np.float64(np.float32(x)))
        nearest = values[distance == distance.min()]
        assert got in nearest
    top = values[-1]
    for x, want in [(1e9, top), (-1e9, -top), (inf, top), (-inf, -top)]:
        assert float(cast(np.float32(x), T["f32"], t)) == want
    assert math.isnan(float(cast(np.float32(nan), T["f32"], t)))


def test_ties_go_to_even():
    assert round_to(2049.0, T["f16"]) == 2048
    assert round_to(2051.0, T["f16"]) == 2052
    assert round_to(1 + 2.0**-8, T["bf16"]) == 1
    assert round_to(1 + 3 * 2.0**-8, T["bf16"]) == 1 + 2.0**-6
    assert round_to(1 + 2.0**-11, T["tf32"]) == 1
    assert round_to(1 + 2.0**-11 + 2.0**-30, T["tf32"]) == 1 + 2.0**-10


def test_overflow_and_subnormals():
    assert round_to(65519.0, T["f16"]) == 65504
    assert round_to(65520.0, T["f16"]) == inf
    assert round_to(-1e6, T["f16"]) == -inf
    assert round_to(2.0**-25, T["f16"]) == 0
    assert round_to(2.0**-25 * 1.001, T["f16"]) == 2.0**-24
    assert math.copysign(1, round_to(-1e-30, T["f16"])) == -1


def test_float_to_int_truncates_and_saturates():
    x = np.array([1.9, -1.9, 3e9, -3e9, inf, -inf, nan, 2147483520.0], dtype=np.float32)
    assert cast(x, T["f32"], T["i32"]).tolist() == [1, -1, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 2147483520]
    assert cast(np.array([1e19, -1e19, nan, 2.0**62]), T["f64"], T["i64"]).tolist() == [2**63 - 1, -(2**63), 0, 2**62]
    assert cast(x, T["f32"], T["u8"]).tolist() == [1, 0, 255, 0, 255, 0, 0, 255]
    assert cast(x, T["f32"], T["i4"]).tolist() == [1, -1, 7, -8, 7, -8, 0, 7]


def test_integers_wrap():
    assert cast(np.array([127, 128, 255, 256, -129]), T["i64"], T["i8"]).tolist() == [127, -128, -1, 0, 127]
    assert cast(np.array([7, 8, 15, 16, -9]), T["i32"], T["i4"]).tolist() == [7, -8, -1, 0, 7]
    assert cast(np.array([-1, 256]), T["i32"], T["u8"]).tolist() == [255, 0]
    big = np.int32(2**31 - 1)
    assert apply("add", (big, np.int32(1)), T["i32"]) == -(2**31)
    assert apply("mul", (big, big), T["i32"]) == 1
    assert apply("neg", (np.int32(-(2**31)),), T["i32"]) == -(2**31)


def test_integer_division_floors():
    a, b = np.array([7, -7, 7, -7, 5]), np.array([2, 2, -2, -2, 0])
    assert apply("floordiv", (a, b), T["i64"]).tolist() == [3, -4, -4, 3, 0]
    assert apply("mod", (a, b), T["i64"]).tolist() == [1, 1, -1, -1, 0]


def test_i64_to_f32_rounds_once():
    x = np.array([2**53 + 1, 2**60 + 2**36 + 1, -(2**60 + 2**36 + 1), 2**63 - 1], dtype=np.int64)
    got = cast(x, T["i64"], T["f32"])
    assert got.tolist() == [2.0**53, 2.0**60 + 2.0**37, -(2.0**60 + 2.0**37), 2.0**63]
    assert cast(np.array([2049, 2050, 2051, 10**18]), T["i64"], T["f16"]).tolist() == [2048, 2050, 2052, inf]
    assert float(cast(np.array([2**57 + 2**49 + 1]), T["i64"], T["bf16"])[0]) == 2.0**57 + 2.0**50


def test_bool_casts():
    assert cast(np.array([0.0, -0.0, 0.5, nan]), T["f64"], T["bool"]).tolist() == [False, False, True, True]
    assert cast(np.array([True, False]), T["bool"], T["f16"]).tolist() == [1, 0]
    assert cast(np.array([True, False]), T["bool"], T["i8"]).tolist() == [1, 0]


@pytest.mark.parametrize("fn", ["min", "max"])
def test_extremes_propagate_nan(fn):
    got = apply(fn, (np.array([1, nan, 3], np.float32), np.array([2, 2, nan], np.float32)), T["f32"])
    assert np.isnan(got).tolist() == [False, True, True]
    assert math.isnan(fold(fn, np.array([1.0, nan, 3.0]), (0,), T["f64"]))
    assert math.isnan(apply("relu", (np.float32(nan),), T["f32"]))


def test_argmax_takes_the_first():
    x = np.array([[3, 1, 3], [0, 0, 0]])
    assert fold("argmax", x, (1,), T["i64"]).tolist() == [0, 0]
    assert fold("argmax", x, (0, 1), T["i64"]) == 0
    assert fold("argmin", x, (0, 1), T["i64"]) == 3
    assert fold("argmin", x, (1, 0), T["i64"]) == 1  # numbered row-major over the axes in the order given
    with pytest.raises(ValueError, match="nothing"):
        fold("argmax", np.zeros((2, 0)), (1,), T["f32"])


def test_empty_reductions_give_the_identity():
    empty = np.zeros((0,), np.float32)
    assert [fold(k, empty, (0,), T["f32"]) for k in ("sum", "prod", "max", "min")] == [0, 1, -inf, inf]
    assert fold("max", np.zeros(0, np.int32), (0,), T["i32"]) == -(2**31)
    assert not fold("any", np.zeros(0, bool), (0,), T["bool"])
    assert fold("all", np.zeros(0, bool), (0,), T["bool"])
    assert identity("min", T["i8"]) == 127


def test_fma_rounds_once():
    a = np.float32(1 + 2.0**-12)
    assert apply("fma", (a, a, np.float32(-1)), T["f32"]) == np.float32(2.0**-11 + 2.0**-24)
    rng = np.random.default_rng(1)
    from fractions import Fraction

    for a, b, c in rng.normal(size=(200, 3)).astype(np.float32) * np.array([1, 1, 2.0**-20], np.float32):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        got = Fraction(float(apply("fma", (a, b, c), T["f32"])))
        for step in (-inf, inf):
            other = Fraction(float(np.nextafter(np.float32(got), np.float32(step))))
            assert abs(got - exact) <= abs(other - exact)


def test_functions_at_the_ends():
    x = np.array([-inf, -1000, 0, 1000, inf], dtype=np.float32)
    assert apply("sigmoid", (x,), T["f32"]).tolist() == [0, 0, 0.5, 1, 1]
    assert apply("gelu", (x,), T["f32"]).tolist() == [0, 0, 0, 1000, inf]
    assert apply("silu", (x,), T["f32"]).tolist() == [0, 0, 0, 1000, inf]
    assert apply("round", (np.array([0.5, 1.5, 2.5, -0.5]),), T["f64"]).tolist() == [0, 2, 2, -0.0]
    assert apply("exp", (x,), T["f32"]).dtype == np.float32


def test_constants_round_once():
    assert constant(0.1, T["f32"]) == np.float32(0.1)
    assert constant(0.1, T["f32"], np.dtype("float64")) == float(np.float32(0.1))
    assert constant(True, T["bool"])
