"""Emitted text as people read it. With `--update-goldens` it is written anew: read what changed."""

from dataclasses import replace
from pathlib import Path

import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.source import Source, Span
from andiron.dsl.values import Apply

from ....support.cpp.programs import (
    CORE,
    CORES,
    F32,
    at,
    buffer,
    const,
    elementwise,
    gemm,
    lane,
    loop,
    padded,
    program,
    put,
    register,
    when,
)

GOLDENS = Path(__file__).parent / "goldens"


def row_sums() -> Program:
    """Y[i] = sum(j) exp(X[i, j])"""
    text = "schedule by_rows for expsum on cpu:avx2:\n    tile i: 1 -> core\n    tile j: 8\n    tile j: 1 -> lane\n"
    source = Source("/some/where/rows.sched", text)
    m, n, i, j, l = Var("M"), Var("N"), Var("i"), Var("j"), lane(8)

    def span(words: str) -> Span:
        return Span(source, text.index(words), text.index(words) + len(words))

    add = put(
        "total", (0,), Apply("add", (at("total", 0), padded((n - 1 - j - l,), Apply("exp", (at("X", i, j + l),), F32))), F32)
    )
    inner = replace(loop(j, n, (add,), 0, 8), span=span("tile j: 8"))
    body = (
        put("total", (0,), const(0.0)),
        inner,
        AllReduce("lane", "sum", 1, 8, (("total", (as_expr(0),)),)),
        when((-l,), put("Y", (i,), at("total", 0))),
    )
    rows = replace(loop(i, m, (Alloc(register("total", (1,)), body),), CORE, CORES), span=span("tile i: 1 -> core"))
    return program("expsum", (m, n), (buffer("X", "input", (m, n)), buffer("Y", "output", (m,))), (rows,), 8, head=text)


CASES = {
    "map_relu": lambda: elementwise(8),
    "expsum": row_sums,
    "sgemm_kernel": lambda: gemm(8, 2, 1, kc=64, mc=8, nc=64, unroll=2),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name, update_goldens):
    text = emit(CASES[name]())
    if name != "expsum":  # one in full is enough
        text = text[text.index("\nstatic void launch__") + 1 : text.index('\nextern "C"')]
    golden = GOLDENS / f"{name}.cpp"
    if update_goldens:
        GOLDENS.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert "/some/where" not in text
