"""Index arithmetic in 32 bits: sizes, and products of sizes that fused indices are divided by, get an end and a condition."""

from __future__ import annotations

from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

TEXT = """
import std.devices.nvidia
op turn[M, N, K](X: f32[M, N, K]) -> (Y: f32[N, M, K]):
    Y[j, i, k] = X[i, j, k]
schedule s for turn on sm_80:
    fuse i, j as ij
    tile ij: 8 -> block
    tile k: 128
    tile ij: 1 -> warp
    tile k: 4 -> thread
    compute
"""


def test_a_fused_index_is_divided_in_32_bits() -> None:
    mod = loads(TEXT)
    p = compile_program(mod, mod.ops["turn"], mod.schedules["s"], mod.device("sm_80")).program
    assert p.needs is not None
    assert [str(v) for v, _ in p.lets] == ["MN"]
    assert any("MN" in str(c) for c in p.needs.conds)
    assert p.instead is not None
    assert not p.instead.lets
    fast, _, safe = emit(p, "cuda").partition("andiron_turn__turn_Y_any(")
    divided = [line for line in fast.splitlines() if "/ N" in line or "% N" in line]
    assert divided
    assert not any("(int64_t)block" in line for line in divided)
    assert "int MN" in fast
    assert "int64_t MN" not in safe.partition("{")[0]
