"""Registers of GPU kernels are arrays, and the loops over them stay loops, each with a pragma."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pytest
from andiron.codegen.emit.gpu.register_arrays import RegisterArray, over_words, register_arrays, without_clearing, word_loops
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Alloc, Buffer, Call, For, Piece, Store
from andiron.codegen.pipeline import compile_program
from andiron.dsl.index.expr import Expr, Var, as_expr
from andiron.dsl.module import load, loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.types import TYPES
from andiron.dsl.values import Const
from andiron.runtime.compile import compile as compile_kernel
from andiron.runtime.emulator.run_program import emulate

from ....support.paths import STDLIB

DIALECTS = {"sm_80": "cuda", "gfx942": "hip"}


def register(dtype: str, *shape: int) -> Buffer:
    strides = tuple(as_expr(int(np.prod(shape[i + 1 :]))) for i in range(len(shape)))
    size = as_expr(int(np.prod(shape)))
    return Buffer("x", TYPES[dtype], "local", "register", "thread", tuple(map(as_expr, shape)), strides, size)


def call(extent: int, *coords: int | Var | Expr) -> Call:
    return Call("f", (Piece("x", tuple(map(as_expr, coords)), extent),))


def array(b: Buffer, *calls: Call, share: int = 1) -> RegisterArray:
    return register_arrays(calls, {"x": b}, {"x": share} if share > 1 else {})["x"]


I, J = Var("i", 0, 3), Var("j", 0, 7)


def test_the_shape_is_the_buffer_s():
    assert array(register("f32", 4, 8, 4)) == RegisterArray((0, 1, 2), (4, 8, 4))
    assert array(register("f32", 4, 1, 4)) == RegisterArray((0, 2), (4, 4))
    assert array(register("f32", 1)) == RegisterArray((), ())  # a plain variable
    assert array(register("f32")) == RegisterArray((), ())


def test_what_an_instruction_takes_is_an_array():
    assert array(register("f32", 1), call(1, 0)) == RegisterArray((0,), (1,))
    assert array(register("f32", 4, 1), call(1, I, 0)) == RegisterArray((0, 1), (4, 1))
    assert array(register("f16", 4, 8), call(8, I, 0), share=2) == RegisterArray((0, 1), (4, 4))


def test_operands_are_rows():
    b = array(register("f32", 16), call(4, 4 * as_expr(I)))
    assert b == RegisterArray((0,), (4, 4), 4)
    assert b.indices([4 * as_expr(I) + 3]) == [as_expr(I), as_expr(3)]
    assert array(register("f16", 16), call(4, 4 * as_expr(I)), share=2) == RegisterArray((0,), (4, 2), 2)
    assert array(register("f32", 16), call(4, 4 * as_expr(I)), call(2, 0)).row is None
    assert array(register("f32", 16), call(4, 2 * as_expr(I))).row is None


def stores(place: Var | Expr, trips: int) -> For:
    body = Store("x", (as_expr(place),), Const(1.0, TYPES["f16"]))
    return For(J, as_expr(0), as_expr(trips), as_expr(1), (body,), 0)


def test_loops_over_parts_of_words():
    assert word_loops([stores(J, 8).body[0]], {"x": 2}) == {J: 2}
    assert word_loops([stores(2 * as_expr(J), 8).body[0]], {"x": 2}) == {}
    assert word_loops([stores(2 * as_expr(J), 8).body[0]], {"x": 4}) == {J: 4}
    words = over_words(stores(J, 8), 8, 2)
    assert words is not None
    (parts,) = words.body
    assert isinstance(parts, For)
    assert (words.stop.constant, parts.start) == (4, 2 * as_expr(words.var))
    assert over_words(stores(J, 7), 7, 2) is None  # it ends within a word
    assert over_words(stores(J, 2), 2, 2) is None  # it is one word


def test_an_array_that_is_cleared_first_is_declared_as_zeros():
    def cleared(value: float, *extents: int) -> Alloc | None:
        nest = Store("x", (as_expr(I), as_expr(J)), Const(value, TYPES["f32"]))
        for v, n in zip((J, I), extents[::-1], strict=True):
            nest = For(v, as_expr(0), as_expr(n), as_expr(1), (nest,), 0)
        return without_clearing(Alloc(register("f32", 4, 8), (nest, call(4, 0, 0))))

    alone = cleared(0.0, 4, 8)
    assert alone is not None
    assert alone.body == (call(4, 0, 0),)
    assert cleared(-0.0, 4, 8) is None
    assert cleared(1.0, 4, 8) is None
    assert cleared(0.0, 4, 7) is None


@lru_cache
def kernels(op: str, device: str) -> dict[str, list[str]]:
    """The lines of each kernel of a product of 4096 by 4096."""
    module = load(STDLIB / "ops" / "gemm.sched")
    fixed = specialise(module.ops[op], dict.fromkeys("MNK", 4096))
    text = emit(compile_program(module, fixed, None, module.device(device)).program, DIALECTS[device])
    return {m[1]: m[0].split("\n") for m in re.finditer(r"^andiron_\w+__(\w+)\(.*?^\}", text, re.M | re.S)}


# lines: with two sets of fragments, whose last iteration stands apart. The second number is for arguments that are not aligned;
# of gfx942 copies go through registers, and stand twice. Of sm_80 results go through shared memory.
SHORT = {"sm_80": (135, 170), "gfx942": (190, 190)}


@pytest.mark.parametrize("device", DIALECTS)
@pytest.mark.parametrize("op", ["gemm_f16", "gemm_f16_nt"])
def test_a_kernel_is_short(op, device):
    aligned, others = SHORT[device]
    for name, lines in kernels(op, device).items():
        assert len(lines) <= (others if name.endswith("_any") else aligned), name


@pytest.mark.parametrize("device", DIALECTS)
def test_accumulators_are_an_array_in_loops_with_a_pragma(device):
    for lines in kernels("gemm_f16", device).values():
        body = "\n".join(lines)
        assert re.search(r"float c(\[\d+\])+ = \{\};", body)
        assert not re.search(r"\bc_\d", body)
        product = r"i__\w+\(\w+(?:\[[^]]+\])*, \w+(?:\[[^]]+\])*, c\["
        assert re.search(r"#pragma unroll\n +for \(int \w+ = 0; \w+ < \d; \w+\+\+\) " + product, body)


WORDS = """
op twice[N](X: f16[N]) -> (Y: f16[N]):
    Y[i] = f16(f32(X[i]) + f32(X[i]))
