"""Results that leave registers for a swizzled tile, where rows and columns end inside of it.

Each lane has a place of its own there, and is stored if its row is there and its column is.
"""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

from ....support.cpp.build import COMPILERS, build, call, machine_has

TEXT = """
op f[M, N, K](A: f64[M, K], B: f64[K, N]) -> (C: f64[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

schedule s for f:
    tile m: 4, n: 24 -> core
    keep C in register:
        move C -> l1 swizzle
        tile m: 1, n: 4 -> lane
    tile k: 2
    compute with fma
"""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("device", "machine"), [("cpu:avx2", "avx2"), ("cpu:avx512", "avx512")])
def test_rows_and_columns_that_end_in_a_tile(device, machine, compiler):
    if not machine_has(machine):
        pytest.skip(f"this machine has no {machine}")
    module = loads(TEXT)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    function = build(emit(program), "andiron_f", compiler, machine)
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (2, 9, 3), (3, 23, 2), (5, 25, 4), (6, 47, 1), (4, 24, 0)]:
        A, B = (rng.integers(-3, 4, shape).astype(np.float64) for shape in ((m, k), (k, n)))
        assert (interpret(program, {"A": A, "B": B})["C"] == A @ B).all()
        got = call(function, program, {"A": A, "B": B}, {"M": m, "N": n, "K": k})
        assert (got["C"] == A @ B).all(), (m, n, k)
