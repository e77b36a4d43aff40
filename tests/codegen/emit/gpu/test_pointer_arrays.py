"""Pointers of swizzled operands are an array before loops that do not change them; copies come after the next loads."""

from __future__ import annotations

import re
from itertools import product

import andiron
import numpy as np
import pytest
from andiron.runtime.kernel import Kernel

SCHEDULE = """
schedule two for gemm_f16:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 32 pipeline 3
    move A -> shared swizzle with cp_async
    move B -> shared swizzle with cp_async
    tile m: 32, n: 32 -> warp
    tile k: 16 pipeline 2 through
    move A -> register with ldmatrix
    move B -> register with ldmatrix
    compute with mma_m16n8k16_f16
"""


def kernel(target: str, **sizes: int) -> Kernel:
    return andiron.compile("import std.ops.gemm\n" + SCHEDULE, "gemm_f16", "two", target=target, sizes=sizes)


@pytest.fixture(scope="module")
def loop() -> tuple[str, str]:
    """What stands before the main loop of the first kernel, and what stands in it."""
    text = kernel("cuda:sm_80", M=256, N=256, K=256).source
    text = text[text.index("__global__") :]
    before, _, rest = text.partition("for (int k1 = 0; k1 < 8; k1++) {\n")
    return before, rest[: rest.index("\n    }\n")]


@pytest.fixture(scope="module")
def emulated() -> Kernel:
    return kernel("emulate:sm_80")


def test_swizzled_pointers_of_an_unrolled_loop_stand_before_the_loops_around_it(loop: tuple[str, str]) -> None:
    before, inside = loop
    (name,) = re.findall(r"uint16_t\* (b_shared_\w+)\[2\];", before)
    assert re.search(rf"{name}\[n3\] = b_shared\d* \+ .*\^", before)
    assert re.findall(rf"ldmatrix\w+\({name}\[n3\] \+ \d+ \* slot", inside)
    assert "^" not in inside  # nothing is swizzled again


def test_asynchronous_copies_come_after_the_loads_of_the_next_step(loop: tuple[str, str]) -> None:
    after_the_wait = loop[1].partition("m_wait_group")[2]
    assert 0 < after_the_wait.index("ldmatrix") < after_the_wait.rindex("ldmatrix") < after_the_wait.index("cp_async")
    assert loop[1].count("__syncthreads") == 1


@pytest.mark.parametrize(("m", "n", "k"), [*product((1, 70), (1, 66), (0, 1, 33, 130)), (64, 128, 128), (0, 8, 16)])
def test_results_are_right(emulated: Kernel, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    np.testing.assert_array_equal(emulated(a, b), (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
