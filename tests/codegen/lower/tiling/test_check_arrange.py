"""Lines that deal to a level where the focus is already, `arrange`, `every`: which unit has which tile, and of nothing none."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import BadArrange, BadLayout, HeldTwice, LevelOrder, MoveDistributed, SplitReduction
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

OP = """
op double[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[m, n] = 2 * X[m, n]
op total[N](X: f32[N]) -> (Y: f32[]):
    Y = sum(n) X[n]
"""


def program(lines: str, device: str, op: str = "double", **sizes: int):
    body = "".join(f"    {x}\n" for x in lines.split("\n"))
    module = loads(f"{OP}schedule s for {op}:\n{body}")
    return compile_program(module, specialise(module.ops[op], sizes), module.schedules["s"], module.device(device)).program


@pytest.mark.parametrize(
    ("device", "lines"),
    [
        ("gfx90a", "tile m: 2 -> wave\ntile m: 1 -> wave arrange u: m = u"),
        ("gfx90a", "tile m: 2 -> wave\ntile m: 1 -> wave arrange u: m = 1 - u"),
        ("cpu:avx2", "tile m: 1 -> lane\ntile n: 3 -> lane arrange u: n = 2 - u"),
        ("sm_80", "tile m: 2 -> warp\ntile n: 1 -> thread\ntile m: 1 -> thread arrange u: m = 1 - u"),
        ("sm_80", "tile m: 2 -> warp\ntile m: 1, n: 4 -> warp arrange u: m = u % 2, n = u / 2\ntile n: 1 -> thread"),
    ],
)
@pytest.mark.parametrize("shape", [(3, 7), (4, 8), (3, 9)])
def test_arrange_is_over_the_tiles_of_its_own_line(device: str, lines: str, shape: tuple[int, int]) -> None:
    p = program(lines, device, M=shape[0], N=shape[1])
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    np.testing.assert_array_equal(interpret(p, {"X": x})["Y"], 2 * x)


@pytest.mark.parametrize(
    ("device", "lines"),
    [
        ("cpu:avx2", "tile n: 8\ntile n: 1 -> lane\nmove X -> l3:\n    tile m: 1 -> lane"),
        ("cpu:avx2", "tile m: 4, n: 8 -> core\nmove X -> l2:\n    tile m: 1 -> core"),
        ("sm_80", "tile m: 4, n: 8 -> block\nmove X -> shared:\n    tile m: 1 -> block"),
        ("sm_80", "tile m: 4, n: 8 -> block\ntile m: 2 -> warp\nkeep Y in register:\n    tile n: 1 -> warp"),
    ],
)
def test_a_block_has_no_other_unit_of_the_level_in_focus(device: str, lines: str) -> None:
    with pytest.raises(LevelOrder, match="no other takes part") as caught:
        program(lines, device, M=4, N=8)
    assert caught.value.span is not None
    assert caught.value.span.source.line(caught.value.span.line).strip().startswith("tile")


@pytest.mark.parametrize(
    ("op", "lines"),
    [
        ("double", "tile m: 2, n: 2\nauto\nkeep Y in register:\n    move Y -> l2\n    tile m: 1 -> core"),
        ("double", "tile m: 2, n: 2\nauto\nmove X -> l2:\n    tile m: 1 -> core"),
        ("total", "auto\nmove X -> l2:\n    tile n: 4 -> core"),
    ],
)
def test_nor_where_the_level_in_focus_was_filled_in(op: str, lines: str) -> None:
    """`auto` distributes tiles over cores. The others would leave their part of what one of them stores or reads."""
    with pytest.raises(LevelOrder, match="no other takes part") as caught:
        program(lines, "cpu:avx2", op)
    assert caught.value.span is not None
    assert caught.value.span.text == "core"
    assert caught.value.note.startswith("above it comes `tile")


@pytest.mark.parametrize("device", ["sm_80", "cpu:avx512"])
@pytest.mark.parametrize("map_of", ["u % 4", "u / 8", "u / 2 % 4"])
def test_arranged_lanes_combine_their_own_parts(device: str, map_of: str) -> None:
    """The digit that `arrange` says is the one by which lanes find each other."""
    rest = {"u % 4": "u / 4", "u / 8": "u % 8", "u / 2 % 4": "u % 2 + 2*(u / 8)"}[map_of]
    level = "thread" if device == "sm_80" else "lane"
    module = loads(
        "op rows[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n"
        f"schedule s for rows:\n    tile n: 16, m: 8\n    tile n: 4, m: 1 -> {level} arrange u: n = {map_of}, m = {rest}\n"
    )
    p = compile_program(module, module.ops["rows"], module.schedules["s"], module.device(device)).program
    for shape in ((8, 16), (13, 35), (1, 1), (3, 0)):
        x = np.random.default_rng(0).integers(-4, 5, shape).astype("f4")
        np.testing.assert_array_equal(interpret(p, {"X": x})["Y"], x.sum(axis=1))


def test_arranged_parts_of_a_reduction_are_a_digit() -> None:
    with pytest.raises(BadArrange, match="one digit"):
        program("tile n: 8\ntile n: 2 -> lane arrange u: n = 3 - u", "cpu:avx512", "total")


@pytest.mark.parametrize(
    ("device", "op", "lines"),
    [
        ("cpu:avx2", "double", "tile m: 1 every 1 -> core"),
        ("cpu:avx2", "double", "tile n: 1 every 4 -> lane"),
        ("sm_80", "total", "tile n: 1 every 1 -> thread"),
        ("sm_80", "total", "tile n: 1 every 1 -> block"),
        ("gfx90a", "total", "tile n: 1 every 17 -> wave by workspace"),
    ],
)
def test_no_chunk_of_an_extent_of_zero(device: str, op: str, lines: str) -> None:
    p = program(lines, device, op, **({"M": 0, "N": 0} if op == "double" else {"N": 0}))
    x = np.zeros((0, 0) if op == "double" else (0,), "f4")
    (y,) = interpret(p, {"X": x}).values()
    np.testing.assert_array_equal(y, 2 * x if op == "double" else 0)


@pytest.mark.parametrize(
    ("device", "lines"),
    [
        ("cpu:avx2", "tile m: 1 -> core\nkeep Y in l2:\n    move Y -> l1"),
        ("cpu:avx2", "tile m: 4\ntile m: 2\nkeep Y in l3:\n    move Y -> register"),
        ("cpu:avx2", "tile m: 3\nkeep Y in l3 pad 2:\n    tile m: 2\n    move Y -> register"),
        ("sm_80", "tile m: 4 -> block\nkeep Y in shared:\n    move Y -> register\n    tile m: 1 -> thread"),
    ],
)
@pytest.mark.parametrize("shape", [(7, 5), (1, 3), (0, 2), (8, 0)])
def test_a_result_in_memory_goes_out_by_way_of_another(device: str, lines: str, shape: tuple[int, int]) -> None:
    """The hop reads where the tile lies, not as far beyond as the tile begins."""
    module = loads(
        "op rows[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\nschedule s for rows:\n"
        + "".join(f"    {x}\n" for x in lines.split("\n"))
    )
    p = compile_program(module, module.ops["rows"], module.schedules["s"], module.device(device)).program
    x = np.random.default_rng(0).integers(-4, 5, shape).astype("f4")
    np.testing.assert_array_equal(interpret(p, {"X": x})["Y"], x.sum(axis=1))


def test_a_view_by_fused_indices_is_of_one_access() -> None:
    module = loads(
        "op o[M, K](A: f32[M, K], B: f32[M, K]) -> (Y: f32[M, M]):\n"
        "    Y[n, m] = A[n, n else 2] + (sum(k) A[n, k] * B[m, k])\n"
        "schedule s for o:\n    fuse m, n as f\n    tile f: 8 -> block\n    tile k: 2 -> warp\n    move A -> shared\n"
    )
    op = specialise(module.ops["o"], {"M": 3, "K": 5})
    with pytest.raises(BadLayout, match="several subscripts") as caught:
        compile_program(module, op, module.schedules["s"], module.device("sm_80"))
    assert caught.value.span is not None
    assert caught.value.span.line == 7


def test_a_block_has_no_staging_step_to_its_own_memory() -> None:
    with pytest.raises(HeldTwice):
        program("tile n: 1\nkeep Y in l3:\n    move Y -> l3", "cpu:avx2")


def test_a_tensor_without_axes_has_no_rows_to_swizzle() -> None:
    with pytest.raises(BadLayout, match="a row of 1 elements"):
        program("keep Y in l3 swizzle (1, 2)", "cpu:avx2", "total")


def test_what_a_unit_stages_is_not_read_by_the_others() -> None:
    """Each lane has its own `l1` here, and holds in it no more than it stored."""
    module = loads(
        "op twice[M](X: f32[M]) -> (Y: f32[M]):\n    Y[m] = 2 * X[m]\n"
        "schedule s for twice:\n    tile m: 5 every 5 -> lane\n    keep Y in register:\n        move Y -> l1\n"
        "    tile m: 9 unroll\n    tile m: 1 -> lane\n    compute\n"
    )
    with pytest.raises(MoveDistributed, match="each lane has its own") as caught:
        compile_program(module, specialise(module.ops["twice"], {"M": 19}), module.schedules["s"], module.device("cpu:generic"))
    assert caught.value.span is not None


@pytest.mark.parametrize("lines", ["tile n: 4 -> warp", "tile n: 5\ntile n: 2 -> warp"])
def test_units_with_parts_of_one_sum_have_one_tile(lines: str) -> None:
    """By `u % 2` and `u % 5` each of ten units has another pair, but five that follow one another have not the same `m`."""
    lines = lines.replace("\n", "\n    ")
    module = loads(
        "op rows[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n"
        "schedule s for rows:\n    tile m: 8\n    tile m: 4 -> warp arrange u: m = u % 2\n"
        f"    {lines} by shuffle\n    compute\n"
    )
    with pytest.raises(SplitReduction, match="different tiles of `m`"):
        compile_program(
            module, specialise(module.ops["rows"], {"M": 8, "N": 19}), module.schedules["s"], module.device("sm_80")
        )


@pytest.mark.parametrize("m", [1, 5, 23])
def test_a_line_that_is_filled_in_is_no_unit_of_a_level_that_lines_below_deal_to(m: int) -> None:
    """`auto` puts tiles for lanes above a copy that cores share: another choice is taken."""
    module = loads(
        "op f[M](A: f32[M]) -> (Y: f64[M]):\n    Y[m] = f64(A[m])\n"
        "schedule s for f:\n    tile m: 12\n    keep Y\n    auto\n    move A -> l3:\n        tile m: 1 -> core\n    compute\n"
    )
    p = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2")).program
    x = np.arange(m, dtype="f4")
    np.testing.assert_array_equal(interpret(p, {"A": x}, {"M": m}, {"core": 3})["Y"], x)
