"""The sketches of GPU schedules lower to tile programs that a SIMT machine, given only as text, interprets to right results."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import If, Stmt, Store
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.dsl.values import Masked, transform

from ..support.edit_programs import barriers, edited, without_barrier
from ..support.paths import DEVICES

# schedule (None: nothing written), op, parameters, sizes; the error allowed
CASES = {
    "maxwell": ("gemm", {}, [dict(M=150, N=131, K=21), dict(M=1, N=1, K=1), dict(M=3, N=4, K=0)], 1e-4),
    "ampere": ("hgemm", {}, [dict(M=150, N=136, K=56), dict(M=37, N=19, K=21), dict(M=2, N=3, K=0)], 2e-2),
    "tall": ("gemm", {}, [dict(M=13, N=17, K=150), dict(M=2, N=3, K=0), dict(M=1, N=1, K=65)], 1e-4),
    "igemm": ("conv2d", {}, [dict(N=2, C=7, H=7, W=9, O=5, R=3, S=2), dict(N=1, C=1, H=1, W=1, O=1, R=1, S=1)], 1e-4),
    "igemm_padded": ("conv2d", {"pad": 1, "stride": 2}, [dict(N=2, C=2, H=7, W=9, O=5, R=3, S=3)], 1e-4),
    "row": ("softmax", {}, [dict(M=3, N=1500), dict(M=2, N=1), dict(M=0, N=7)], 1e-6),
    "tiled": ("transpose", {}, [dict(M=37, N=45), dict(M=1, N=1), dict(M=0, N=3)], 0),
    "strips": ("transpose", {}, [dict(M=37, N=45)], 0),
    "auto attention": ("attention", {}, [dict(H=2, Q=5, T=7, D=6), dict(H=1, Q=1, T=1, D=1)], 1e-2),
    "auto softmax": ("softmax", {}, [dict(M=5, N=70)], 1e-6),
    "auto gemm": ("gemm", {}, [dict(M=37, N=45, K=12)], 1e-4),
}


@lru_cache(maxsize=1)
def module():
    return loads((DEVICES / "simt.sched").read_text() + (DEVICES / "simt_sketches.sched").read_text())


@lru_cache(maxsize=20)
def program(name: str) -> tuple:
    mod = module()
    op = bind_params(mod.ops[CASES[name][0]], CASES[name][1])
    return op, compile_program(mod, op, mod.schedules.get(name.split("_")[0]), mod.devices["simt"]).program


def inputs(op, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {t.name: rng.standard_normal([e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}


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
    assert {i.name for i in p.instrs} == {"mma_m16n8k16_f16", "ldmatrix_x4", "cp_async_f16x8"}


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
