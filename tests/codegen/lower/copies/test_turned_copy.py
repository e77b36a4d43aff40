"""Copies that turn a tile: units turn rectangles in registers, and both sides are vectors (`turned_copy`)."""

from __future__ import annotations

import re

import pytest
from andiron.codegen.lower.copies.turned_copy import MOST
from andiron.runtime.check_results import ExpectedResults
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ....support.library.unscheduled import compiled

SQUARE = dict.fromkeys("MNK", 4096)
TURNED = re.compile(r"tile (?:\w: 1, )*(\w): (\d+), (\w): (\d+) -> thread\n\s+move (\w) -> register\n\s+compute order")


def rectangles(schedule: str) -> list[int]:
    """Elements of each rectangle in a schedule."""
    return [int(m[2]) * int(m[4]) for m in TURNED.finditer(schedule)]


@pytest.mark.parametrize(
    ("op", "device", "size"),
    [("gemm", "sm_80", 4), ("gemm_i8", "sm_80", 1), ("gemm_f16", "gfx942", 2), ("gemm_nt", "sm_75", 4)],
)
def test_rectangles_are_small(op: str, device: str, size: int) -> None:
    found = rectangles(compiled(op, device, SQUARE).schedule)
    assert found
    assert all(2 < n * size <= MOST for n in found)


def test_what_lies_as_its_source_is_not_turned() -> None:
    assert not rectangles(compiled("gemm_f16_nt", "gfx942", SQUARE).schedule)


TEXT = """
op product[M, N, K](A: T[M, K], B: T[K, N]) -> (C: S[M, N]):
    C[m, n] = sum(k) S(A[m, k]) * S(B[k, n])

schedule turned for product on DEVICE:
    tile m: 32, n: 64 -> block
    tile k: 32 DEEP
    move A -> shared layout (k, m) PAD
    move B -> shared
    tile m: 4, n: 4 -> thread
    compute
"""


@pytest.mark.every_second
@pytest.mark.parametrize("deep", ["", "pipeline 2"])
@pytest.mark.parametrize(("types", "pad"), [(("f32", "f32"), "pad 4"), (("i8", "i32"), "swizzle"), (("f16", "f32"), "pad 8")])
@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_both_sides_are_vectors_and_right_for_all_sizes(device: str, types: tuple[str, str], pad: str, deep: str) -> None:
    text = TEXT.replace("T[", f"{types[0]}[").replace("S", types[1]).replace("DEVICE", device).replace("PAD", pad)
    k = compile(text.replace("DEEP", deep), target=f"emulate:{device}")
    assert rectangles(k.schedule)
    for m, n, depth in ((64, 64, 64), (33, 70, 37), (1, 4, 4), (0, 8, 8), (40, 8, 0)):
        dims = dict(M=m, N=n, K=depth)
        inputs = random_inputs(k.op, dims)
        k.counting = dims == dict(M=64, N=64, K=64)
        assert ExpectedResults(k.op, inputs).check([k(*inputs)]).ok, dims
        if k.counting:
            assert k.report.counts is not None
            sites = {(s.buffer, s.access): s for s in k.report.counts.sites}
            read, written = sites["A", "read"], sites["a_shared", "written"]
            size = k.op.tensor("A").dtype.bytes
            assert min(s.bytes // s.accesses for s in (read, written)) >= 2 * size
