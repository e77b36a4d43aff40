"""The CUDA dialect."""

from __future__ import annotations

from .gpu_printer import Api, DialectSpelling, GpuPrinter

FLAGS = ("-std=c++17", "-fmad=false")
"""What the text needs of nvcc and NVRTC: contraction only where the program says fma."""

SPELLING = DialectSpelling(
    dialect="cuda",
    block="blockIdx.x",
    thread="threadIdx.x",
    barrier="__syncthreads()",
    lockstep="__syncwarp()",
    shuffle="__shfl_xor_sync({mask}, {x}, {d})",
    bounds="__launch_bounds__({name}, 1)",  # one block at least: nothing is spilled for the sake of a second
)
API = Api("cuda", "cudaStream_t", opt_in=48 << 10, build=f"nvcc {' '.join(FLAGS)} -arch=DEVICE -shared -Xcompiler -fPIC")


class Printer(GpuPrinter):
    spelling, api = SPELLING, API
