"""Runs emitted CUDA text on the CPU, for tests: f32 kernels without instructions, against a small shim."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from andiron.codegen.abi import chosen, programs
from andiron.codegen.emit import emit
from andiron.codegen.emit.code import ELEMENTS, storage
from andiron.codegen.emit.cuda import kernels
from andiron.codegen.tile import Program

SHIM = Path(__file__).parent / "simt_shim.h"


def run(program: Program, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], folder: Path) -> dict[str, np.ndarray]:
    """Outputs by name. Raises AssertionError when threads wait for each other, or a workspace's end is overrun."""
    library = _built(program, folder)
    env = dict(sizes)
    for v, e in program.lets:
        env[v.name] = int(e.evaluate(env))
    memory: dict[str, np.ndarray] = {}
    for b in program.buffers:
        shape = [int(e.evaluate(env)) for e in b.shape]
        guard = np.full(int(np.prod(shape)) + 64, np.nan if b.dtype.kind == "float" else 77).astype(b.dtype.numpy)
        if b.kind == "input":
            guard[: int(np.prod(shape))] = arrays[b.name].reshape(-1)
        memory[b.name] = guard
    picked = chosen(program, env, {name: m.ctypes.data for name, m in memory.items()})
    for k in kernels(picked):
        pointers = (ctypes.c_void_p * len(k.buffers))(*(memory[b.name].ctypes.data for b in k.buffers))
        numbers = (ctypes.c_int64 * len(k.sizes))(*(env[v.name] for v in k.sizes))
        function = getattr(library, f"run_{k.name}")
        function.restype = ctypes.c_char_p
        fault = function(pointers, numbers, ctypes.c_int64(int(k.blocks.evaluate(env))))
        assert fault is None, fault
    out = {}
    for b in program.buffers:
        shape = [int(e.evaluate(env)) for e in b.shape]
        tail = memory[b.name][int(np.prod(shape)) :]
        assert (np.isnan(tail) if b.dtype.kind == "float" else tail == tail.dtype.type(77)).all(), (
            f"{b.name} is written beyond its end"
        )
        if b.kind == "output":
            out[b.name] = memory[b.name][: int(np.prod(shape))].reshape(shape)
    return out


def _built(program: Program, folder: Path) -> ctypes.CDLL:
    text = f'#define ANDIRON_DEVICE_ONLY\n#include "{SHIM}"\n' + emit(program, "cuda")
    for k in (k for p in programs(program) for k in kernels(p)):
        args = [f"({ELEMENTS[storage(b.dtype)]}*)call->p[{i}]" for i, b in enumerate(k.buffers)]
        args += [f"call->n[{i}]" for i in range(len(k.sizes))]
        text += (
            f"struct Call_{k.name} {{ void** p; const int64_t* n; }};\n"
            f'extern "C" const char* run_{k.name}(void** p, const int64_t* n, int64_t blocks) {{\n'
            f"    Call_{k.name} one = {{p, n}};\n"
            f"    auto body = [](void* x) {{ auto call = (Call_{k.name}*)x; {k.name}({', '.join(args)}); }};\n"
            f"    return run_grid(blocks, {k.threads}, body, &one);\n"
            f"}}\n"
        )
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(text, encoding="utf-8")
    flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-fwrapv", "-w", "-shared", "-fPIC"]
    subprocess.run([shutil.which("g++") or "g++", *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
