"""Devices of one's own whose lanes are no power of two, or one: parts of reductions pass through a memory."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import AllReduce
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import CannotMeet, CapacityExceeded, SplitReduction
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.interpreted import CENTRED, GEMM, HIGHEST, OWN_GPU, ROWS, TOTALS, Formula, agrees, program_of

TOTAL = Formula("op f[C, S](X: f32[C, S]) -> (Y: f32[]):\n    Y = sum(c, s) X[c, s]\n", lambda x: x.sum())
FORMULAS = {"gemm": GEMM, "rows": ROWS, "highest": HIGHEST, "totals": TOTALS, "centred": CENTRED}
SIZES = {"M": 13, "N": 9, "K": 50, "C": 5, "S": 33}


def sizes_of(name: str) -> dict[str, int]:
    return {n: SIZES[n] for n in FORMULAS[name].text.split("[")[1].split("]")[0].split(", ")}


@pytest.mark.every_second
@pytest.mark.parametrize(("width", "warps"), [(24, 8), (7, 5), (3, 16), (33, 8), (1, 4)])
@pytest.mark.parametrize("name", FORMULAS)
def test_by_default(name, width, warps):
    own, sizes = OWN_GPU.format(width=width, warps=warps), sizes_of(name)
    agrees(FORMULAS[name], program_of(FORMULAS[name], "auto", "own", devices=own), sizes)
    agrees(FORMULAS[name], program_of(FORMULAS[name], "auto", "own", sizes, devices=own), sizes)


@pytest.mark.parametrize(("width", "warps"), [(24, 8), (7, 5), (3, 16), (33, 8)])
@pytest.mark.parametrize("lines", [
    "tile m: 1 -> block / tile k: 1 -> thread",
    "tile m: 3 -> block / tile m: 1 -> warp / tile k: 1 -> thread",
    "tile m: 2 -> block / tile k: 20 / tile k: 4 -> warp / tile k: 1 -> thread",
    "tile m: 2 -> block / tile k: 6 / tile k: 3 -> thread / tile k: 1 -> thread",
])  # fmt: skip
def test_parts_pass_through_a_memory(lines, width, warps):
    program = program_of(ROWS, lines, "own", where="K <= 60", devices=OWN_GPU.format(width=width, warps=warps))
    assert not any(isinstance(s, AllReduce) for s in statements(program.launches[0].body))
    agrees(ROWS, program, {"M": 13, "K": 50})
    agrees(ROWS, program, {"M": 2, "K": 0})


@pytest.mark.parametrize("sizes", [{"C": 1, "S": 1}, {"C": 40, "S": 7}, {"C": 17, "S": 32}], ids=str)
def test_groups_that_the_width_does_not_hold(sizes):
    """33 threads in groups of 24: the last group is not whole, whichever thread asks."""
    lines = "tile s: 4 every 12, c: 2 every 16 -> thread"
    program = program_of(TOTAL, lines, "own", where="C <= 40, S <= 32", devices=OWN_GPU.format(width=33, warps=8))
    agrees(TOTAL, program, sizes)


ONE_LANE = """
device own:
    level socket: finite 1, siblings nothing
    level core: finite 4, siblings barrier
    level lane: shaped, siblings lockstep, at most 1 units, 16 bytes
    memory dram of socket: 20 GB/s
    memory l2 of core: 256 KiB, in dram
    memory register of lane: 16 x 16 B
"""


@pytest.mark.parametrize("lines", [
    "tile m: 1 -> core / keep Y in l2 / tile k: 8 / tile m: 7, k: 4 -> lane",
    "tile m: 3 -> core / keep Y in register / tile k: 8 / tile k: 4 -> lane",
    "tile m: 2 -> core / tile k: 8 / tile k: 2 -> lane / tile k: 1",
])  # fmt: skip
def test_one_lane(lines):
    """It takes all parts of a reduction itself, in a memory as well."""
    program = program_of(ROWS, lines, "own", where="M <= 20", devices=ONE_LANE)
    for size in (0, 1, 5, 23):
        agrees(ROWS, program, {"M": 9, "K": size})


def test_an_instruction_of_one_lane_beside_lines_that_take_more():
    """Units that lines of a block deal to are those of the instruction: they have one lane."""
    text = """
op f[M, N, K](Q: f32[M, K], V: f32[K, N]) -> (S: f32[M, N]):
    S[m, n] = sum(k) Q[m, k] * V[k, n]

device odd:
    level socket: open, siblings nothing
    level core: finite 4, siblings nothing
    level lane: shaped, siblings lockstep, at most 3 units, 4 bytes
    memory dram of socket: 20 GB/s
    memory l1 of core: 4 KiB
    memory register of lane: 16 x 8 B
    instr rows on core in rows:
        op (A: f32[], B: f32[2], C: f32[2]):
            C[n] += A[] * B[n]
        A in register at ()
        B in register at (lane, r): n = lane + r
        C in register at (lane, r): n = lane + r

