"""Copies of axes that a schedule fused: a piece that crosses from one row into the next is at the next row's coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

TEXT = """
op o[W, R, N, K](A: f16[W, K], B: f16[N, R, K]) -> (C: f32[P, N]) where P = W + 4 - R + 1:
    C[m, n] = sum(r, k) f32(A[m + r - 2, k else 0]) * f32(B[n, r, k])
schedule s for o:
    fuse r, k as kk
    tile m: 16, n: 8 -> block raster 2
    keep C in register
    tile kk: 64
    move A -> shared pad 1:
        tile m: 2 -> warp
        tile m: 1, k: 4 -> thread
    move B -> shared swizzle with cp_async
    tile m: 16, n: 32 -> warp
    move A -> register
    move B -> register with ldmatrix
    compute with mma_m16n8k16_f16
"""


@pytest.mark.parametrize(("k", "r"), [(17, 2), (9, 3), (16, 3), (1, 5), (33, 1)])
@pytest.mark.parametrize(("w", "n"), [(33, 65), (5, 1)])
def test_right(k: int, r: int, w: int, n: int) -> None:
    module = loads(TEXT)
    op = specialise(module.ops["o"], {"K": k, "R": r})
    program = compile_program(module, op, module.schedules["s"], module.device("sm_90a")).program
    rng = np.random.default_rng(k)
    a, b = rng.integers(-2, 3, (w, k)).astype("f2"), rng.integers(-2, 3, (n, r, k)).astype("f2")
    rows = w + 4 - r + 1
    padded = np.zeros((rows + r, k))
    padded[2 : 2 + w] = a[: rows + r - 2]
    expected = sum(padded[i : i + rows] @ b[:, i].T.astype("f8") for i in range(r))
    np.testing.assert_array_equal(interpret(program, {"A": a, "B": b}, {"W": w, "N": n})["C"], expected)


def test_a_store_of_fused_axes_goes_on_in_the_next_row() -> None:
    """Rows of 6 elements, four at a time: the coordinate within a row is twice a digit."""
    module = loads(
        "op o[M, N](A: i32[N], B: i32[M]) -> (C: i32[N, M]):\n    C[n, m] = A[n] + B[m]\n"
        "schedule s for o:\n    fuse n, m as f\n    tile f: 8 -> block\n    compute\n"
    )
    op = specialise(module.ops["o"], {"M": 6, "N": 24})
    program = compile_program(module, op, module.schedules["s"], module.device("sm_80")).program
    assert any(i.name == "store_global_i32x4" for i in program.instrs)
    a, b = np.arange(24, dtype="i4"), 100 * np.arange(6, dtype="i4")
    np.testing.assert_array_equal(interpret(program, {"A": a, "B": b})["C"], a[:, None] + b)


@pytest.mark.parametrize("m", [1, 2])
def test_a_load_of_fused_axes_goes_on_in_the_next_row(m: int) -> None:
    """Rows of 37 elements, two at a time: between the rows there is a dimension of extent 1."""
    module = loads(
        "op o[N, M, K](A: f64[N, M, K]) -> (C: f64[M, K, N]):\n    C[m, k, n] = 3 - A[n, m, k]\n"
        "schedule s for o:\n    fuse n, m, k as f\n    tile f: 1222 -> block\n    tile f: 8\n"
        "    tile f: 2 -> wave arrange u: f = u\n    move A -> shared pipeline 2\n"
    )
    op = specialise(module.ops["o"], {"N": 33, "M": m, "K": 37})
    program = compile_program(module, op, module.schedules["s"], module.device("gfx90a")).program
    assert any(i.name == "load_global_f64x2" for i in program.instrs)
    a = np.arange(33 * m * 37, dtype="f8").reshape(33, m, 37)
    np.testing.assert_array_equal(interpret(program, {"A": a})["C"], 3 - a.transpose(1, 2, 0))


def test_a_copy_of_odd_rows_goes_element_by_element_along_the_last_axis_that_has_several() -> None:
    module = loads(
        "op o[M, K, K2](X: i8[K2, M, K]) -> (Y: i32[M, M]):\n"
        "    Y[m, n] = sum(k, k2) i32(X[k2, m, k]) * i32(X[k2, n, k])\n"
        "schedule s for o:\n    fuse k, k2 as fk\n    tile m: 32, n: 32 -> block\n    keep Y\n    tile fk: 32\n"
        "    move Y.right -> shared with cp_async\n    tile n: 16 -> warp\n    tile m: 15\n    compute with mma\n"
    )
    op = specialise(module.ops["o"], {"M": 37, "K": 1, "K2": 4})
    program = compile_program(module, op, module.schedules["s"], module.device("sm_80")).program
    x = np.random.default_rng(0).integers(-3, 4, (4, 37, 1)).astype("i1")
    expected = np.einsum("cmk,cnk->mn", x.astype("i4"), x.astype("i4"))
    np.testing.assert_array_equal(interpret(program, {"X": x})["Y"], expected)


ASYNC = "move Q -> shared with cp_async"
FUSED = """\
op o[G{open}](Q: u8[G, {dims}]) -> (S: f32[G]):
    S[g] = sum({indices}) Q[g, {indices}]

