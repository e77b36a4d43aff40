"""A transposition is turned in registers by an instruction of the device, which is nothing but text."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
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


PACKED = """import std.devices.cpu
import std.ops.gemm
schedule turned for gemm_nt on {device}:
    tile m: 8, n: 64 -> core
    tile k: 40
    move B -> l2 layout panels(n: {columns}):
        tile n: 16, k: {step}
        keep B in register
        compute with transpose_f32x{step}
    tile n: {columns}
    tile m: 4
    keep C in register
    tile k: 1
    compute with fma_f32x{step}
"""


@pytest.mark.parametrize(("device", "step"), [("cpu:avx2", 8), ("cpu:avx512", 16)])
def test_a_copy_is_turned_as_its_layout_lies(device: str, step: int) -> None:
    """The block of a `move` keeps the copy by the tensor's name; what is not there is not read, and is zero."""
    mod = loads(PACKED.format(device=device, step=step, columns=2 * step))
    program = compile_program(mod, mod.ops["gemm_nt"], mod.schedules["turned"], mod.devices[device]).program
    assert "transpose" in {i.family for i in program.instrs}
    rng = np.random.default_rng(1)
    for m, n, k in ((8, 64, 16), (5, 37, 19), (9, 70, 3)):
        a, b = rng.integers(-3, 4, (m, k)).astype("f4"), rng.integers(-3, 4, (n, k)).astype("f4")
        (c,) = interpret(program, {"A": a, "B": b}, finite={"cores": 2}).values()
        np.testing.assert_array_equal(c, a @ b.T)


def test_packing_turns_in_registers_without_a_schedule() -> None:
    kernel = compile(loads("import std.ops.gemm\n"), op="gemm_nt", target="cpu", threads=1, M=40, N=130, K=75)
    rng = np.random.default_rng(1)
    a, room = rng.integers(-3, 4, (40, 75)).astype("f4"), np.full((132, 75), np.nan, "f4")
    room[1:131] = rng.integers(-3, 4, (130, 75))
    np.testing.assert_array_equal(kernel(a, room[1:131]), a @ room[1:131].T)
