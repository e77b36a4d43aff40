"""Remainders of a loop's number, by what is no power of two, are counted up; not beside matrix instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

import andiron
import numpy as np
import pytest
from andiron.codegen.emit.c.c_tree import Declaration
from andiron.codegen.emit.gpu import counters
from andiron.dsl.errors import UserErrors
from andiron.runtime.kernel import Kernel

SCHEDULE = """
schedule staged for {op}:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: {deep} pipeline {stages}
    move A -> shared
    move B -> shared {copied}
    {rest}
"""
SCALARS = "tile m: 2, n: 4 -> thread\n    tile k: 1 unroll\n    compute"
MATRICES = """tile m: 16, n: 16 -> warp
    tile k: 16
    move A -> register with ldmatrix
    move B -> register with ldmatrix
    compute with mma_m16n8k16_f16"""
COUNTED = r"(slot\d*) = \1 < {} \? \1 \+ 1 : 0;"


def kernel(
    target: str,
    stages: int,
    sizes: Mapping[str, int],
    op: str = "gemm",
    deep: int = 8,
    rest: str = SCALARS,
    copied: str = "with cp_async",
) -> Kernel:
    text = SCHEDULE.format(op=op, deep=deep, stages=stages, rest=rest, copied=copied)
    return andiron.compile("import std.ops.gemm\n" + text, op, "staged", target=target, sizes=dict(sizes))


def text(*args: object, **other: object) -> str:
    return kernel("cuda:sm_80", *args, **other).source.partition("_any\n")[0]  # type: ignore[arg-type]


FIXED = {"M": 64, "N": 64, "K": 64}


def test_slots_of_three_buffers_are_counted() -> None:
    """One counter for the buffer that is read, one for both copies' buffer."""
    found = text(3, FIXED)
    assert re.findall(r"int (slot\d*) = (\d);\n", found) == [("slot", "0"), ("slot1", "2")]
    assert re.findall(COUNTED.format(2), found) == ["slot", "slot1"]
    assert not re.search(r"k\d* [^;]*% 3", found)


def test_the_counters_are_the_last_of_the_loop() -> None:
    """An iteration that counts too early would read a buffer that is not there yet."""
    lines = text(3, FIXED).split("\n")
    (start,) = [i for i, x in enumerate(lines) if x.startswith("    for (int k1 = 0;")]
    end = lines.index("    }", start)
    assert [bool(re.search(COUNTED.format(2), x)) for x in lines[start : end + 1]][-3:] == [True, True, False]
    assert not any(re.search(COUNTED.format(2), x) for x in lines[start : end - 2])


@pytest.mark.parametrize("stages", [2, 4])
def test_remainders_by_powers_of_two_stay(stages: int) -> None:
    found = text(stages, FIXED)
    assert re.search(rf"const int slot = k1 % {stages};", found)
    assert "?" not in found.partition("__global__")[2]


def test_beside_matrix_instructions_remainders_stay() -> None:
    found = text(3, FIXED, op="gemm_f16", deep=16, rest=MATRICES)
    assert "const int slot = k1 % 3;" in found
    assert not re.search(COUNTED.format(2), found)


def wrong_results(target: str, stages: int) -> list[tuple[int, int, int]]:
    """Sizes of products with a wrong result, of all that were tried."""
    copied = "with cp_async" if "sm_80" in target else ""
    made = kernel(target, stages, {}, copied=copied)
    rng = np.random.default_rng(0)
    wrong = []
    for k, (m, n) in product((0, 1, 8, 9, 16, 17, 24, 33, 41, 56, 70), ((1, 1), (33, 47))):
        a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        out = np.full((m, n), np.nan, np.float32)
        made(a, b, out=out)
        if not np.array_equal(out, a @ b):
            wrong.append((m, n, k))
    return wrong


@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx942"])
@pytest.mark.parametrize("stages", [3, 5])
def test_results_of_every_number_of_iterations(target: str, stages: int) -> None:
    assert not wrong_results(target, stages)


def test_a_counter_that_starts_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "Declaration", lambda kind, name, value, span: Declaration(kind, name, "1", span=span))
    with pytest.raises(UserErrors, match="which nothing has written"):
        wrong_results("emulate:sm_80", 3)
