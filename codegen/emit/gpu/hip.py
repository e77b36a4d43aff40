"""The HIP dialect. Kernels use the compiler's builtins, so that they compile without ROCm's headers."""

from __future__ import annotations

from .gpu_printer import Api, DialectSpelling, GpuPrinter

FLAGS = ("-std=c++17", "-ffp-contract=off")
"""What the text needs of clang: contraction only where the program says fma."""

SPELLING = DialectSpelling(
    dialect="hip",
    block="__builtin_amdgcn_workgroup_id_x()",
    thread="__builtin_amdgcn_workitem_id_x()",
    barrier="m_barrier()",
    lockstep="m_wave_barrier()",
    shuffle="m_shuffle_xor({x}, {d})",
    bounds="__attribute__((amdgpu_flat_work_group_size(1, {name})))",
)
API = Api("hip", "hipStream_t", opt_in=64 << 10, build=f"hipcc {' '.join(FLAGS)} --offload-arch=DEVICE -shared -fPIC")


class Printer(GpuPrinter):
    spelling, api = SPELLING, API
