"""Rows that are fewer than the cores of a CPU: cores have parts of a row by default, with the same bits for any threads."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import within_bounds
from ....support.programs.long_rows import (
    OPS,
    check_each_element_once,
    check_softmax_of_any_size,
    compiled,
    row_inputs,
    sizes_of,
)
from ....support.rotation import rotated

MILLION = 1_000_000
# launches of a row of a million elements
LAUNCHES = {
    "softmax": 3,
    "softmax_f16": 3,
    "log_softmax": 3,
    "row_logsumexp": 2,
    "vector_softmax": 3,
    "vector_logsumexp": 2,
    "softmin": 3,
    "layernorm": 5,
    "rmsnorm": 3,
    "row_moments": 4,
    "cross_entropy": 2,
    "row_sum": 2,
    "row_max": 2,
}


@pytest.mark.parametrize(("name", "device"), rotated(LAUNCHES, ("cpu:avx2", "cpu:avx512", "cpu:neon", "cpu:generic")))
def test_few_rows_are_split(name: str, device: str) -> None:
    """Four, two or eight parts for a core."""
    made = compiled(name, device, sizes_of(name, 1, MILLION))
    assert len(made.program.launches) == LAUNCHES[name]
    parts = [int(x.split()[2]) for x in made.schedule.splitlines() if "by workspace" in x]
    assert parts
    assert all(16 - 1 <= MILLION / n <= 64 for n in parts)
    again = compiled(name, device, sizes_of(name, 1, MILLION), made.schedule)
    assert again.schedule == made.schedule


@pytest.mark.parametrize(
    ("name", "m", "n"), [("softmax", 1, 65536), ("softmax", 8, MILLION), ("row_sum", 8, MILLION), ("row_sum", 1, 100_000)]
)
def test_others_are_not_split(name: str, m: int, n: int) -> None:
    """As many rows as cores, or too few elements to wake a core for."""
    made = compiled(name, "cpu:avx2", {"M": m, "N": n})
    assert len(made.program.launches) == 1
    assert "by workspace" not in made.schedule


def test_open_sizes_are_not_split() -> None:
    for known in ({}, {"M": 1}, {"N": MILLION}):
        made = compiled("softmax", "cpu:avx2", known)
        assert "by workspace" not in made.schedule


def test_a_pass_over_parts() -> None:
    made = compiled("row_logsumexp", "cpu:avx2", {"M": 2, "N": MILLION})
    assert made.schedule.splitlines()[1:] == [
        "    tile i: 1 -> core",
        "    tile j: 125008 -> core online by workspace",
        "    keep top, Y.sum1 in register",
        "    tile j: 4096 online",
        "    tile j: 64",
        "    tile j: 1 -> lane",
        "    compute",
    ]


def test_one_query_over_many_keys() -> None:
    """Each core has a part of the keys, for the products with the values as well."""
    made = compiled("attention_f32", "cpu:avx2", {"H": 1, "Q": 1, "T": 65536, "D": 128})
    assert made.schedule.count("tile t: 2048 -> core by workspace") == 1
    few = compiled("attention_f32", "cpu:avx2", {"H": 16, "Q": 1, "T": 65536, "D": 128})
    assert "by workspace" not in few.schedule


@pytest.mark.parametrize("name", LAUNCHES)
def test_threads_do_not_change_bits(name: str) -> None:
    """Native, with results that are poisoned before."""
    m, n = 1, 300_007
    kernel = compile(OPS, op=name, target="cpu", sizes=sizes_of(name, m, n))
    arrays = row_inputs(name, m, n)
    op = specialise(loads(OPS).ops[name], sizes_of(name, m, n))
    found = []
    for threads in (1, 2, 3):
        kernel.threads = threads
        out = [np.full([e.constant or 0 for e in t.shape], 7, t.dtype.numpy) for t in op.outputs]
        kernel(*arrays, out=out[0] if len(out) == 1 else tuple(out))
        found.append(out)
    within_bounds(op, found[0], arrays)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def small(name: str) -> str:
    """The lines that are chosen, with small parts."""
    text = compiled(name, "cpu:avx2", sizes_of(name, 1, MILLION)).schedule
    for large, few in {"31264": "37", "4096": "16", "16384": "64", "16": "16"}.items():
        text = text.replace(f": {large}", f": {few}")
    return text


@pytest.mark.parametrize("name", LAUNCHES)
def test_each_element_once(name: str) -> None:
    lines = small(name)
    assert "by workspace" in lines
    check_each_element_once(name, "cpu:avx2", lines, {"core": 3})


@pytest.mark.parametrize("n", [0, 1, 7, 64, 129])
def test_the_lines_take_any_size(n: int) -> None:
    check_softmax_of_any_size(small("softmax"), "cpu", n)
