"""CUDA and HIP: compilers take the text without a word, it computes what it should, and people can read it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from andiron.codegen.abi import programs
from andiron.codegen.emit.gpu.cuda import Printer
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, If, Launch, Store, Units
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.module import load, loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.dsl.types import TYPES
from andiron.dsl.values import Load
from andiron.runtime.check_results import check
from andiron.runtime.emulator.run_program import emulate

from ....support.edit_programs import edited
from ....support.gpu.compilers import cuda, hip
from ....support.library.ops import shapes, values
from ....support.paths import DEVICES, STDLIB
from ....support.simt_sketches import CASES, inputs

HERE = Path(__file__).parent
SCHEDULES = """
op row_top[M, N](X: f16[M, N]) -> (top: f16[M]):
    top[i] = max(j) X[i, j]
schedule top for row_top on sm_80:
    tile i: 2 -> block
    tile i: 1 -> warp
    tile j: 32
    tile j: 1 -> thread
    compute
op row_best[M, N](X: f32[M, N]) -> (best: i64[M]):
    best[i] = argmax(j) X[i, j]
schedule best for row_best on sm_80:
    tile i: 2 -> block
    tile i: 1 -> warp
    tile j: 32
    tile j: 1 -> thread
    compute
"""
MFMA = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
schedule mfma for gemm on gfx90a:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 16
    move A -> shared pad 1
    move B -> shared
    tile m: 32, n: 32 -> wave
    compute with mfma_32x32x2_f32
"""


def sketches() -> str:
    return (DEVICES / "simt_sketches.sched").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def module():
    return loads(sketches().replace(" on simt", " on sm_80") + SCHEDULES)


@lru_cache(maxsize=30)
def program(name: str) -> tuple:
    op = bind_params(module().ops[CASES[name][0]], CASES[name][1])
    return op, compile_program(module(), op, module().schedules.get(name.split("_")[0]), module().device("sm_80")).program


@lru_cache(maxsize=2)
def rows(name: str) -> Program:
    op = module().ops[f"row_{name}"]
    return compile_program(module(), op, module().schedules[name], module().device("sm_80")).program


@lru_cache(maxsize=1)
def library():
    root = STDLIB / "ops"
    return loads("".join(f"import std.ops.{f.stem}\n" for f in sorted(root.glob("*.sched"))))


# ------------------------------------------------------------ compilers


# Of the two convolutions by the same lines each vendor's compiler takes one; they are the longest of these texts.
OF_AMD = {"igemm"}
OF_NVIDIA = {"ampere", "auto attention", "auto gemm", "igemm_padded"}


@pytest.mark.parametrize("name", [n for n in CASES if n not in OF_AMD])
def test_nvidia_takes_a_sketch(name, tmp_path):
    cuda(emit(program(name)[1], "cuda"), tmp_path)


@pytest.mark.parametrize("name", [n for n in CASES if n not in OF_NVIDIA])
def test_amd_takes_a_sketch(name, tmp_path):
    """A schedule is of no vendor, but for what levels are called."""
    mod = loads(sketches().replace(" on simt", " on gfx90a").replace("-> warp", "-> wave"))
    op = bind_params(mod.ops[CASES[name][0]], CASES[name][1])
    p = compile_program(mod, op, mod.schedules.get(name.split("_")[0]), mod.device("gfx90a")).program
    hip(emit(p, "hip"), tmp_path)


def test_amd_takes_its_own_instructions(tmp_path):
    mod = loads(MFMA)
    p = compile_program(mod, mod.ops["gemm"], mod.schedules["mfma"], mod.device("gfx90a")).program
    assert {i.name for i in p.instrs} == {"load_global_f32x4", "store_shared_f32x4", "mfma_32x32x2_f32"}
    hip(emit(p, "hip"), tmp_path)


# ------------------------------------------------------------ results


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    op, p = program(name)
    for sizes in CASES[name][2]:
        arrays = inputs(op, sizes)
        (out,) = emulate(p, arrays, sizes).values()
        want = np.asarray(reference(op)(*arrays.values()), "f8")
        np.testing.assert_allclose(out.astype("f8"), want, atol=CASES[name][3], rtol=0)


