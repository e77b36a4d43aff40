"""What turns emitted CUDA and HIP into code without a GPU: nvcc or NVRTC, and clang as `ziglang` from PyPI brings it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


def cuda(text: str, folder: Path, arch: str = "sm_80") -> None:
    """Fails on anything that the compiler says."""
    source = folder / "kernel.cu"
    source.write_text(text, encoding="utf-8")
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        said = _nvrtc(text, arch)
    else:
        flags = ["-std=c++17", "-fmad=false", f"-arch={arch}", "-ptx", "-o", str(folder / "kernel.ptx")]
        r = subprocess.run([nvcc, *flags, str(source)], capture_output=True, text=True)
        said = r.stdout + r.stderr + (f"exit {r.returncode}" if r.returncode else "")
    assert not said, said


def _nvrtc(text: str, arch: str) -> str:
    try:
        from cuda.bindings import nvrtc  # type: ignore[import-not-found]
    except ImportError:
        pytest.skip("neither nvcc nor NVRTC (PyPI: nvidia-cuda-nvrtc, cuda-bindings) is here")
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    flags = [b"-std=c++17", b"--fmad=false", b"-DANDIRON_DEVICE_ONLY", f"--gpu-architecture={arch}".encode()]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.decode().strip("\0 \n") + (f"error {error}" if int(error) else "")


def hip(text: str, folder: Path, arch: str = "gfx90a") -> None:
    """Fails on anything that the compiler says, with all common warnings."""
    if find_spec("ziglang") is None:
        pytest.skip("no clang for AMD GPUs (PyPI: ziglang) is here")
    source = folder / "kernel.hip"
    source.write_text(text, encoding="utf-8")
    clang = [sys.executable, "-m", "ziglang", "clang", "-cc1", "-triple", "amdgcn-amd-amdhsa"]
    flags = ["-aux-triple", "x86_64-unknown-linux-gnu", "-target-cpu", arch, "-fcuda-is-device", "-x", "hip", "-O2"]
    flags += ["-std=c++17", "-DANDIRON_DEVICE_ONLY", "-Wall", "-emit-obj", "-o", str(folder / "kernel.o")]
    r = subprocess.run([*clang, *flags, str(source)], capture_output=True, text=True)
    assert not r.stdout + r.stderr, r.stdout + r.stderr
    assert r.returncode == 0
