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


PERMUTED = """
op outer_turned[A, B, C](X: f32[A, B, C]) -> (Y: f32[C, B, A]):
    Y[c, b, a] = X[a, b, c]
op inner_turned[A, B, C](X: f32[A, B, C]) -> (Y: f32[B, C, A]):
    Y[b, c, a] = X[a, b, c]
op batch_of[A, B, C](X: f32[A, B, C]) -> (Y: f32[A, C, B]):
    Y[a, c, b] = X[a, b, c]
"""


@pytest.mark.parametrize("op", ["outer_turned", "inner_turned", "batch_of"])
@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
def test_what_is_turned_is_where_neighbours_lie(op: str, device: str) -> None:
    """Of three indices the instruction's are those along which results and operands have their neighbours."""
    mod = loads(TEXT + PERMUTED)
    program = compile_program(mod, mod.ops[op], None, mod.devices[device]).program
    assert "transpose" in {i.family for i in program.instrs}
    for shape in ((3, 37, 21), (18, 1, 16), (16, 33, 5)):
        x = np.random.default_rng(1).standard_normal(shape).astype("f4")
        (y,) = interpret(program, {"X": x}, finite={"cores": 2}).values()
        want = {"outer_turned": x.transpose(2, 1, 0), "inner_turned": x.transpose(1, 2, 0), "batch_of": x.transpose(0, 2, 1)}
        np.testing.assert_array_equal(y, want[op])
