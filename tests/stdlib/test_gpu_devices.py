"""The GPUs of the library: their levels, memories and figures."""

from __future__ import annotations

import numpy as np
import pytest

from ..support.gpu.library_instrs import ALL, CDNA, NVIDIA, RDNA, devices

# ---------------------------------------------------------------- facts


@pytest.mark.parametrize("name", ALL)
def test_levels_and_memories(name: str) -> None:
    device = devices()[name]
    wave = "warp" if name in NVIDIA else "wave"
    assert [x.name for x in device.levels] == ["grid", "block", wave, "thread"]
    assert [x.siblings for x in device.levels] == ["nothing", "nothing", "barrier", "lockstep"]
    assert device.level("grid").most == 1
    assert device.level("thread").width == (64 if name in CDNA else 32)
    assert device.limit("block thread") == 1024
    width, most = device.level("thread").width, device.level(wave).most
    assert (width or 0) * (most or 0) == 1024
    assert [(m.name, m.level, m.backing) for m in device.memories] == [
        ("global", "grid", None), ("l2", "grid", "global"), ("shared", "block", None), ("register", "thread", None),
    ]  # fmt: skip
    assert device.memory("shared").banks == (32, 4)
    assert all(m.bandwidth for m in device.memories if m.name in ("global", "shared"))
    assert all(m.capacity for m in device.memories if m.name != "global")


@pytest.mark.parametrize("name", ALL)
def test_figures_agree_with_each_other(name: str) -> None:
    device = devices()[name]
    for figure in ("units", "clock", "f32", "f64", "f16", "schedulers", "registers", "resident threads", "shared"):
        assert device.limit(figure), figure
    clock, units = device.limit("clock") or 0, device.limit("units") or 0
    threads = device.limit("resident threads") or 0
    shared = device.memory("shared")
    assert (device.limit("shared") or 0) >= (shared.capacity or 0) + shared.reserve
    assert shared.bandwidth == pytest.approx(128 * units * clock * (2 if name in RDNA else 1), rel=0.01)
    waves = device.limit("resident warps") or device.limit("resident waves")
    assert threads == (waves or 0) * (device.level("thread").width or 0) or (name in RDNA and threads == 2048)
    for t in ("f16", "bf16", "tf32", "f32", "f64", "f8", "i8"):
        rate = device.limit(f"matrix {t}")
        if rate is not None and name != "sm_90a":  # whose matrix clock differs from that of the rest
            a_cycle = rate / clock
            assert a_cycle == pytest.approx(2 ** round(np.log2(a_cycle)), rel=0.01), t


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("sm_90a", "sm_100a")])
def test_matrix_costs_are_the_rates(name: str) -> None:
    """m*n*k multiply-adds over what the device states for the type: the same cycles, unless the text says why not."""
    device = devices()[name]
    for i in device.instrs:
        if i.family not in ("mma", "mfma", "wmma"):
            continue
        dtype, (a, b, c) = i.operands[0].dtype.name, i.operands
        rate = device.limit(f"matrix {'f8' if dtype.startswith('f8') else dtype}")
        assert rate, i.name
        per_scheduler = rate / (device.limit("clock") or 1) / (device.limit("schedulers") or 1)
        expected = 2 * a.shape[0] * a.shape[1] * b.shape[1] / per_scheduler
        if c.dtype.name == "f16" and name in ("sm_86", "sm_89", "sm_120a"):
            expected /= 2
        if name == "gfx950" and (i.name in OLD_SHAPES or dtype.startswith("f8")):
            expected *= 2
        if name == "gfx90a" and i.name in ("mfma_32x32x4_bf16", "mfma_16x16x8_bf16"):
            expected *= 2
        assert i.cycles == pytest.approx(expected, rel=0.01), i.name


# what an older device had keeps its cycles, or has half the rate
OLD_SHAPES = {f"mfma_{s}_{t}" for s in ("32x32x8", "16x16x16") for t in ("f16", "bf16")}
OLD_SHAPES |= {"mfma_32x32x16_i8", "mfma_16x16x32_i8"}


def test_what_is_where() -> None:
    has = {name: {i.name for i in devices()[name].instrs} for name in ALL}
    assert has["sm_75"] < has["sm_80"] <= has["sm_86"] < has["sm_89"] == has["sm_120a"] < has["sm_90a"]
    for instr, there, not_there in (
        ("mma_m16n8k16_f16", "sm_80", "sm_75"),
        ("mma_m16n8k32_f8e4m3", "sm_89", "sm_86"),
        ("cvt_bf16", "sm_80", "sm_75"),
        ("max_f32", "sm_80", "sm_75"),
        ("cvt_f8e4m3", "sm_89", "sm_86"),
        ("cvt_tf32", "sm_90a", "sm_89"),
        ("mfma_32x32x8_i8", "gfx90a", "gfx942"),
        ("mfma_16x16x8_tf32", "gfx942", "gfx950"),
        ("mfma_16x16x32_f8e4m3", "gfx950", "gfx942"),  # the f8 of gfx942 is another one
    ):
        assert instr in has[there]
        assert instr not in has[not_there]
    assert devices()["gfx950"].limit("matrix tf32") is None
