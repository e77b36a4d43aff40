"""The CUDA dialect."""

from __future__ import annotations

from ....dsl.index.expr import Expr
from ....dsl.source import Span
from ...ir.program import Program
from .gpu_printer import Api, DialectSpelling, kernels_of, line_spans_gpu, render_gpu
from .launch_geometry import KernelSource

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


def render(program: Program, serial_when: tuple[Expr, ...] = ()) -> str:
    return render_gpu(program, SPELLING, API)


def line_spans(program: Program) -> dict[int, Span]:
    return line_spans_gpu(program, SPELLING, API)


def kernels(program: Program) -> tuple[KernelSource, ...]:
    """The launches in order, for drivers that load the text without its launcher."""
    return kernels_of(program, SPELLING, API)