schedule s for twice on sm_80:
    tile i: 2048 -> block
    tile i: 8 -> thread vector 8
    compute
"""


def test_parts_of_words_are_put_together_at_once():
    module = loads(WORDS)
    program = compile_program(module, module.ops["twice"], module.schedules["s"], module.device("sm_80")).program
    text = emit(program, "cuda")
    assert "m_set_part" not in text
    loop = r"for \(int (\w+) = 0; \1 < 4; \1\+\+\) (?:\{\n +)?\w+\[\1\] = m_pack_u16\("
    assert re.search(loop, text)
    x = np.arange(-1500, 1500).astype(np.float16)
    assert np.array_equal(emulate(program, {"X": x})["Y"], x + x)


TILES = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
schedule s for gemm on sm_80:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 16{pipeline}
    move A -> shared
    move B -> shared
    tile m: 8, n: 8 -> thread
    compute
"""


@pytest.mark.parametrize(("pipeline", "pragma"), [("", True), (" pipeline 2", False)])
def test_a_short_loop_over_tiles_stays_a_loop(pipeline, pragma):
    """Unless its iterations differ: then a compiler may take the last one out."""
    module = loads(TILES.format(pipeline=pipeline))
    fixed = specialise(module.ops["gemm"], dict.fromkeys("MNK", 64))
    text = emit(compile_program(module, fixed, module.schedules["s"], module.device("sm_80")).program, "cuda")
    assert "for (int k1 = 0; k1 < 4; k1++)" in text
    assert bool(re.search(r"#pragma unroll 1\n +for \(int k1 = 0; k1 < 4; k1\+\+\)", text)) == pragma


def test_loops_over_cells_are_unrolled_whatever_text_they_become() -> None:
    """Of the scores of 32 rows and 64 keys, too: an array that a loop indexes at run time would lie in memory."""
    module = loads("import std.ops.attention")
    op = specialise(module.ops["causal_attention_f16"], {"H": 64, "Q": 2048, "T": 2048, "D": 64})
    schedule = loads("""import std.ops.attention
schedule s for causal_attention_f16:
    tile h: 1, i: 64 -> block
    keep m, l, o in register
    move q -> shared
    tile t: 64 online
    move k -> shared
    move v -> shared
    tile i: 32 -> warp
    keep s in register:
        tile d: 16 unroll
        compute with mma_m16n8k16_f16
    tile t: 16 unroll
    keep p in register
    compute with mma_m16n8k16_f16
""").schedules["s"]
    lines = emit(compile_program(module, op, schedule, module.device("sm_80")).program, "cuda").splitlines()
    assert any(re.search(r"float s1\b.*\[", x) for x in lines)
    for n, x in enumerate(lines):
        loop = re.search(r"for \(int (\w+) = 0;", x)
        if loop is None or "#pragma unroll" in lines[n - 1]:
            continue
        end = next(m for m in range(n + 1, len(lines)) if len(lines[m]) - len(lines[m].lstrip()) <= len(x) - len(x.lstrip()))
        inside = "\n".join(lines[n:end])
        assert not re.search(rf"\bs1\[[^\]]*\b{loop.group(1)}\b", inside), x


TURNED = """
op windows[M, H, K, T](A: tf32[M, H], B: tf32[K, M, T]) -> (Y: f32[K, Q]) where Q = H - T + 1:
    Y[k, q] = sum(m, u) A[m, q + u] * f32(B[k, m, u])
"""


def test_fragments_one_after_another_are_rows_of_an_array() -> None:
    """A copy of two fragments sets both rows: C++ knows no element beyond the end of one."""
    kernel = compile_kernel(TURNED, op="windows", target="cuda:sm_80")
    arrays = re.findall(r"float (\w+)\[\d\]\[2\];", kernel.source)
    assert "ldmatrix_x4_bb_tf32" in kernel.source
    assert arrays
    assert not any(re.search(rf"\b{a}\[[^]]*\]\[[23]\] =", kernel.source) for a in arrays)
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((3, 37), (5, 3, 3)))
    Y = sum(A[m, None, u : u + 35] * B[:, m, u, None] for m in range(3) for u in range(3))
    np.testing.assert_array_equal(compile_kernel(TURNED, op="windows", target="emulate:sm_80")(A, B), Y)