schedule s for o:
    fuse {indices} as f
    tile g: 1 -> block
    tile f: {size}
    {move}
"""


def summed(dims: tuple[str, ...], sizes: dict[str, int], size: int, move: str = ASYNC) -> None:
    """An array of these dimensions is summed right, of which `size` elements at a time are copied."""
    names = "".join(f", {d}" for d in dims if d in sizes)
    indices = ", ".join("kqr"[: len(dims)])
    module = loads(FUSED.format(open=names, dims=", ".join(dims), indices=indices, size=size, move=move))
    program = compile_program(module, module.ops["o"], module.schedules["s"], module.device("sm_90a")).program
    q = np.random.default_rng(0).integers(0, 9, (2, *(sizes.get(d) or int(d) for d in dims))).astype("u1")
    np.testing.assert_array_equal(interpret(program, {"Q": q}, {"G": 2, **sizes})["S"], q.reshape(2, -1).sum(1))


@pytest.mark.parametrize(
    ("dims", "sizes", "size"),
    [
        (("K", "L"), {"K": 2, "L": 5}, 4),  # a row may be empty, as far as is known
        (("3", "5", "7"), {}, 4),  # it ends in the next plane
        (("K", "L", "M"), {"K": 3, "L": 5, "M": 7}, 4),
        (("K", "10", "6"), {"K": 5}, 16),  # its column is twice a digit
        (("3", "4"), {}, 8),  # it is two rows long, and copied row by row
    ],
)
def test_parts_of_a_copy_that_is_not_aligned_go_on_in_the_next_row(dims, sizes, size) -> None:
    summed(dims, sizes, size)


def test_a_column_without_a_remainder_may_stand_beside_a_quotient_that_is_reduced() -> None:
    summed(("6", "6"), {}, 64, move="move Q -> shared:\n        tile f: 16 -> thread\n        compute\n    tile f: 4")


ROWS = """
op o[L, M, N](A: f32[L, 16, M], B: f16[L, N, 16]) -> (Y: f32[M, N]):
    Y[m, n] = sum(l, k) A[l, k, m] * f32(B[l, n, k])
schedule s for o:
    fuse l, k as lk
    tile m: 16, n: 16 -> block
    keep Y in register
    tile lk: 32
    move A -> shared
    move B -> shared layout (n, lk) pad 2 with cp_async_f16x2
    tile m: 1, n: 1 -> thread
    compute
"""


@pytest.mark.parametrize("schedule", ["s", None])
@pytest.mark.parametrize("sizes", [(2, 3, 2), (5, 33, 17), (1, 1, 1), (0, 3, 4)])
@pytest.mark.usefixtures("first_choices")
def test_the_last_of_the_fused_axes_has_the_neighbours(sizes: tuple[int, int, int], schedule: str | None) -> None:
    """Also where the last axis of the copy is another one. Such lines are chosen for it."""
    module = loads(ROWS)
    made = compile_program(module, module.ops["o"], module.schedules[schedule] if schedule else None, module.device("sm_86"))
    assert "cp_async_f16x2" in made.schedule
    count, m, n = sizes
    rng = np.random.default_rng(m)
    a, b = rng.integers(-2, 3, (count, 16, m)).astype("f4"), rng.integers(-2, 3, (count, n, 16)).astype("f2")
    got = interpret(made.program, {"A": a, "B": b}, {"L": count, "M": m, "N": n})["Y"]
    np.testing.assert_array_equal(got, np.einsum("lkm,lnk->mn", a, b.astype("f4")))
