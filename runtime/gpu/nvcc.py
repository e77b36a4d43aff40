"""nvcc: from a CUDA toolkit, or from the package index (`nvidia-cuda-nvcc` and its dependencies)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...codegen.emit.gpu.cuda import FLAGS
from ...dsl.errors.target import CompilerFailed
from ..native.cxx_compiler import run_command
from .device_code import CompilerOutput
from .pip_tools import cuda_commands
from .ptxas import parse_ptxas

LINES = "-lineinfo"
"""Machine code knows the lines of its text, for profilers. ptxas makes the same code."""


@dataclass(frozen=True)
class Nvcc:
    """`version` is its release in one line."""

    command: str
    version: str

    def knows(self, arch: str) -> bool:
        return arch.rstrip("abcdefgh") in _known(self.command)

    def make(self, text: str, arch: str, form: str, folder: Path) -> CompilerOutput:
        """Raises CompilerFailed."""
        source, out = folder / "kernel.cu", folder / f"kernel.{form}"
        source.write_text(text, encoding="utf-8")
        flags = [*FLAGS, LINES, "-DANDIRON_DEVICE_ONLY", f"-arch={arch}", f"-{form}", "-Xptxas", "-v", "-o", out.name]
        usage, words = parse_ptxas(run_command([self.command, *flags, source.name], folder, self.version))
        return CompilerOutput(out.read_bytes(), usage, words)

    def link(self, sources: list[Path], arch: str, library: Path) -> None:
        """A shared library of texts with their launchers. Raises CompilerFailed."""
        flags = [*FLAGS, LINES, f"-arch={arch}", "-shared", "-Xcompiler", "-fPIC", "-o", str(library)]
        run_command([self.command, *flags, *map(str, sources)], library.parent, self.version)


def find_nvcc() -> Nvcc | None:
    """The first that answers: ANDIRON_NVCC, PATH, CUDA_HOME, CUDA_PATH, the usual folder, the package's."""
    return _find(*(os.environ.get(n, "") for n in ("ANDIRON_NVCC", "PATH", "CUDA_HOME", "CUDA_PATH")))


@lru_cache(maxsize=8)
def _find(asked: str, path: str, *homes: str) -> Nvcc | None:
    for command in cuda_commands("nvcc", asked, path, homes):
        try:
            said = run_command([command, "--version"], Path.cwd(), command)
        except CompilerFailed:
            continue
        release = re.search(r"release [\d.]+, (V[\d.]+)", said)
        return Nvcc(command, f"nvcc {release[1] if release else said.strip().splitlines()[-1]}")
    return None


@lru_cache(maxsize=8)
def _known(command: str) -> frozenset[str]:
    return frozenset(run_command([command, "--list-gpu-code"], Path.cwd(), command).split())
