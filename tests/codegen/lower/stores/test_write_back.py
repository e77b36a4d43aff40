"""`keep` with a block that moves results to a memory that units share: the units share out the stores from there, too."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import If
from andiron.codegen.ir.tile_visitors import buffers_used, statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import HeldTwice, NotRead
from andiron.dsl.index.expr import as_expr
from andiron.dsl.module import loads
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse

from ....support.interpreted import GEMM, OWN_GPU, ROWS, Formula, agrees, program_of, written

RELU = Formula(
    "op f[M, N, K](A: f32[M, K], B: f32[K, N], b: f32[N]) -> (Y: f32[M, N]):\n"
    "    C[m, n] = sum(k) A[m, k] * B[k, n]\n    Y[m, n] = relu(C[m, n] + b[n])\n",
    lambda a, b, c: np.maximum(a @ b + c, 0),
)
ADDED = Formula(
    "op f[M, N, K](A: f32[M, K], B: f32[K, N], D: f32[N, M]) -> (Y: f32[N, M]):\n"
    "    C[m, n] = sum(k) A[m, k] * B[k, n]\n    Y[n, m] = C[m, n] + D[n, m]\n",
    lambda a, b, d: (a @ b).T + d,
)
BLOCK = "tile m: 32, n: 24 -> block / keep C in register: / > move C -> shared{0} / tile k: 4 / tile m: 8 -> warp"
BLOCK += " / tile n: 1 -> thread"
CORE = "tile m: 12, n: 24 -> core / keep C in register: / > move C -> {0} / tile k: 4 / tile n: 1 -> lane"
SIZES = [{"M": 33, "N": 50, "K": 9}, {"M": 1, "N": 1, "K": 1}, {"M": 64, "N": 48, "K": 0}, {"M": 0, "N": 7, "K": 3}]


def alone(program: Program, buffer: str) -> bool:
    """Whether what is stored to the buffer is stored where a unit's number is 0, and nowhere else."""
    body = [x for launch in program.launches for x in statements(launch.body)]
    units = {u.var for launch in program.launches for u in launch.units}
    found = [s for s in body if isinstance(s, If) and buffer in buffers_used(s.body)]
    return any(c == -as_expr(u) for s in found for c in s.conds for u in units)


@pytest.mark.every_second
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("formula", [GEMM, RELU, ADDED], ids=["product", "epilogue", "turned"])
@pytest.mark.parametrize(("device", "lines"), [
    ("sm_80", BLOCK.format("")), ("sm_80", BLOCK.format(" pad 3")), ("gfx90a", BLOCK.format("").replace("warp", "wave")),
    ("cpu:avx2", CORE.format("l1")), ("cpu:generic", CORE.format("l2 pad 1")),
])  # fmt: skip
def test_right(device, lines, formula, sizes):
    for fixed in (None, sizes):
        program = program_of(formula, lines, device, fixed)
        agrees(formula, program, sizes)
        if fixed is None:
            assert not alone(program, "C" if formula is GEMM else "Y")


def test_it_is_written_down():
    module = loads(f"{RELU.text}\nschedule s for f:\n{written(BLOCK.format(''))}")
    first = compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_80"))
    assert "        move C -> shared\n        tile m: 1, n: 4 -> thread\n" in first.schedule
    (again,) = parse(Source("<explicit>", first.schedule)).declarations
    second = compile_program(module, module.ops["f"], again, module.device("sm_80"))
    assert second.schedule == first.schedule
    assert str(second.program) == str(first.program)


@pytest.mark.parametrize(("said", "by_one"), [
    ("> compute", True), ("> tile m: 1 -> warp", True), ("> tile m: 4 / > compute", True),
    ("> tile m: 1, n: 1 -> thread", False),
])  # fmt: skip
def test_what_the_author_says_stays(said, by_one):
    lines = BLOCK.format(" / " + said)
    program = program_of(GEMM, lines, "sm_80")
    assert alone(program, "C") == by_one
    agrees(GEMM, program, {"M": 33, "N": 50, "K": 9})


SCALE = Formula(
    "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N]):\n    Y[m, n] = A[m, n] * 2\n",
    lambda a: a * 2,
)
BOTH = Formula(
    "op f[M, N](A: f32[M, N]) -> (Y: f32[M, N], Z: f32[N]):\n    Y[m, n] = A[m, n] * 2\n    Z[n] = sum(m) A[m, n]\n",
    lambda a: (a * 2, a.sum(0)),
)


@pytest.mark.parametrize(("device", "lines"), [
    ("cpu:avx2", "tile n: 8, m: 4 -> core / keep Y in l1: / > tile m: 1 / > tile n: 2 -> lane / tile m: 2"),
    ("cpu:avx2", "tile n: 8, m: 4 / keep Y in register: / > tile m: 1"),
    ("sm_80", "tile n: 32, m: 4 -> block / keep Y in shared: / > tile n: 1 -> thread / tile n: 4, m: 4 -> warp"),
])  # fmt: skip
@pytest.mark.parametrize("formula", [SCALE, BOTH], ids=["alone", "beside another"])
def test_a_pointwise_result_is_stored_by_the_lines_of_the_block(device, lines, formula):
    for sizes in ({"M": 9, "N": 37}, {"M": 1, "N": 1}, {"M": 0, "N": 8}):
        program = program_of(formula, lines, device)
        agrees(formula, program, sizes)
    if "->" in lines:
        assert not alone(program, "Y")


