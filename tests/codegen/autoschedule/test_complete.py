"""`complete` goes from schedules to schedules: what it prints compiles to the same program, and prints the same again."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.autoschedule.complete import resolve_auto_modifiers
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from andiron.dsl.text.print_node import format_node

MODULES = ("attention", "conv", "elementwise", "gemm", "norm", "pool", "reduce", "stencil", "tensor")
# One op of each kind of default nest, and all that take several launches or have sums without a name.
OPS = (
    "add_row attention_f32 batched_gemm causal_attention contract_4d conv2d dot full_argmax gemm gemm_tt gemv_t "
    "grouped_attention layernorm linear_gelu log_softmax max_pool2d permute_210 row_any row_mean row_moments "
    "softmax stencil5 transpose"
)


@pytest.fixture(scope="module")
def library():
    return andiron.loads("".join(f"import std.ops.{m}\n" for m in MODULES))


@pytest.mark.parametrize("op", OPS.split())
def test_what_is_printed_means_the_same(op, library):
    first = andiron.compile(library, op=op, target="cpu:avx2")
    again = andiron.compile(library, op=op, schedule=first.schedule, target="cpu:avx2")
    assert again.schedule == first.schedule
    assert again.program == first.program


@pytest.mark.parametrize(
    ("device", "level"), [("sm_80", "warp"), ("sm_80", "thread"), ("cpu:avx2", "core"), ("cpu:avx2", "lane")]
)
@pytest.mark.parametrize("every", [1, 3, 8, 40])
def test_a_chosen_size_divides_its_stride(device, level, every):
    """Chunks that overlap would count elements twice."""
    text = (
        "op f[N](A: f32[N], B: f32[N]) -> (Y: f32[]):\n    Y = sum(n) A[n] * B[n]\n"
        f"schedule s for f where N <= 70:\n    tile n: 70\n    tile n: auto every {every} -> {level}\n"
    )
    module = andiron.loads(text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    A, B = np.arange(65, dtype=np.float32), np.ones(65, np.float32)
    assert interpret(program, {"A": A, "B": B})["Y"] == A.sum()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("tile i: 8 unroll auto", "tile i: 8 unroll 4"),
        ("tile i: 8, j: 8 -> block raster auto", "tile i: 8, j: 8 -> block raster 8"),
        ("move X -> shared pad auto pipeline auto", "move X -> shared pad 1 pipeline 2"),
        ("tile j: 48 vector auto", "tile j: 48 vector 8"),
        ("tile j: 20 vector auto", "tile j: 20 vector 4"),
        ("tile j: 6 vector auto", "tile j: 6 vector 2"),
        ("tile j: 5 vector auto", "tile j: 5"),
    ],
)
def test_modifiers_that_are_left_open_get_numbers(line, shown):
    (decl,) = parse(Source("s", f"schedule s for f:\n    {line}\n")).declarations
    assert format_node(resolve_auto_modifiers(decl.lines[0])).strip() == shown


@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2", "cuda:sm_80"])
def test_of_scalars_there_is_nothing_to_tile(target):
    text = (
        "op f[](A: i32[]) -> (Y: i32[]):\n    t = A + 1\n    Y = t + A\nschedule s for f:\n    keep Y\n    keep t\n    auto\n"
    )
    module = andiron.loads(text)
    made = compile_program(module, module.ops["f"], module.schedules["s"], module.device(target.removeprefix("cuda:")))
    assert "tile" not in made.schedule
    assert interpret(made.program, {"A": np.int32(3)}, {})["Y"] == 7
