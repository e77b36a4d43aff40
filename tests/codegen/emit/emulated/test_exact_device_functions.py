"""Conversions, max and min that a device has an instruction for: exact, in its texts, and none that a schedule names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from andiron.codegen.emit.c.c_expr import Helper
from andiron.codegen.emit.cpu.cpp_prelude import prelude
from andiron.codegen.ir.program import Program
from andiron.dsl.device import Device
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.gpu.library_instrs import devices

SIMT = (Path(__file__).parents[3] / "support" / "devices" / "simt.sched").read_text(encoding="utf-8")
OWN = """
device mine extends simt:
    instr narrow on thread:
        op (X: f32[]) -> (Y: {0}[]):
            Y[] = {1}
        X in register at ()
        Y in register at ()
        emit cuda: "y[0] = narrow(x[0]);"
"""
OPS = """
op narrow[N](X: f32[N]) -> (Y: {0}[N]):
    Y[i] = {0}(X[i])
op rounded[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = f32({0}(X[i]))
"""
EXTREMES = """
op top[N](X: f32[N]) -> (Y: f32[]):
    Y = max(i) X[i]
op less[N](X: f32[N], Z: f32[N]) -> (Y: f32[N]):
    Y[i] = min(X[i], Z[i])
"""


def converting(device: Device, dialect: str, dtype: str) -> str:
    name = "f32_to_tf32" if dtype == "tf32" else f"{dtype}_from_f32"
    return prelude([Helper(name, dtype)], Program("f", device, (), (), (), (), ()), "", dialect)


def dialect_of(device: str) -> str:
    return "hip" if device.startswith("gfx") else "cuda"


@pytest.mark.parametrize(
    ("dtype", "device", "said"),
    [
        ("bf16", "sm_80", "cvt.rn.bf16.f32"),
        ("bf16", "sm_90a", "cvt.rn.bf16.f32"),
        ("f8e4m3", "sm_89", "cvt.rn.satfinite.e4m3x2.f32"),
        ("f8e5m2", "sm_120a", "cvt.rn.satfinite.e5m2x2.f32"),
        ("tf32", "sm_90a", "cvt.rn.tf32.f32"),
        ("bf16", "gfx950", "(__bf16)x[0]"),
    ],
)
def test_a_device_converts_by_its_instruction(dtype: str, device: str, said: str) -> None:
    found = devices()[device]
    assert said in converting(found, dialect_of(device), dtype)
    assert "rounded" in converting(found, "emulate", dtype) or "denormal" in converting(found, "emulate", dtype)


@pytest.mark.parametrize(("dtype", "device"), [("bf16", "sm_75"), ("f8e4m3", "sm_86"), ("tf32", "sm_80"), ("bf16", "gfx942")])
def test_a_device_without_one_has_the_generic_text(dtype: str, device: str) -> None:
    text = converting(devices()[device], dialect_of(device), dtype)
    assert "cvt" not in text
    assert "(__bf16)" not in text


def test_a_device_of_your_own() -> None:
    device = loads(SIMT + OWN.format("bf16", "bf16(X[])")).device("mine")
    assert device.instrs[-1].conversion == "bf16"
    assert "y[0] = narrow(x[0]);" in converting(device, "cuda", "bf16")
    assert "narrow" not in converting(device, "hip", "bf16")
    assert "narrow" not in converting(device, "cuda", "f8e4m3")
    for dtype, value in (("f32", "exp2(X[])"), ("bf16", "bf16(X[] + X[])"), ("f32", "f32(bf16(X[]))")):
        other = loads(SIMT + OWN.format(dtype, value)).device("mine")
        assert other.instrs[-1].conversion is None, value


@pytest.mark.parametrize(
    ("kind", "device", "said"),
    [
        ("max", "sm_80", "max.NaN.f32"),
        ("min", "sm_90a", "min.NaN.f32"),
        ("max", "gfx950", "v_maximum3_f32"),
        ("min", "gfx1201", "v_minimum_f32"),
        ("max", "sm_75", None),
        ("min", "gfx942", None),
    ],
)
def test_extremes_that_propagate_nan(kind: str, device: str, said: str | None) -> None:
    program, dialect = Program("f", devices()[device], (), (), (), (), ()), dialect_of(device)
    text = prelude([Helper(f"m_{kind}", "f32")], program, "", dialect)
    assert ("asm(" in text) == (said is not None)
    assert said is None or said in text
    assert "asm(" not in prelude([Helper(f"m_{kind}", "i32"), Helper(f"m_{kind}", "f64")], program, "", dialect)
    assert "asm(" not in prelude([Helper(f"m_{kind}", "f32")], program, "", "emulate")


@pytest.mark.parametrize("n", [0, 1, 5, 301])
def test_emulated_extremes(n: int) -> None:
    module = loads(EXTREMES)
    rng = np.random.default_rng(n)
    x, z = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    for last in (1.0, np.inf, np.nan):
        x[n // 2 : n // 2 + 1] = last
        with np.errstate(invalid="ignore"):
            found = compile(module, "top", "auto", "emulate:sm_80")(x), compile(module, "less", "auto", "emulate:sm_80")(x, z)
            np.testing.assert_array_equal(np.asarray(found[0]), np.max(x, initial=-np.inf))
            np.testing.assert_array_equal(np.asarray(found[1]), np.minimum(x, z))


def test_no_schedule_names_one() -> None:
    module = loads(
        OPS.format("bf16") + "import std.devices.nvidia\nschedule s for narrow on sm_80:\n    tile i: 32 -> block\n"
        "    tile i: 1 -> thread\n    compute with cvt_bf16\n"
    )
    with pytest.raises(UserError, match="whatever can use it does"):
        compile(module, "narrow", "s", "cuda:sm_80", sizes={"N": 64})


@pytest.mark.parametrize(("dtype", "device"), [("bf16", "sm_80"), ("f8e4m3", "sm_89"), ("f8e5m2", "sm_89"), ("tf32", "sm_90a")])
@pytest.mark.parametrize("n", [0, 1, 7, 1001])
def test_emulated_texts_round_as_the_reference_does(dtype: str, device: str, n: int) -> None:
    module = loads(OPS.format(dtype))
    x = np.random.default_rng(n).integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.where(np.isnan(x), np.float32(1), x)
    x[: n // 7] = np.resize(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 448, 464, 65504, 3e38], np.float32), n // 7)
    op = module.ops["rounded"]
    found = np.asarray(compile(module, "rounded", "auto", f"emulate:{device}")(x))
    np.testing.assert_array_equal(found, np.asarray(reference(op)(x)))
