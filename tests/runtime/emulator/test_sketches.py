"""Every sketch for a GPU runs under the emulator: right at odd sizes, at one and at nothing, with no report."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import Module, load
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile
from andiron.runtime.emulator.run_program import emulate

from ...support.gpu.sketches import CONV, GEMM, USES
from ...support.paths import DEVICES
from ...support.simt_sketches import CASES, inputs, program


@lru_cache(maxsize=2)
def module(name: str) -> Module:
    return load(DEVICES / name)


def small_integers(op, sizes: dict[str, int]) -> list[np.ndarray]:
    """Small whole numbers, whose sums are exact in every type."""
    rng = np.random.default_rng(1)
    return [rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]


@pytest.mark.parametrize("name", USES)
def test_right(name: str) -> None:
    mod = module("gpu_sketches.sched")
    schedule = mod.schedules[name]
    kernel = compile(mod, schedule=name, target=f"emulate:{schedule.device}")
    op = bind_params(mod.ops[schedule.op], {})
    for sizes in CONV if "conv" in name else GEMM:
        arrays = small_integers(op, sizes)
        out = kernel(*arrays, threads=2)
        np.testing.assert_array_equal(out.astype("f8"), np.asarray(reference(op)(*arrays), "f8"))


@pytest.mark.parametrize("name", CASES)
def test_right_on_a_machine_of_the_author_s(name: str) -> None:
    """The small SIMT machine of simt.sched, whose instructions have no text at all."""
    op, p = program(name)
    for sizes in CASES[name][2]:
        arrays = inputs(op, sizes)
        (out,) = emulate(p, arrays, sizes=sizes).values()
        want = reference(op)(*arrays.values())
        np.testing.assert_allclose(out.astype("f8"), np.asarray(want, "f8"), atol=CASES[name][3], rtol=0)


@pytest.mark.parametrize("name", ["ampere", "mfma_half", "tf32", "wmma_float8"])
def test_as_the_interpreter(name: str) -> None:
    """Bit for bit: what an instruction computes has one meaning."""
    mod = module("gpu_sketches.sched")
    schedule = mod.schedules[name]
    p = compile_program(mod, mod.ops[schedule.op], schedule, mod.devices[schedule.device or ""]).program
    rng = np.random.default_rng(2)
    sizes = dict(M=37, N=40, K=24)
    arrays = {t.name: rng.standard_normal([e.evaluate(sizes) for e in t.shape]) for t in mod.ops[schedule.op].inputs}
    arrays = {n: x.astype(mod.ops[schedule.op].tensor(n).dtype.numpy) for n, x in arrays.items()}
    (ours,), (theirs,) = emulate(p, arrays, sizes).values(), interpret(p, arrays, sizes).values()
    np.testing.assert_array_equal(ours.view(f"u{ours.itemsize}"), theirs.view(f"u{ours.itemsize}"))
