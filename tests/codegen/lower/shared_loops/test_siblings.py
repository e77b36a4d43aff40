"""Reductions over one index that share its loop, whose results meet in what is stored: right at odd sizes, 1 and 0.

Results are written into poisoned memory. Under the emulator reads of what nothing wrote are found as well.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import For, Stmt
from andiron.codegen.ir.tile_visitors import map_bodies, written
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import CannotMeet, NotComputed
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned

GATED = """op f[M, K, F](X: f32[M, K], Wg: f32[K, F], Wu: f32[K, F]) -> (H: f32[M, F]):
    g[m, h] = sum(k) X[m, k] * Wg[k, h]
    u[m, h] = sum(k) X[m, k] * Wu[k, h]
    H[m, h] = g[m, h] * sigmoid(g[m, h]) * u[m, h]
"""
HALF = """op f[M, K, F](X: f16[M, K], Wg: f16[K, F], Wu: f16[K, F]) -> (H: f16[M, F]):
    g[m, h] = sum(k) f32(X[m, k]) * f32(Wg[k, h])
    u[m, h] = sum(k) f32(X[m, k]) * f32(Wu[k, h])
    H[m, h] = f16(g[m, h] * sigmoid(g[m, h]) * u[m, h])
"""
# the second reads the finished result of the first, and the third those of both
THREE = """op f[M, K, F](X: f32[M, K], A: f32[K, F], B: f32[K, F], C: f32[K, F], v: f32[F]) -> (Y: f32[M, F], Z: f32[M, F]):
    a[m, h] = sum(k) X[m, k] * A[k, h]
    p[m, h] = tanh(a[m, h]) + v[h]
    b[m, h] = sum(k) X[m, k] * B[k, h]
    q[m, h] = p[m, h] * b[m, h]
    c[m, h] = max(k) (X[m, k] - C[k, h])
    Y[m, h] = q[m, h] + min(c[m, h], 8.0)
    Z[m, h] = where(c[m, h] > 0.0, a[m, h], b[m, h])
"""
# of another row of results, and of other elements of them
NEIGHBOURS = """op f[M, K, F](X: f32[M, K], A: f32[K, F], B: f32[K, F]) -> (Y: f32[M, F]):
    a[m, h] = sum(k) X[m, k] * A[k, h]
    b[m, h] = sum(k) X[m, k] * B[k, h]
    Y[m, h] = b[m, h] - a[m, F - 1 - h]
"""
# the result of the first is stored as well
STORED = GATED.replace("-> (H: f32[M, F])", "-> (G: f32[M, F], H: f32[M, F])") + "    G[m, h] = g[m, h]\n"
SPREAD = """op f[M, K](X: f32[M, K]) -> (V: f32[M], R: f32[M]):
    s[m] = sum(k) X[m, k]
    q[m] = sum(k) X[m, k] * X[m, k]
    most[m] = max(k) X[m, k]
    V[m] = q[m] - s[m] * s[m]
    R[m] = s[m] + where(most[m] > 1.0, q[m], 1.0)
"""
TRIANGLES = """op f[M, T](X: f32[M, T], W: f32[M, T]) -> (Y: f32[M, T]):
    a[m, i] = sum(t where t <= i) X[m, t]
    b[m, i] = sum(t) W[m, t]
    Y[m, i] = a[m, i] * b[m, i]
"""
# a result that the write-back of the other one reads is read after both as well
READ_TWICE = """op f[M, K](X: f32[M, K]) -> (Y: f32[M]):
    a[m] = max(k) X[m, k]
    b[m] = (sum(k) X[m, k]) + a[m]
    Y[m] = b[m] - a[m]
"""
MATRICES = ((5, 7, 9), (70, 33, 67), (64, 32, 64), (1, 1, 1), (3, 0, 5), (0, 4, 3), (4, 3, 0), (130, 65, 17))
ROWS = ((5, 7), (33, 70), (1, 1), (3, 0), (0, 4), (17, 300))
STAGED = """    tile m: 32, h: 32 -> block
    keep g in register
    keep u in register
    tile k: 16
    move X -> shared
    move Wg -> shared
    move Wu -> shared
    tile m: 4, h: 2 -> thread
    compute
