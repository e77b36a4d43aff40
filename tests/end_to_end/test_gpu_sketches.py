"""Schedules for the GPUs of the library lower to tile programs that are right, at odd sizes too, and use their instructions."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.abi import programs
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import compile_program
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference

from ..support.gpu.sketches import CONV, GEMM, USES, module

VECTORS = {"load_global", "store_global", "load_shared", "store_shared", "cp_async"}


@pytest.mark.parametrize("name", USES)
def test_right(name: str) -> None:
    mod = module()
    schedule = mod.schedules[name]
    op = bind_params(mod.ops[schedule.op], {})
    program: Program = compile_program(mod, op, schedule, mod.devices[schedule.device or ""]).program
    used = {i.name for p in programs(program) for i in p.instrs}
    assert USES[name] <= used
    assert {i.family for i in program.instrs if i.name not in USES[name]} <= VECTORS  # of any width
    for sizes in CONV if "conv" in name else GEMM:
        rng = np.random.default_rng(1)
        arrays = {t.name: rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
        (out,) = interpret(program, arrays, sizes=sizes).values()
        np.testing.assert_array_equal(out.astype("f8"), np.asarray(reference(op)(*arrays.values()), "f8"))


def test_every_schedule_is_tested() -> None:
    assert set(module().schedules) == set(USES)
