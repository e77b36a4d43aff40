"""The check of every compilation: right programs pass; an element that nothing writes, or that two blocks store, is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from andiron.codegen.analysis.instances import few_instances
from andiron.codegen.coverage.check_coverage import POINTS, check_coverage
from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.program import Program
from andiron.codegen.lower.addressing import edge_conds
from andiron.codegen.lower.reductions import reduce_element
from andiron.codegen.lower.spec import Range
from andiron.codegen.lower.stores import predicated_store
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.errors.verify import ElementNotCovered
from andiron.dsl.module import loads, std_device
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.tools import cli

from ...support.library.cases import library
from ...support.programs.broken_programs import CASES, PROGRAMS, read

pytestmark = pytest.mark.wrong_program

UNCOVERED = {"uninitialised", "never-written"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_programs_pass(name: str) -> None:
    op, program = read(PROGRAMS[name])
    remark = check_coverage(program, op, None)
    if name == "gpu atomic":
        assert remark.startswith("`Y`: elements checked at M=3, N=5 and at M=65")
    else:
        assert remark == "" or name == "cpu staged"  # rows that are dealt out in each iteration of k


@pytest.mark.parametrize(("name", "program", "change", "kinds"), [c for c in CASES if c[3] & UNCOVERED])
def test_an_element_that_nothing_writes_is_found(name: str, program: str, change: Callable, kinds: set[str]) -> None:
    op, broken = read(change(PROGRAMS[program]))
    with pytest.raises(ElementNotCovered, match=r"never stored|nothing writes it before"):
        check_coverage(broken, op, None)


@pytest.mark.parametrize(("name", "program", "change", "kinds"), [c for c in CASES if not c[3] & UNCOVERED])
def test_what_other_checks_are_for_passes(name: str, program: str, change: Callable, kinds: set[str]) -> None:
    op, broken = read(change(PROGRAMS[program]))
    if name == "a lost atomic" and program == "gpu atomic":
        with pytest.raises(ElementNotCovered, match="stored by block 0 and by another"):
            check_coverage(broken, op, None)
    else:
        check_coverage(broken, op, None)


# ---------------------------------------------------------------- programs that lowering made once

DEALT_TWICE = (
    "op sums[N, M](C: f32[N, M]) -> (Y: f32[M]):\n    Y[m] = sum(n) C[n, m]\n",
    """\
program sums(N, M) on cpu:avx2
finite core: cores
input C: f32[N, M] in dram of socket strides (M, 1) size M*N
output Y: f32[M] in dram of socket strides (1) size M

launch sums_Y over core core < cores, lane lane < 4:
    for m in 0 .. (M + 3)/4:
        for tile in core .. 1 step cores:
            alloc y: f32[] in register of lane size 1:
                y[] = 0.0
                for n in 0 .. N:
                    y[] = y[] + (C[n, lane + 4*m] if lane + 4*m < M else 0.0)
                alloc y_l2: f32[4] in l2 of core strides (1) size 4:
                    if lane + 4*m < M:
                        y_l2[lane] = y[]
                    for tile1 in core .. 4 step cores:
                        if lane == 0 and 4*m + tile1 < M:
                            Y[4*m + tile1] = y_l2[tile1]
""",
    r"`Y`\[1\] is never stored, at N=3, M=5, 3 cores",
)
ONE_BLOCK_FOR_ALL = (
    "op shifted[L](A: f32[L]) -> (Y: f32[L]):\n    t[l] = A[l] * A[l]\n    Y[l] = t[l - 1 else 0]\n",
    """\
program shifted(L) on sm_80
finite grid: grids
input A: f32[L] in global of grid strides (1) size L
output Y: f32[L] in global of grid strides (1) size L
workspace t: f32[L] in global of grid strides (1) size L

launch shifted_Y over block block < (L + 4)/5, warp warp < 1, thread thread < 1:
    for l in 0 .. L:
        if block == 0:
            t[l] = A[l] * A[l]
    for l1 in 0 .. 5:
        if 5*block + l1 < L:
            Y[5*block + l1] = (t[5*block + l1 - 1] if 5*block + l1 >= 1 else 0.0)
