"""`auto` in the block of a `keep` or a `move` leaves open what a block may leave out; results stay."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

OPS = """
import std.devices.cpu
import std.devices.nvidia
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
op spread[M, N](A: f32[M], B: f32[N]) -> (C: f32[M, N]):
    C[m, n] = A[m] - B[n]
op apart[M, N](A: f32[M], B: f32[N]) -> (C: f32[M, N]):
    C[m, n] = max(sum(c: M, j: 3) A[m] * B[n], 1.0)
"""
UNITS = {"cpu:avx2": ("core", "l2"), "sm_80": ("block", "shared")}


def run(op: str, lines: str, device: str, m: int, n: int, k: int) -> np.ndarray:
    module = loads(f"{OPS}schedule s for {op}:\n" + "".join(f"    {x}\n" for x in lines.splitlines()))
    made = compile_program(module, module.ops[op], module.schedules["s"], module.devices[device])
    rng = np.random.default_rng(m + 10 * n)
    shapes = {"A": (m, k), "B": (k, n)} if op == "gemm" else {"A": (m,), "B": (n,)}
    arrays = {t: rng.standard_normal(s).astype("f4") for t, s in shapes.items()}
    sizes = {d.name: {"M": m, "N": n, "K": k}[d.name] for d in made.program.dims}
    (got,) = interpret(made.program, arrays, sizes, {"core": 2}).values()
    a, b = arrays["A"], arrays["B"]
    made_by_numpy = {
        "gemm": lambda: a @ b,
        "spread": lambda: a[:, None] - b,
        "apart": lambda: np.maximum(3 * m * (a[:, None] * b), 1.0),
    }
    np.testing.assert_allclose(got, made_by_numpy[op](), rtol=1e-4, atol=1e-4)
    return got


SIZES = [(0, 3, 2), (1, 1, 1), (5, 7, 9), (8, 16, 0)]


@pytest.mark.every_second
@pytest.mark.parametrize("device", UNITS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    ("op", "lines"),
    [
        ("gemm", "tile m: 4, n: 4 -> UNIT\nkeep C in register:\n    auto"),
        ("gemm", "tile m: 4, n: 4 -> UNIT\ntile k: 8\nmove A -> MEMORY:\n    auto"),
        ("gemm", "tile m: 4, n: 4 -> UNIT\ntile k: 8\nmove A -> MEMORY:\n    tile k: 4\n    auto"),
        ("gemm", "tile m: 4, n: 4 -> UNIT\ntile k: 8\nmove A -> MEMORY:\n    tile k: auto\nauto"),
        ("spread", "tile m: 4 -> UNIT\nmove A -> MEMORY:\n    tile m: auto\nauto"),
        ("spread", "tile m: 4 -> UNIT\ntile n: 4\nkeep C in register:\n    auto"),
        ("spread", "tile m: 4 -> UNIT\ntile n: 8\nkeep C in MEMORY:\n    tile n: 4\n    auto"),
    ],
)
def test_right(op: str, lines: str, device: str, sizes: tuple[int, int, int]) -> None:
    unit, memory = UNITS[device]
    run(op, lines.replace("UNIT", unit).replace("MEMORY", memory), device, *sizes)


@pytest.mark.every_second
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("lines", ["auto", "tile m: 1, n: 1\nkeep C.sum1 in register", "tile n: 1"])
@pytest.mark.parametrize("device", UNITS)
def test_no_operand_has_the_reduced_index(device: str, lines: str, sizes: tuple[int, int, int]) -> None:
    """Nothing could be staged for such a sum, so no nest of a contraction is a candidate."""
    run("apart", lines, device, *sizes)
