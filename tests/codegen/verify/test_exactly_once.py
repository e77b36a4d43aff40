"""The checker of tile programs: right ones pass, and each way of breaking one is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, Barrier, For, If, Let, Stmt, Store
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_elements import ValueBudgetExceeded
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.module import loads

from ...support.programs.broken_programs import CPU_ATOMIC, read

TEXT = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

op top[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[m] = max(n) X[m, n]

op softmax[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    t[m] = max(n) X[m, n]
    e[m, n] = exp(X[m, n] - t[m])
    s[m] = sum(n) e[m, n]
    Y[m, n] = e[m, n] / s[m]

op best[M, N](X: f32[M, N]) -> (Y: i64[M]):
    Y[m] = argmax(n) X[m, n]

schedule blocked for gemm:
    tile m: 2, n: 2
    tile k: 2
    keep C in register
    tile k: 1
    compute

schedule split for gemm on sm_80 where K <= 64:
    tile m: 1, n: 1 -> block
    keep C in register
    tile k: 1 -> thread
    compute
"""
MODULE = andiron.loads(TEXT)
SIZES = {"M": 5, "N": 3, "K": 7}


def compiled(op: str, schedule: str | None, device: str) -> Program:
    chosen = MODULE.schedules[schedule] if schedule else None
    return compile_program(MODULE, MODULE.ops[op], chosen, MODULE.device(device)).program


@pytest.mark.parametrize(
    ("tiles", "sizes"),
    [
        ("max(1, (N + 3)/4)", {"M": 500_000, "N": 500_000}),  # an input of terabytes
        ("1000000", {"M": 0, "N": 1}),  # nothing but iterations
    ],
)
def test_what_is_executed_is_counted_before(tiles: str, sizes: dict[str, int]) -> None:
    op, program = read(CPU_ATOMIC.replace("for tile in core .. max(1, (N + 3)/4)", f"for tile in core .. {tiles}"))
    with pytest.raises(ValueBudgetExceeded):
        check_once(program, op, sizes, {"core": 1}, work=100_000, checks=False)


def check(program: Program, op: str, sizes: dict[str, int] = SIZES) -> None:
    names = {str(v) for v in program.dims}
    check_once(program, MODULE.ops[op], {k: v for k, v in sizes.items() if k in names})


def broken(body: tuple[Stmt, ...]) -> Iterator[tuple[str, tuple[Stmt, ...]]]:
    """The statements with one of them left out, done twice, or with a loop that begins an iteration late."""
    for i, s in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        match s:
            case Store():
                yield f"without {s}", (*before, *after)
            case AllReduce():
                yield f"without {s}", (*before, *after)
                yield f"twice {s}", (*before, s, s, *after)
            case For() if s.stop.constant != 0:
                yield f"one late {s.var}", (*before, replace(s, start=s.start + 1), *after)
        if isinstance(s, (For, Alloc, If)):
            yield from ((what, (*before, replace(s, body=b), *after)) for what, b in broken(s.body))


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2", "sm_80", "gfx90a"])
@pytest.mark.parametrize("op", ["gemm", "top", "softmax", "best"])
@pytest.mark.parametrize("sizes", [SIZES, {"M": 1, "N": 1, "K": 1}, {"M": 9, "N": 17, "K": 12}], ids=str)
def test_what_the_compiler_chooses_passes(op: str, device: str, sizes: dict[str, int]) -> None:
    program = compiled(op, None, device)
    check_well_formed(program)
    check(program, op, sizes)


@pytest.mark.parametrize(("op", "schedule", "device"), [("gemm", "blocked", "cpu:generic"), ("gemm", "split", "sm_80")])
def test_each_way_of_breaking_a_program_is_found(op: str, schedule: str, device: str) -> None:
    program = compiled(op, schedule, device)
    check(program, op)
    (launch,) = program.launches
    cases = list(broken(launch.body))
    assert len(cases) >= 3
    missed = []
    for what, body in cases:
        try:
            check(replace(program, launches=(replace(launch, body=body),)), op)
        except Fault:
            continue
        missed.append(what)
    assert not missed


def test_a_sum_that_is_not_whole_is_told_by_its_points() -> None:
    program = compiled("gemm", "blocked", "cpu:generic")
    (launch,) = program.launches
    what, body = next((w, b) for w, b in broken(launch.body) if w.startswith("one late k"))
    with pytest.raises(Fault) as caught:
        check(replace(program, launches=(replace(launch, body=body),)), "gemm")
    assert "k=" in str(caught.value) or "never" in str(caught.value), (what, str(caught.value))


def test_a_variable_that_nothing_binds_is_no_program() -> None:
    program = compiled("gemm", "blocked", "cpu:generic")
    (launch,) = program.launches
    loop = next(s for s in launch.body if isinstance(s, (For, Let)))
    with pytest.raises(Fault):
        check_well_formed(replace(program, launches=(replace(launch, body=loop.body),)))


def test_a_barrier_of_a_level_that_is_not_there_is_no_program() -> None:
    program = compiled("gemm", "blocked", "cpu:generic")
    (launch,) = program.launches
    with pytest.raises(Fault):
        check_well_formed(replace(program, launches=(replace(launch, body=(Barrier("nowhere"), *launch.body)),)))


@pytest.mark.parametrize("device", ["cpu:generic", "sm_80"])
def test_a_choice_between_no_numbers_is_not_judged(device: str) -> None:
    """The greatest of nothing is -inf, and -inf - -inf no number: argmax takes the first, which counting values cannot tell."""
    text = "op f[N, M](A: i8[N, M], B: f32[N]) -> (Y: i64[]):\n"
    text += "    t = max(n, m) f32(A[n, m])\n    Y = argmax(g) (((f32(2) + t) - (t + t)) - B[g])\n"
    module = loads(text)
    op = module.ops["f"]
    program = compile_program(module, op, None, module.device(device)).program
    for sizes in ({"N": 5, "M": 0}, {"N": 5, "M": 3}):
        check_once(program, op, sizes)
    assert interpret(program, {"A": np.zeros((5, 0), "i1"), "B": np.ones(5, "f4")}, {"N": 5, "M": 0})["Y"] == 0
