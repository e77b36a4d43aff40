"""Results whose fragments have short rows go through staging memory, where a block has the room."""

from __future__ import annotations

import pytest
from andiron import loads
from andiron.runtime.check_results import ExpectedResults
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ....support.library.unscheduled import compiled, library

SQUARE = dict.fromkeys("MNK", 4096)


def is_staged(op: str, device: str, sizes: dict[str, int]) -> bool:
    before, _, _ = compiled(op, device, sizes).schedule.partition("tile k")
    return "-> shared" in before


@pytest.mark.parametrize(
    ("op", "device", "sizes", "staged"),
    [
        ("gemm_f16", "sm_80", SQUARE, True),
        ("linear_gelu_f16", "sm_80", SQUARE, True),
        ("gemm_f16", "sm_80", {}, True),
        ("gemm_f16_f32", "sm_80", SQUARE, False),  # eight floats are a transaction
        ("gemm_f16", "sm_80", SQUARE | {"N": 4100}, False),  # rows are no whole vectors
        ("gemm_f16", "sm_75", SQUARE, True),  # 64 KiB, and the operands take 48: one block is resident either way
        ("gemm_f16_nt", "gfx942", SQUARE, True),  # the same, and 54
        ("gemm_f16", "gfx1100", SQUARE, True),  # two blocks
        ("gemm_f16", "gfx942", SQUARE, True),  # 64 KiB, since results leave room in their file of registers
    ],
)
def test_short_rows_are_staged_where_there_is_room(op: str, device: str, sizes: dict[str, int], staged: bool) -> None:
    assert is_staged(op, device, sizes) == staged


@pytest.mark.parametrize(("device", "fixed"), [("sm_80", True), ("gfx90a", False)])
def test_rows_are_stored_in_whole_transactions(device: str, fixed: bool) -> None:
    dims = dict(M=260, N=256, K=64)
    sizes = dims if fixed else {}
    k = compile(library(), "gemm_f16", "auto", f"emulate:{device}", sizes=sizes)
    k.counting = True
    inputs = random_inputs(k.op, dims)
    assert ExpectedResults(k.op, inputs).check([k(*inputs)]).ok
    assert k.report.counts is not None
    (stored,) = (s for s in k.report.counts.sites if s.buffer == "C" and s.access == "written")
    assert stored.transactions == stored.least


@pytest.mark.parametrize(("op", "device"), [("gemm_f16_nt", "gfx942"), ("gemm_f16", "gfx1100")])
@pytest.mark.parametrize("dims", [dict(M=128, N=256, K=64), dict(M=200, N=264, K=40), dict(M=1, N=8, K=8)])
def test_a_result_that_takes_more_room_than_the_operands(op: str, device: str, dims: dict[str, int]) -> None:
    lines = compiled(op, device, SQUARE).schedule
    assert "move C -> shared swizzle" in lines
    k = compile(loads("import std.ops.gemm\n" + lines), op, f"{op}_auto", f"emulate:{device}", sizes=dims)
    inputs = random_inputs(k.op, dims)
    assert ExpectedResults(k.op, inputs).check([k(*inputs)]).ok


@pytest.mark.parametrize("dims", [dict(M=256, N=512, K=64), dict(M=200, N=264, K=40), dict(M=1, N=8, K=8), dict(M=8, N=0, K=8)])
def test_a_result_is_staged_in_parts_where_the_whole_has_no_room(dims: dict[str, int]) -> None:
    """A tile of 256 x 256 has 128 KiB of results, and a block 64 KiB of shared memory."""
    lines = compiled("gemm_f16_nt", "gfx942", SQUARE).schedule
    assert lines.count("tile m: 64, n: 128 -> wave\n        tile m: 32\n        move C -> shared swizzle\n") == 1
    k = compile(loads("import std.ops.gemm\n" + lines), "gemm_f16_nt", "gemm_f16_nt_auto", "emulate:gfx942", sizes=dims)
    k.counting = True
    inputs = random_inputs(k.op, dims)
    assert ExpectedResults(k.op, inputs).check([k(*inputs)]).ok
    assert k.report.counts is not None
    stored = [s for s in k.report.counts.sites if s.buffer == "C" and s.access == "written" and s.accesses]
    assert all(s.bytes == 16 * s.accesses for s in stored)
