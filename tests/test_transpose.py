"""A transposition is turned in registers by an instruction of the device, which is nothing but text."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

TEXT = "import std.devices.cpu\nimport std.ops.tensor\n"
SHAPES = ((37, 45), (16, 16), (1, 1), (8, 130), (0, 3))


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
def test_by_the_instruction(device: str) -> None:
    mod = loads(TEXT)
    program = compile_program(mod, mod.ops["transpose"], None, mod.devices[device]).program
    assert {i.family for i in program.instrs} == {"transpose", "stream"}
    for shape in SHAPES:
        x = np.random.default_rng(1).standard_normal(shape).astype("f4")
        (y,) = interpret(program, {"X": x}, finite={"cores": 2}).values()
        np.testing.assert_array_equal(y, x.T)


def test_natively() -> None:
    kernel = compile(loads(TEXT), op="transpose", target="cpu")
    for shape in SHAPES:
        x = np.random.default_rng(1).standard_normal(shape).astype("f4")
        np.testing.assert_array_equal(kernel(x), x.T)
