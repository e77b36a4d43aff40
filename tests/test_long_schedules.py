"""Schedules that strategies make long: taken in proportion, or refused with a number, in little time."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.codegen.schedule import elaborate
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

from .counted import calls

OP = "op double[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] * 2.0\n"


def doubling(n: int, first: str) -> str:
    """n strategies, each of which applies the one before twice."""
    text = f"strategy s0():\n    {first}\n"
    text += "".join(f"strategy s{k}():\n    apply s{k - 1}()\n    apply s{k - 1}()\n" for k in range(1, n))
    return OP + text + f"schedule long for double:\n    apply s{n - 1}()\n"


def refusal(text: str) -> UserError:
    module = loads(text)
    with pytest.raises(UserError) as found:
        compile_program(module, module.ops["double"], module.schedules["long"], module.device("cpu:avx2"))
    return found.value


@pytest.mark.parametrize("first", ["tile i: 4", "auto"])
def test_strategies_that_double(first):
    text = doubling(18, first)
    module, device = loads(text), loads(text).device("cpu:avx2")
    found = []

    def attempt():
        try:
            compile_program(module, module.ops["double"], module.schedules["long"], device)
        except UserError as error:
            found.append(error)

    assert calls(attempt) < 200_000
    (error,) = found
    assert error.id == "schedule-too-many-lines"
    assert str(elaborate.MOST_LINES) in error.message
    assert error.span is not None
    assert error.span.text == "apply s17()"


def test_a_chain_of_strategies():
    text = OP + "strategy s0():\n    tile i: 4\n"
    text += "".join(f"strategy s{k}():\n    apply s{k - 1}()\n" for k in range(1, 400))
    assert refusal(text + "schedule long for double:\n    apply s399()\n").id == "schedule-too-many-lines"


def test_more_tiles_than_hardware_has_levels():
    lines = "".join(f"    tile i: {4096 - k}\n" for k in range(elaborate.MOST_TILES + 1))
    error = refusal(OP + f"schedule long for double:\n{lines}")
    assert error.id == "schedule-too-many-lines"
    assert error.span is not None
    assert error.span.text == f"tile i: {4096 - elaborate.MOST_TILES}"


def test_as_many_as_there_may_be():
    n = elaborate.MOST_TILES
    lines = "".join(f"    tile i: {1 << (n - k)}\n" for k in range(n))
    module = loads(OP + f"schedule long for double:\n{lines}")
    for name in ("cpu:avx2", "sm_80"):
        compile_program(module, module.ops["double"], module.schedules["long"], module.device(name))
