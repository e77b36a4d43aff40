"""Rims that instructions read from the memory that units share: copied by an instruction as well, and filled by a `move`, at
odd sizes, 1 and 0. Results are written into poisoned memory; the emulator finds reads of what nothing wrote."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.tile_ir import Call, If, Stmt
from andiron.codegen.ir.tile_visitors import statements
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned

OP = """op f[N, H, W, C, K, O](I: f16[N, H, W, C], F: f16[3, 3, C, K], G: f16[3, 3, K, O]) -> (Y: f16[N, H, W, O]):
    D[n, p: H, q: W, k] = f16(relu(sum(r, s, c) f32(I[n, p + r - 1, q + s - 1, c else 0]) * f32(F[r, s, c, k])) + 1.0)
    Y[n, p, q, o] = f16(sum(u, v, k) f32(D[n, p + u - 1, q + v - 1, k else 0]) * f32(G[u, v, k, o]))
"""
SCHEDULES = {
    "sm_80": """schedule s for f on sm_80 where C <= 64, K <= 64, O <= 64:
    tile n: 1, p: 8, q: 16, o: 64 -> block
    {made} swizzle:
        move I -> shared swizzle with cp_async
        fuse {fused} as m
        keep D in register
        tile r: 1, s: 1 pipeline 2
        move F -> shared swizzle with cp_async
        tile m: 48 -> warp
        tile c: 16
        move I -> register with ldmatrix
        move F -> register with ldmatrix
        compute with mma_m16n8k16_f16
    keep Y in register
    tile u: 1, v: 1 pipeline 2
    move G -> shared swizzle with cp_async
    tile p: 2 -> warp
    tile k: 16
    move G -> register with ldmatrix
    tile p: 1
    move D -> register with ldmatrix
    compute with mma_m16n8k16_f16
""",
    "gfx942": """schedule s for f on gfx942 where C <= 64, K <= 64, O <= 64:
    tile n: 1, p: 4, q: 16, o: 64 -> block
    {made} pad 8:
        fuse {fused} as m
        keep D in register
        tile r: 1, s: 1
        move F -> shared pad 8
        tile m: 32 -> wave
        tile c: 16
        compute with mfma_16x16x16_f16
    keep Y in register
    tile u: 1, v: 1
    move G -> shared pad 8
    tile p: 1 -> wave
    tile k: 16
    compute with mfma_16x16x16_f16
""",
}
SIZES = (
    (2, 7, 5, 17, 9, 5),
    (1, 9, 33, 16, 64, 64),  # whole tiles of an instruction, and pixels past the edge that readers read
    (1, 1, 1, 1, 1, 1),
    (1, 9, 17, 0, 3, 2),
    (1, 9, 17, 3, 0, 2),
    (2, 0, 3, 3, 3, 3),
    (0, 3, 3, 3, 3, 3),
)
KEEP, MOVE = ("keep D in shared", "p, q"), ("move D -> shared", "n, p, q")


def text_of(device: str, way: tuple[str, str], op: str = OP) -> str:
    made, fused = way
    return op + SCHEDULES[device].format(made=made, fused=fused)


@pytest.mark.every_second
@pytest.mark.parametrize("way", [KEEP, MOVE], ids=["keep", "move"])
@pytest.mark.parametrize("device", SCHEDULES)
@pytest.mark.parametrize("fixed", [True, False])
def test_right(device: str, way: tuple[str, str], fixed: bool) -> None:
    text = text_of(device, way)
    op = bind_params(loads(text).ops["f"])
    kernel = compile(text, "f", "s", f"emulate:{device}")
    for extents in SIZES[: 2 if fixed else None]:
        sizes = dict(zip("NHWCKO", extents, strict=True))
        kernel = compile(text, "f", "s", f"emulate:{device}", sizes=sizes) if fixed else kernel
        rng, known = np.random.default_rng(5), op.all_sizes(sizes)
        arrays = [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]
        out = poisoned(tuple(e.evaluate(known) for e in op.outputs[0].shape), np.dtype(np.float16))
        kernel(*arrays, out=out)
        assert len(kernel.program.launches) == 1
        assert check(op, arrays, [out]).ok, sizes


@pytest.mark.parametrize("outside", ["2", "(-1.5)"])
def test_what_is_outside_may_be_any_number(outside: str) -> None:
    text = text_of("sm_80", MOVE, OP.replace("q + v - 1, k else 0", f"q + v - 1, k else {outside}"))
    op, sizes = bind_params(loads(text).ops["f"]), dict(N=1, H=9, W=5, C=16, K=17, O=8)
    kernel = compile(text, "f", "s", "emulate:sm_80", sizes=sizes)
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=[e.evaluate(sizes) for e in t.shape]).astype(np.float16) for t in op.inputs]
    out = poisoned((1, 9, 5, 8), np.dtype(np.float16))
    kernel(*arrays, out=out)
    assert check(op, arrays, [out]).ok


@pytest.mark.parametrize(("way", "guarded"), [(KEEP, True), (MOVE, False)], ids=["keep", "move"])
def test_a_move_is_filled_so_readers_have_no_guards(way: tuple[str, str], guarded: bool) -> None:
    """What is kept is read one by one at the edge of the image, where an instruction would read what is none of it."""
    sizes = dict(N=1, H=32, W=32, C=64, K=64, O=64)
    program = compile(text_of("sm_80", way), "f", "s", "emulate:sm_80", sizes=sizes).program

    def reads(s: Stmt) -> bool:
        return isinstance(s, Call) and "ldmatrix" in s.instr and any(p.buffer == "d" for p in s.pieces)

    body = list(statements(program.launches[0].body))
    assert any(map(reads, body))
    assert any(isinstance(s, If) and any(map(reads, statements(s.body))) for s in body) == guarded


def test_other_values_outside_are_asked_for() -> None:
    """Of two readers each has its own: what is stored cannot be both."""
    text = """op f[N, M](X: f32[N], W: f32[M, 3]) -> (Y: f32[N, M]):
    D[i: N] = sum(r: 3) X[i + r - 1 else 0]
    Y[i, j] = sum(r) D[i + r - 1 else 3] * D[i - r else 5] * W[j, r]
schedule s for f on sm_80 where M <= 8:
    tile i: 16 -> block
    move D -> shared:
        tile i: 1 -> thread
        keep D in register
        compute
    tile i: 1 -> thread
    keep Y in register
    compute
"""
    op = bind_params(loads(text).ops["f"])
    kernel = compile(text, "f", "s", "emulate:sm_80")
    assert len(kernel.program.launches) == 1
    for n, m in ((37, 3), (1, 1), (5, 2), (0, 1), (3, 0)):
        rng = np.random.default_rng(5)
        arrays = [rng.normal(size=s).astype(np.float32) for s in ((n,), (m, 3))]
        out = poisoned((n, m), np.dtype(np.float32))
        kernel(*arrays, out=out)
        assert check(op, arrays, [out]).ok, (n, m)
