"""nvdisasm, NVIDIA's disassembler: from a CUDA toolkit, or from the package index (`nvidia-cuda-nvdisasm`).

`cuobjdump` is not used: it starts nvdisasm itself, and a cubin needs no unpacking.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ...dsl.errors.target import CompilerFailed, NoDisassembler
from ..gpu.pip_tools import cuda_commands
from ..native.cxx_compiler import run_command

NAME = "nvdisasm"


def disassemble(cubin: bytes) -> str:
    """The instructions of a cubin, each with its bits in hexadecimal, and their lines of the text.

    Raises NoDisassembler, CompilerFailed.
    """
    command = find_nvdisasm()
    if command is None:
        raise NoDisassembler(
            f"no {NAME} on this machine",
            help=f"pip install 'andiron[cuda-tools]' brings one; or put {NAME} on PATH, or its path in ANDIRON_NVDISASM",
        )
    with TemporaryDirectory(prefix="andiron-") as folder:
        (Path(folder) / "kernel.cubin").write_bytes(cubin)
        return run_command([command, "-hex", "-c", "-gi", "kernel.cubin"], Path(folder), NAME)


def find_nvdisasm() -> str | None:
    """The first that answers: ANDIRON_NVDISASM, PATH, CUDA_HOME, CUDA_PATH, the usual folder, the package's."""
    return _find(*(os.environ.get(n, "") for n in ("ANDIRON_NVDISASM", "PATH", "CUDA_HOME", "CUDA_PATH")))


@lru_cache(maxsize=8)
def _find(chosen: str, path: str, *homes: str) -> str | None:
    for command in cuda_commands(NAME, chosen, path, homes):
        try:
            run_command([command, "--version"], Path.cwd(), command)
        except CompilerFailed:
            continue
        return command
    return None
