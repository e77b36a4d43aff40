"""`move ... with I`: the instruction named makes the copy, or the line is refused with the reason."""

from __future__ import annotations

from functools import lru_cache

import andiron
import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Stmt, Wait
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.lower.copies import copy_width
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import CannotMeet, CapacityExceeded, InstrMismatch, UnknownInstr
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import specialise

from ....support.gpu.compilers import hip

OPS = """import std.devices.amd
import std.devices.nvidia
op hgemm[M, N, K](A: f16[M, K], B: f16[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])
"""
DIRECT = """    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 32 pipeline {depth}
    move A -> shared {a}
    move B -> shared with load_lds
    tile m: 32, n: 32 -> wave
    tile k: 16
    compute with mfma_16x16x16_f16
"""
ODD = [dict(M=64, N=64, K=96), dict(M=70, N=66, K=40), dict(M=37, N=45, K=21), dict(M=2, N=3, K=0)]


@lru_cache(maxsize=20)
def direct(depth: int, a: str = "with load_lds") -> Module:
    return loads(OPS + "schedule s for hgemm on gfx942:\n" + DIRECT.format(depth=depth, a=a))


def compiled(mod: Module, device: str = "gfx942", **fixed: int) -> Program:
    op = specialise(mod.ops[mod.schedules["s"].op], fixed)
    return compile_program(mod, op, mod.schedules["s"], mod.device(device)).program


def right(p: Program, sizes: dict[str, int], fixed: dict[str, int]) -> bool:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (sizes[n], sizes["K"])).astype("f2") for n in "MN")
    (c,) = interpret(p, {"A": a, "B": b}, {n: x for n, x in sizes.items() if n not in fixed}).values()
    return np.array_equal(c, a.astype("f8") @ b.astype("f8").T)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_wave_copies_past_its_registers(depth):
    """128 elements a call, four rows of the tile: the piece goes on from row to row."""
    p = compiled(direct(depth))
    assert "load_lds_f16x2" in {i.name for i in p.instrs}
    for sizes in ODD:
        assert right(p, sizes, {})


@pytest.mark.parametrize(("depth", "waits"), [(2, [0]), (3, [8, 0]), (4, [16, 0])])
def test_a_counter_lets_as_many_be_in_flight_as_were_surely_issued(depth, waits):
    """Eight copies a turn; at the end of the loop, where fewer turns are ahead, none."""
    fixed = {"M": 64, "N": 64, "K": 192}
    p = compiled(direct(depth), **fixed)
    assert [s.pending for x in p.launches for s in statements(x.body) if isinstance(s, Wait)] == waits
    assert right(p, fixed, fixed)
    if waits[0]:
        assert weaker_is_found(p, fixed)


def weaker_is_found(p: Program, sizes: dict[str, int]) -> bool:
    from dataclasses import replace

    from ....support.edit_programs import edited_launches

    def edit(s: Stmt) -> list[Stmt]:
        return [replace(s, pending=s.pending + 1)] if isinstance(s, Wait) and s.pending else [s]

    rng = np.random.default_rng(0)
    arrays = {t: rng.standard_normal((64, sizes["K"])).astype("f2") for t in "AB"}
    found: list = []
    interpret(edited_launches(p, edit), arrays, {}, on_fault=found)
    return "in-flight" in {f.kind for f in found}


def test_the_compiler_takes_it(tmp_path):
    hip(emit(compiled(direct(3)), "hip"), tmp_path, "gfx942")


@pytest.mark.parametrize(
    ("a", "why"),
    [
        ("pad 4 with load_lds", "it writes 128 elements one after another"),
        ("swizzle with load_lds", "it writes 128 elements one after another"),
        ("with mfma", "it is not for f16"),
    ],
)
def test_a_copy_that_it_cannot_make_is_refused(a, why):
    with pytest.raises(InstrMismatch, match=why) as error:
        compiled(direct(2, a))
    assert error.value.span is not None
    assert a.split()[0] in error.value.span.source.text[error.value.span.start : error.value.span.end]


def test_a_row_that_it_does_not_divide():
    lines = "    tile m: 16, n: 16 -> block\n    keep C in register\n    tile k: 31\n    move A -> shared with load_lds\n"
    lines += "    tile m: 4 -> wave\n    tile m: 1, n: 1 -> thread\n    compute\n"
    with pytest.raises(InstrMismatch, match="it takes 2 neighbours at once, and there are 31 of `k`"):
        compiled(loads(OPS + "schedule s for hgemm on gfx942:\n" + lines))


def test_an_instruction_that_is_not_there():
    with pytest.raises(UnknownInstr, match="no instruction `load_ldz`") as error:
        compiled(direct(2, "with load_ldz"))
    assert "load_lds" in (error.value.help or "")