schedule s for f:
    tile n: 2 -> core
    keep S:
        move S -> l1
        tile m: 1 -> lane
    compute with rows
"""
    module = loads(text)
    op = specialise(module.ops["f"], {"M": 2, "N": 3, "K": 2})
    program = compile_program(module, op, module.schedules["s"], module.device("odd")).program
    Q, V = np.arange(4, dtype=np.float32).reshape(2, 2), np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (interpret(program, {"Q": Q, "V": V})["S"] == Q @ V).all()


def test_parts_of_several_indices_are_combined_in_one_order():
    """Of a float sum the bits depend on it: those of neighbours first, not as a set happens to list them."""
    text = "op f[M](X: f32[M, 2, 2, 2, 2]) -> (Y: f32[M]):\n    Y[m] = sum(a, b, c, d) X[m, a, b, c, d]\n"
    parts = Formula(text, lambda x: x.sum((1, 2, 3, 4)))
    program = program_of(parts, "tile m: 1 -> block / keep Y / tile a: 1, b: 1, c: 1, d: 1 -> thread", "sm_80")
    assert [x.stride for x in statements(program.launches[0].body) if isinstance(x, AllReduce)] == [1, 2, 4, 8]


def test_room_for_parts_is_asked_for_by_the_line_that_keeps_them() -> None:
    lines = "tile m: 64, n: 64 -> block / keep C in register / tile k: 32 / tile k: 2 -> wave / tile m: 8, n: 8 -> thread"
    with pytest.raises(CapacityExceeded, match="256 KiB of shared memory") as caught:
        program_of(GEMM, lines, "gfx942")
    assert caught.value.span is not None
    assert caught.value.span.text == "keep C in register"


def test_a_line_above_that_gives_cores_one_tile_leaves_all_of_them_their_parts() -> None:
    agrees(
        ROWS,
        program_of(ROWS, "keep Y in register / tile m: 2 -> core / tile k: 1 -> core", "cpu:generic", {"M": 2}),
        {"M": 2, "K": 7},
    )


def test_parts_of_cores_that_have_other_tiles_are_refused() -> None:
    with pytest.raises(SplitReduction, match="which have different tiles of `m`"):
        program_of(ROWS, "tile m: 2 -> core / keep Y in register / tile k: 1 -> core", "cpu:generic", {"M": 2})


@pytest.mark.parametrize("lines", ["", "keep C in register / "])
def test_groups_of_parts_do_not_straddle_units_in_lockstep(lines: str) -> None:
    """Units 4 and 5 would have parts of one result, and the first four are of another subgroup than the fifth."""
    own, sizes = OWN_GPU.format(width=5, warps=8), {"M": 5, "K": 3}
    with pytest.raises(SplitReduction, match="would not lie alike in each group of 5 units"):
        program_of(GEMM, f"tile n: 7, m: 4 -> block / {lines}tile n: 6, k: 1 -> thread", "own", sizes, devices=own)
    whole = program_of(GEMM, f"tile n: 7, m: 4 -> block / {lines}tile n: 7, k: 1 -> thread", "own", sizes, devices=own)
    agrees(GEMM, whole, {**sizes, "N": 13})


WITHOUT = """device bare:
    level grid: finite 1, siblings nothing
    level block: open, siblings nothing, at most 256 threads
    level thread: shaped, siblings barrier, at most 256 units
    memory global of grid: 100 GB/s
    memory register of thread: 64 x 4 B
"""


def test_parts_need_a_memory_that_the_units_share() -> None:
    text = "schedule s for f on bare:\n    tile s: 64 -> block by atomic\n    keep Y in register\n    tile s: 4 -> thread\n"
    device = WITHOUT.partition("    memory register")
    shared = f"{device[0]}    memory shared of block: 48 KiB\n{device[1]}{device[2]}"
    op = "op f[S](X: f32[S]) -> (Y: f32[]):\n    Y = sum(s) X[s]\n"
    module = loads(WITHOUT + op + text)
    with pytest.raises(CannotMeet, match="through a memory that they share, and `bare` has none of `block`") as caught:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("bare"))
    assert "as `memory shared of block: 48 KiB`" in (caught.value.help or "")
    module = loads(shared + op + text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("bare")).program
    (got,) = interpret(program, {"X": np.ones(200, np.float32)}, sizes={"S": 200}).values()
    assert got == 200


def test_parts_of_any_number_of_units_are_refused() -> None:
    device = WITHOUT.replace("open, siblings nothing, at most 256 threads", "open, siblings barrier, at most 256 threads")
    text = "op f[S](X: f32[S]) -> (Y: f32[]):\n    Y = sum(s) X[s]\nschedule s for f on bare:\n    tile s: 4 -> block\n"
    module = loads(device + text)
    with pytest.raises(SplitReduction, match="units of `block`, of which there may be any number"):
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("bare"))
