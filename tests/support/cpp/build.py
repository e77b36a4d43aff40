"""Builds emitted C++ with the compilers at hand and calls it with NumPy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from andiron.codegen.abi import FLAGS, arguments, symbol
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.program import Program
from andiron.codegen.targets import target_of
from andiron.runtime.native import cpu_features

from ..rotation import LONG

COMMANDS = {"gcc": ("g++",), "zig": (sys.executable, "-m", "ziglang", "c++", "-nostdlib++")}
COMPILERS = [name for name, found in [("gcc", shutil.which("g++")), ("zig", importlib.util.find_spec("ziglang"))] if found] or [
    pytest.param("none", marks=pytest.mark.skip(reason="no C++ compiler"))
]
# features beyond the baseline, in both compilers' spelling; only what this machine has is asked for
MACHINES = {"baseline": ("x86-64", "x86_64"), "avx2": ("x86-64-v3", "x86_64_v3"), "avx512": ("x86-64-v4", "x86_64_v4")}


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="andiron-cpp-"))


@cache
def machine_has(machine: str) -> bool:
    """Whether this machine runs code for one of MACHINES."""
    try:
        flags = set(next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("flags")).split())
    except (OSError, StopIteration):
        return machine == "baseline"
    return {"baseline": set(), "avx2": {"avx2", "fma", "f16c"}, "avx512": {"avx512f", "avx512bw", "avx512vl"}}[machine] <= flags


def run_here(*targets: str) -> list[str]:
    """Those of the CPUs whose instructions this machine has; all, where it has none of them, so that tests say so."""
    return [t for t in targets if not _lacking(t)] or list(targets)


def _lacking(target: str) -> tuple[str, ...]:
    return tuple(cpu_features.missing(target_of(target).machine))


def skip_unless_run_here(target: str) -> None:
    """Skips a test of a kernel for a target whose instructions this machine has not."""
    if lacking := _lacking(target):
        pytest.skip(f"this machine lacks {', '.join(lacking)}")


def build(text: str, name: str, compiler: str, machine: str) -> Any:
    function = getattr(library(text, compiler, machine), name)
    function.restype = ctypes.c_int
    return function


@cache
def library(text: str, compiler: str, machine: str) -> ctypes.CDLL:
    """Every fourth text is built as users do, the others with little optimisation; with `FUZZ=N` all as users do."""
    if not machine_has(machine):
        pytest.skip(f"this machine has no {machine}")
    stem = folder() / hashlib.sha256(f"{compiler} {machine}\n{text}".encode()).hexdigest()[:16]
    source, built = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    source.write_text(text)
    march = MACHINES[machine][compiler == "zig"]
    # -Og takes g++ half the time; it then thinks that some variables have no value.
    little = compiler == "gcc" and int(stem.name, 16) % 4 and not LONG
    command = [
        *COMMANDS[compiler],
        *(("-Og", *(x for x in FLAGS if x != "-O3"), "-Wno-maybe-uninitialized") if little else FLAGS),
        "-Wall",
        "-Werror",
        f"-march={march}",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(built),
    ]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return ctypes.CDLL(str(built))


def run(program: Program, inputs: dict, dims: dict, compiler: str = "gcc", machine: str = "avx2", threads: int = 1) -> dict:
    """The outputs of `program`. Outputs start as NaN (or -1), with guard elements around, which must survive."""
    arm = compiler == "arm"
    function: Any
    if arm:
        from .aarch64 import build_arm

        function = build_arm(emit(program), symbol(program))
    else:
        function = build(emit(program), symbol(program), compiler, machine)
    return call(function, program, inputs, dims, threads, arm)


def call(function: Any, program: Program, inputs: dict, dims: dict, threads: int = 1, arm: bool = False) -> dict:
    """The outputs of a built function, as `run` gives them."""
    env = dict(dims)
    for v, e in program.lets:
        env[v.name] = e.evaluate(env)
    arrays, guarded = [], {}
    for b in arguments(program):
        if b.kind == "input":
            arrays.append(np.ascontiguousarray(inputs[b.name], dtype=b.dtype.numpy))
            continue
        shape = [e.evaluate(env) for e in b.shape]
        count = int(np.prod(shape))
        whole = np.full((count + 32) * b.dtype.numpy.itemsize, 0xFF, np.uint8).view(b.dtype.numpy)
        guarded[b.name] = (whole, whole[16 : 16 + count].reshape(shape))
        arrays.append(guarded[b.name][1])
    sizes = [dims[v.name] for v in program.dims]
    if arm:
        assert (status := function(arrays, sizes, threads)) == 0, status
        return {name: array for name, (_, array) in guarded.items()}
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
    values = (ctypes.c_int64 * max(1, len(program.dims)))(*sizes)
    assert function(pointers, values, ctypes.c_int(threads)) == 0
    for whole, _ in guarded.values():
        edges = np.concatenate([whole[:16].view(np.uint8), whole[-16:].view(np.uint8)])
        assert (edges == 0xFF).all(), "written outside"
    return {name: array for name, (_, array) in guarded.items()}
