"""Fragments of the library's matrix instructions, against the vendors' manuals."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from andiron.dsl.device import Instr
from andiron.dsl.fragment import FragmentLayout
from andiron.dsl.module import loads
from andiron.runtime.check_results import ExpectedResults
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ..support.gpu import matrix_fragments as manual
from ..support.gpu.library_instrs import devices, family, instructions
from ..support.library.unscheduled import compiled


def test_fragments_are_bijections_or_replicate_inputs() -> None:
    for title, (_, i) in instructions().items():
        for o in (o for o in i.operands if o.shape):
            f = FragmentLayout.of(o)
            held = [tuple(x) for x in f.table().reshape(-1, len(o.shape)).tolist()]
            assert set(held) == set(np.ndindex(*o.shape)), (title, o.name)
            if o.role != "input":
                assert len(held) == prod(o.shape), (title, o.name)
            elif len(held) != prod(o.shape):  # the replications there are
                assert i.family == "ldmatrix" or title.startswith("gfx1100:wmma"), (title, o.name)


@pytest.mark.parametrize("title", family("mma"))
def test_nvidia_fragments_are_the_manuals(title: str) -> None:
    _, i = instructions()[title]
    for o, place in zip(i.operands, manual.NVIDIA[i.name], strict=True):
        f = FragmentLayout.of(o)
        np.testing.assert_array_equal(f.table(), manual.table_of(place, 32, f.registers), err_msg=o.name)


@pytest.mark.parametrize("title", family("mfma"))
def test_cdna_fragments_are_the_manuals(title: str) -> None:
    _, i = instructions()[title]
    (m, k), f64 = i.operands[0].shape, i.operands[2].dtype.name == "f64"
    assert re.fullmatch(rf"mfma_{m}x{m}x{k}_\w+", i.name)
    for o in i.operands:
        np.testing.assert_array_equal(FragmentLayout.of(o).table(), manual.mfma(o.name, m, k, f64), err_msg=o.name)


@pytest.mark.parametrize("title", family("wmma"))
def test_rdna_fragments_are_the_manuals(title: str) -> None:
    _, i = instructions()[title]
    for o in i.operands:
        expected = manual.wmma(o.name, 3 if title.startswith("gfx1100") else 4)
        np.testing.assert_array_equal(FragmentLayout.of(o).table(), expected, err_msg=o.name)


@pytest.mark.parametrize("title", family("ldmatrix"))
def test_ldmatrix_is_the_manuals(title: str) -> None:
    """The element that a lane gets is the one at that row and column of the matrix whose rows other lanes addressed."""
    _, i = instructions()[title]
    number, trans = int(re.search(r"_x(\d)", i.name).group(1)), "trans" in i.name  # type: ignore[union-attr]
    s, d = (FragmentLayout.of(o) for o in i.operands)
    per_word = 4 // i.operands[0].dtype.bytes
    addressed = s.table()  # the row that each lane addresses
    assert addressed.shape[1] == 4 * per_word
    got = d.table().reshape(-1, 2)
    for element, (matrix, row, column) in zip(got, manual.ldmatrix(number, trans, per_word), strict=True):
        np.testing.assert_array_equal(element, addressed[8 * matrix + row, column])


def turned(f: FragmentLayout) -> FragmentLayout:
    return FragmentLayout(f.coords, f.map[::-1], f.shape[::-1])


# ldmatrix, the instruction that takes what it loads, which operand of it
FEEDS = [
    ("ldmatrix_x4_a_f16x2", "mma_m16n8k16_f16", "A"),
    ("ldmatrix_x4_a_bf16x2", "mma_m16n8k16_bf16", "A"),
    ("ldmatrix_x4_a_i8x4", "mma_m16n8k32_i8", "A"),
    ("ldmatrix_x4_a_f8e4m3x4", "mma_m16n8k32_f8e4m3", "A"),
    ("ldmatrix_x4_a_tf32x1", "mma_m16n8k8_tf32", "A"),
    ("ldmatrix_x2_a_f16x2", "mma_m16n8k8_f16", "A"),
    ("ldmatrix_x2_a_i8x4", "mma_m16n8k16_i8", "A"),
    ("ldmatrix_x2_a_tf32x1", "mma_m16n8k4_tf32", "A"),
    ("ldmatrix_x2_b_f16x2", "mma_m16n8k16_f16", "Bt"),
    ("ldmatrix_x2_b_i8x4", "mma_m16n8k32_i8", "Bt"),
    ("ldmatrix_x2_b_tf32x1", "mma_m16n8k8_tf32", "Bt"),
    ("ldmatrix_x1_b_f16x2", "mma_m16n8k8_f16", "Bt"),
    ("ldmatrix_x1_b_i8x4", "mma_m16n8k16_i8", "Bt"),
    ("ldmatrix_x4_bb_f16x2", "mma_m16n8k16_f16", "BBt"),
    ("ldmatrix_x4_bb_i8x4", "mma_m16n8k32_i8", "BBt"),
    ("ldmatrix_x4_trans_a_f16", "mma_m16n8k16_f16", "At"),
    ("ldmatrix_x2_trans_a_bf16", "mma_m16n8k8_bf16", "At"),
    ("ldmatrix_x2_trans_b_f16", "mma_m16n8k16_f16", "B"),
    ("ldmatrix_x1_trans_b_f16", "mma_m16n8k8_f16", "B"),
    ("ldmatrix_x4_trans_bb_bf16", "mma_m16n8k16_bf16", "BB"),
]


@pytest.mark.parametrize(("load", "mma", "operand"), FEEDS)
def test_ldmatrix_gives_the_operands(load: str, mma: str, operand: str) -> None:
    device = devices()["sm_89"]
    d = FragmentLayout.of(next(i for i in device.instrs if i.name == load).operand("D"))
    wanted = FragmentLayout.of(next(i for i in device.instrs if i.name == mma).operand(operand[0]))
    if operand.startswith("BB"):
        wanted = wanted.tiled((1, 2))
    if operand.endswith("t"):
        wanted = turned(wanted)
    assert d.equal(wanted)


BY_16_BYTES = (
    ("gfx908", "f16"),
    ("gfx90a", "f16"),
    ("gfx90a", "bf16"),
    *(("gfx942", t) for t in ("f16", "f16_nt", "bf16", "i8", "tf32")),
)


@pytest.mark.parametrize(("device", "kind"), BY_16_BYTES)
def test_fragments_of_cdna_are_read_by_16_bytes(device: str, kind: str) -> None:
    """A lane holds fewer terms of most matrix instructions: several are one in the text of the device."""
    instrs = compiled(f"gemm_{kind}", device, dict.fromkeys("MNK", 4096)).program.instrs
    assert {bytes_of_lane(i) for i in instrs if i.family == "load_shared"} == {16}
    if kind == "f16_nt":
        assert {bytes_of_lane(i) for i in instrs if i.family in ("load_global", "store_global")} == {16}
        assert {bytes_of_lane(i) for i in instrs if i.family == "store_shared"} == {8, 16}  # four neighbours of a result


@pytest.mark.parametrize(("op", "tiles"), [("gemm_f16", {"a_shared"}), ("gemm_f16_nt", {"a_shared", "b_shared"})])
def test_rows_that_do_not_fill_the_banks_are_swizzled(op: str, tiles: set[str]) -> None:
    """Behind a pad, a row begins in banks where the one before it ended: stores of both take two rounds."""
    dims = dict(M=256, N=512, K=128)
    text = compiled(op, "gfx942", dict.fromkeys("MNK", 4096)).schedule.replace(" within l2", "")
    k = compile(loads("import std.ops.gemm\n" + text), op, f"{op}_auto", "emulate:gfx942", sizes=dims)
    inputs = random_inputs(k.op, dims)
    k.counting = True
    assert ExpectedResults(k.op, inputs).check([k(*inputs)]).ok
    assert k.report.counts is not None
    sites = [s for s in k.report.counts.sites if s.buffer in tiles]
    assert {s.buffer for s in sites if s.access == "written"} == tiles
    assert all(s.transactions == s.least for s in sites)


def bytes_of_lane(i: Instr) -> int:
    return prod(i.operands[0].shape) * i.operands[0].dtype.bytes
