"""What random schedules found on GPUs, once each, as small as it gets."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.meaning.reference import reference
from andiron.dsl.module import loads
from andiron.runtime.emulator.program import emulate

ROW = "op f[M, N](A: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) A[i, j]\n"
ARGMAX = "op f[M, N](A: f32[M, N]) -> (Y: i64[N]):\n    Y[j] = argmax(i) A[i, j]\n"
SCALE = "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = 3 * A[i, j]\n"

CASES = {
    # how many blocks there are is known before a loop around them begins
    "blocks in a loop": (ROW, "tile i: 5, j: 5\ntile i: 2 -> block\ntile i: 1 -> thread"),
    "one block in a loop": (ROW, "tile i: 5\ntile i: 8 -> block\ntile i: 2 -> thread"),
    # idle units begin with the identity in registers; what units share begins with its owner's
    "idle units and a shared accumulator": (
        ARGMAX,
        "tile i: 3, j: 7\ntile j: 5 -> block\nkeep Y in shared pad 3\ntile j: 8\ntile j: 1 -> thread",
    ),
    # what a unit alone has is in registers, wherever it was put
    "a memory of one thread's own": (SCALE, "tile i: 1 -> block\ntile j: 64\ntile j: 8 -> thread\ntile j: 4\nmove A -> shared"),
}


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
@pytest.mark.parametrize("name", CASES)
def test_right(name: str, device: str) -> None:
    text, lines = CASES[name]
    block = "".join(f"    {x}\n" for x in lines.split("\n"))
    module = loads(f"{text}\nschedule s for f:\n{block}")
    op = module.ops["f"]
    program = compile_program(module, op, module.schedules["s"], module.device(device)).program
    for sizes in ({"M": 13, "N": 9}, {"M": 1, "N": 1}, {"M": 16, "N": 32}):
        x = np.random.default_rng(0).integers(-3, 4, (sizes["M"], sizes["N"])).astype("f4")
        (got,) = emulate(program, {"A": x}, sizes).values()
        np.testing.assert_array_equal(got, reference(op)(x))
