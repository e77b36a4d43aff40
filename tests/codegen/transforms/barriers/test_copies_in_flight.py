"""`if (inside) copy else zeros` with an asynchronous copy: later the zeros are copied asynchronously too (ELSE_IN_FLIGHT)."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

TEXT = """
op f[M, K, N](A: f32[M, K], B: f32[K, N]) -> (Y: f32[N, M]):
    Y[n, m] = sum(k) A[m, k] * B[k, n]
schedule s for f where K <= {k}, N <= 6:
    tile n: 8, m: 8 -> block
    keep Y in register
    tile k: 8 pipeline {depth}
    move A -> shared
    move B -> shared with cp_async:
        fuse k, n as kn
        tile kn: 4 -> thread
        compute with cp_async_f32x4
    tile n: 4, m: 8 -> warp
    tile n: 1, m: 1 -> thread
    compute
"""


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("k", [8, 16])
def test_all_that_is_in_flight_is_waited_for(k: int, depth: int) -> None:
    """Of rows of 6 elements, 4 are copied by the first warp for itself alone, and 2 for the second warp."""
    module = loads(TEXT.format(k=k, depth=depth))
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_90a")).program
    assert any(i.name.startswith("cp_async_zero") for i in program.instrs)
    rng = np.random.default_rng(0)
    for m, n in ((1, 1), (9, 6), (8, 5)):
        a, b = rng.integers(-3, 4, (m, k - 1)).astype("f4"), rng.integers(-3, 4, (k - 1, n)).astype("f4")
        np.testing.assert_array_equal(interpret(program, {"A": a, "B": b}, {"M": m, "K": k - 1, "N": n})["Y"], (a @ b).T)
