"""The texts of instructions that are told which terms count, run on the CPU: other terms add nothing, whatever they are."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from andiron.dsl.device import Device, Instr
from andiron.dsl.fragment import FragmentLayout

from ..support.gpu.instr_kernels import registers
from ..support.gpu.library_instrs import CDNA, NVIDIA, RDNA, devices, family, instructions

SHIM = Path(__file__).parents[1] / "support" / "gpu" / "simt_shim.h"
WARP = """
static uint32_t words[64];
template <class T> static T __shfl_sync(unsigned mask, T x, int lane) {
    words[threadIdx.x] = x; meet_lanes(mask); x = words[lane % 32]; meet_lanes(mask); return x;
}
static int __any_sync(unsigned mask, int x) {
    words[threadIdx.x] = x; meet_lanes(mask);
    int found = 0;
    for (int n = 0; n < 32; n++) found |= words[n] != 0;
    meet_lanes(mask); return found;
}
static uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t s) {
    uint64_t both = x | (uint64_t)y << 32; uint32_t r = 0;
    for (int i = 0; i < 4; i++) r |= (uint32_t)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return r;
}
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float widened(uint16_t x) {
    if (BRAIN) return __int_as_float(x << 16);
    const int e = x >> 10 & 31, m = x & 1023;
    float f = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);
    return x >> 15 ? -f : f;
}
static uint32_t of_a[64][4], of_b[64][4];
template <int X, int Y> static void product(float (&c)[4], uint32_t (&a)[X], const uint32_t (&b)[Y]) {
    memcpy(of_a[threadIdx.x], a, sizeof a), memcpy(of_b[threadIdx.x], b, sizeof b);
    meet_lanes(~0u);
    const int lane = threadIdx.x;
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 8 * Y; k++) {
            const int at = k % 8 / 2, column = 2 * (lane % 4) + r % 2;
            const uint32_t x = of_a[lane / 4 * 4 + at][r / 2 + k / 8 * 2], y = of_b[column * 4 + at][k / 8];
            c[r] += widened(x >> 16 * (k % 2)) * widened(y >> 16 * (k % 2));
        }
    meet_lanes(~0u);
}
"""
WAVE = """
#define __builtin_amdgcn_mbcnt_lo(mask, n) threadIdx.x
#define __builtin_amdgcn_mbcnt_hi(mask, n) threadIdx.x
#define __builtin_amdgcn_ds_bpermute(at, x) permuted(at, x)
#define __builtin_amdgcn_ballot_w64(x) ballot(x)
#define __builtin_amdgcn_ballot_w32(x) ballot(x)
static uint32_t permuted(int at, uint32_t x) {
    words[threadIdx.x] = x; __syncthreads(); x = words[at / 4]; __syncthreads(); return x;
}
static uint64_t ballot(bool x) {
    words[threadIdx.x] = x; __syncthreads();
    uint64_t found = 0;
    for (int n = 0; n < LANES; n++) found |= (uint64_t)words[n] << n;
    __syncthreads(); return found;
}
template <int W, int N> static void product(float (&c)[W], const uint32_t (&a)[N], uint32_t (&b)[N]) {
    memcpy(of_a[threadIdx.x], a, sizeof a), memcpy(of_b[threadIdx.x], b, sizeof b);
    __syncthreads();
    const int m = W == 16 ? 32 : 16, lane = threadIdx.x;
    for (int r = 0; r < W; r++)
        for (int k = 0; k < 128 * N / m; k++) {
            const int there = k / (2 * N) * m, half = k % 2 * 16, w = k % (2 * N) / 2;
            const int row = 8 * (r / 4) + 4 * (lane / m) + r % 4;
            const uint32_t x = of_a[row + there][w], y = of_b[lane % m + there][w];
            c[r] += widened(x >> half) * widened(y >> half);
        }
    __syncthreads();
}
static float of_single[2][64];
template <int W> static void product(float (&c)[W], const float (&a)[1], float b) {
    of_single[0][threadIdx.x] = a[0], of_single[1][threadIdx.x] = b;
    __syncthreads();
    const int m = W == 16 ? 32 : 16, lane = threadIdx.x;
    for (int r = 0; r < W; r++)
        for (int k = 0; k < 64 / m; k++)
            c[r] += of_single[0][8 * (r / 4) + 4 * (lane / m) + r % 4 + k * m] * of_single[1][lane % m + k * m];
    __syncthreads();
}
template <int W> static void product(float (&c)[W], const uint32_t (&a)[1], uint32_t b) {
    of_a[threadIdx.x][0] = a[0], of_b[threadIdx.x][0] = b;
    __syncthreads();
    const int m = W == 16 ? 32 : 16, lane = threadIdx.x;
    for (int r = 0; r < W; r++)
        for (int k = 0; k < 128 / m; k++) {
            const uint32_t x = of_a[8 * (r / 4) + 4 * (lane / m) + r % 4 + k / 2 * m][0], y = of_b[lane % m + k / 2 * m][0];
            c[r] += widened(x >> k % 2 * 16) * widened(y >> k % 2 * 16);
        }
    __syncthreads();
}
static uint32_t of_wave[2][32][8];
template <int N> static void product(float (&c)[8], const uint32_t (&a)[N], uint32_t (&b)[N]) {
    memcpy(of_wave[0][threadIdx.x], a, sizeof a), memcpy(of_wave[1][threadIdx.x], b, sizeof b);
    __syncthreads();
    const int lane = threadIdx.x;
    for (int r = 0; r < 8; r++)
        for (int k = 0; k < 16; k++) {  // of 8 words a lane has all terms, of 4 one of two halves
            const int half = N == 8 ? 0 : k / 8 * 16, w = N == 8 ? k / 2 : k % 8 / 2;
            const int row = N == 8 ? 2 * r + lane / 16 : 8 * (lane / 16) + r;
            const uint32_t x = of_wave[0][row + half][w], y = of_wave[1][lane % 16 + half][w];
            c[r] += widened(x >> 16 * (k % 2)) * widened(y >> 16 * (k % 2));
        }
    __syncthreads();
}
"""


def library(device: Device, instr: Instr, folder: Path) -> ctypes.CDLL:
    ((dialect, text),) = instr.emits
    if dialect == "cuda":
        text, products = re.subn(r'asm volatile\("mma\..*?\);\n', "product(c, z, b);\n", text, flags=re.DOTALL)
        text, widened = re.subn(r'asm\("[^"]*" : "=f"\((\w\[i\])\) : "\w"\((\w)\)\);', r"\1 = widened(\2);", text)
        assert (products, widened) == (1, 2)
    else:
        text = re.sub(r"typedef .*;\n", "", text)
        product = r"(?:\w+ x\[\d\], y\[\d\];.*?)?f32x\d+ v = .*?sizeof v\);"
        text, products = re.subn(product, "product(c, a, z);", text, flags=re.DOTALL)
        text, widened = re.subn(r"return __builtin_bit_cast.*?; }", "return widened(x); }", text)
        assert (products, widened) == (1, int(instr.operands[0].dtype.name != "f32"))
    lanes = device.levels[-1].width
    params, cells = [], []
    for n, o in enumerate(instr.operands):
        found = registers(device, o)
        assert found is not None
        kind, count = found
        params.append(f"{'const ' if o.role == 'input' else ''}{kind} (&{o.name.lower()})[{count}]")
        cells.append(f"(({kind} (*)[{count}])p[{n}])[threadIdx.x]")
    brain = instr.operands[0].dtype.name == "bf16"
    source = (
        f'#include "{SHIM}"\n#define BRAIN {int(brain)}\n{WARP}{WAVE}\nstatic void run({", ".join(params)}) {{\n{text}\n}}\n'
    )
    source += 'extern "C" const char* call(void** p) { return run_grid(1, LANES, [](void* x) { auto p = (void**)x; '
    source += f"run({', '.join(cells)}); }}, p); }}\n"
    source = f"#define LANES {lanes}\n{source}"
    (folder / "i.cpp").write_text(source, encoding="utf-8")
    command = ["g++", "-O1", "-std=c++17", "-w", "-shared", "-fPIC", str(folder / "i.cpp"), "-o", str(folder / "i.so")]
    subprocess.run(command, check=True)
    found = ctypes.CDLL(str(folder / "i.so"))
    found.call.restype = ctypes.c_char_p
    return found


@pytest.mark.parametrize("title", family("mma_where", "mfma_where", "wmma_where"))
def test_text(title: str, tmp_path: Path) -> None:
    device, instr = instructions()[title]
    run, rng = library(device, instr, tmp_path), np.random.default_rng(3)
    for case in range(6):
        values: dict[str, np.ndarray] = {}
        for o in instr.operands:
            x = rng.integers(-4, 5, o.shape).astype(np.float32).astype(o.dtype.numpy)
            values[o.name] = rng.random(o.shape) < 0.6 if o.dtype.kind == "bool" else x
        assert instr.condition is not None
        told = instr.condition.tensor
        seen, of_rows = values[told], told == "M"  # it says of A which terms count, or of B
        if case:  # without, the product is one by the matrix instruction
            a, b = (values["A"], values["B"]) if of_rows else (values["B"], values["A"])
            for n in range(case):
                b[rng.integers(b.shape[0]), rng.integers(b.shape[1])] = (np.nan, np.inf, -np.inf)[n % 3]
            if case > 3:
                a[~seen] = np.nan
        with np.errstate(invalid="ignore"):
            terms = values["A"].astype(float)[:, :, None] * values["B"].astype(float)[None]
            counts = seen[:, :, None] if of_rows else seen[None]
            want = values["C"] + np.where(counts, terms, 0).sum(axis=1)
        assert np.isfinite(want).any()
        arrays = []
        for o in instr.operands:
            at = FragmentLayout.of(o).table()
            fragment = values[o.name][at[..., 0], at[..., 1]]
            held = np.ascontiguousarray(fragment).view(np.uint8).reshape(len(at), -1)
            arrays.append(np.pad(held, ((0, 0), (0, -held.shape[1] % 4))).copy())  # whole words of a lane
        fault = run.call((ctypes.c_void_p * 4)(*(x.ctypes.data for x in arrays)))
        assert fault is None, fault
        got, at = (
            arrays[-1].view(np.float32).reshape(device.levels[-1].width or 1, -1),
            FragmentLayout.of(instr.operands[-1]).table(),
        )
        np.testing.assert_array_equal(got, want[at[..., 0], at[..., 1]])


def test_products_of_f32_have_them() -> None:
    for name in CDNA:
        some = [i for i in devices()[name].instrs if i.family == "mfma" and i.operands[0].dtype.name == "f32"]
        assert [i.restricted.name for i in some if i.restricted] == ["mfma_where_32x32x2_f32", "mfma_where_16x16x4_f32"]
        assert all(i.restricted is not None and i.restricted.restricts(i) for i in some)


def test_every_device_with_products_of_halves_has_them() -> None:
    for name in (*NVIDIA, *CDNA, *RDNA):
        for i in devices()[name].instrs:
            if i.family in ("mma", "mfma", "wmma") and i.operands[0].dtype.bits == 16 and i.operands[2].dtype.name == "f32":
                assert i.restricted is not None, i.name
                assert i.restricted.restricts(i)
                assert not i.restricts(i.restricted)
