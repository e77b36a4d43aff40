"""A copy fills what is outside of a tensor with one value."""

import andiron
import pytest
from andiron.dsl.errors import UserError

OP = "op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = min(X[i - 1 else {0}], 1.0 / X[i - 1 else {1}])\n"
SCHEDULE = "\nschedule s for f:\n    tile i: 2 -> core\n    move X -> l1\n    compute\n"


@pytest.mark.parametrize("values", [("0.0", "-0.0"), ("0.0", "1.0")])
def test_two_values_need_two_copies(values):
    """Zeros of different signs are two."""
    with pytest.raises(UserError, match="read with different `else` values"):
        andiron.compile(OP.format(*values) + SCHEDULE, schedule="s", target="cpu:generic")


@pytest.mark.parametrize("value", ["0.0", "-0.0"])
def test_one_value_is_copied(value):
    assert andiron.compile(OP.format(value, value) + SCHEDULE, schedule="s", target="cpu:generic").report.launches == 1
