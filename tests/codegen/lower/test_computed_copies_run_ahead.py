"""`move T -> MEMORY` with a pipeline, for an intermediate: its sources are loaded ahead, and it is computed as it is stored."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, For, If, Store
from andiron.codegen.ir.tile_visitors import buffers_used, statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.dsl.values import Cast, walk

TF32 = """op t[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) tf32(A[m, k]) * tf32(B[k, n])

schedule s for t:
    tile m: 32, n: 16 -> block
    keep C in register
    tile k: 16 pipeline {depth}
    move C.left -> shared swizzle
    move C.right -> shared pad 8
    tile m: 16, n: 8 -> warp
    tile k: 8{through}
    move C.left -> register with ldmatrix
    move C.right -> register
    compute with mma_m16n8k8_tf32
"""
# The weights are computed of two tensors, by more than a conversion.
SCALED = """op t[M, N, K](A: f16[M, K], Q: i8[K, N], S: f16[K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(f16(f32(Q[k, n]) * f32(S[k])))

schedule s for t:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: 32 pipeline {depth}
    move A -> shared swizzle with cp_async
    move C.right -> shared swizzle
    tile m: 16, n: 16 -> warp
    tile k: 16{through}
    move A -> register with ldmatrix
    move C.right -> register with ldmatrix
    compute with mma_m16n8k16_f16
"""
WAYS = [(2, ""), (3, ""), (2, " pipeline 2 through")]


def compiled(text: str, sizes: dict[str, int]) -> tuple:
    module = loads(text)
    op = specialise(module.ops["t"], sizes)
    return op, compile_program(module, op, module.schedules["s"], module.device("sm_80")).program


def inputs(op, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Small integers, to which in A comes what tf32 rounds, with ties: all sums are exact."""
    values = {t.name: rng.integers(-3, 4, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    if values["A"].dtype == np.float32:
        values["A"] += (rng.integers(-4, 5, values["A"].shape) * 2.0**-11).astype(np.float32)
    return values


@pytest.mark.every_second
@pytest.mark.parametrize(("depth", "through"), WAYS)
@pytest.mark.parametrize("text", [TF32, SCALED], ids=["converted", "computed"])
def test_any_number_of_iterations(text: str, depth: int, through: str) -> None:
    rng = np.random.default_rng(5)
    op, program = compiled(text.format(depth=depth, through=through), {})
    for m, n, k in ((33, 17, 99), (1, 1, 1), (3, 2, 0), (32, 16, 64), (7, 40, 16)):
        sizes = dict(M=m, N=n, K=k)
        values = inputs(op, sizes, rng)
        (got,) = interpret(program, values, sizes=sizes).values()
        np.testing.assert_array_equal(got, reference(op)(*values.values()))


@pytest.mark.parametrize("k", [1, 16, 31, 32, 64])
def test_with_fixed_sizes(k: int) -> None:
    for depth, through in WAYS:
        op, program = compiled(TF32.format(depth=depth, through=through), dict(M=33, N=24, K=k))
        values = inputs(op, {}, np.random.default_rng(k))
        (got,) = interpret(program, values).values()
        np.testing.assert_array_equal(got, reference(op)(*values.values()))


def test_elements_wait_as_they_were_loaded() -> None:
    _, program = compiled(TF32.format(depth=2, through=""), {})
    types = {s.buffer.name: s.buffer.dtype.name for s in all_statements(program) if isinstance(s, Alloc)}
    assert types["c_left_ahead"] == types["c_right_ahead"] == "f32"
    for s in stores(program, "c_left_ahead"):
        assert not any(isinstance(v, Cast) for v in walk(s.value))


def test_a_conversion_stands_under_no_condition_in_the_main_loop() -> None:
    """A branch would keep compilers from mixing it with the product."""
    _, program = compiled(TF32.format(depth=2, through=""), dict(M=4096, N=4096, K=4096))
    loop = next(s for s in all_statements(program) if isinstance(s, For) and s.var.name == "k1")
    assert "c_left" in buffers_used(loop.body)
    assert not any("c_left" in buffers_used(x.body) for x in statements(loop.body) if isinstance(x, If))


def all_statements(program: Program):
    return (s for x in program.launches for s in statements(x.body))


def stores(program: Program, buffer: str) -> list[Store]:
    found = [s for s in all_statements(program) if isinstance(s, Store) and s.buffer == buffer]
    assert found
    return found


@pytest.mark.parametrize("sizes", [{}, dict(M=40, N=8, K=1)], ids=["open", "fixed"])
def test_bits_of_rounded_values_under_the_emulator(sizes: dict[str, int]) -> None:
    kernel = andiron.compile(TF32.format(depth=2, through=""), "t", "s", "emulate:sm_80", sizes=sizes)
    special = [0, 0x80000000, 1, 0x7FFFFF, 0x1000, 0x3000, 0x807FF000, 0x7F7FFFFF, 0x7F7FEFFF, 0x7F800000, 0xFF800000]
    special += [0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001, 0x7F800001, 0x7FFFFFFF, 0xFFC00000]
    a = np.resize(np.array(special, np.uint32), 40).view(np.float32).reshape(40, 1)
    ones = np.ones((1, 8), np.float32)
    out = np.full((40, 8), np.nan, np.float32)
    kernel(a, ones, out=out)
    np.testing.assert_array_equal(out, np.broadcast_to(rounded(a), (40, 8)))


def rounded(x: np.ndarray) -> np.ndarray:
    """To the nearest tf32, of two the even one."""
    b = x.view(np.uint32).astype(np.uint64)
    r = ((b + 0xFFF + ((b >> 13) & 1)) & ~np.uint64(0x1FFF)).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, r)
