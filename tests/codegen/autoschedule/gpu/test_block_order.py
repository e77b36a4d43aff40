"""Default schedules where the cache has slices: runs of tiles for each (`within`), counted against one slice."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.block_order.waves import Waves, raster_rows, wave_of
from andiron.codegen.autoschedule.machine_model import block_machine
from andiron.dsl.module import loads
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ....support.library.unscheduled import compiled, library, op_of

SQUARE = {"M": 4096, "N": 4096, "K": 4096}
HEADS = {"H": 16, "Q": 1024, "T": 1024, "D": 64}


@pytest.mark.parametrize(
    ("op", "sizes"), [("gemm_f16", SQUARE), ("gemm_f16", {}), ("attention", HEADS), ("causal_attention_f16", HEADS)]
)
def test_defaults_are_within_slices(op: str, sizes: dict[str, int]) -> None:
    assert " within l2" in compiled(op, "gfx942", sizes).schedule
    assert "within" not in compiled(op, "gfx90a", sizes).schedule


def test_no_slice_has_the_longest_rows_alone() -> None:
    """Of 12 heads a slice would have one and a half; of a triangular product, the last rows."""
    assert "within" not in compiled("causal_attention_f16", "gfx942", HEADS | {"H": 12}).schedule
    text = "op tri[M, N](L: f32[M, M], B: f32[M, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k where k <= m) L[m, k] * B[k, n]\n"
    assert "within" not in compile(loads(text), "tri", None, "emulate:gfx942", None, M=2048, N=2048).schedule


def test_a_block_for_each_slice_has_no_order() -> None:
    assert "within" not in compiled("gemm_f16", "gfx942", {"M": 16, "N": 16, "K": 4096}).schedule


@pytest.mark.parametrize("sizes", [(0, 5, 3), (1, 1, 1), (333, 257, 40), (64, 1000, 0), (640, 515, 33)], ids=str)
@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
def test_right(sizes: tuple[int, int, int], fixed: bool) -> None:
    dims = dict(zip("MNK", sizes, strict=True))
    kernel, op = compile(library(), "gemm_f16", None, "emulate:gfx942", None, **(dims if fixed else {})), op_of("gemm_f16")
    arrays = random_inputs(op, dims)
    out = kernel(*arrays, out=np.full((sizes[0], sizes[1]), np.nan, op.outputs[0].dtype.numpy))
    assert check(op, arrays, (out,)).ok


@pytest.mark.parametrize("tile", [(128, 256), (256, 128), (64, 64)])
@pytest.mark.parametrize("large", [False, True])
def test_reads_as_counted(tile: tuple[int, int], large: bool) -> None:
    """The rows and columns of tiles that the runs of the slices have (all of them small enough for a wave), one by one."""
    machine = block_machine(library().device("gfx942"))
    assert machine is not None
    rows, columns = 4096 // tile[0], 4096 // tile[1]
    t = {"bm": np.float64(tile[0]), "bn": np.float64(tile[1])}
    high = int(raster_rows(t, rows, columns, wave_of(machine)))
    order = [(m, n) for band in range(0, rows, high) for n in range(columns) for m in range(band, min(band + high, rows))]
    run = len(order) // 8
    parts = [order[s * run : (s + 1) * run] for s in range(8)]
    waves = Waves(machine, t, rows, columns, rows * columns)
    if large and run > wave_of(machine):
        return
    assert waves.reads(large, True, False) == pytest.approx(sum(len({m for m, _ in p}) for p in parts) / rows)
    assert waves.reads(large, False, True) == pytest.approx(sum(len({n for _, n in p}) for p in parts) / columns)
