"""Projections of one tensor: its conversion for a product is computed once, and read by all."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics.reference import reference

QKV = """op qkv[M, K, N](X: f16[M, K], Wq: f16[K, N], Wk: f16[K, N], Wv: f16[N, K])
        -> (q: f16[M, N], k: f32[M, N], v: f32[N, M]):
    q[m, n] = sum(c) f32(X[m, c]) * f32(Wq[c, n])
    k[i, n] = sum(d) f32(Wk[d, n]) * f32(X[i, d])
    v[n, m] = sum(c) f32(X[m, c]) * f32(Wv[n, c])
"""
APART = "keep {} in dram:\n        tile {}: 8 -> core\n        compute\n    "
MAIN = "tile m: 8 -> core\n    compute"


def compiled(lines: str, sizes: dict[str, int]) -> Program:
    module = loads(f"{QKV}schedule s for qkv:\n    {lines}\n")
    op = specialise(module.ops["qkv"], sizes)
    return compile_program(module, op, module.schedules["s"], module.device("cpu:avx2")).program


def workspaces(program: Program) -> set[str]:
    return {b.name for b in program.buffers if b.kind == "workspace" and b.name.endswith("_f32")}


def test_by_default_the_first_product_gives_the_name() -> None:
    module = loads(QKV)
    op = specialise(module.ops["qkv"], {"M": 512, "K": 512, "N": 512})
    found = compile_program(module, op, None, module.device("cpu:avx2"))
    assert workspaces(found.program) == {"q.left_f32", "q.right_f32", "k.left_f32", "v.right_f32"}
    again = loads(f"{QKV}{found.schedule}")
    (decl,) = again.schedules.values()
    fed_back = compile_program(
        again, specialise(again.ops["qkv"], {"M": 512, "K": 512, "N": 512}), decl, again.device("cpu:avx2")
    )
    assert str(fed_back.program) == str(found.program)


@pytest.mark.parametrize("sizes", [(9, 17, 10), (1, 1, 1), (3, 0, 4), (0, 2, 3), (16, 17, 16)], ids=str)
def test_right(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    program = compiled(APART.format("q.left_f32", "m") + APART.format("k", "i") + APART.format("v", "n") + MAIN, {})
    assert workspaces(program) == {"q.left_f32"}
    rng = np.random.default_rng(1)
    x, wq, wk, wv = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n), (k, n), (n, k)))
    got = interpret(program, {"X": x, "Wq": wq, "Wk": wk, "Wv": wv}, sizes={"M": m, "K": k, "N": n})
    for mine, want in zip(got.values(), reference(bind_params(loads(QKV).ops["qkv"]))(x, wq, wk, wv), strict=True):
        np.testing.assert_array_equal(mine, want)


def test_what_lines_name_stays_apart() -> None:
    lines = APART.format("q.left_f32", "m") + APART.format("v.left_f32", "m") + APART.format("v", "n") + MAIN
    assert workspaces(compiled(lines, {})) == {"q.left_f32", "v.left_f32"}


def test_what_a_line_moves_is_read_from_the_copy() -> None:
    block = "keep v in dram:\n        tile n: 8 -> core\n        tile m: 8, c: 8\n        move X -> l2\n        compute\n    "
    assert "x_l2" in str(compiled(APART.format("q.left_f32", "m") + block + MAIN, {"M": 64, "K": 64, "N": 64}))
