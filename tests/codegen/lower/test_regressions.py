"""What random schedules found: one minimal case each. A schedule is right, or refused with its line."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import Call
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference

from ...support.rotation import LONG

GEMM = "op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]):\n    Y[i, j] = sum(k) A[i, k] * B[k, j]\n"
FULL = "op f[N, M, K](A: f32[N, M, K]) -> (Y: f32[K]):\n    Y[k] = sum(i, j) A[j, i, k]\n"
ROW = "op f[M, N](A: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) A[i, j]\n"
SUM = "op f[M](A: f32[M]) -> (Y: f32[]):\n    Y = sum(i) A[i]\n"
TRIANGLE = "op f[M, N](A: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) where(j <= i, A[i, j], 0)\n"
EPILOGUE = "op f[M, N](A: f32[M, N]) -> (Y: f32[M]):\n    h[i] = prod(j) min(max(A[i, j], -1), 1)\n    Y[i] = 3 - h[i]\n"
TWO = "op f[M](A: f32[M]) -> (Y: f32[], Z: f32[]):\n    h = max(i) A[i]\n    Y = h - 1\n    Z = h\n"
LATER = "op f[M](A: f32[M]) -> (Y: f32[M], Z: f32[M]):\n"
LATER += "    t[i] = A[i] * A[i]\n    Y[i] = A[i] + t[i]\n    Z[i] = Y[i] * t[i]\n"
ARGMAX = "op f[M, N](A: f32[M, N]) -> (Y: i64[N]):\n    Y[j] = argmax(i) A[i, j]\n"
FLAT = "op f[N, K, M](A: f32[N, K, M]) -> (Y: i64[N]):\n    Y[j] = argmax(k, i) A[j, k, i]\n"
SCALED = "op f[M, K, N](A: f32[M, K], B: f32[K, N], c: f32[]) -> (Y: f32[N, M]):\n"
SCALED += "    Y[j, i] = (sum(k) A[i, k] * B[k, j]) - c\n"
ROWS = "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    top[i] = sum(j) A[i, j]\n    e[i, j] = max(A[i, j], top[i])\n"
ROWS += "    total[i] = sum(j) e[i, j]\n    Y[i, j] = e[i, j] - total[i]\n"
CHAIN = "op f[M, N, K](A: f32[M, K], B: f32[K, N], C: f32[N, K]) -> (Y: f32[M, K]):\n"
CHAIN += "    h[i, j] = sum(k) A[i, k] * B[k, j]\n    Y[i, l] = sum(j) h[i, j] * C[j, l]\n"
FLAT_SCALE = "op f[M, N](A: f32[M, N], b: f32[]) -> (Y: f32[M, N]):\n    Y[i, j] = A[i, j] * (b - b*b)\n"
LOWEST = "op f[M, N, K](A: f32[M, K], B: i64[N]) -> (Y: i64[M, N]):\n    h[i] = argmin(k) A[i, k]\n    Y[i, j] = h[i] * B[j]\n"
SHARED = "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    t[i, j] = relu(A[i, j])\n    Y[i, j] = t[i, j] * t[i, j] + A[i, j]\n"
COMBINED = "op f[M](A: i32[M]) -> (Y: i32[M]):\n    top = min(i) A[i]\n    Y[i] = A[i] - top\n"
HALVES = "op f[M, N](A: f32[M, N]) -> (Y: f32[M, P]) where P = (N + 1) / 2:\n    Y[i, p] = sum(r: 3) A[i, 2*p + r else 1]\n"
MASKED = "op f[M, N](A: f32[M], B: f32[N]) -> (Y: f32[M]):\n    t[i] = A[i] <= 0\n"
MASKED += "    Y[i] = (sum(j) (B[j] - where(t[i], 0, 1))) + where(t[i], 0, 1)\n"

RIGHT = {
    # parts of a sum on lanes, its free indices without a bound: the accumulator opens above the parts, element by element
    "parts of a reduction without keep": (TRIANGLE, "tile j: 2\ntile j: 1 -> lane"),
    "an instruction without keep": (GEMM, "tile i: 6, j: 16\ncompute with fma"),
    "an instruction without keep or tile": (GEMM, "compute with fma"),
    "parts on cores without keep": (GEMM, "tile k: 8\ntile k: 4 -> core"),
    # the registers are filled to the end of the tile, so the copy that fills them is as well
    "registers from a copy": (
        GEMM,
        "tile i: 2, j: 8\nkeep Y in register\ntile k: 4\nmove A -> l3\nmove A -> register\ncompute with fma",
    ),
    # the parts go on from the last result in one unit only
    "parts below a loop": (GEMM, "tile i: 4, j: 4\ntile k: 4\nkeep Y in register\ntile k: 1 -> lane"),
    "parts of an argmax below a loop": (ARGMAX, "tile j: 4\ntile i: 5\nkeep Y in register\ntile i: 1 -> lane"),
    # a value and its place both survive between the loops above the accumulator
    "argmax between loops": (ARGMAX, "tile i: 4, j: 4\nkeep Y in l3"),
    "fused argmax": (FLAT, "fuse i, k as f"),
    # 31 or 5 of the lanes: groups that exchange are powers of two
    "groups of lanes": (COMBINED, "auto"),
    "five lanes of a sum": (SUM, "tile i: 5\ntile i: 1 -> lane"),
    # keep names the accumulator, whatever it is called
    "one accumulator kept by two names": (EPILOGUE, "tile i: 3\nkeep h in register\nkeep Y in register"),
    "one accumulator of two outputs": (TWO, "keep Y in register\nkeep Z in register"),
    "an output that is kept and read": (LATER, "tile i: 7\nkeep t in l3\ntile i: 1 -> core\nkeep Y in l2"),
    "kept in one nest, read in another": (ROWS, "tile i: 4, j: 3\nkeep e in register"),
    "a scalar is moved": (SCALED, "move c -> l3"),
    # copies reach as far as tiles that do not nest, lanes, and registers read
    "tiles that do not nest": (GEMM, "tile i: 4\ntile j: 4\ntile k: 2\nmove B -> l3\ntile j: 3"),
    "lanes over the end of a copy": (GEMM, "tile i: 3, j: 7, k: 3\nmove B -> l3\ntile j: 2 -> lane"),
    "registers filled from a copy": (SHARED, "tile i: 3\ntile j: 4\nmove A -> l3\nkeep t in register"),
    "a kept sum is read at the edge": (SHARED, "tile i: 8, j: 4\nkeep Y in l3\ntile i: 4 -> core\nkeep t in l2"),
    # adjacent tiles onto cores are dealt out once
    "two lines of cores": (GEMM, "tile i: 3 -> core\ntile j: 5 -> core"),
    # adjacent tiles onto lanes: the first tells idle lanes apart, the second only decodes
    "two lines of lanes": (TRIANGLE, "tile i: 3 -> core\ntile i: 1 -> lane\ntile j: 16\ntile j: 4 -> lane"),
    "one row of tiles on cores": (GEMM, "tile i: 1\ntile i: 16, j: 8 -> core"),
    # lanes straight below the socket, cores passed by
    "lanes of a copy above cores": (
        GEMM,
        "tile i: 4, k: 8\nmove A -> l3:\n    tile k: 4\n    tile k: 1 -> lane\ntile j: 3 -> core",
    ),
    "strided chunks of a copy": (GEMM, "tile j: 32\ntile j: 1 every 2 -> lane\ntile k: 2, i: 8\nmove B -> l1"),
    "cores in a copy only": (GEMM, "tile k: 8, i: 5\nmove A -> l3:\n    tile i: 4 -> core\n    tile k: 1 -> lane"),
    "copies under two lines of cores": (GEMM, "tile i: 8, j: 4, k: 4\nmove B -> l3\ntile i: 1 -> core\ntile j: 3 -> core"),
    "strided chunks of a fused copy": (FULL, "fuse i, j as f\ntile f: 16\ntile f: 1 every 2 -> lane\nmove A -> l1"),
    "panels of one": (GEMM, "tile i: 4, k: 4\nmove A -> l3 layout panels(i: 1)"),
    "a fused axis without extent": (HALVES, "fuse p, i as f\ntile r: 16, f: 1"),
    # lanes over the edge of a tile hold no copy of a scalar
    "a scalar of some lanes": (
        FLAT_SCALE,
        "move b -> register\ntile i: 4\ntile i: 3\ntile i: 1 -> lane\ntile j: 1",
    ),
    # fewer parts of a row than cores, with rows in the same line; in loops the first core goes on, once
    "parts of one row": (ROW, "tile i: 4, j: 7 -> core"),
    "parts of one row between loops": (ROW, "tile i: 4, j: 2\ntile i: 1, j: 1 -> core"),
    "parts on cores, then one tile": (GEMM, "tile j: 2\ntile k: 4 -> core\ntile j: 1 -> core"),
    # units that hold the same sum: only the one that stores it between loops goes on from there
    "a replicated sum between loops": (CHAIN, "tile l: 4, i: 8 -> core\ntile k: 4, j: 8\nkeep h in register"),
    "a replicated argmin between loops": (LOWEST, "tile j: 2, i: 3 -> core\ntile k: 4\nkeep h in register"),
    "a replicated sum in a cache": (CHAIN, "tile l: 4, i: 8 -> core\ntile k: 4, j: 8\nkeep h in l2"),
    # the launch that combines the parts reads what the launch before it keeps in registers
    "kept for a launch that follows": (MASKED, "tile j: 2, i: 3 -> core by workspace\nkeep t in register"),
    # the lanes of a vector are those of each core that the copy is distributed over
    "a vector above a copy of all cores": (FULL, "tile k: 2 vector 2\ntile i: 4, j: 5\nmove A -> l3:\n    tile i: 2 -> core"),
    # what sizes are known to be keeps stores of neighbours apart
    "stores of two cores": (HALVES, "tile p: 5, i: 5 -> core\ntile p: 2"),
    "copies of copies, one of them in registers": (
        "op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = A[m]\n",
        "tile m: 1 -> core\nmove A -> l1:\n    move A -> l3:\n        move A -> register:\n            move A -> l2",
    ),
}

REFUSED = {
    "strided chunks without a bound": (GEMM, "tile i: 2 every 4 -> lane", "schedule-unbounded-tile"),
    "two subscripts, one register": (
        "op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[i] = A[i - 1 else 0] + A[i]\n", "tile i: 8\nmove A -> register",
        "schedule-register-owner",
    ),
    "registers across cores": (GEMM, "tile i: 8, j: 8\nkeep Y in register\ntile i: 2 -> core", "schedule-register-owner"),
    "an instruction inside a lane": (
        GEMM, "tile i: 4, j: 4\ntile j: 1 -> lane\nkeep Y in register\ncompute with fma", "schedule-instruction-mismatch"
    ),
    "an instruction's registers in a cache": (
        GEMM, "tile j: 4, i: 2 -> core\nkeep Y in l3\ncompute with fma", "schedule-instruction-mismatch"
    ),
    "parts with a keep below": (SUM, "tile i: 8 -> core\nkeep Y in l2", "schedule-split-reduction"),
    "parts of one accumulator": (SUM, "keep Y in l3\ntile i: 32\ntile i: 2 every 8 -> lane", "schedule-split-reduction"),
    "registers without a bound": (GEMM, "move A -> register", "schedule-unbounded-tile"),
    "memory without a bound": (GEMM, "keep Y in l3", "schedule-unbounded-tile"),
    "registers to a memory": (GEMM, "tile i: 7, j: 4, k: 3\nmove B -> register\nmove B -> l3", "schedule-register-owner"),
    # another tile's copy is held with each turn of a core's loop
    "a copy ahead, above the loop of a core": (
        FLAT_SCALE, "tile i: 4, j: 8\ntile i: 2, j: 4 -> core\nmove A -> register pipeline 2", "schedule-modifier-argument"
    ),
    "one accumulator in two places": (EPILOGUE, "tile i: 4\nkeep h in register\nkeep Y in l3", "schedule-held-twice"),
}  # fmt: skip


def program_of(text: str, lines: str, device: str, sizes: dict[str, int] | None = None):
    ends = lines.split("\n")[-1].startswith("compute")
    block = "".join(f"    {x}\n" for x in (*lines.split("\n"), *(() if ends else ("compute",))))  # nothing is chosen
    module = loads(f"{text}\nschedule s for f:\n{block}")
    op = module.ops["f"]
    return op, compile_program(module, specialise(op, sizes or {}), module.schedules["s"], module.device(device)).program


OPEN = [(13, 9, 7), (19, 5, 11), (1, 2, 1), (3, 0, 2)]
FIXED = [(13, 9, 7), (1, 2, 1)]


@pytest.mark.every_second
@pytest.mark.parametrize(("fixed", "tried"), [(False, OPEN), *((True, [s]) for s in FIXED)], ids=["open", *map(str, FIXED)])
@pytest.mark.parametrize("name", RIGHT)
def test_right(name, fixed, tried):
    """The first sizes on one core, two and three, where they are open; others on three; with `FUZZ=N` all on each number."""
    text, lines = RIGHT[name]
    dims = [v.name for v in loads(text).ops["f"].dims]
    least = 1 if "argmax" in text or "argmin" in text else 0
    given = [{n: max(least, x) for n, x in zip(dims, sizes, strict=False)} for sizes in tried]
    op, program = program_of(text, lines, "cpu:avx2", given[0] if fixed else None)
    for n, sizes in enumerate(given):
        check_right(op, program, sizes, (1, 2, 3) if LONG or not (fixed or n) else (3,))


def check_right(op, program, given, core_counts):
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.integers(-3, 4, [e.evaluate(given) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    want = reference(op)(*arrays.values())
    dims = {v.name: given[v.name] for v in program.dims}
    dealt = any(u.level == "core" for launch in program.launches for u in launch.units)
    for cores in core_counts if dealt else (1,):
        got = interpret(program, arrays, dims, {"core": cores})
        for t, w in zip(op.outputs, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_array_equal(got[t.name], w, err_msg=f"{t.name} on {cores} cores")


@pytest.mark.parametrize("lines", ["tile i: 2\ntile i: 1 -> warp", "tile i: 8\ntile i: 4 -> warp"], ids=["one", "four"])
def test_units_that_wait_have_as_many_iterations(lines):
    """Warps combine parts of a sum that opens at its leaf, as `j` has no bound: those past the edge wait as well."""
    text = "op f[R, M, N](A: f32[R, M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = sum(r) A[r, i, j]\n"
    _, program = program_of(text, lines + "\ntile r: 1 -> warp", "sm_80", {"R": 2})
    for m, n in ((13, 3), (1, 2), (0, 4), (8, 0)):
        a = np.random.default_rng(m).integers(-3, 4, (2, m, n)).astype("f4")
        got = interpret(program, {"A": a}, {"M": m, "N": n})
        np.testing.assert_array_equal(got["Y"], a.sum(0))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, lines, kind = REFUSED[name]
    with pytest.raises(UserError) as caught:
        program_of(text, lines, "cpu:generic")
    assert caught.value.id == kind
    assert caught.value.span is not None
    assert caught.value.help


@pytest.mark.parametrize(
    "lines", ["compute with fma", "tile i: 6, j: 16\ncompute with fma", "tile i: 2, j: 16\ncompute with fma"]
)
def test_an_instruction_that_is_named_is_used(lines):
    """Whether or not a `keep` says where it accumulates."""
    _, program = program_of(GEMM, lines, "cpu:avx2")
    calls = [s for launch in program.launches for s in statements(launch.body) if isinstance(s, Call)]
    assert {s.instr for s in calls} == {"fma_f32x8"}


ONE_WARP = """
op f[M, N, K, P, R](A: f32[M, N, K], B: bool[N, P, R]) -> (Y: f32[P, R, K, M]):
    Y[p, r, k, m] = sum(n) A[m, n, k] * where(B[n, p, r], 2, 1)

