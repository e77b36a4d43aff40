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


# One launch computes both statistics, and another one reads them.
STATISTICS = """
op o[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    top[i] = max(j) X[i, j]
    total[i] = sum(j) exp2(X[i, j] - top[i])
    Y[i, j] = X[i, j] - top[i] + total[i]
schedule whole for o:
    keep top, total in dram:
        tile i: 2 -> core
        keep top in register
        tile j: 4
        tile j: 1 -> lane
    auto
schedule parts for o:
    keep total, top in dram:
        tile i: 1 -> core
        tile j: 16 -> core online by workspace
        keep top, total in register
        tile j: 8 online
        tile j: 1 -> lane
    auto
schedule none_kept for o:
    keep top, total in dram:
        tile i: 1
    auto
"""


@pytest.mark.parametrize(("schedule", "launches"), [("whole", 2), ("parts", 3), ("none_kept", 2)])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 17), (5, 64), (2, 0), (0, 3)])
def test_a_block_for_statistics_of_rows(schedule: str, launches: int, m: int, n: int):
    """What the second one reads is stored, though the first one keeps it."""
    module = andiron.loads(STATISTICS)
    program = compile_program(module, module.ops["o"], module.schedules[schedule], module.device("cpu:avx2")).program
    assert len(program.launches) == launches
    x = np.random.default_rng(n).integers(-2, 3, (m, n)).astype(np.float32)
    got = interpret(program, {"X": x}, {"M": m, "N": n}, {"core": 3})["Y"]
    top = x.max(1, keepdims=True, initial=-np.inf)
    np.testing.assert_array_equal(got, x - top + np.exp2(x - top).sum(1, keepdims=True))


def test_a_block_for_statistics_is_printed_as_one():
    module = andiron.loads(STATISTICS)
    made = compile_program(module, module.ops["o"], module.schedules["parts"], module.device("cpu:avx2"))
    assert made.schedule.splitlines()[1] == "    keep top, total in dram:"
    again = andiron.loads(STATISTICS.split("schedule whole")[0] + made.schedule)
    assert compile_program(again, again.ops["o"], again.schedules["parts"], again.device("cpu:avx2")).schedule == made.schedule
