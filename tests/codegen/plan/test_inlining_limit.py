"""What would be thousands of operations for one point is materialised: the same results, little work, a bounded text."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

from ...support.count_calls import calls
from ...support.cpp.build import skip_unless_run_here

N = 16


def scattered(n: int) -> str:
    """Each statement reads the one before at two other points, so that readers share nothing: 2^n paths."""
    lines = ["v0[i] = X[i] + 1"]
    lines += [f"v{k}[i] = v{k - 1}[(i * 5 + 3) % {N}] - v{k - 1}[(i * 3 + 1) % {N}] * 2 + X[i]" for k in range(1, n)]
    return f"op g(X: i32[{N}]) -> (Y: i32[{N}]):\n" + "".join(f"    {x}\n" for x in [*lines, f"Y[i] = v{n - 1}[i]"])


def chain(n: int) -> str:
    lines = ["v0[i, j] = X[i, j] + 1"]
    lines += [f"v{k}[i, j] = v{k - 1}[i, j] * v{k - 1}[i, j] - v{k - 1}[i, j] * 3" for k in range(1, n)]
    return "op g[M, N](X: i32[M, N]) -> (Y: i32[M, N]):\n" + "".join(
        f"    {x}\n" for x in [*lines, f"Y[i, j] = v{n - 1}[i, j]"]
    )


@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2", "emulate:sm_80"])
def test_other_points(target):
    if target.startswith("cpu:"):
        skip_unless_run_here(target)
    x = np.arange(N, dtype=np.int32) - 5
    want = x + 1
    i = np.arange(N)
    for _ in range(29):
        want = want[(i * 5 + 3) % N] - want[(i * 3 + 1) % N] * 2 + x
    got = np.full(N, -77, np.int32)
    andiron.compile(scattered(30), target=target)(x, out=got)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("target", ["cpu:avx2", "emulate:gfx90a"])
def test_one_point(target):
    if target.startswith("cpu:"):
        skip_unless_run_here(target)
    kernel = andiron.compile(chain(150), target=target)
    for shape in ((3, 37), (1, 1), (0, 2)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
        want = x + 1
        for _ in range(149):
            want = want * want - want * 3
        got = np.full(shape, -77, np.int32)
        kernel(x, out=got)
        assert np.array_equal(got, want)


@pytest.mark.parametrize("device", ["cpu:avx2", "sm_80"])
def test_work_does_not_double_with_each_statement(device):
    def compiled(n):
        module = loads(scattered(n))
        return compile_program(module, module.ops["g"], None, module.device(device)).program

    compiled(4)
    programs: dict[int, object] = {}
    work = {n: calls(lambda n=n: programs.update({n: compiled(n)})) for n in (14, 20)}
    assert work[20] < 2.5 * work[14]
    assert max(len(line) for line in str(programs[20]).splitlines()) < 200_000
