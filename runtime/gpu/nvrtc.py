"""NVRTC, NVIDIA's compiler as a library: no driver, no headers, and no process to start.

It is found in the package `nvidia-cuda-nvrtc` (on which PyTorch depends, too), else in a CUDA toolkit. Its C interface is
called directly; see NVIDIA's "NVRTC" documentation.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...codegen.emit.gpu.cuda import FLAGS
from ...dsl.errors.target import CompilerFailed
from .device_code import CompilerOutput
from .nvcc import LINES
from .pip_tools import nvidia_folders
from .ptxas import parse_ptxas

_COMPILATION = 6  # NVRTC_ERROR_COMPILATION: it read the text, and did not accept it


@dataclass(frozen=True)
class Nvrtc:
    """`version` is its release, and the size of its file: builds of one release differ."""

    library: ctypes.CDLL
    version: str

    def knows(self, arch: str) -> bool:
        number = re.fullmatch(r"sm_(\d+)[a-z]?", arch)
        return number is not None and int(number[1]) in _known(self.library)

    def make(self, text: str, arch: str, form: str, folder: Path) -> CompilerOutput:
        """Raises CompilerFailed. `folder` is not used."""
        lib, program = self.library, ctypes.c_void_p()
        self._check(lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None), "")
        try:
            flags = [*FLAGS, LINES, "-DANDIRON_DEVICE_ONLY", f"--gpu-architecture={arch}", "--ptxas-options=-v"]
            words = (ctypes.c_char_p * len(flags))(*(f.encode() for f in flags))
            status = lib.nvrtcCompileProgram(program, len(flags), words)
            log = self._bytes("ProgramLog", program).decode(errors="replace")
            self._check(status, log)
            usage, left = parse_ptxas(log)
            return CompilerOutput(self._bytes({"cubin": "CUBIN", "ptx": "PTX"}[form], program), usage, left)
        finally:
            lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), "")
        data = ctypes.create_string_buffer(size.value)
        self._check(getattr(self.library, f"nvrtcGet{what}")(program, data), "")
        return data.raw.rstrip(b"\0") if what != "CUBIN" else data.raw

    def _check(self, status: int, log: str) -> None:
        if status == 0:
            return
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        said = self.library.nvrtcGetErrorString(status).decode()
        lines = [x for x in log.replace("\0", "").splitlines() if x.strip()]
        error = "error: " if status == _COMPILATION else ""
        raise CompilerFailed(f"{self.version} failed ({error}{said}):" + "".join(f"\n  {x}" for x in lines[:20]))


def find_nvrtc() -> Nvrtc | None:
    """The first that can be loaded; None where there is none."""
    return _find(*(os.environ.get(n, "") for n in ("CUDA_HOME", "CUDA_PATH")))


@lru_cache(maxsize=4)
def _find(*homes: str) -> Nvrtc | None:
    for path in _candidates(homes):
        with suppress(OSError):
            # The library looks for this one by its name alone, and finds it when it is there already.
            for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins))
            library = ctypes.CDLL(str(path))
            major, minor = ctypes.c_int(), ctypes.c_int()
            if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
                return Nvrtc(library, f"NVRTC {major.value}.{minor.value} ({path.stat().st_size} B)")
    return None


def _candidates(homes: tuple[str, ...]) -> Iterator[Path]:
    folders = [*nvidia_folders(), *(Path(h) for h in homes if h), Path("/usr/local/cuda")]
    for folder in folders:
        for lib in ("lib", "lib64"):
            yield from sorted((folder / lib).glob("libnvrtc.so.[0-9]*"), key=lambda p: len(p.name))[:1]


@lru_cache(maxsize=4)
def _known(library: ctypes.CDLL) -> frozenset[int]:
    count = ctypes.c_int()
    if library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) != 0:
        return frozenset()
    numbers = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(numbers)
    return frozenset(numbers)