def test_with_is_the_leaf_of_a_block_that_names_none():
    lines = "    tile m: 32, n: 32 -> block\n    keep C in register\n    tile k: 32\n    move A -> shared with cp_async:\n"
    lines += "        tile m: 8 -> warp\n        tile m: 1, k: 8 -> thread\n"
    lines += "    tile m: 16, n: 16 -> warp\n    compute with mma\n"
    p = compiled(loads(OPS + "schedule s for hgemm on sm_80:\n" + lines), "sm_80")
    assert "cp_async_f16x8" in {i.name for i in p.instrs}


def test_nothing_is_staged_where_nobody_waits():
    """The cache of all blocks: no block could know that what another one stores is there."""
    text = "    tile m: 64, n: 64 -> block\n    keep C in register\n    tile k: 32\n    move A -> l2\n    compute\n"
    with pytest.raises(CannotMeet, match="none waits for another") as caught:
        compiled(loads(OPS + "schedule s for hgemm on sm_80:\n" + text), "sm_80")
    assert caught.value.span
    assert caught.value.help
    assert "shared" in caught.value.help


PLAIN = """
op f[M, N, K](A: f32[K, M], B: f32[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[k, m] * B[n, k]

device plain:
    level grid: finite 1, siblings nothing
    level block: open, siblings nothing, at most 1024 threads
    level warp: shaped, siblings barrier, at most 32 units
    level thread: shaped, siblings lockstep, at most 64 units, width 64
    memory global of grid: 900 GB/s, transaction 64 B
    memory shared of block: 16 KiB, banks 32 x 4 B
    memory register of thread: 64 x 4 B
    instr take on thread in take for f32 x 4:
        op (S: T[N]) -> (D: T[N]):
            D[i] = S[i]
        S in global at (r): i = r
        D in register at (r): i = r

schedule s for f:
    tile n: 1 -> block
    auto
"""


@pytest.mark.parametrize("shape", [(5, 1, 1), (8, 3, 4), (1, 4, 0)])
def test_a_copy_that_says_nothing_of_alignment(shape):
    m, n, k = shape
    module = loads(PLAIN)
    op = specialise(module.ops["f"], {"M": m, "N": n, "K": k})
    program = compile_program(module, op, module.schedules["s"], module.device("plain")).program
    rng = np.random.default_rng(0)
    A, B = rng.integers(-3, 4, (k, m)).astype(np.float32), rng.integers(-3, 4, (n, k)).astype(np.float32)
    assert (interpret(program, {"A": A, "B": B})["C"] == (B @ A).T).all()


@pytest.mark.parametrize("rows", [5, 1, 6])
def test_an_instruction_loads_no_row_beyond_the_edge(rows: int) -> None:
    """The tile has rows that the tensor has not, and the instruction copies along the other axis."""
    module = loads(
        "import std.devices.amd\nop o[M, N, K](A: i8[M, K], B: i8[K, N]) -> (C: i32[M, N]):\n"
        "    C[m, n] = sum(k) i32(A[m, k]) * i32(B[k, n])\n"
        "schedule s for o:\n    tile m: 3, n: 4 -> block\n    tile n: 2 -> thread\n    tile k: 4\n"
        "    move A -> register with load_global\n    compute with dot\n"
    )
    op = specialise(module.ops["o"], {"M": rows, "N": 1, "K": 24})
    program = compile_program(module, op, module.schedules["s"], module.device("gfx1100")).program
    assert any(i.name == "load_global_i8x4" for i in program.instrs)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (rows, 24), dtype="i1"), rng.integers(-9, 9, (24, 1), dtype="i1")
    np.testing.assert_array_equal(interpret(program, {"A": a, "B": b})["C"], a.astype("i4") @ b.astype("i4"))


@pytest.mark.parametrize("sizes", [(2, 1), (19, 65), (1, 333)])
def test_the_lanes_of_an_instruction_that_only_a_copy_names(sizes):
    """A block without `compute` ends with the instruction that the `move` names: the launch has its lanes."""
    text = "import std.devices.amd\nop f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    Y[m, n] = A[m, n]\n"
    text += "schedule s for f:\n    tile n: 128 -> block\n    tile m: 8\n"
    text += "    move A -> shared with load_lds:\n        tile m: 1\n        tile n: 64\n    compute\n"
    mod = loads(text)
    program = compiled(mod, "gfx942")
    assert [u.count.constant for u in program.launches[0].units if u.level == "thread"] == [64]
    a = np.random.default_rng(0).integers(-3, 4, sizes).astype("f4")
    (y,) = interpret(program, {"A": a}, dict(zip("MN", sizes, strict=True))).values()
    np.testing.assert_array_equal(y, a)


SUMS = """import std.devices.amd
import std.devices.nvidia
op total[N, B](w: f32[N], W: f32[B, N]) -> (Y: f32[B]):
    Y[b] = sum(i) (w[i] + W[b, i])

schedule s for total:
"""
ONCE = {
    "a block of compute": ("sm_80", "tile i: 8", "cp_async:", "compute", "tile b: 1 -> thread"),
    "turned": ("sm_80", "tile i: 8", "cp_async pipeline 2:", "compute", "tile b: 1 -> thread"),
    "threads share the sum": ("sm_80", "tile i: 24", "cp_async:", "compute", "tile i: 6 -> thread"),
    "tiles one after another": ("sm_90a", "tile i: 24", "cp_async:", "tile i: 8", "tile b: 1 -> thread"),
    "waves": ("gfx942", "tile i: 128", "load_lds:", "compute", "tile b: 8 -> wave, tile b: 1 -> thread"),
}


