"""What random schedules found on GPUs, once each, as small as it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import andiron
import numpy as np
import pytest
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.errors.schedule import CannotMeet
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.dsl.types import TYPES
from andiron.runtime.emulator.run_program import emulate

ROW = "op f[M, N](A: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) A[i, j]\n"
ARGMAX = "op f[M, N](A: f32[M, N]) -> (Y: i64[N]):\n    Y[j] = argmax(i) A[i, j]\n"
SCALE = "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = 3 * A[i, j]\n"
TWICE = "op f[M, N](A: i32[M, N]) -> (Y: i32[], Z: i32[]):\n    Y = prod(i, j) min(max(A[i, j] + A[i, j], -1), 1)\n    Z = Y\n"
HALVES = "op f[M, N, K](A: f16[M, K], B: f16[N, K]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])\n"
BYTES = "op f[M, N, K](A: i8[K, M], B: i8[N, K]) -> (C: i32[M, N]):\n    C[m, n] = sum(k) i32(A[k, m]) * i32(B[n, k])\n"
WINDOW = (
    "op f[B, C, W, O, S](I: f16[B, W, C], F: f16[O, S, C]) -> (Y: f32[B, P, O]) where P = W + 2 - S + 1:\n"
    "    Y[b, p, o] = sum(s, c) f32(I[b, p + s - 1, c else 0]) * f32(F[o, s, c])\n"
)
SPLIT = "\nschedule s for f:\n    tile i: 8\n    tile j: 16 -> block\n    tile j: 5\n    compute\n"
BOTH = ("sm_80", "gfx90a")


@dataclass(frozen=True)
class Found:
    """`sizes`: each of them is run; those in `fixed` are compiled in."""

    op: str
    lines: str
    devices: tuple[str, ...] = BOTH
    sizes: tuple[Mapping[str, int], ...] = ({"M": 13, "N": 9}, {"M": 1, "N": 1}, {"M": 16, "N": 32})
    fixed: tuple[str, ...] = ()


PRODUCTS = ({"M": 33, "N": 9, "K": 45}, {"M": 64, "N": 16, "K": 64}, {"M": 1, "N": 1, "K": 1})

CASES = {
    # how many blocks there are is known before a loop around them begins
    "blocks in a loop": Found(ROW, "tile i: 5, j: 5\ntile i: 2 -> block\ntile i: 1 -> thread"),
    "one block in a loop": Found(ROW, "tile i: 5\ntile i: 8 -> block\ntile i: 2 -> thread"),
    # idle units begin with the identity in registers; what units share begins with its owner's
    "idle units and a shared accumulator": Found(
        ARGMAX, "tile i: 3, j: 7\ntile j: 5 -> block\nkeep Y in shared pad 3\ntile j: 8\ntile j: 1 -> thread"
    ),
    # what a unit alone has is in registers, wherever it was put
    "a memory of one thread's own": Found(
        SCALE, "tile i: 1 -> block\ntile j: 64\ntile j: 8 -> thread\ntile j: 4\nmove A -> shared"
    ),
    # compilers keep in a register what a loop writes, and then read it before the loop: no read of the kernel's
    "what a loop writes at last": Found(TWICE, "tile i: 8\nkeep Y in register\ncompute", ("gfx1100",)),
    # a staged copy holds the next tile's elements, which an instruction larger than the tile would add, too
    "an instruction larger than a tile of a copy": Found(
        BYTES,
        "tile m: 32, n: 8 -> block\nkeep C in register\ntile k: 32\nmove A -> shared swizzle\nmove B -> shared swizzle\n"
        "tile m: 16, n: 8 -> warp\ntile k: 16\ncompute with mma_m16n8k32_i8",
        ("sm_80",), PRODUCTS,
    ),
    "ldmatrix larger than a tile of a copy": Found(
        HALVES,
        "tile m: 32, n: 8 -> block\nkeep C in register\ntile k: 16 pipeline 2\nmove A -> shared swizzle with cp_async\n"
        "move B -> shared swizzle with cp_async\ntile m: 16, n: 8 -> warp\ntile k: 8\nmove A -> register with ldmatrix\n"
        "move B -> register with ldmatrix\ncompute with mma_m16n8k16_f16",
        ("sm_80",), PRODUCTS,
    ),
    # what lies outside of a tensor and has an `else` is not copied by an instruction; guards hold for each other's elements
    "an asynchronous copy with zeros around": Found(
        WINDOW,
        "fuse b, p as m\ntile m: 32, o: 8 -> block\nkeep Y in register\ntile s: 1\ntile c: 32\nmove I -> shared with cp_async\n"
        "move F -> shared pad 8 with cp_async\ntile m: 16, o: 8 -> warp\ncompute with mma_m16n8k16_f16",
        ("sm_80",), ({"B": 2, "C": 19, "O": 8, "W": 11, "S": 2}, {"B": 2, "C": 64, "O": 8, "W": 11, "S": 3}), ("B", "O", "W"),
    ),
    # units that only the copies tell apart do the same in the leaf, whose results one of them stores
    "an instruction of one unit, done by many": Found(
        BYTES,
        "tile m: 1, n: 8 -> block\nkeep C in register\ntile k: 8\nmove A -> shared\n"
        "move B -> shared:\n    tile k: 1 -> warp\n    tile n: 1 -> thread\ncompute with dp4a_i8",
        ("sm_80",), PRODUCTS,
    ),
    "an instruction of one group, done by many": Found(
        BYTES,
        "tile m: 16, n: 8 -> block\nkeep C in register\ntile k: 32\nmove A -> shared\n"
        "move B -> shared:\n    tile k: 8 -> warp\n    tile n: 1 -> thread\ncompute with mma_m16n8k32_i8",
        ("sm_80",), PRODUCTS,
    ),
    # a buffer of no elements has a place, and nothing is read of it
    "copies of nothing": Found(
        BYTES,
        "tile m: 32, n: 8 -> block\nkeep C in register\nmove B -> shared:\n    tile n: 1, k: 2 -> thread\n"
        "    move B -> register vector 2\ntile m: 16, n: 8 -> warp\ncompute with mma_m16n8k16_i8",
        ("sm_80",), ({"M": 33, "N": 9, "K": 0},), ("N", "K"),
    ),
}  # fmt: skip


def test_parts_of_units_that_cannot_meet() -> None:
    """Refused with the line, whatever the reduction is and however many units there are."""
    module = loads(f"{ARGMAX}\nschedule s for f:\n    tile j: 8\n    tile i: 16 -> block\n    compute\n")
    whole = loads("op f[M, N](A: f32[M, N]) -> (Y: i64[]):\n    Y = argmax(i, j) A[i, j]\n" + SPLIT)
    for m in (module, whole):
        with pytest.raises(UserError) as found:
            compile_program(m, m.ops["f"], m.schedules["s"], m.device("sm_80"))
        assert found.value.span is not None


@pytest.mark.parametrize("lines", ["keep Y in global", "tile i: 4, j: 8 -> block\n    move A -> global\n    compute"])
def test_where_arguments_live_there_is_no_room_for_a_tile(lines: str) -> None:
    module = loads(f"{SCALE}\nschedule s for f:\n    {lines}\n")
    op = specialise(module.ops["f"], {"M": 8, "N": 8})
    with pytest.raises(CannotMeet, match="arguments live in") as found:
        compile_program(module, op, module.schedules["s"], module.device("sm_80"))
    assert found.value.span is not None


def test_a_block_has_all_of_its_memory() -> None:
    """What a unit sets aside for each block is beside the block's own."""
    op = "op f[M, N](A: f32[M, N]) -> (Y: f32[N, M]):\n    Y[j, i] = A[i, j]\n"
    lines = "tile i: 192, j: 132 -> block\n    move A -> shared\n    tile i: 1 -> warp\n    tile j: 1 -> thread\n    compute"
    module = loads(f"{op}\nschedule s for f:\n    {lines}\n")
    device = module.device("sm_120a")
    program = compile_program(module, module.ops["f"], module.schedules["s"], device).program
    assert memory_peaks(program)["shared"].bytes == device.memory("shared").capacity
    assert device.memory("shared").reserve
    array = np.arange(200 * 140, dtype="f4").reshape(200, 140)
    np.testing.assert_array_equal(emulate(program, {"A": array}, {"M": 200, "N": 140})["Y"], array.T)