"""
# the op, where it runs, the lines of its schedule, sizes
CASES = {
    "by threads": (GATED, "emulate:sm_80", STAGED, MATRICES),
    "in the order of the lines": (GATED, "emulate:gfx942", STAGED.replace("keep g", "keep x").replace("keep u", "keep g")
        .replace("keep x", "keep u"), MATRICES),
    "one that no line keeps": (GATED, "emulate:gfx1100", STAGED.replace("    keep u in register\n", ""), MATRICES),
    "a pipeline": (GATED, "emulate:sm_80", STAGED.replace("tile k: 16", "tile k: 16 pipeline 3")
        .replace("shared\n", "shared with cp_async\n"), MATRICES),
    "mma": (HALF, "emulate:sm_80", """    tile m: 64, h: 32 -> block
    keep g in register
    keep u in register
    tile k: 32 pipeline 2
    move X -> shared swizzle with cp_async
    move Wg -> shared swizzle with cp_async
    move Wu -> shared swizzle with cp_async
    tile m: 32, h: 16 -> warp
    tile k: 16
    move X -> register with ldmatrix
    move Wg -> register with ldmatrix
    move Wu -> register with ldmatrix
    compute with mma_m16n8k16_f16
""", MATRICES),
    "mfma": (HALF, "emulate:gfx942", """    tile m: 32, h: 32 -> block
    keep g in register
    keep u in register
    tile k: 32
    move X -> shared pad 4
    move Wg -> shared layout (h, k) pad 4
    move Wu -> shared layout (h, k) pad 4
    tile m: 16, h: 16 -> wave
    tile k: 16
    compute with mfma_16x16x16_f16
""", MATRICES),
    "wmma": (HALF, "emulate:gfx1100", """    tile m: 32, h: 32 -> block
    keep g in register
    keep u in register
    tile k: 32
    move X -> shared pad 8
    move Wg -> shared layout (h, k) pad 8
    move Wu -> shared layout (h, k) pad 8
    tile m: 16, h: 32 -> wave
    tile k: 16
    compute with wmma_16x16x16_f16
""", MATRICES),
    "cores": (GATED, "cpu", """    tile m: 4, h: 16 -> core
    keep g in register
    keep u in register
    tile k: 1 unroll 4
    compute with fma
""", MATRICES),
    "cores, halves": (HALF, "cpu", """    tile m: 4, h: 16 -> core
    keep g, u in register
    tile k: 1
    compute
""", MATRICES),
    "in turns": (GATED, "cpu", """    tile m: 16, h: 32 -> core
    tile k: 8
    move Wg -> l2
    move Wu -> l2
    tile m: 4, h: 16
    keep g, u in register
    tile k: 1
    compute with fma
""", MATRICES),
    "a tile of a tile": (GATED, "cpu", """    tile m: 16, h: 32 -> core
    keep g, u in l2
    tile k: 8
    move Wg -> l2 layout panels(h: 16)
    move Wu -> l2 layout panels(h: 16)
    tile m: 4, h: 16
    keep g, u in register
    tile k: 1 unroll 4
    compute with fma
""", MATRICES),
    "above and below": (GATED, "cpu", """    tile m: 8, h: 16 -> core
    keep g in l2
    tile k: 8
    tile m: 4
    keep u in register
    tile k: 1
    compute
""", MATRICES),
    "three": (THREE, "cpu", """    tile m: 2, h: 16 -> core
    keep a, b, c in register
    tile k: 1
    compute
""", MATRICES),
    "three, and what is made of two": (THREE, "cpu", """    tile m: 2, h: 16 -> core
    keep a in register
    keep p, b, q in register
    keep c in register
    tile k: 4
    compute