@pytest.mark.parametrize("name", ONCE)
def test_units_that_would_copy_alike_copy_once(name):
    device, tile, copy, block, units = ONCE[name]
    lines = ["tile b: 16 -> block", tile, f"move w -> shared with {copy}", f"    {block}", *units.split(", ")]
    text = SUMS + "".join(f"    {line}\n" for line in lines)
    kernel = andiron.compile(text, schedule="s", target=f"emulate:{device}", verify=True)
    assert "cp_async" in kernel.source or "load_lds" in kernel.source
    rng = np.random.default_rng(0)
    for n, b in [(32, 7), (256, 17), (33, 3)]:
        w, more = rng.integers(-3, 4, n).astype("f4"), rng.integers(-3, 4, (b, n)).astype("f4")
        assert np.array_equal(kernel(w, more), (w + more).sum(1))


TOO_LARGE = """import std.devices.nvidia
op r6[A, B, C, D](X: f32[A, 2, B, C, 3, D]) -> (Y: f32[D, 3, C, B, 2, A]):
    Y[d, s, c, b, r, a] = X[a, r, b, c, s, d] + r - s
schedule s for r6 where A <= 65, B <= 65, C <= 65, D <= 65:
    tile s: 16 -> block
    move X -> shared with cp_async
    compute
"""


def test_a_tile_that_its_memory_cannot_hold_is_not_planned(monkeypatch):
    """408 MiB in shared memory were planned element by element before the refusal: 26 s."""
    monkeypatch.setattr(copy_width, "_why_not", lambda *about: pytest.fail("planned"))
    with pytest.raises(CapacityExceeded, match="need 408"):
        andiron.compile(TOO_LARGE, schedule="s", target="emulate:sm_80")


@pytest.mark.parametrize("copy", ["load_lds", "load_lds pipeline 2"])
def test_rows_that_are_not_aligned_for_a_wave_are_copied_by_elements(copy):
    lines = ["tile b: 8 -> block", "tile i: 128", f"move W -> shared with {copy}", "tile b: 1 -> thread"]
    text = SUMS.replace("f32", "f16") + "".join(f"    {line}\n" for line in lines)
    kernel = andiron.compile(text, schedule="s", target="emulate:gfx942", verify=True)
    assert "load_lds" in kernel.source
    for n in (256, 257):
        w, more = np.ones(n, "f2"), np.ones((5, n), "f2")
        assert np.array_equal(kernel(w, more), (w + more).sum(1))


@pytest.mark.parametrize("k", [95, 33, 1])
def test_rows_of_odd_length_are_copied_one_by_one(k):
    """All sizes are fixed, and no edge is in the first tiles: no condition stands around the misaligned instruction."""
    fixed = {"M": 64, "N": 64, "K": k}
    p = compiled(direct(2), **fixed)
    assert right(p, fixed, fixed)


@pytest.mark.parametrize("move", ["move A with cp_async", "move A -> shared with cp_async"])
def test_what_one_thread_has_to_itself_is_in_registers(move: str) -> None:
    """It has no address for an instruction that writes to memory."""
    text = "op a[N](A: f32[N]) -> (t: f32[N]):\n    t[n] = A[n] + 1\n"
    text += f"schedule s for a on sm_80:\n    tile n: 128 -> block\n    tile n: 4 -> thread\n    {move}\n    compute\n"
    with pytest.raises(InstrMismatch, match="as one `thread` has it to itself"):
        andiron.compile(text, schedule="s", target="emulate:sm_80")


@pytest.mark.parametrize("cores", [1, 3])
def test_what_one_core_has_to_itself_is_copied_by_it(cores: int) -> None:
    """An instruction of a core copies all of a tile that is the core's own."""
    text = "op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n"
    lines = ("tile m: 16, n: 16 -> core", "tile k: 8", "move B -> l1 with stream", "keep C in register", "tile m: 2, n: 8")
    module = loads(text + "schedule s for gemm:\n" + "".join(f"    {x}\n" for x in lines))
    program = compile_program(module, module.ops["gemm"], module.schedules["s"], module.device("cpu:avx2")).program
    for m, n, k in ((3, 5, 7), (33, 40, 64), (17, 8, 9), (1, 1, 0), (0, 1, 1)):
        a, b = np.arange(m * k, dtype=np.float32).reshape(m, k) % 7, np.arange(k * n, dtype=np.float32).reshape(k, n) % 5
        got = interpret(program, {"A": a, "B": b}, {"M": m, "N": n, "K": k}, {"core": cores})
        np.testing.assert_array_equal(got["C"], a @ b)
