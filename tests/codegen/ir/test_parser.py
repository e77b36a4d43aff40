"""The text of a tile program is all of it: what is printed is read back as an equal program, which prints the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Staging
from andiron.codegen.lower_launches import complete_schedules, lower_launches
from andiron.codegen.pipeline import compile_program
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.codegen.transforms.pipelining.software_pipeline import pipeline_copies
from andiron.dsl.device import Device
from andiron.dsl.errors import UserError
from andiron.dsl.errors.text import TileText
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.module import Module, loads, std_device
from andiron.dsl.ops.specialise import bind_params

from ...support import tile_programs
from ...support.library.cases import library
from ...support.library.ops import OPS
from ...support.paths import DEVICES, STDLIB
from ...support.random.cases import compiled, random_case
from ...support.rotation import LONG, rotated

SCHEDULES = STDLIB / "schedules"
SKETCHES = [*DEVICES.glob("*sketches.sched"), *sorted(SCHEDULES.glob("*.sched"))]


def check(program: Program, device=None) -> str:
    text = show(program)
    again = parse(text, device or (lambda name: program.device))
    assert show(again) == text
    assert again == program
    return text


@pytest.mark.parametrize(("name", "device"), rotated([*OPS][:: 1 if LONG else 3], ["cpu:avx2", "sm_80", "gfx90a"]))
def test_the_library(name: str, device: str) -> None:
    module = library()
    op = bind_params(OPS[name], {n: 1 for n, default in OPS[name].params if default is None})
    check(compile_program(module, op, None, module.device(device)).program, module.device)


@pytest.mark.parametrize("path", SKETCHES, ids=lambda p: p.stem)
def test_schedules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.stem == "simt_sketches":
        text = (DEVICES / "simt.sched").read_text(encoding="utf-8") + text
    module: Module = (
        loads(text, base=str(path.parent)) if path.parent != SCHEDULES else loads(f"import std.schedules.{path.stem}\n")
    )
    done = 0
    for schedule in module.schedules.values():
        ops = (
            [n for n in ("gemm", "gemm_tt", "linear_relu") if n in module.ops]
            if schedule.op == "contraction"
            else [schedule.op]
        )
        for name in ops:
            op = bind_params(module.ops[name], {n: 1 for n, default in module.ops[name].params if default is None})
            target = schedule.device or ("simt" if path.stem == "simt_sketches" else "cpu:avx2")
            try:
                program = compile_program(module, op, schedule, module.device(target)).program
            except UserError:
                continue  # written for other sizes
            check(program, module.device)
            done += 1
    assert done


@pytest.mark.parametrize("first", range(0, 200 if LONG else 25, 25))
def test_random_schedules(first: int) -> None:
    done = 0
    for seed in range(first, first + 25):
        case = random_case(seed)
        try:
            program = compiled(case)[1].program
        except UserError:
            continue
        check(program)
        done += 1
    assert done > 5


@pytest.mark.parametrize("make", ["vector_add", "transpose", "gemm_mma"])
def test_programs_by_hand(make: str) -> None:
    """`place_barriers`: their reasons are part of the program."""
    program = place_barriers(getattr(tile_programs, make)()[0])
    check(replace(program, device=replace(program.device, instrs=program.instrs)))


def test_what_is_staged_before_it_is() -> None:
    """The text is complete at every stage of the compiler."""
    module = library()
    device, op = module.device("sm_80"), bind_params(OPS["gemm"])
    context = context_of(op, device)
    plain = pipeline_copies(lower_launches(context, op, complete_schedules(context, launches_of(op, device, ()))), context.note)
    for staging in (Staging(1), Staging(2, 3), Staging(1, 2, Var("k"), True)):
        launch = plain.launches[0]
        body = tuple(replace(s, staging=staging) if isinstance(s, Alloc) else s for s in launch.body)
        assert body != launch.body
        check(replace(plain, launches=(replace(launch, body=body),)), module.device)


def test_variables_have_their_intervals() -> None:
    n, i = Var("N", 1, 64), Var("i", 0, 9)
    x = tile_programs.buffer("X", "output", "global", "grid", n)
    body = tile_programs.loop(i, 0, n, tile_programs.put(x, i, value=tile_programs.ZERO))
    text = check(tile_programs.gpu("f", (n,), (x,), [(Var("b", 0, 3), as_expr(n))], 1, body))
    assert "program f(N: 1..64) on gpu" in text
    assert "for i: 0..9 in 0 .. N:" in text
    assert "block b: 0..3 < N" in text
    found = parse(text, lambda name: tile_programs.GPU)
    assert found.dims[0].interval == (1, 64)
    assert found.launches[0].body[0].var.interval == (0, 9)  # type: ignore[union-attr]


TEXT = """\
program f(N) on cpu:generic
input X: f32[N] in dram of socket strides (1) size N
output Y: f32[N] in dram of socket strides (1) size N

launch f_Y over one unit:
    for i in 0 .. N:
        Y[i] = X[i] * 2.0
"""
BROKEN = [
    ("X[i] * 2.0", "X[j] * 2.0", "no variable `j` here", 7),
    ("X[i] * 2.0", "Z[i] * 2.0", "no buffer `Z` here", 7),
    ("X[i] * 2.0", "f31(X[i]", "is not expected", 7),
    ("X[i] * 2.0", "2.0_f31", "no type `f31`", 7),
    ("X[i] * 2.0", "1.5_i32", "1.5 is not a value of i32", 7),
    ("in 0 .. N:", "in 0 .. :", "is not expected", 6),
    ("0 .. N", "0 .. cube(N)", "`cube` is not a function", 6),
    ("cpu:generic", "cpu:nobody", "no device `cpu:nobody`", 1),
    ("X: f32[N]", "X: f33[N]", "no type `f33`", 2),
    ("\n\nlaunch", "\ninstr nothing on lane\n\nlaunch", "has no instruction `nothing`", 4),
    ("        Y[i]", "        if i == N:\n            Y[i]", "the right side of `==` must be 0", 7),
    ("        Y", "    Y", "is not expected", 7),
    ("program", "programme", "is not expected", 1),
]


@pytest.mark.parametrize(("old", "new", "message", "line"), BROKEN, ids=lambda x: str(x))
def test_what_cannot_be_read_is_shown_with_its_place(old: str, new: str, message: str, line: int) -> None:
    def device(name: str) -> Device:
        found = std_device(name)
        if found is None:
            raise KeyError(name)
        return found

    assert parse(TEXT, device).name == "f"
    with pytest.raises(TileText, match=message) as raised:
        parse(TEXT.replace(old, new), device)
    assert raised.value.span is not None
    assert raised.value.span.line == line


@pytest.mark.parametrize("seed", range(40))
def test_damaged_text(seed: int) -> None:
    """Whatever the text, the answer is a program or a TileText."""
    rng, text, refused = Random(seed), show(place_barriers(tile_programs.transpose()[0])), 0
    for _ in range(10):
        at = rng.randrange(len(text))
        damaged = text[:at] + rng.choice(("", "[", "0", "(", "\n", " ", "x", "-")) + text[at + rng.randrange(3) :]
        try:
            parse(damaged, lambda name: tile_programs.GPU)
        except TileText:
            refused += 1
    assert refused