device one_warp:
    level grid: finite 1, siblings nothing
    level block: open, siblings nothing, at most 1024 threads
    level warp: shaped, siblings barrier, at most 1 units
    level thread: shaped, siblings lockstep, at most 24 units, width 24
    memory global of grid: 900 GB/s, transaction 4 B
    memory shared of block: 2 KiB, banks 16 x 4 B
    memory register of thread: 32 x 4 B
    instr m3n32k1 on warp in mma:
        op (A: f32[3, 1], B: f32[1, 32], C: f32[3, 32]):
            C[m, n] += sum(k) A[m, k] * B[k, n]
        A in register at (lane, r): m = r, k = 0
        B in register at (r): k = 0, n = r
        C in register at (lane, r): m = (lane + 24*r) / 32, n = (lane + 24*r) % 32
        cost 4 cycles, latency 16
    in-order start 1, clock 1.5 GHz
"""


def test_copies_know_the_fused_indices_of_all_computations_in_focus():
    """A factor that is computed fuses `p` and `r`; the product beside it fuses `k` and `m` as well, which `A` is read by."""
    module = loads(ONE_WARP)
    op = module.ops["f"]
    sizes = {v.name: 1 for v in op.dims}
    program = compile_program(module, specialise(op, sizes), None, module.device("one_warp")).program
    check_well_formed(program)
    arrays = {"A": np.full((1, 1, 1), 3, "f4"), "B": np.ones((1, 1, 1), bool)}
    np.testing.assert_array_equal(interpret(program, arrays, {})["Y"], np.full((1, 1, 1, 1), 6))


def test_a_box_of_an_empty_reduction_is_empty():
    text = """