@pytest.mark.parametrize(
    "name", ["layernorm", "row_logsumexp", "vector_sum", "row_any", "add_saturated_i8", "linear_gelu", "stencil7"]
)
def test_library_is_right(name):
    op = bind_params(library().ops[name])
    p = compile_program(library(), op, None, library().device("sm_80")).program
    sizes = shapes(op, "odd")
    rng = np.random.default_rng(3)
    arrays = {t.name: values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), False) for t in op.inputs}
    verdict = check(op, list(arrays.values()), list(emulate(p, arrays, sizes).values()))
    assert verdict.ok, verdict


def test_the_first_of_the_greatest():
    x = np.random.default_rng(1).integers(0, 4, (5, 70)).astype("f4")
    x[1, 40] = x[1, 50] = np.nan
    (out,) = emulate(rows("best"), {"X": x}, {"M": 5, "N": 70}).values()
    assert out.tolist() == np.argmax(x, axis=1).tolist()


def groups_of_eight() -> Program:
    """Y[t] = the sum over t's eight neighbours of X, where those are the first or the third eight; else X[t]."""
    t, f32, n = Var("thread", 0, 31), TYPES["f32"], as_expr(32)
    x = Buffer("X", f32, "input", "global", "grid", (n,), (as_expr(1),), n)
    y = replace(x, name="Y", kind="output")
    r = Buffer("r", f32, "local", "register", "thread", (as_expr(1),), (as_expr(1),), as_expr(1))
    zero = as_expr(0)
    body = (
        Store("r", (zero,), Load("X", (as_expr(t),), f32)),
        If((-(t // 8 % 2),), (AllReduce("thread", "sum", 1, 8, (("r", (zero,)),)),)),
        Store("Y", (as_expr(t),), Load("r", (zero,), f32)),
    )
    launch = Launch("sums", (Units("thread", t, n),), (Alloc(r, body),))
    return Program("eights", module().device("sm_80"), (), (), (), (x, y), (launch,))


def test_only_those_that_arrive_exchange(tmp_path):
    x = np.arange(32, dtype="f4")
    (y,) = emulate(groups_of_eight(), {"X": x}, {}).values()
    sums = np.repeat(x.reshape(4, 8).sum(axis=1), 8)
    assert y.tolist() == np.where(np.arange(32) // 8 % 2 == 0, sums, x).tolist()
    cuda(emit(groups_of_eight(), "cuda"), tmp_path)
    hip(emit(groups_of_eight(), "hip"), tmp_path)


def test_names_of_the_launcher_are_free(tmp_path):
    mod = loads("op add[at, error](blocks: f32[at, error], stream: f32[at, error]) -> (dims: f32[at, error]):\n"
                "    dims[i, thread] = blocks[i, thread] + stream[i, thread]\n")  # fmt: skip
    cuda(emit(compile_program(mod, mod.ops["add"], None, mod.device("sm_80")).program, "cuda"), tmp_path)


def test_a_missing_barrier_is_seen():
    op, p = program("tiled")
    arrays = inputs(op, {"M": 37, "N": 45})
    without = edited(p, lambda s: [] if isinstance(s, Barrier) else [s])
    with pytest.raises(UserError, match="emulator-race"):
        emulate(without, arrays, {"M": 37, "N": 45})


# ------------------------------------------------------------ what the text holds


def test_buffers_that_are_never_alive_at_once_share_memory():
    """The write-back's tile lies where the operands were; all threads meet before it begins."""
    p = program("ampere")[1]
    (kernel,) = Printer(p).launched_kernels()
    assert kernel.shared == max(4 * 2 * 128 * 32 * 2, 128 * 136 * 2)
    assert kernel.threads == 256
    text = emit(p, "cuda")
    assert text.count("lies where others were") == len(list(programs(p)))
    assert "cudaFuncAttributeMaxDynamicSharedMemorySize" in text  # more than what a block has without asking


def test_operands_of_instructions_are_words_in_registers():
    text = emit(program("ampere")[1], "cuda")
    body = text[text.index("__global__") :]
    assert "asm" not in body
    assert re.search(r"i__mma_m16n8k16_f16\(a\[0\]\[\w+\], b\[0\]\[\w+\], c\[\w+\]\[\w+\]\);", body)
    assert "uint32_t a[2][4][4];" in body
    assert "float c[4][4][4] = {};" in body


def test_a_copy_is_committed_and_awaited():
    text = emit(program("ampere")[1], "cuda")
    # Four stages: three are filled before the loop, each a group of its own, and one more in every turn.
    order = re.findall(r" (m_commit_group|m_wait_group<\d>)\(\);", text)
    assert order[:4] == ["m_commit_group", "m_wait_group<3>", "m_wait_group<2>", "m_commit_group"]


def test_a_driver_knows_what_to_launch():
    p = program("tall")[1]
    first, second = Printer(p).launched_kernels()
    assert [b.name for b in first.buffers][:2] == ["A", "B"]
    assert first.blocks.evaluate({"M": 13, "N": 17, "K": 150}) == 2 * 3
    assert first.name != second.name
    text = emit(p, "cuda")
    assert all(f"m_launch(\n        {k.name}, " in text for k in (first, second))


def test_outputs_that_may_be_inputs_are_not_restrict():
    mod = loads("op twice[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] + X[i]\n")
    text = emit(compile_program(mod, mod.ops["twice"], None, mod.device("sm_80")).program, "cuda")
    assert "twice_Y_any(const float* X, float* Y, int64_t N" in text
    assert "__restrict__" not in text
    assert "const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C" in emit(
        program("maxwell")[1], "cuda"
    )


def test_equal_programs_have_equal_text():
    assert emit(program("row")[1], "cuda") == emit(replace(program("row")[1]), "cuda")


def kernel_of(schedule: str, dialect: str) -> str:
    """The kernel for aligned calls alone, of a schedule of goldens.sched."""
    mod = load(DEVICES / "goldens.sched")
    s = mod.schedules[schedule]
    text = emit(compile_program(mod, mod.ops[s.op], s, mod.device(s.device or "")).program, dialect)
    return text[text.index(f"\n// {s.op}_") + 1 : text.index(f"\n// {s.op}_", text.index('extern "C" __global__'))]


GOLDENS = {
    "transpose.cu": lambda: emit(program("tiled")[1], "cuda"),
    "row_top.hip": lambda: emit(rows("top"), "hip"),
    "scale.cu": lambda: kernel_of("rows", "cuda"),
    "gemm_mma.cu": lambda: kernel_of("tensor_core", "cuda"),
    "gemm_mfma.hip": lambda: kernel_of("mfma", "hip"),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name, update_goldens):
    text = GOLDENS[name]()
    golden = HERE / "goldens" / name
    if update_goldens:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_unit_s_number_times_a_size_has_64_bits_at_its_first_mention():
    """A size and the number of a block are 32 bits each."""
    text = kernel_of("rows", "cuda")
    found = re.findall(r"[^ ]* \* block", text)
    assert found
    assert set(found) == {"(int64_t)N * block"}


def test_what_a_loop_does_not_change_is_named_before_it():
    """The positions of a unit in a tile, and the pointers that are made of them."""
    loop = kernel_of("mfma", "hip").split("    // tile k: 32 pipeline 2\n")[1].split("\n    }\n")[0]
    assert "a_shared" in loop
    assert "wave" not in loop
    assert "thread" not in loop


def test_no_declaration_shadows_another():
    """Of one launch, block in block."""
    for schedule, dialect in (("tensor_core", "cuda"), ("mfma", "hip")):
        open_: list[set[str]] = [set()]
        for line in kernel_of(schedule, dialect).split("\n"):
            if line.lstrip().startswith("}"):
                open_.pop()
            m = re.match(r" *(?:for \()?(?:const )?(?:int|int64_t|\w+\*) (\w+) = ", line)
            if m and "(" not in line.partition(" = ")[0].replace("for (", ""):
                assert not any(m[1] in names for names in open_), line
                open_[-1].add(m[1])
            if line.endswith("{"):
                open_.append(set())
