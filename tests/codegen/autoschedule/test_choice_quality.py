"""What is chosen has what makes a kernel fast, whatever its tiles: units in use, bytes near the least, little padding."""

from __future__ import annotations

import pytest
from andiron.codegen.autoschedule.report import CandidateReport, LaunchReport

from ...support.library.unscheduled import compiled, library

DEVICES = ("sm_80", "sm_90a", "gfx90a", "gfx1100")
THIN = [
    ("gemm_f16", dict(M=1, N=35, K=500000)),
    ("gemm_f16", dict(M=4, N=64, K=500000)),
    ("gemm", dict(M=2, N=16, K=500000)),
    ("gemv", dict(M=1, K=500000)),
    ("gemv", dict(M=4, K=500000)),
    ("dot", dict(N=1 << 22)),
    ("col_sum", dict(M=500000, N=35)),
    ("full_sum", dict(M=5000, N=3500)),
]
LARGE = [("gemm_f16", dict(M=8192, N=8192, K=8192)), ("gemm_f16", dict(M=4096, N=5120, K=4096))]


def choice(op: str, device: str, sizes: dict[str, int]) -> LaunchReport:
    return compiled(op, device, sizes).report["choices"][0]


def split_count(c: CandidateReport) -> int:
    return c.tile.get("split", 0) or c.tile.get("part", 0)


@pytest.mark.every_second
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("op", "sizes"), THIN, ids=lambda x: x if isinstance(x, str) else "x".join(map(str, x.values())))
def test_long_reductions_with_few_results_are_split(op: str, sizes: dict[str, int], device: str) -> None:
    """So that units have work and memory is what bounds them: close to the time that the operands take to be read once."""
    found = choice(op, device, sizes)
    c, d = found.candidates[0], library().device(device)
    units, bandwidth = d.limit("units") or 1, d.memories[0].bandwidth or 1
    assert split_count(c) > 0
    assert c.blocks >= units / 2
    assert c.busy > 0.55
    assert c.moved < 1.3 * found.least
    assert c.seconds < 1.5 * found.least / bandwidth + 10e-6  # two launches


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("op", "sizes"), LARGE, ids=lambda x: x if isinstance(x, str) else "x".join(map(str, x.values())))
def test_large_products_keep_the_arithmetic_busy(op: str, sizes: dict[str, int], device: str) -> None:
    """Whole waves, next to no padding; the cache serves most of what is asked, as tiles that run together share operands."""
    c = choice(op, device, sizes).candidates[0]
    assert split_count(c) == 0
    assert c.bound in ("pipe", "issue", "staging", "group", "block")
    assert c.parts["group"] < 1.1 * c.parts["pipe"]  # groups wait little, or others of their scheduler work meanwhile
    assert c.parts["block"] < 1.1 * c.parts["pipe"]  # and few cycles at barriers
    assert c.busy > 0.9
    assert c.waste < 0.05
    assert c.moved < 0.4 * c.asked


@pytest.mark.parametrize("device", DEVICES)
def test_of_one_tile_too_many_no_wave_is_made(device: str) -> None:
    """Sizes at which tiles of the largest kind would leave most units idle in a last wave."""
    units = int(library().device(device).limit("units") or 1)
    for tiles in (units // 2, units + 1, 2 * units + 1):
        c = choice("gemm_f16", device, dict(M=128, N=128 * tiles, K=4096)).candidates[0]
        assert c.busy > 0.6


def test_walking_tiles_in_bands_saves_bytes() -> None:
    """`raster` is written where operands exceed the cache, and not where all fits."""
    assert "raster" in compiled("gemm_f16", "sm_80", dict(M=16384, N=16384, K=4096)).schedule
    assert "raster" not in compiled("gemm_f16", "sm_80", dict(M=512, N=512, K=4096)).schedule


@pytest.mark.parametrize("device", DEVICES)
def test_elementwise_work_moves_each_byte_once(device: str) -> None:
    for op, sizes in (("add", dict(N=1 << 24)), ("transpose", dict(M=4096, N=4096)), ("add_row", dict(M=4096, N=4096))):
        found = choice(op, device, sizes)
        c = found.candidates[0]
        assert c.bound == "far"
        assert c.moved < 1.1 * found.least
