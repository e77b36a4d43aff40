"""Which statements share a launch: what joins one may not need a result of another launch that needs this one."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import NotComputed

# Z reads X's copy directly, and by way of a sum over a sum.
ROUND = """
op o[M](A: f32[M], G: f32[M, M]) -> (Z: f32[M]):
    x[m] = A[m]
    s = sum(m) x[m]
    g[m2] = sum(m) (G[m, m2] - s)
    t = sum(m) g[m]
    Z[m] = t - x[m]
schedule moved for o:
    move x -> l2
schedule its_own for o:
    keep x in dram:
        tile m: 4
"""

# t is the epilogue of a reduction, and two launches read it.
EPILOGUE = """
op o[N, M](A: f32[N], B: f32[M, M]) -> (P: i64[M], Q: f32[N, N]):
    t = (sum(n) A[n]) * 3
    P[m] = argmax(m2) (t + B[m2, m])
    Q[b, c] = t
schedule moved for o on cpu:avx2:
    tile b: 1 -> lane
    move t -> l2
"""


def outputs(text: str, schedule: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    module = andiron.loads(text)
    program = compile_program(module, module.ops["o"], module.schedules[schedule], module.device("cpu:avx2")).program
    sizes = {str(d): inputs["A"].shape[0] if str(d) != "M" else inputs.get("B", inputs["A"]).shape[0] for d in program.dims}
    return interpret(program, inputs, sizes)


def ints(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(-4, 5, shape).astype(np.float32)


def test_a_statement_between_two_readers_is_refused_at_the_line():
    module = andiron.loads(ROUND)
    with pytest.raises(NotComputed, match="`x` cannot be computed in the launch of all its readers") as caught:
        compile_program(module, module.ops["o"], module.schedules["moved"], module.device("cpu:avx2"))
    assert caught.value.span.line == ROUND.splitlines().index("    move x -> l2") + 1
    assert "keep x in dram:" in caught.value.help


@pytest.mark.parametrize("m", [1, 5])
def test_the_way_out_is_right(m: int):
    a, g = ints(m), ints(m, m)
    z = outputs(ROUND, "its_own", {"A": a, "G": g})["Z"]
    np.testing.assert_array_equal(z, (g - a.sum()).sum() - a)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 3), (9, 17)])
def test_a_moved_epilogue_of_two_launches(n: int, m: int):
    a, b = ints(n), ints(m, m)
    got = outputs(EPILOGUE, "moved", {"A": a, "B": b})
    t = a.sum() * 3
    np.testing.assert_array_equal(got["P"], (t + b).argmax(0))
    np.testing.assert_array_equal(got["Q"], np.full((n, n), t))


# P and Q have a launch each, R and S share one.
BLOCKS = """
op o[M](A: f32[M, M]) -> (R: f32[M, M], S: f32[M, M]):
    P[m, n] = A[m, n] + A[n, m]
    Q[m, n] = (sum(k) P[m, k] * A[k, n]) - P[n, m]
    R[m, n] = Q[m, n] - P[m, n]
    S[m, n] = Q[m, n] + P[m, n]
schedule apart for o:
    keep P, Q in dram:
        tile m: 4
schedule together for o:
    keep R, S in dram:
        tile m: 4
"""


def test_a_block_is_for_tensors_of_one_launch():
    module = andiron.loads(BLOCKS)
    with pytest.raises(NotComputed, match="the launch that computes `P` does not compute `Q`") as caught:
        compile_program(module, module.ops["o"], module.schedules["apart"], module.device("cpu:avx2"))
    assert caught.value.span.text == "keep P, Q in dram"
    assert "`keep Q in dram:`" in caught.value.help
    compile_program(module, module.ops["o"], module.schedules["together"], module.device("cpu:avx2"))
