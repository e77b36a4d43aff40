"""The sketches of GPU schedules lower to tile programs that a SIMT machine, given only as text, interprets to right results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import If, Stmt, Store
from andiron.dsl.semantics.reference import reference
from andiron.dsl.values import Masked, transform

from ..support.edit_programs import barriers, edited, without_barrier
from ..support.simt_sketches import CASES, inputs, program


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    op, p = program(name)
    for sizes in CASES[name][2]:
        arrays = inputs(op, sizes)
        (out,) = interpret(p, arrays, sizes=sizes).values()
        want = reference(op)(*arrays.values())
        np.testing.assert_allclose(out.astype("f8"), np.asarray(want, "f8"), atol=CASES[name][3], rtol=0)


def test_attention_without_a_schedule_has_several_launches() -> None:
    assert len(program("auto attention")[1].launches) == 4


def test_split_reduction_is_finished_by_a_second_launch() -> None:
    assert len(program("tall")[1].launches) == 2


def test_ampere_uses_its_instructions() -> None:
    p = program("ampere")[1]
    assert {i.name for i in p.instrs} == {"mma_m16n8k16_f16", "ldmatrix_x4", "ldmatrix_x2_trans", "cp_async_f16x8"}


def _faults(p: Program, op, sizes: dict[str, int]) -> set[str]:
    found: list = []
    interpret(p, inputs(op, sizes), sizes=sizes, on_fault=found)
    return {f.kind for f in found}


@pytest.mark.parametrize("name", ["maxwell", "ampere", "igemm", "row", "tiled", "strips"])
def test_each_barrier_is_needed(name: str) -> None:
    """Taken out one by one, every barrier leaves a race that the interpreter reports."""
    op, p = program(name)
    assert barriers(p)
    sizes = CASES[name][2][0]
    for n in range(barriers(p)):
        assert "race" in _faults(without_barrier(p, n), op, sizes), f"barrier {n} of {name}"


@pytest.mark.parametrize("name", ["maxwell", "ampere", "igemm", "row", "tiled", "tall"])
def test_guards_are_needed(name: str) -> None:
    """Without its guards a program leaves its tensors at odd sizes."""

    def bare(v):
        return transform(v.value, bare) if isinstance(v, Masked) else None

    def strip(s: Stmt) -> list[Stmt]:
        if isinstance(s, If) and not s.orelse:
            return list(s.body)
        return [replace(s, value=transform(s.value, bare))] if isinstance(s, Store) else [s]

    op, p = program(name)
    assert "out-of-bounds" in _faults(edited(p, strip), op, CASES[name][2][0])
