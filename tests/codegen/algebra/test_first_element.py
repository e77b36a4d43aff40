"""What a partial result does until an element counts for the statistic that it follows."""

import andiron
import pytest
from andiron.codegen.algebra.first_element import AtTheStart, Followed, NotKnown
from andiron.codegen.algebra.follow import Statistic, correction, is_nonnegative
from andiron.codegen.plan.group_launches import group_launches
from andiron.dsl.support.fast_replace import replace
from andiron.dsl.values import copied

INF = float("inf")
LARGEST, MAXIMUM, LEAST = "max(t) abs(X[i, t])", "max(t) X[i, t]", "min(t) X[i, t]"


def followed(statistic: str, term: str) -> Followed:
    text = f"op f[M, N](X: f32[M, N], W: f32[N]) -> (Y: f32[M]):\n    m[i] = {statistic}\n    Y[i] = sum(t) {term}\n"
    m, y = (w for launch in group_launches(andiron.loads(text).ops["f"], frozenset()) for w in launch)
    body, value, before = copied(m.value), copied(y.value), "m before"
    of = Statistic(body, lambda load: replace(load, tensor=before), is_nonnegative(body))
    (now,) = m.targets
    factor = correction("sum", value, {now: of}, frozenset(y.reduced)).value
    return Followed(body, value, factor, now, before, INF if statistic.startswith("min") else -INF, ("m", "Y"))


@pytest.mark.parametrize(
    ("statistic", "term", "expected"),
    [
        (MAXIMUM, "exp(X[i, t] - m[i])", AtTheStart(no_number=True)),
        (LEAST, "exp(m[i] - X[i, t])", AtTheStart(no_number=True)),
        (MAXIMUM, "where(X[i, t] > -inf, exp(X[i, t] - m[i]), 0)", None),  # a NaN adds 0, and does not stay
        (LARGEST, "exp(abs(X[i, t]) - m[i])", AtTheStart(no_number=True)),
        (LARGEST, "X[i, t] / m[i]", AtTheStart(kept=True, divides=True, no_number=True)),
        (LARGEST, "(X[i, t] / m[i]) * (X[i, t] / m[i])", AtTheStart(kept=True, divides=True, no_number=True)),
        ("max(t) X[i, t] * X[i, t]", "X[i, t] / sqrt(m[i])", None),  # the square of a tiny number is 0
        ("max(t) X[i, t] * X[i, t]", "X[i, t] * X[i, t] / m[i]", AtTheStart(kept=True, divides=True, no_number=True)),
        (LARGEST, "X[i, t] / max(m[i], 1e-30)", AtTheStart(kept=True)),
        (LARGEST, "X[i, t] / (m[i] + 1.0)", AtTheStart(kept=True)),
        (LARGEST, "X[i, t] / where(m[i] == 0.0, 1.0, m[i])", AtTheStart(kept=True)),
        (LARGEST, "W[t] / m[i]", None),  # 1 in place of 0 adds W
        (LARGEST, "(abs(X[i, t]) + 1.0) / m[i]", None),  # as here
        (LARGEST, "X[i, t] * m[i]", None),  # the correction divides by 0
        (LARGEST, "(X[i, t] * X[i, t]) / (m[i] * m[i])", None),  # the square may be 0 where m is not
        (MAXIMUM, "X[i, t] / m[i]", None),  # m may be 0, or pass it
        (MAXIMUM, "X[i, t] * m[i]", None),
        (LARGEST, "X[i, t] / m[i] * W[t]", AtTheStart(kept=True, divides=True, no_number=True)),
        (LARGEST, "X[i, t] / where(m[i] > 0.0, m[i], 1.0)", AtTheStart(kept=True)),
        (LARGEST, "X[i, t] / where(m[i] == inf, 1.0, m[i])", None),  # infinite, where m / m is no number
        ("max(t) abs(W[t]) / relu(X[i, t])", "abs(W[t]) / relu(X[i, t]) / m[i]", None),  # negative by -0
        ("max(t) f32(i32(X[i, t]) * i32(X[i, t]))", "f32(i32(X[i, t]) * i32(X[i, t])) / m[i]", None),  # integers wrap
        ("max(t) f32(abs(i32(X[i, t])))", "f32(abs(i32(X[i, t]))) / m[i]", None),  # as here
        (LARGEST, "W[t] / (1.0 + 1.0 / (m[i] + 1e-20))", None),  # the correction may be 1e20
        (LARGEST, "(X[i, t] / (m[i] * 2.0)) * (1.0 / m[i])", None),  # 1 / m may be infinite
        (LARGEST, "(abs(X[i, t]) + 1.0) / max(m[i], 1e-30)", None),  # as large as 1e30, before the maximum is met
        (LARGEST, "sqrt(abs(X[i, t])) / m[i]", None),  # as here
        (LARGEST, "abs(X[i, t] / m[i])", None),  # not known to the exactly-once checker
        (LARGEST, "X[i, t] / max(m[i], m[i] * 2.0)", None),
        (LARGEST, "X[i, t] / m[i] * exp(abs(X[i, t]) - m[i])", None),
    ],
)
def test_at_the_start(statistic: str, term: str, expected: AtTheStart | None) -> None:
    found = followed(statistic, term)
    if expected is not None:
        assert found.at_the_start() == expected
        return
    with pytest.raises(NotKnown):
        found.at_the_start()
