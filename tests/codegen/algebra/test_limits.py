"""What is known of a value where some of what it reads is infinite."""

import math

import andiron
import pytest
from andiron.codegen.algebra.limits import INF, Kind, limit
from andiron.dsl.values import Load


def body(text):
    op = andiron.loads(f"op f[N](x: f32[N], m: f32[N], v: f32[N], c: bool[N]) -> (Y: f32[N]):\n    Y[i] = {text}\n").ops["f"]
    return op.statements[0].value


def at(text, **known):
    return limit(body(text), lambda v: known.get(v.tensor) if isinstance(v, Load) else None)


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("exp(x[i] - m[i])", {"x": -INF, "m": 0.0}, 0.0),
        ("exp(x[i] - m[i])", {"x": -INF, "m": Kind.FINITE}, 0.0),
        ("exp(x[i] - m[i]) * v[i]", {"x": -INF, "m": 0.0}, 0.0),
        ("exp(m[i] - x[i])", {"x": -INF}, INF),
        ("exp((x[i] - m[i]) * 1.5)", {"x": -INF, "m": Kind.FINITE}, 0.0),
        ("exp((x[i] - m[i]) * v[i])", {"x": -INF, "m": Kind.FINITE}, Kind.ANY),  # v may be 0, or negative
        ("exp((x[i] - m[i]) * rsqrt(N))", {"x": -INF, "m": Kind.FINITE}, 0.0),
        ("exp(x[i])", {}, Kind.POSITIVE),
        ("where(c[i], x[i], x[i])", {"x": 0.0}, 0.0),
        ("where(c[i], x[i], 1)", {"x": 0.0}, Kind.ANY),
        ("where(x[i] > -inf, exp(x[i] - m[i]), 0)", {"x": -INF, "m": -INF}, 0.0),
        ("where(x[i] > -inf, v[i], 0)", {}, Kind.FINITE),
        ("max(x[i], m[i])", {"m": -INF}, Kind.FINITE),
        ("max(x[i], m[i])", {"m": INF}, INF),
        ("x[i] / m[i]", {"m": INF}, 0.0),
        ("x[i] / m[i]", {}, Kind.ANY),
        ("x[i] / m[i]", {"m": Kind.ABOVE_ZERO}, Kind.FINITE),
        ("abs(x[i]) / m[i]", {"m": Kind.ABOVE_ZERO}, Kind.NONNEGATIVE),  # it may be too small
        ("x[i] / (m[i] * m[i])", {"m": Kind.ABOVE_ZERO}, Kind.ANY),  # as that square
        ("x[i] / m[i]", {"x": 0.0, "m": Kind.ABOVE_ZERO}, 0.0),
        ("x[i] / m[i]", {"x": INF, "m": Kind.ABOVE_ZERO}, INF),
        ("m[i] / x[i]", {"x": INF, "m": Kind.ABOVE_ZERO}, 0.0),
        ("max(abs(x[i]), 1e-30)", {}, Kind.ABOVE_ZERO),
        ("min(m[i], 1.0)", {"m": Kind.ABOVE_ZERO}, Kind.ABOVE_ZERO),
        ("min(abs(x[i]), 1.0)", {}, Kind.NONNEGATIVE),
        ("min(x[i], 1.0)", {}, Kind.FINITE),
        ("max(x[i], v[i])", {}, Kind.FINITE),
        ("abs(x[i]) + 1.0", {}, Kind.ABOVE_ZERO),
        ("m[i] - 1.0", {"m": Kind.ABOVE_ZERO}, Kind.FINITE),
        ("sqrt(m[i])", {"m": Kind.ABOVE_ZERO}, Kind.ABOVE_ZERO),
        ("rsqrt(m[i])", {"m": Kind.ABOVE_ZERO}, Kind.ABOVE_ZERO),
        ("where(m[i] == 0.0, 1.0, v[i])", {"m": 0.0}, 1.0),
        ("where(m[i] == 0.0, v[i], m[i])", {"m": Kind.ABOVE_ZERO}, Kind.ABOVE_ZERO),
        ("where(m[i] > 1.0, v[i], 2.0)", {"m": Kind.ABOVE_ZERO}, Kind.ANY),
        ("f32(f16(m[i]))", {"m": Kind.ABOVE_ZERO}, Kind.NONNEGATIVE),
        ("sin(x[i])", {}, Kind.ANY),
    ],
)
def test_limits(text, known, expected):
    assert at(text, **known) == expected


@pytest.mark.parametrize("text", ["exp(x[i] - m[i])", "exp(x[i] - m[i]) * v[i]", "x[i] - m[i] + v[i]", "f32(f16(x[i] - m[i]))"])
def test_no_number(text):
    found = at(text, x=-INF, m=-INF)
    assert isinstance(found, float)
    assert math.isnan(found)