import std.devices.nvidia

op g[N, K](x: f32[K], A: f32[L, N]) -> (Y: f32[N]) where L = 2 * K:
    Y[n] = sum(k) x[k] * A[2*k + 1, n]

schedule s for g:
    tile n: 32 -> block
    move A -> shared
    tile n: 1 -> thread
    compute
"""
    assert andiron.compile(text, schedule="s", target="cuda:sm_80", K=0).source


LANES = """
op g[M, N](X: f32[M, N]) -> (Y: f32[N]):
    Y[j] = sum(i) X[i, j]

schedule s for g:
    move X -> l3 with stream:
        fuse i, j as ij
        tile ij: 8 -> core
        compute with stream_f32x8
    tile j: {size} -> core
    keep Y in register
    tile i: 1
    tile j: 1 -> lane
    compute
"""


def test_a_launch_has_the_lanes_of_its_instructions():
    with pytest.raises(UserError) as refused:
        andiron.compile(LANES.format(size=4), target="cpu:avx2", M=8, N=5)
    assert "takes 8 units of `lane`, and this launch has 4" in str(refused.value)
    assert refused.value.id == "schedule-instruction-mismatch"
    assert andiron.compile(LANES.format(size=8), target="cpu:avx2", M=8, N=5).source


@pytest.mark.parametrize(("m", "n"), [(8, 5), (32, 8), (3, 16)])
def test_a_completed_schedule_has_the_lanes_of_the_instruction_of_a_move(m, n):
    text = (
        LANES.partition("schedule")[0]
        + """schedule s for g:
    move X -> l3 with stream
    tile j: 4 -> core
    auto
"""
    )
    x = np.random.default_rng(0).random((m, n), np.float32)
    program = andiron.compile(text, schedule="s", target="cpu:avx2", M=m, N=n).program
    np.testing.assert_allclose(interpret(program, {"X": x}, {})["Y"], x.sum(0), rtol=1e-5)
