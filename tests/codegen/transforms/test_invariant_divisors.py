"""Divisions by what a loop does not change become multiply-adds where a device's division costs more."""

from __future__ import annotations

from dataclasses import replace

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Buffer, For, Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.transforms.licm import hoist_invariants
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.device import Device
from andiron.dsl.index.expr import ONE, Var
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Value, walk

from ...support.gpu.library_instrs import devices
from ...support.tile_programs import F32, GPU, T, add, at, buffer, gpu, loop, put

X = buffer("X", "input", "global", "grid", 4, 32)
Y = buffer("Y", "output", "global", "grid", 4, 32)
R = Buffer("r", F32, "local", "register", "thread", (), (), ONE)
I, J = Var("i"), Var("j")


def dividing(cycles: float | None) -> Device:
    """A device whose division takes so many cycles; None: as many as it takes."""
    (division,) = [i for i in devices()["sm_80"].instrs if i.function == "div"]
    return replace(GPU, instrs=() if cycles is None else (replace(division, cycles=cycles),))


def divided(by: Value, cycles: float | None = 9, turns: int = 4, dtype: str = "f32") -> Program:
    quotient = Apply("div", (at(X, I, T), by), TYPES[dtype])
    body = put(R, value=at(X, 0, T)), loop(I, 0, turns, put(Y, I, T, value=quotient))
    program = gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 1, Alloc(R, body))
    return replace(program, device=dividing(cycles))


def functions(p: Program, inside: bool) -> set[str]:
    """Of what is stored in loops, or before them."""
    every = [s for s in statements(p.launches[0].body) if isinstance(s, Store)]
    within = [s for x in statements(p.launches[0].body) if isinstance(x, For) for s in statements(x.body)]
    stores = [s for s in every if (s in within) == inside]
    return {v.fn for s in stores for v in walk(s.value) if isinstance(v, Apply)}


def test_one_reciprocal_before_the_loop():
    before = divided(at(R))
    after = hoist_invariants(before)
    assert functions(after, inside=True) == {"divide_by"}
    assert functions(after, inside=False) == {"reciprocal"}
    check_well_formed(after)
    data = {"X": np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)}
    np.testing.assert_array_equal(interpret(after, data)["Y"], interpret(before, data)["Y"])
    assert "divide_by(X[i, t], r[], invariant[])" in str(after)


def test_a_computed_divisor_is_computed_once():
    after = hoist_invariants(divided(add(at(R), at(R))))
    assert functions(after, inside=True) == {"divide_by"}
    assert functions(after, inside=False) == {"add", "reciprocal"}


def test_from_the_outermost_loop():
    inner = loop(J, 0, 2, put(Y, I, T, value=Apply("div", (at(X, I, T), at(R)), F32)))
    body = put(R, value=at(X, 0, T)), loop(I, 0, 4, inner)
    program = replace(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 1, Alloc(R, body)), device=dividing(9))
    assert functions(hoist_invariants(program), inside=False) == {"reciprocal"}


@pytest.mark.parametrize(
    "change",
    [{"cycles": None}, {"cycles": 8}, {"turns": 3}, {"dtype": "f64"}, {"by": at(X, I, T)}],
    ids=["no text", "as many cycles", "few turns", "another type", "what the loop changes"],
)
def test_not(change: dict):
    after = hoist_invariants(divided(**{"by": at(R), **change}))
    assert functions(after, inside=True) == {"div"}


def test_quotients_of_a_kernel():
    text = "op f[N](X: f32[N], d: f32[]) -> (Y: f32[N]):\n    Y[i] = X[i] / d\n"
    kernel = andiron.compile(text, schedule="auto", target="emulate:sm_80", verify=True)
    assert "m_divide_by(" in kernel.source
    x = np.random.default_rng(0).integers(0, 1 << 32, 4096, np.uint32).view(np.float32)
    for d in (3.0, -0.0, 1e-40, 3e38, np.inf):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(kernel(x, np.float32(d)), x / np.float32(d))
