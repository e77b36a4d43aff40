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


def test_squares_of_a_transpose_follow_rows() -> None:
    """256 bytes ahead: many rows are in flight."""
    assert "X_ahead = 4 * M * N >= 524288 ? 64 : 0;" in compile(MODULE, op="turn", target="cpu:avx2").source


@pytest.mark.parametrize(("vectors", "found"), [(4, {"X"}), (5, set())])
def test_iterations_that_read_few_vectors(vectors: int, found: set[str]) -> None:
    """Hardware follows longer runs by itself."""
    lines = f"tile i: 16000 -> core\n    tile i: {8 * vectors}\n    tile i: 1 -> lane\n    compute"
    assert prefetched("twice", schedule=f"schedule s for twice:\n    {lines}\n") == found


def test_beyond_the_end_of_memory() -> None:
    """The tensor ends where mapped memory ends."""
    pages = mmap.mmap(-1, 8 << 20)
    x = np.frombuffer(pages, np.float32)
    x[:] = np.arange(x.size) % 1000
    for op, want in (("twice", x + x), ("tops", x.reshape(-1, 4096).max(1)), ("turn", x.reshape(-1, 4096).T)):
        kernel = compile(MODULE, op=op, target="cpu")
        for threads in (1, 2):
            np.testing.assert_array_equal(kernel(x if op == "twice" else x.reshape(-1, 4096), threads=threads), want)