""", MATRICES),
    "three by threads": (THREE, "emulate:sm_80", """    tile m: 8, h: 16 -> block
    keep c, b, a in register
    tile k: 8
    move X -> shared
    tile m: 1, h: 1 -> thread
    compute
""", MATRICES),
    "three in shared memory": (THREE, "emulate:gfx942", """    tile m: 8, h: 16 -> block
    keep a, p in shared
    keep b in shared
    keep c in register
    tile k: 8
    move X -> shared
    tile m: 1, h: 2 -> thread
    compute
""", MATRICES),
    "neighbours": (NEIGHBOURS, "emulate:sm_80", """    tile m: 8 -> block
    keep a in shared
    keep b in register
    tile k: 8
    move X -> shared
    tile m: 1, h: 8 -> thread
    compute
""", ((5, 7, 9), (17, 20, 64), (1, 1, 1), (3, 0, 5), (0, 4, 3), (4, 3, 0))),
    "an output": (STORED, "emulate:sm_80", STAGED, MATRICES),
    "an output of cores": (STORED, "cpu", """    tile m: 4, h: 16 -> core
    keep g, u in register
    tile k: 2
    compute
""", MATRICES),
    "rows": (SPREAD, "cpu", """    tile m: 1 -> core
    keep s, q, most in register
    tile k: 16
    tile k: 1 -> lane
    compute
""", ROWS),
    "rows by warps": (SPREAD, "emulate:sm_80", """    tile m: 2 -> block
    tile m: 1 -> warp
    keep s, q, most in register
    tile k: 64
    tile k: 1 -> thread
    compute
""", ROWS),
    "rows by blocks of warps": (SPREAD, "emulate:gfx942", """    tile m: 1 -> block
    keep s, q, most in register
    tile k: 256
    tile k: 64 -> wave
    tile k: 1 -> thread
    compute
""", ROWS),
    "kept in iterations": (READ_TWICE, "cpu", """    tile m: 8 -> core
    tile k: 2
    keep a, b in register
    tile k: 1
    compute
""", ROWS),
    "kept in iterations by threads": (READ_TWICE, "emulate:sm_80", """    tile m: 8 -> block
    tile k: 2
    keep b in register
    keep a in shared
    tile m: 1 -> thread
    compute
""", ROWS),
    "made in iterations": (GATED, "cpu", """    tile k: 4
    tile m: 8, h: 8 -> core
    keep g in l1:
        tile m: 1
        keep g in register
    keep u in register
    tile k: 4
    compute
""", MATRICES),
    "made in iterations of two loops": (GATED, "cpu", """    tile k: 8
    tile k: 4
    tile m: 8, h: 4 -> core
    keep g in l1:
        tile m: 1
        tile k: 2
        compute
    compute
""", MATRICES),
    "made in iterations by threads": (GATED, "emulate:sm_80", """    tile k: 4
    tile m: 8, h: 8 -> block
    keep g in shared:
        tile m: 1, h: 1 -> thread
        compute
    tile m: 1, h: 1 -> thread
    compute
""", MATRICES),
    "an output kept in iterations": (STORED, "emulate:gfx942", """    tile m: 8, h: 8 -> block
    tile k: 4
    keep g, u in register
    tile m: 1, h: 1 -> thread
    compute
""", MATRICES),
    "other domains": (TRIANGLES, "cpu", """    tile m: 1, i: 8 -> core
    keep a, b in register
    tile t: 4
    compute
