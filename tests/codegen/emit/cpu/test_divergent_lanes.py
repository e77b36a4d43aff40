"""C++ where lanes go their own ways, or hold more than variables have names for: right, and without a compiler's warning."""

from __future__ import annotations

import re

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit

from ....support.cpp.build import COMPILERS, run
from ....support.interpreted import GEMM, HIGHEST, Formula, inputs_of, program_of

ROWS_OF_NUMBERS = Formula(
    "op f[M](X: f32[M]) -> (Y: i64[M, M]):\n    Y[m, n] = i64(X[n])\n",
    lambda x: np.broadcast_to(x.astype(np.int64), (len(x),) * 2),
)
PLACE = Formula("op f[M, K](X: f32[M, K]) -> (Y: i64[M]):\n    Y[m] = argmax(k) X[m, k]\n", lambda x: x.argmax(1))
FROM_TOP = Formula(
    "op f[I, T](X: f32[T, I]) -> (Y: f32[I, T]):\n    a[i] = max(t) X[t, i]\n    Y[i, t] = X[t, i] - a[i]\n",
    lambda x: x.T - x.T.max(1, keepdims=True, initial=-np.inf),
)
COLUMNS_ROWS_PARTS = "tile n: 4 / tile n: 1 -> lane / tile m: 1 -> lane / tile k: 8 / tile k: 4 -> lane"


@pytest.mark.every_second
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("formula", "lines", "sizes", "fixed", "where"),
    [
        # one lane is left, whose number is part of the names of rows
        (ROWS_OF_NUMBERS, "tile m: 2 -> lane / tile m: 1 -> lane", {"M": 5}, True, ""),
        (ROWS_OF_NUMBERS, "tile m: 2 -> lane / tile m: 1 -> lane", {"M": 9}, True, ""),
        # accumulators that are arrays are combined as those that are variables
        (GEMM, "tile k: 1 -> lane", {"M": 3, "N": 5, "K": 7}, False, "M <= 32, N <= 32, K <= 16"),
        (GEMM, "tile k: 4 -> lane / tile k: 1", {"M": 32, "N": 31, "K": 15}, False, "M <= 32, N <= 32, K <= 16"),
        (HIGHEST, "tile k: 1 -> lane", {"M": 299, "K": 16}, False, "M <= 300, K <= 16"),
        (PLACE, "tile k: 1 -> lane", {"M": 299, "K": 15}, False, "M <= 300, K <= 16"),
        # the version at the edge stores to what a line keeps in a memory, and lanes have as variables
        (FROM_TOP, "tile i: 5 / tile i: 1 -> lane / keep a in l1", {"I": 3, "T": 2}, False, ""),
        (FROM_TOP, "tile i: 8 / tile i: 1 -> lane / keep a in l2", {"I": 13, "T": 3}, False, ""),
        # lanes combine their parts under a condition of some rows, in each of two versions of the columns
        (GEMM, COLUMNS_ROWS_PARTS, {"M": 7, "N": 33, "K": 13}, True, ""),
        (GEMM, COLUMNS_ROWS_PARTS, {"M": 8, "N": 32, "K": 16}, True, ""),
    ],
)
def test_right(formula: Formula, lines: str, sizes: dict[str, int], fixed: bool, where: str, compiler: str) -> None:
    program = program_of(formula, lines, "cpu:generic", sizes if fixed else None, where)
    arrays = inputs_of(formula, sizes)
    (got,) = run(program, arrays, {} if fixed else sizes, compiler, "baseline").values()
    np.testing.assert_array_equal(got, formula.result(*arrays.values()))


@pytest.mark.parametrize(("narrow", "operator"), [("i8", "<< 24"), ("i16", "<< 16"), ("u8", "& 255")])
@pytest.mark.parametrize("device", ["cpu:generic", "sm_80"])
def test_sums_have_parentheses_before_bits_are_cut(narrow: str, operator: str, device: str) -> None:
    """Compilers warn of `a + b << 24` and `a + b & 255`. On GPUs a function adds, since integers wrap."""
    op = f"op f[M](X: i32[M], Z: i32[M]) -> (Y: i32[M]):\n    Y[m] = i32({narrow}(X[m] + Z[m]))\n"
    text = emit(program_of(Formula(op, np.add), "tile m: 1", device), "cpp" if device.startswith("cpu") else "cuda")
    (cut,) = (x for x in text.splitlines() if operator in x and "X[" in x)
    added = r"\(X\[\w+\] \+ Z\[\w+\]\)" if device.startswith("cpu") else r"m_add\(X\[\w+\], Z\[\w+\]\)"
    assert re.search(rf"{added} {operator}", cut), cut
