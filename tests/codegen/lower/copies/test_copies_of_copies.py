"""A copy made of a copy reads no further than that one is, whatever the lines below read past their tiles."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads

OP = "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    Y[m, n] = A[m, n]\n"


@pytest.mark.every_second
@pytest.mark.parametrize("every", ["every 3", "every 5", ""])
@pytest.mark.parametrize("tile", [4, 7])
@pytest.mark.parametrize("m", [0, 1, 5, 8, 16])
def test_strided_chunks_of_a_copy_of_a_copy(every, tile, m):
    lines = (
        f"    tile m: {tile}, n: 3 -> core\n    move A -> l2\n    move A -> l3:\n"
        f"        move A -> l1\n        tile n: 1\n        tile m: 1 {every} -> lane\n"
    )
    module = loads(f"{OP}schedule s for f:\n{lines}")
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:generic")).program
    A = np.arange(1, 4 * m + 1, dtype=np.float32).reshape(m, 4)
    assert (interpret(program, {"A": A})["Y"] == A).all()
    check_once(program, module.ops["f"], {"M": m, "N": 4})


@pytest.mark.parametrize("layout", ["layout (n, m)", "layout panels(n: 4)", ""])
@pytest.mark.parametrize("m", [0, 1, 5, 16])
def test_a_copy_that_is_turned_keeps_what_it_copies_in_another_memory(layout, m):
    """The axes of what is kept are those of the tensor, whatever the order of the copy's loops."""
    lines = f"    tile m: 8, n: 4 -> core\n    move A -> l2 {layout}:\n        keep A in l1\n"
    module = loads(f"{OP}schedule s for f:\n{lines}")
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:generic")).program
    A = np.arange(1, 9 * m + 1, dtype=np.float32).reshape(m, 9)
    assert (interpret(program, {"A": A})["Y"] == A).all()
    check_once(program, module.ops["f"], {"M": m, "N": 9})