""", ROWS),
}  # fmt: skip


def module_of(name: str) -> tuple[Module, str]:
    op, target, lines, _ = CASES[name]
    on = "cpu:avx2" if target == "cpu" else target.partition(":")[2]
    bounds = " where F <= 64" if op is NEIGHBOURS else ""
    for_device = "" if target == "cpu" else f" on {on}"  # this machine's CPU may be another one
    return loads(f"{op}schedule s for f{for_device}{bounds}:\n{lines}"), on


def program_of(name: str) -> Program:
    module, on = module_of(name)
    return compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device(on)).program


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    (module, _), target = module_of(name), CASES[name][1]
    op = bind_params(module.ops["f"])
    kernel = compile(module, "f", "s", target)
    for extents in CASES[name][3]:
        sizes = dict(zip([d.name for d in op.dims], extents, strict=True))
        rng, known = np.random.default_rng(5), op.all_sizes(sizes)
        arrays = [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]
        out = [poisoned(tuple(e.evaluate(known) for e in t.shape), t.dtype.numpy) for t in op.outputs]
        kernel(*arrays, out=out[0] if len(out) == 1 else tuple(out))
        assert check(op, arrays, out).ok, sizes


@pytest.mark.parametrize("name", [x for x in CASES if x != "above and below" and "in iterations" not in x])
def test_one_loop(name: str) -> None:
    """One launch, and each loop over the index adds to all accumulators; results that meet are not in memory."""
    program, op = program_of(name), bind_params(module_of(name)[0].ops["f"])
    assert len(program.launches) == 1
    between = [b.name for b in program.buffers if b.kind == "workspace"]
    assert not between or name == "in turns"
    index = "t" if CASES[name][0] is TRIANGLES else "k"
    loops = outermost(program.launches[0].body, re.compile(rf"{index}\d*"))
    reductions = {s.target for s in op.statements if s.reduction is not None}
    assert loops
    for loop in loops:  # a whole one, and its remainder
        assert reductions <= {b.rstrip("0123456789") for b in written(loop.body, program.instrs)}


@pytest.mark.parametrize(
    ("lines", "way"),
    [
        ("    tile k: 2\n    keep a in register\n", "write it above the first tile of `k`, or leave it out"),
        (
            "    keep Y in register\n    tile k: 2\n    keep a in register\n",
            "write it above the line that keeps `Y`, or leave it out",
        ),
    ],
)
def test_what_a_write_back_reads_is_kept_above_lines_that_are_there(lines: str, way: str) -> None:
    op = READ_TWICE.replace("    Y[m] = b[m] - a[m]\n", "    Y[m] = b[m] * 2\n")
    module = loads(f"{op}schedule s for f:\n    tile m: 8 -> core\n{lines}    compute\n")
    with pytest.raises(NotComputed, match=r"`a` is read at the write-back of `b\.sum1`") as found:
        compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device("cpu:avx2"))
    assert found.value.help == way


@pytest.mark.parametrize(
    ("read", "line", "message", "way"),
    [
        (
            "M - 1 - m",
            "keep g in l2",
            "each tile makes `g` for itself, with a rim",
            "write this line above the first tile of `k`",
        ),
        (
            "m",
            "move g -> l2",
            "each tile makes `g` with zeros around it",
            "write this line above the first tile of `k`, or `keep g in l2:`",
        ),
    ],
)
def test_what_reaches_beyond_a_tile_does_not_go_on_from_what_neighbours_stored(
    read: str, line: str, message: str, way: str
) -> None:
    op = f"""op f[M, K](X: f32[K, M], V: f32[K, M]) -> (Y: f32[M]):
    g[m] = sum(k) X[k, m]
    u[m] = sum(k) V[k, m]
    Y[m] = g[{read}] - u[m]
"""
    block = "        tile m: 1\n        keep g in register\n        compute\n"
    lines = f"    tile k: 4\n    tile m: 8 -> core\n    {line}:\n{block}    keep u in register\n    compute\n"
    if read != "m":
        lines = f"    tile m: 8 -> core\n    tile k: 4\n    {line}:\n{block}    keep u in l1\n    compute\n"
    module = loads(f"{op}schedule s for f:\n{lines}")
    with pytest.raises(CannotMeet, match=message) as found:
        compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device("cpu:avx2"))
    assert found.value.help == way


def outermost(body: tuple[Stmt, ...], name: re.Pattern) -> list[For]:
    found: list[For] = []
    for s in body:
        if isinstance(s, For) and name.fullmatch(s.var.name):
            found.append(s)
        else:
            map_bodies(s, lambda inner: found.extend(outermost(inner, name)) or inner)
    return found