def values(op: Op, sizes: Mapping[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]


@pytest.mark.parametrize(("name", "device"), [(n, d) for n, case in CASES.items() for d in case.devices])
def test_right(name: str, device: str) -> None:
    case = CASES[name]
    block = "".join(f"    {x}\n" for x in case.lines.split("\n"))
    module = loads(f"{case.op}\nschedule s for f:\n{block}")
    op = module.ops["f"]
    for sizes in case.sizes:
        special = specialise(op, {n: sizes[n] for n in case.fixed})
        program = compile_program(module, special, module.schedules["s"], module.device(device)).program
        arrays = values(op, sizes)
        named = {t.name: x for t, x in zip(op.inputs, arrays, strict=True)}
        got = emulate(program, named, {v.name: sizes[v.name] for v in program.dims})
        want = reference(op)(*arrays)
        for t, w in zip(op.outputs, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_array_equal(got[t.name], w)


PARTLY_UNROLLED = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
schedule s for gemm:
    tile m: 8, n: 8 -> block
    tile k: 8
    keep C in register
    tile m: 1, n: 2 -> thread
    tile k: 2 pipeline 2
    move A -> shared
    move B -> register
"""


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_a_buffer_of_one_thread_that_loops_of_one_name_index_is_an_array(device: str) -> None:
    """Some of the loops are unrolled, and some not."""
    kernel = andiron.compile(PARTLY_UNROLLED, target=f"emulate:{device}", schedule="s")
    for m, n, k in [(8, 8, 16), (9, 10, 11), (1, 1, 1), (5, 3, 0), (0, 2, 4)]:
        rng = np.random.default_rng(m)
        a, b = rng.standard_normal((m, k)).astype("f4"), rng.standard_normal((k, n)).astype("f4")
        out = np.full((m, n), np.nan, "f4")
        np.testing.assert_allclose(kernel(a, b, out=out), a @ b, rtol=1e-4, atol=1e-5)


def test_the_observer_knows_any_number_of_tensors() -> None:
    """It knew 32: an access to another one was out of bounds."""
    names = [f"x{i}" for i in range(40)]
    inputs = ", ".join(f"{n}: f32[N]" for n in names)
    text = f"op f[N]({inputs}) -> (y: f32[N]):\n    y[i] = {' + '.join(f'{n}[i]' for n in names)}\n"
    out = andiron.compile(text, target="emulate:sm_80")(*(np.full(5, i, np.float32) for i in range(40)))
    np.testing.assert_array_equal(out, np.full(5, 780, np.float32))


@pytest.mark.parametrize("columns", [64, 61])
def test_asynchronous_copies_move_the_bytes_of_f8(columns: int) -> None:
    """Infinities stay infinite, though stores of f8 saturate; beyond the end there are zeros."""
    text = """op f[M, K](A: f8e5m2[M, K]) -> (C: f32[M, K]):
    C[m, k] = f32(A[m, k]) + 0.0
schedule s for f:
    tile m: 16, k: 64 -> block
    move A -> shared with cp_async
    tile m: 1, k: 8 -> thread
    compute
"""
    a = np.ones((16, columns), np.float32)
    a[:, :3] = np.inf, -np.inf, np.nan
    c = andiron.compile(text, target="emulate:sm_80")(a.astype(TYPES["f8e5m2"].numpy))
    np.testing.assert_array_equal(c, a)
