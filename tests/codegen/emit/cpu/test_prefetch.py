"""What a loop will read is asked for ahead, where no cache of a core holds it; what is not there is never touched."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

TEXT = """
import std.devices.cpu
import std.ops.gemm
op twice[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = X[i] + X[i]
op tops[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[i] = max(j) X[i, j]
op scaled[M, N](X: f32[M, N], g: f32[N]) -> (Y: f32[M, N]):
    s[i] = sum(j) X[i, j]
    Y[i, j] = X[i, j] * s[i] * g[j]
op centred[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    top[i] = max(j) X[i, j]
    Y[i, j] = X[i, j] - top[i]
op turn[M, N](X: f32[M, N]) -> (Y: f32[N, M]):
    Y[j, i] = X[i, j]
"""
MODULE = loads(TEXT)


def prefetched(op: str, target: str = "cpu:avx2", **sizes: Any) -> set[str]:
    """Tensors that are asked for ahead."""
    source = compile(MODULE, op=op, target=target, **sizes).source
    lines = [x.strip() for x in source.splitlines() if "__builtin_prefetch" in x]
    return {x.split("prefetch(")[1].split("_")[0].split(" ")[0] for x in lines}


@pytest.mark.parametrize("op", ["twice", "tops", "turn"])
def test_whatever_the_size(op: str) -> None:
    assert prefetched(op) == {"X"}


def test_what_each_row_reads_again_is_in_a_cache() -> None:
    assert prefetched("scaled") == {"X"}
    assert prefetched("gemm") == set()


def test_small_arrays_are_not_prefetched() -> None:
    assert prefetched("twice", N=4096) == set()
    assert prefetched("twice", N=1 << 20) == {"X"}


def test_the_text_decides_for_open_sizes() -> None:
    source = compile(MODULE, op="twice", target="cpu:avx2").source
    assert "X_ahead = 4 * N >= 524288 ? 2048 : 0;" in source  # 512 KiB of l2, 8 KiB ahead
    assert "if (X_ahead) __builtin_prefetch(" in source
    assert "if (X_ahead)" not in compile(MODULE, op="twice", target="cpu:avx2", N=1 << 20).source


def distances(op: str, target: str = "cpu:avx2", **sizes: Any) -> list[str]:
    """What is asked for in each loop, in the order of the text: the last word of the address."""
    source = compile(MODULE, op=op, target=target, **sizes).source
    asked = [x.rsplit(" ", 1)[1] for x in source.splitlines() if "__builtin_prefetch" in x]
    return [x.rstrip(");") for n, x in enumerate(asked) if n == 0 or asked[n - 1] != x]


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (1920, []),  # loops over less than 8 KiB never reach so far
        (2048, ["X_ahead", "X_next"]),
        (131072, ["X_ahead", "X_next"]),  # 512 KiB: all of l2
        (262144, ["X_ahead"]),  # no cache of a core has the row when it is read again
    ],
)
def test_a_loop_that_reads_a_row_again_prefetches_the_next_one(columns: int, asked: list[str]) -> None:
    assert distances("centred", M=1024, N=columns) == asked


def test_nothing_is_prefetched_beyond_the_last_row() -> None:
    """By the number of rows, and where the last tile ends."""
    assert "X_next = i1 <= 30 ? 4096 : 0;" in compile(MODULE, op="centred", target="cpu:avx2", M=1024, N=4096).source
    source = compile(MODULE, op="centred", target="cpu:avx2").source
    condition = "X_ahead == 0 || 4 * N < 8192 || 4 * N > 524288 ? X_ahead : i1 + 2 <= imin(32, M - 32 * tile) ? N : 0;"
    assert condition in source
    assert distances("centred") == ["X_ahead", "X_next"]


def test_squares_of_a_transpose_follow_rows() -> None:
    """256 bytes ahead: many rows are in flight."""
    assert "X_ahead = 4 * M * N >= 524288 ? 64 : 0;" in compile(MODULE, op="turn", target="cpu:avx2").source


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize(("floats", "found"), [(64, {"X"}), (80, set())])
def test_iterations_that_read_few_lines(floats: int, found: set[str], target: str) -> None:
    """Four lines, whatever the vectors are."""
    lines = f"tile i: 16000 -> core\n    tile i: {floats}\n    tile i: 1 -> lane\n    compute"
    assert prefetched("twice", target, schedule=f"schedule s for twice:\n    {lines}\n") == found


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_rows_of_the_library_are_prefetched(op: str) -> None:
    """Whose nests have long iterations."""
    for sizes in ({}, {"M": 1024, "N": 131072}):
        kernel = compile(loads("import std.ops.norm\n"), op=op, target="cpu:avx2", **sizes)
        assert "tile j: 64" in kernel.schedule
        assert "X_next" in kernel.source


def test_beyond_the_end_of_memory() -> None:
    """The tensor ends where mapped memory ends."""
    pages = mmap.mmap(-1, 8 << 20)
    x = np.frombuffer(pages, np.float32)
    x[:] = np.arange(x.size) % 1000
    rows = x.reshape(-1, 4096)
    top = rows.max(1)
    for op, want in (("twice", x + x), ("tops", top), ("turn", rows.T), ("centred", rows - top[:, None])):
        kernel = compile(MODULE, op=op, target="cpu")
        for threads in (1, 2):
            np.testing.assert_array_equal(kernel(x if op == "twice" else rows, threads=threads), want)
