"""Defaults of prefix reductions on CPUs: a loop that goes on from tile to tile, where there are rows enough."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here

LINE = "op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = sum(j where j <= i) X[j]\n"
ROWS = "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[r, i] = max(j where j < i + 2) X[r, j]\n"
COLUMNS = "op f[M, N](X: f64[N, M]) -> (Y: f64[N, M]):\n    Y[i, c] = sum(j where j <= i) X[j, c]\n"


def lines(text: str, device: str = "cpu:avx2", **sizes: int) -> list[str]:
    module = loads(f"{text}schedule s for f:\n    auto\n")
    op = specialise(module.ops["f"], sizes)
    compiled = compile_program(module, op, module.schedules["s"], module.device(device))
    return [x.strip() for x in compiled.schedule.splitlines()[1:]]


def test_the_lines_of_a_default():
    assert lines(LINE) == ["tile i: 8 carry", "tile i: 1 -> lane", "compute"]
    assert lines(ROWS, "cpu:avx512") == ["tile r: 1 -> core", "tile i: 16 carry", "tile i: 1 -> lane", "compute"]
    assert lines(COLUMNS) == ["tile c: 8 -> core", "tile i: 1 carry", "tile c: 1 -> lane", "compute"]


def test_few_rows_are_computed_apart():
    """Cores share them, and few terms are added too often."""
    assert any("carry" in x for x in lines(LINE, N=64))
    assert not any("carry" in x for x in lines(LINE, N=63))
    assert any("carry" in x for x in lines(COLUMNS, N=8, M=100))


@pytest.mark.parametrize(
    "statement",
    [
        "sum(j where j <= i, j > i - 40) X[j]",
        "sum(j where j >= i) X[j]",
        "sum(j where 2*j <= i) X[j]",
        "sum(j where j <= i) X[j] * X[i]",
        "argmax(j) X[j] + X[i]",
    ],
)
def test_others_are_computed_apart(statement: str):
    dtype = "i64" if "argmax" in statement else "f32"
    cast = "argmax(j) (X[j] * X[i])" if dtype == "i64" else statement
    assert not any("carry" in x for x in lines(f"op f[N](X: f32[N]) -> (Y: {dtype}[N]):\n    Y[i] = {cast}\n"))


@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2"])
@pytest.mark.parametrize("text", [LINE, ROWS, COLUMNS], ids=["line", "rows", "columns"])
def test_right(text: str, target: str):
    """Against NumPy's own running sums and maxima."""
    skip_unless_run_here(target)
    kernel = compile(text, op="f", target=target)
    for shape in ((0,), (1,), (77,)) if text is LINE else ((3, 0), (0, 3), (1, 1), (19, 70), (70, 19)):
        x = np.random.default_rng(3).integers(-9, 10, shape).astype(np.float64 if text is COLUMNS else np.float32)
        want = np.cumsum(x, axis=0)
        if text is ROWS:
            want = np.maximum.accumulate(x, axis=1)
            want[:, :-1] = want[:, 1:]
        np.testing.assert_array_equal(kernel(x), want)
