"""Tensors of many axes: an axis more is a loop more, never a refusal."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ..support.cpp.build import skip_unless_run_here

TARGETS = ("cpu:generic", "cpu:avx2", "cpu:avx512")


def text(rank: int, swapped: bool) -> str:
    """Y = 2 X, the first and the last axis exchanged or not; every size is open."""
    sizes = [f"N{i}" for i in range(rank)]
    names = [f"n{i}" for i in range(rank)]
    out = [names[-1], *names[1:-1], names[0]] if swapped else names
    shape = [sizes[names.index(i)] for i in out]
    return (
        f"op double[{', '.join(sizes)}](X: f32[{', '.join(sizes)}]) -> (Y: f32[{', '.join(shape)}]):\n"
        f"    Y[{', '.join(out)}] = X[{', '.join(names)}] * 2.0\n"
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("swapped", [False, True], ids=["straight", "swapped"])
def test_open_sizes(target, swapped):
    skip_unless_run_here(target)
    rng = np.random.default_rng(0)
    for rank in (7, 9):
        kernel = andiron.compile(text(rank, swapped), target=target)
        for shape in ([3] + [2] * (rank - 2) + [5], [1] * rank, [2] * (rank - 1) + [0]):
            x = rng.integers(-9, 9, shape).astype(np.float32)
            want = 2 * (np.swapaxes(x, 0, rank - 1) if swapped else x)
            got = np.full(want.shape, np.nan, np.float32)
            kernel(x, out=got)
            assert np.array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_text_grows_with_the_rank_and_not_with_its_powers(target):
    sizes = [len(andiron.compile(text(rank, False), target=target).source) for rank in (6, 11, 16)]
    assert sizes[2] - sizes[1] < 1.5 * (sizes[1] - sizes[0]) + 500
