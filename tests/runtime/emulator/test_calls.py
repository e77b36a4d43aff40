"""Kernels for the emulator are called as kernels for a CPU are."""

from __future__ import annotations

import threading

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentShape, OutputOverlap, SizeRefused
from andiron.dsl.errors.target import UnknownTarget
from andiron.dsl.module import loads

from ...support.gemm_file import GEMM_OP as GEMM

UPDATE = (
    "op update[M, N, K](A: f32[M, K], B: f32[K, N], C: f32[M, N]) -> (D: f32[M, N]):\n"
    "    D[m, n] = (sum(k) A[m, k] * B[k, n]) + 0.5 * C[m, n]\n"
)
TWO = "op two[M, N](X: f32[M, N]) -> (S: f32[M], P: f32[N]):\n    S[i] = sum(j) X[i, j]\n    P[j] = max(i) X[i, j]\n"
HALF = "op scale[N](X: f16[N]) -> (Y: f16[N]):\n    Y[i] = X[i] * X[i]\n"
SPLIT = GEMM + (
    "schedule split for gemm on sm_80:\n    tile m: 16, n: 16 -> block\n    tile k: 32 -> block by workspace\n    auto\n"
    "schedule together for gemm on sm_80:\n    tile m: 16, n: 16 -> block\n    tile k: 32 -> block by atomic\n    auto\n"
)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 5, shape).astype("f4")


def compiled(text: str, target: str = "emulate:sm_80", **more) -> andiron.Kernel:
    return andiron.compile(text, target=target, **more)


@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx90a", "emulate:gfx1201"])
def test_a_product(target: str) -> None:
    kernel = compiled(GEMM, target)
    assert kernel.target == target
    a, b = numbers(33, 20), numbers(20, 17)
    np.testing.assert_array_equal(kernel(a, b), a @ b)
    np.testing.assert_array_equal(kernel(a[:3], b), a[:3] @ b)  # sizes are open
    with pytest.raises(ArgumentShape):
        kernel(a, a)


def test_fixed_sizes() -> None:
    kernel = compiled(GEMM, M=8, N=8, K=8)
    np.testing.assert_array_equal(kernel(numbers(8, 8), numbers(8, 8)), numbers(8, 8) @ numbers(8, 8))
    with pytest.raises(ArgumentShape):
        kernel(numbers(9, 8), numbers(8, 8))


def test_memory_of_the_caller_s() -> None:
    kernel = compiled(GEMM)
    a, b, out = numbers(12, 8), numbers(8, 12), np.zeros((12, 12), "f4")
    assert kernel(a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)
    wide = np.zeros((12, 24), "f4")
    kernel(a, b, out=wide[:, ::2])
    np.testing.assert_array_equal(wide[:, ::2], a @ b)
    assert not wide[:, 1::2].any()


def test_in_place() -> None:
    """An output that is an input holds that input's values when the kernel begins: it is not filled with poison."""
    kernel = compiled(UPDATE)
    a, b, c = numbers(12, 8), numbers(8, 12), numbers(12, 12)
    want = a @ b + 0.5 * c
    kernel(a, b, c, out=c)
    np.testing.assert_array_equal(c, want)
    square = numbers(12, 12)
    with pytest.raises(OutputOverlap):
        kernel(square, square.copy(), c, out=square)


@pytest.mark.parametrize("offset", range(9))
def test_pointers_that_are_not_aligned(offset: int) -> None:
    """A safe variant is chosen."""
    kernel = compiled(HALF)
    room = np.zeros(64, "f2")
    x = room[offset : offset + 40]
    x[:] = np.arange(40) - 20
    np.testing.assert_array_equal(kernel(x), x * x)


def test_several_outputs_and_launches() -> None:
    kernel = compiled(TWO)
    assert len(kernel.program.launches) >= 2
    x = numbers(13, 29)
    s, p = kernel(x)
    np.testing.assert_array_equal(s, x.sum(axis=1))
    np.testing.assert_array_equal(p, x.max(axis=0))


@pytest.mark.parametrize("schedule", ["split", "together"])
def test_split_reductions(schedule: str) -> None:
    """Over blocks, by a workspace that the second launch reads, and by atomics."""
    kernel = compiled(SPLIT, schedule=schedule)
    a, b = numbers(18, 100), numbers(100, 20)
    np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_nothing() -> None:
    kernel = compiled(GEMM)
    assert kernel(numbers(0, 4), numbers(4, 3)).shape == (0, 3)
    np.testing.assert_array_equal(kernel(numbers(2, 0), numbers(0, 3)), np.zeros((2, 3)))


def test_calls_of_several_threads_at_once() -> None:
    kernel = compiled(GEMM).prepare()
    a, b = numbers(40, 20), numbers(20, 40)
    wrong = []

    def call(n: int) -> None:
        for _ in range(5):
            if not np.array_equal(kernel(a * n, b, threads=2), n * (a @ b)):
                wrong.append(n)

    team = [threading.Thread(target=call, args=(n,)) for n in range(1, 5)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not wrong


def test_a_condition_that_does_not_hold() -> None:
    kernel = compiled("op f[N](X: f32[N]) -> (Y: f32[N])\n        where N >= 4:\n    Y[i] = X[i] + 1.0\n")
    np.testing.assert_array_equal(kernel(numbers(5)), numbers(5) + 1)
    with pytest.raises(SizeRefused):
        kernel(numbers(3))


OWN = """
device mine extends sm_80:
    units 4

device tiny:
    level grid: finite 1, siblings nothing
    level block: open, siblings nothing, at most 64 threads
    level thread: shaped, siblings lockstep, at most 64 units, width 64
    memory global of grid: 1 GB/s
    memory shared of block: 16 KiB
    memory register of thread: 64 x 4 B

"""


@pytest.mark.parametrize("device", ["mine", "tiny"])
def test_devices_of_the_author_s(device: str) -> None:
    """Whatever they extend, with or without texts of instructions."""
    kernel = compiled(OWN + GEMM, f"emulate:{device}")
    a, b = numbers(20, 12), numbers(12, 9)
    np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_what_cannot_be_played() -> None:
    with pytest.raises(UnknownTarget, match="is no GPU"):
        compiled(GEMM, "emulate:cpu:avx2")
    with pytest.raises(UnknownTarget, match="did you mean `emulate:sm_"):
        compiled(GEMM, "emulate:sm_8")
    with pytest.raises(UnknownTarget, match="needs a device"):
        compiled(GEMM, "emulate")
    with pytest.raises(UnknownTarget, match="no target `emulate:cpu`") as caught:  # none is proposed that is refused
        compiled(GEMM, "emulate:cpu")
    assert "cpu" not in (caught.value.help or "")
    with pytest.raises(UnknownTarget, match="no target ``"):
        compiled(GEMM, "")


def test_nothing_is_built_before_the_first_call() -> None:
    kernel = andiron.compile(loads(GEMM), target="emulate:sm_80")
    assert kernel.variants[0].library is None
    assert kernel.report.target == "emulate:sm_80"