""",
    r"`t`\[4\] is read by block 1, but stored by another that cannot synchronise with it, at L=6",
)
LANES_WITHOUT_A_COPY = (
    "op twice[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = A[m] + A[m]\n",
    """\
program twice(M) on cpu:avx2
finite core: cores
input A: f32[M] in dram of socket strides (1) size M
output Y: f32[M] in dram of socket strides (1) size M

launch twice_Y over lane lane < 8:
    for m in 0 .. (M + 1)/2:
        alloc y_l2: f32[2] in l2 of lane strides (1) size 2:
            if lane % 4 <= 2:
                for m1 in 0 .. 2:
                    if 2*m + m1 < M:
                        y_l2[m1] = A[2*m + m1] + A[2*m + m1]
            for m2 in 0 .. min(2, M - 2*m):
                Y[2*m + m2] = y_l2[m2]
""",
    r"`y_l2`\[0\] is read by lane 3, and nothing writes it before, at M=3, 3 cores",
)


def program_of(text: str, program: str) -> tuple[Op, Program]:
    (op,) = loads(text).ops.values()
    return op, parse(program, lambda name: std_device(name))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(("text", "program", "message"), [DEALT_TWICE, ONE_BLOCK_FOR_ALL, LANES_WITHOUT_A_COPY])
def test_programs_that_lowering_made_are_refused(text: str, program: str, message: str) -> None:
    op, broken = program_of(text, program)
    with pytest.raises(ElementNotCovered, match=message):
        check_coverage(broken, op, None)


def test_a_copy_that_is_read_before_the_iteration_that_writes_it() -> None:
    text, program, _ = LANES_WITHOUT_A_COPY
    right = program.replace("lane % 4 <= 2", "lane % 4 <= 3").replace("lane < 8", "lane < 1")
    op, program_ = program_of(text, right)
    assert check_coverage(program_, op, None) == ""
    early = right.replace(
        "            if lane % 4 <= 3:\n                for m1 in 0 .. 2:\n                    if 2*m + m1 < M:\n"
        "                        y_l2[m1] = A[2*m + m1] + A[2*m + m1]\n            for m2 in 0 .. min(2, M - 2*m):\n",
        "            for m2 in 0 .. min(2, M - 2*m):\n                y_l2[1 - m2] = A[2*m] + A[2*m]\n",
    )
    assert early != right
    op, broken = program_of(text, early)
    with pytest.raises(ElementNotCovered, match=r"`y_l2`\[0\] is read, and nothing writes it before"):
        check_coverage(broken, op, None)


# ---------------------------------------------------------------- rules of lowering that are switched off

SUM = "op total[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n"
THREADS = "tile m: 1 -> block\n    keep Y in register\n    tile n: 256\n    tile n: 1 -> thread"


def compiled(op: str, lines: str, device: str) -> CompiledProgram:
    name = op.split()[1].partition("[")[0]
    module = loads(f"{op}\nschedule s for {name}:\n    {lines}\n")
    return compile_program(module, module.ops[name], module.schedules["s"], module.device(device))


def test_a_guard_that_lets_one_too_few_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, lines = edge_conds, "tile m: 8\n    tile m: 1 -> lane"
    assert compiled(SUM, lines, "cpu:avx2").report["coverage"] == ""
    monkeypatch.setattr(predicated_store, "edge_conds", lambda focus, indices: tuple(c - 1 for c in rule(focus, indices)))
    compiled(SUM, "tile m: 4 -> core", "cpu:avx2")  # no guard is needed: the loop ends at the edge
    with pytest.raises(ElementNotCovered, match=r"`Y`\[\d\] is never stored, at M=3, N=5") as raised:
        compiled(SUM, lines, "cpu:avx2")
    assert raised.value.span is not None
    assert raised.value.span.text in lines


def test_a_tile_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Range, "trips", lambda self, size: self.live // size)
    with pytest.raises(ElementNotCovered, match=r"`Y`\[\d\] is never stored"):
        compiled(SUM, "tile m: 4", "cpu:avx2")


def test_parts_of_a_split_that_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(SUM, THREADS, "sm_80").report["coverage"] == ""
    monkeypatch.setattr(reduce_element, "store_partials", lambda *args: [])
    with pytest.raises(ElementNotCovered, match=r"`y_parts`\[0, 0\] is read, and nothing writes it before") as raised:
        compiled(SUM, THREADS, "sm_80")
    assert raised.value.span is not None
    assert raised.value.span.text == "keep Y in register"


# ---------------------------------------------------------------- the library


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gemm", "cpu:avx2"), ("gemm", "cpu:avx512"), ("conv1d", "cpu:avx2"), ("transpose", "sm_80"), ("softmax", "sm_80"),
        ("layernorm", "gfx90a"), ("dot", "sm_80"), ("batched_gemm_nt", "sm_80"), ("row_argmax", "cpu:avx2"),
    ],
)  # fmt: skip
def test_proven_for_all_sizes(name: str, device: str) -> None:
    module = library()
    assert compile_program(module, module.ops[name], None, module.device(device)).report["coverage"] == ""


def test_bands_of_tiles_are_proven() -> None:
    """Rows of blocks that are walked together (`raster`), and copies that are swizzled."""
    module = library()
    program = compile_program(module, module.ops["gemm_f16"], None, module.device("sm_80"))
    assert "raster 16" in program.schedule
    assert "swizzle" in program.schedule
    assert program.report["coverage"] == ""


def test_large_sizes_are_proven_without_a_point() -> None:
    module = library()
    op = specialise(module.ops["gemm_f16"], {"M": 8192, "N": 8192, "K": 8192})
    report = compile_program(module, op, None, module.device("sm_80")).report
    assert report["coverage"] == ""


def test_what_takes_too_many_points_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POINTS > 10
    monkeypatch.setattr("andiron.codegen.coverage.check_coverage.POINTS", 10)
    op, program = read(PROGRAMS["gpu atomic"])
    assert check_coverage(program, op, None) == "`Y`: not proven, and checked at no sizes"


def test_explain_lists_what_is_not_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "columns.sched"
    file.write_text("op columns[M, N](X: f32[M, N]) -> (Y: f32[N]):\n    Y[n] = sum(m) X[m, n]\n", encoding="utf-8")
    assert cli.main(["explain", str(file), "--target", "cpu:avx2"]) == 0
    row = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("coverage"))
    assert row.split(None, 1)[1].startswith("`Y`: elements checked at M=3, N=5, 3 cores and at ")
    assert cli.main(["explain", str(file), "--target", "cpu:avx2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coverage"].endswith("not proven for all sizes")
    file.write_text("op rows[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n", encoding="utf-8")
    assert cli.main(["explain", str(file), "--target", "emulate:sm_80", "--json"]) == 0
    assert "coverage" not in json.loads(capsys.readouterr().out)


def test_few_instances_take_no_search() -> None:
    """Small odd sizes, a little more than small tiles, more than the largest: where the op takes them."""
    op, program = read(PROGRAMS["gpu staged"])
    sizes = [dict(x.sizes) for x in few_instances(program, op)]
    assert sizes == [{"M": 3, "N": 5, "K": 7}, {"M": 9, "N": 9, "K": 7}, {"M": 9, "N": 9, "K": 5}]


def test_a_size_of_zero_that_something_divides_by() -> None:
    """The first sizes leave an axis without elements (Q = 0)."""
    text = "op w[H](X: f32[H]) -> (Y: f32[3, Q]) where Q = H - 3:\n    Y[m, n] = X[n] + m\n"
    program = """\
program w(H) on cpu:avx2
let Q: 0.. = H - 3
finite core: cores
require H >= 3
input X: f32[H] in dram of socket strides (1) size H
output Y: f32[3, Q] in dram of socket strides (Q, 1) size 3*Q

launch w_Y over core core < cores:
    for m in core .. (3*Q)/Q step cores:
        for n in 0 .. Q:
            Y[m, Q - n - 1] = X[n]
"""
    op, program_ = program_of(text, program)
    assert check_coverage(program_, op, None) == "`Y`: not proven, and checked at no sizes"