@pytest.mark.parametrize(("formula", "lines"), [
    (GEMM, "tile m: 4, n: 4 -> core / keep C: / > keep C"),
    (GEMM, "tile m: 4, n: 4 -> core / keep C in l1: / > keep C in register"),
    (SCALE, "tile m: 4, n: 4 -> core / keep Y: / > keep Y"),
    (SCALE, "tile m: 4, n: 4 -> core / keep Y in l1: / > keep Y in register"),
])  # fmt: skip
def test_a_block_keeps_its_tensor_only_once(formula, lines):
    with pytest.raises(HeldTwice):
        program_of(formula, lines, "cpu:avx2")


@pytest.mark.parametrize("lines", ["keep Y / keep Y in register", "keep Y in auto / keep Y in register", "keep Y / keep Y"])
def test_a_result_is_kept_in_a_memory_once(lines):
    """Also where the memory was open: what is printed would be refused."""
    with pytest.raises(HeldTwice, match="is in `register` already"):
        program_of(SCALE, f"tile m: 4, n: 4 -> core / {lines} / compute", "cpu:avx2")


@pytest.mark.parametrize(("device", "level", "memories"), [
    ("cpu:avx2", "core", ("register", "l1")), ("cpu:avx2", "core", ("l2", "l1")), ("cpu:avx2", "core", ("l1", "register")),
    ("sm_80", "block", ("register", "shared")), ("sm_80", "block", ("shared", "register")),
])  # fmt: skip
def test_a_result_that_is_kept_already_has_no_second_keep_with_a_block(device, level, memories):
    """The upper one would be stored before the block filled it. A block of the upper one is right."""
    first, second = memories
    tile = f"tile m: 4, n: 4 -> {level}"
    with pytest.raises(HeldTwice, match="held by a line above already"):
        program_of(SCALE, f"{tile} / keep Y in {first} / keep Y in {second}: / > compute / compute", device)
    program = program_of(SCALE, f"{tile} / keep Y in {first}: / > compute / keep Y in {second}: / > compute / compute", device)
    for sizes in ({"M": 9, "N": 37}, {"M": 1, "N": 1}, {"M": 0, "N": 8}):
        agrees(SCALE, program, sizes)


@pytest.mark.parametrize(("device", "lines"), [
    # of four lanes that hold one sum, three have parts of it
    ("cpu:avx2", "tile m: 3 -> lane / keep Y: / > move Y -> l2 / tile k: 3 / tile k: 1 -> lane"),
    ("cpu:avx2", "tile m: 3 -> lane / keep Y: / > move Y -> l2 / > move Y -> l1 / tile k: 3 / tile k: 1 -> lane"),
    ("own", "tile m: 4 -> block / tile m: 2 -> warp / keep Y: / > move Y -> shared / tile k: 6 / tile k: 3 -> warp"),
    ("own", "tile m: 4 -> block / tile m: 2 -> warp / keep Y: / > move Y -> shared / > move Y -> register / "
     "tile k: 2 -> thread"),
])  # fmt: skip
def test_units_that_hold_the_same_results(device, lines):
    """The lines below the `keep` tell them apart, and its block does not: one of them stores, of what it has itself."""
    program = program_of(ROWS, lines, device, where="M <= 33, K <= 33", devices=OWN_GPU.format(warps=4, width=32))
    for m in (1, 2, 33):
        agrees(ROWS, program, {"M": m, "K": 33})


@pytest.mark.parametrize(("device", "lines"), [
    ("cpu:avx2", "tile m: 4 -> core / keep Y: / > move Y -> l2 / > move Y -> register / tile k: 2"),
    ("sm_80", "tile m: 4 -> block / keep Y: / > move Y -> shared / > tile m: 1 -> thread / > move Y -> register / tile k: 2"),
])  # fmt: skip
def test_a_result_that_goes_back_to_registers_is_not_read_beyond_the_edge(device, lines):
    program = program_of(ROWS, lines, device)
    for m in (1, 6, 8):
        agrees(ROWS, program, {"M": m, "K": 3})


def test_a_copy_of_an_operand_in_the_block_of_a_result_is_no_hop_of_it():
    """Its memory is not where results are stored from, so nothing is shared out."""
    text = """op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]):
    g[m, n] = sum(k) A[m, k] * B[k, n]
    Y[m, n] = relu(g[m, n])
schedule s for f:
    tile n: 8, m: 2 -> core
    keep Y in l2:
        keep Y in register
        move A -> l1
    compute
"""
    module = loads(text)
    with pytest.raises(NotRead, match="nothing in focus reads `A`") as raised:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert "the block of `keep Y` is about `Y` alone" in (raised.value.help or "")
