"""Parameters of an op that nobody gave a number: their defaults are taken; without one the error names what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.op import MissingParameter
from andiron.dsl.module import loads

OP = "op repeated[M](X: f32[M], times: int{default}) -> (Y: f32[M]):\n    Y[m] = sum(r: times) X[m]\n"


def program(default: str):
    module = loads(OP.format(default=default) + "schedule s for repeated:\n    tile m: 4\n")
    return compile_program(module, module.ops["repeated"], module.schedules["s"], module.device("cpu:generic")).program


def test_the_default() -> None:
    x = np.arange(5, dtype="f4")
    np.testing.assert_array_equal(interpret(program(" = 3"), {"X": x})["Y"], 3 * x)


def test_no_default() -> None:
    with pytest.raises(MissingParameter, match="`repeated` needs a value for its parameter `times`") as caught:
        program("")
    assert caught.value.help
