"""Functions built on a device's own: their errors where the device errs as far as its text says, to one side or the other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from andiron.codegen.emit.c.c_expr import Helper
from andiron.codegen.emit.cpu.cpp_prelude import prelude
from andiron.codegen.ir.program import Program
from andiron.dsl.device import Device
from andiron.dsl.errors.device import BadFact
from andiron.dsl.module import loads

from ....support.gpu.library_instrs import devices

SIMT = (Path(__file__).parents[3] / "support" / "devices" / "simt.sched").read_text(encoding="utf-8")
STRIDE = 4099  # of the bits of arguments: a million of them
# in units in the last place; those of many more arguments are in docs/decisions/gpu-emission.md
WORST = {"exp": 4.1, "exp2": 3.5, "sigmoid": 7.5, "silu": 7.5, "gelu": 7.5, "tanh": 3, "erf": 2}

MAIN = """
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdint.h>
#define m_inline static inline __attribute__((always_inline, unused))
static double side;
static const uint32_t ends[7] = {0, 0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x7fc00000};
%s
static double true_exp(double x) { return exp(x); }
static double true_exp2(double x) { return exp2(x); }
static double true_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double true_silu(double x) { return x < -1000 ? -0.0 : x * true_sigmoid(x); }
static double true_gelu(double x) { return x < -1000 ? -0.0 : 0.5 * x * erfc(-x / sqrt(2.0)); }
static double true_tanh(double x) { return tanh(x); }
static double true_erf(double x) { return erf(x); }

template <class Got, class Wanted>
static void worst(const char* name, Got got, Wanted wanted, int stride) {
    double most = 0;
    float at = 0;
    for (int s = -1; s <= 1; s += 2) {
        side = s;
        for (uint64_t n = 0; n * stride < UINT64_C(1) << 32; n++) {
            const uint32_t bits = n < 7 ? ends[n] : (uint32_t)(n * stride);
            float x;
            __builtin_memcpy(&x, &bits, 4);
            const float y = got(x);
            const double z = wanted((double)x);
            const float rounded = (float)z;
            double error = 0;
            if (z != z || y != y) error = (z != z) == (y != y) ? 0 : 1e9;
            else if (y != rounded && std::isinf(y) != std::isinf(rounded)) error = 1e9;
            else if (y == 0 && rounded == 0 && std::signbit(y) != std::signbit(rounded)) error = 1e9;
            else if (y != rounded) error = fabs((double)y - z) / ldexp(1, (fabs(z) < 0x1p-126 ? -126 : ilogb(z)) - 23);
            if (error > most) most = error, at = x;
        }
    }
    printf("%%s %%.4f %%.9g\\n", name, most, at);
}

int main(int, char** argv) {
    const int stride = atoi(argv[1]);
%s
}
"""


def functions_of(device: Device, dialect: str, names: list[str]) -> str:
    program = Program("f", device, (), (), (), (), ())
    return prelude([Helper(f"m_{n}", "f32") for n in names], program, "", dialect)


def test_errors_of_what_is_built_on_a_device_function(tmp_path: Path) -> None:
    text = functions_of(devices()["sm_80"], "emulate", list(WORST))
    assert text.count("m_error_side(x)") == 2  # exp2, rcp
    assert text.count("m_quotient(") == 5  # four functions call it
    calls = [f'    worst("{n}", [](float x) {{ return m_{n}(x); }}, true_{n}, stride);' for n in WORST]
    source, program = tmp_path / "f.cpp", tmp_path / "f"
    source.write_text(MAIN % (text.replace("m_error_side(x)", "side"), "\n".join(calls)))
    subprocess.run(["g++", "-std=c++17", "-O2", "-ffp-contract=off", "-mfma", str(source), "-o", str(program)], check=True)
    out = subprocess.run([str(program), str(STRIDE)], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        name, error, at = line.split()
        assert 0 < float(error) <= WORST[name], (name, error, at)


def test_a_device_without_the_text_has_the_generic_body() -> None:
    device = loads(SIMT + OWN % "error 2 ulp").device("mine")
    assert "m_device_" not in functions_of(device, "cuda", ["exp"])
    assert "y[0] = fast(x[0]);" in functions_of(device, "hip", ["exp"])


def test_an_error_is_of_a_function_of_one_number() -> None:
    with pytest.raises(BadFact, match="is no function of f32"):
        loads((SIMT + OWN % "error 2 ulp").replace("exp2(X[])", "X[] + X[]")).device("mine")


OWN = """
device mine extends simt:
    instr fast on thread:
        op (X: f32[]) -> (Y: f32[]):
            Y[] = exp2(X[])
        X in register at ()
        Y in register at ()
        emit hip: "y[0] = fast(x[0]);"
        %s
"""
