"""The emulator and the interpreter of tile programs find the same programs faulty: one runs text, the other statements, and
they share nothing but the program."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np
import pytest
from andiron.codegen import abi
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.faults import Fault
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Let, Stmt, Wait
from andiron.codegen.ir.tile_visitors import map_bodies
from andiron.codegen.targets import target_of
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.dsl.errors import UserErrors
from andiron.dsl.errors.emulate import EmulatorFault
from andiron.runtime.emulator.variant import EmulatedVariant

from ...support.gpu.faulty_kernels import each_without as each_statement
from ...support.tile_programs import CASES, each_without

GPU = [name for name in CASES if name != "gemm_cores"]


def emulate(program: Program, arrays: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Raises an EmulatorFault, or UserErrors."""
    variant = EmulatedVariant(program, emit(program, "emulate"), "", target_of("emulate:gpu", {"gpu": ()}))
    buffers = abi.arguments(program)
    given = {
        b.name: np.array(arrays[b.name]) if b.name in arrays else np.empty(outputs[b.name].shape, outputs[b.name].dtype)
        for b in buffers
    }
    sizes = sizes_of(program, arrays)
    dims = (ctypes.c_int64 * len(program.dims))(*(sizes[v.name] for v in program.dims))
    args = (ctypes.c_void_p * len(buffers))(*(given[b.name].ctypes.data for b in buffers))
    assert variant.load().call(args, dims, 2) == 0
    return {name: given[name] for name in outputs}


def sizes_of(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    found: dict[str, int] = {}
    for b in program.buffers:
        for e, n in zip(b.shape, arrays[b.name].shape if b.name in arrays else (), strict=False):
            found.update({v.name: n for v in program.dims if e == v + 0})
    return found


def emulator_finds(program: Program, case: tuple) -> bool:
    """A report, or wrong numbers."""
    _, arrays, outputs = case
    try:
        out = emulate(program, arrays, outputs)
    except (EmulatorFault, UserErrors):
        return True
    return any(not np.array_equal(out[n], outputs[n]) for n in outputs)


def interpreter_finds(program: Program, case: tuple) -> bool:
    _, arrays, outputs = case
    try:
        out = interpret(program, arrays)
    except Fault:
        return True
    return any(not np.array_equal(out[n], outputs[n]) for n in outputs)


@pytest.mark.parametrize("name", GPU)
def test_whole_programs(name: str) -> None:
    case = CASES[name]()
    program = place_barriers(case[0], lockstep=True)
    out = emulate(program, case[1], case[2])
    for n, expected in case[2].items():
        np.testing.assert_array_equal(out[n], expected)


@pytest.mark.parametrize("name", GPU)
def test_without_a_barrier(name: str) -> None:
    """Barriers of the block; the interpreter takes lanes to be in lockstep, so those of a warp mean nothing to it."""
    case = CASES[name]()
    found = []
    for _, less in each_without(place_barriers(case[0])):
        found.append(interpreter_finds(less, case))
        assert emulator_finds(less, case) == found[-1]
    assert all(found)


@pytest.mark.parametrize("name", GPU)
def test_without_barriers_at_all(name: str) -> None:
    case = CASES[name]()
    assert emulator_finds(case[0], case) >= interpreter_finds(case[0], case)


def test_without_a_wait() -> None:
    case = CASES["gemm_async"]()
    program = place_barriers(case[0], lockstep=True)
    dropped = list(each_statement(program, Wait))
    assert dropped
    for _, less in dropped:
        assert emulator_finds(less, case)
        assert interpreter_finds(less, case)


@pytest.mark.parametrize("name", [n for n in GPU if n != "vector_add"])
def test_statements_left_out(name: str) -> None:
    """Any one innermost statement less: both find it, one way or another."""
    case = CASES[name]()
    program = place_barriers(case[0], lockstep=True)
    for kind in {type(s) for s in _innermost(program)}:
        for _, less in each_statement(program, kind):
            if interpreter_finds(less, case):
                assert emulator_finds(less, case), f"{name} without one {kind.__name__}"


def _innermost(program: Program) -> list[Stmt]:
    out: list[Stmt] = []

    def look(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for s in body:
            if map_bodies(s, lambda inner: ()) is s:
                if not isinstance(s, Let):  # without a name there is no program
                    out.append(s)
            else:
                map_bodies(s, look)
        return body

    for x in program.launches:
        look(x.body)
    return out
