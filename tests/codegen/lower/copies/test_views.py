"""`move T as (...)`: the copy goes by indices of the focus, each of which is there, once, and which tell all elements apart."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

OP = "op f[M, N](A: f32[M, N], B: f32[M]) -> (Y: f32[M, N]):\n    Y[m, n] = A[m, n] + B[m]\n"
WINDOW = "op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = sum(r: 3) A[m + r - 1 else 0]\n"
FUSED = "    fuse m, n as f\n"


def compiled(op: str, lines: str, device: str):
    module = loads(f"{op}schedule s for f:\n{lines}")
    return compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program


@pytest.mark.parametrize("view", ["m, n", "n, m"])
@pytest.mark.parametrize(("device", "level", "memory"), [("sm_80", "block", "shared"), ("cpu:avx2", "core", "l2")])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (8, 4), (0, 3)])
def test_copies_in_any_order_of_indices(view, device, level, memory, shape):
    lines = f"    tile m: 4, n: 3 -> {level}\n    move A as ({view}) -> {memory}\n    tile n: 1\n    compute\n"
    rng = np.random.default_rng(0)
    A, B = rng.integers(-3, 4, shape).astype(np.float32), rng.integers(-3, 4, shape[:1]).astype(np.float32)
    assert (interpret(compiled(OP, lines, device), {"A": A, "B": B})["Y"] == A + B[:, None]).all()


@pytest.mark.parametrize("m", [1, 2, 9, 16])
def test_a_window_is_copied_once_for_each_place_in_it(m):
    lines = "    tile m: 4 -> block\n    move A as (m, r) -> shared\n    tile m: 1 -> thread\n    compute\n"
    A = np.arange(1, m + 1, dtype=np.float32)
    padded = np.pad(A, 1)
    assert (interpret(compiled(WINDOW, lines, "sm_80"), {"A": A})["Y"] == padded[:-2] + padded[1:-1] + padded[2:]).all()


@pytest.mark.parametrize(
    ("lines", "id"),
    [
        ("    move A as (k, n) -> l3\n", "schedule-unknown-index"),
        ("    move A as (m, m) -> l3\n", "schedule-layout"),
        ("    move A as (m) -> l3\n", "schedule-layout"),
        (FUSED + "    tile f: 4\n    move A as (m, n) -> l3\n", "schedule-layout"),
    ],
)
def test_other_views_are_refused(lines, id):
    with pytest.raises(UserError) as caught:
        compiled(OP, f"    tile m: 4, n: 4\n{lines}" if "fuse" not in lines else lines, "cpu:avx2")
    found = getattr(caught.value, "errors", (caught.value,))
    assert [e.id for e in found] == [id]
    assert found[0].span is not None


@pytest.mark.parametrize(
    "lines", ["fuse i, j as f / tile f: 8 -> core / move X -> l1", "tile i: 8, j: 8 / move X as (j, i) -> l3"]
)
def test_a_size_in_a_subscript_is_no_index(lines):
    op = "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = X[M - 1 - i, j]\n"
    X = np.arange(35, dtype=np.float32).reshape(5, 7)
    program = compiled(op, "".join(f"    {x}\n" for x in lines.split(" / ")), "cpu:avx2")
    assert (interpret(program, {"X": X})["Y"] == X[::-1]).all()
