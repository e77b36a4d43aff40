"""Compilers of HIP text: ROCm's, the clang in the package `ziglang`, a clang of the system.

ROCm's comes first if it is installed: only it has the vendor's library of functions (`__ocml_sin_f64`, ...), and the library
for launches. The others need no ROCm, and text that calls none of those functions needs neither.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...codegen.emit.gpu.hip import FLAGS
from ...dsl.errors.target import CompilerFailed
from ..native.cxx_compiler import run_command
from ..storage.cache import cache
from .amdgpu_remarks import FLAG, parse_remarks
from .device_code import CompilerOutput
from .pip_tools import package_folders

_NEWEST, _OLDEST = 25, 17  # of the system's clangs that are looked for by number

# The compiler proper of clang's, without the driver: zig's driver knows other machines only.
_FRONT = ("clang", "-cc1", "-triple", "amdgcn-amd-amdhsa", "-aux-triple", "x86_64-unknown-linux-gnu", "-fcuda-is-device")
_DRIVER = ("--cuda-device-only", "--no-gpu-bundle-output")

# Machine code knows the lines of its text, for profilers. The compiler makes the same code.
_LINES = "line-tables-only"


@dataclass(frozen=True)
class Clang:
    """`kind`: rocm, zig or clang; `version` is its own words in one line."""

    command: str
    kind: str
    version: str

    def knows(self, arch: str) -> bool:
        return arch in _known(self.command, self.kind)

    def make(self, text: str, arch: str, form: str, folder: Path) -> CompilerOutput:
        """A code object, or for `o` what there is before linking, in which functions may be missing. Raises CompilerFailed."""
        source, out = folder / "kernel.hip", folder / f"kernel.{form}"
        source.write_text(text, encoding="utf-8")
        flags = [*self._flags(arch), FLAG]
        if self.kind == "zig":
            said = self._run([*flags, "-emit-obj", source.name, "-o", "kernel.o"], folder)
            if form != "o":
                said += self._run(["ld.lld", "-shared", "--no-undefined", "kernel.o", "-o", out.name], folder)
                (folder / "kernel.o").unlink()
        else:
            said = self._run([*flags, source.name, "-o", out.name], folder)
        usage, words = parse_remarks(said)
        return CompilerOutput(out.read_bytes(), usage, words)

    def assembly(self, text: str, arch: str, folder: Path) -> str:
        """The assembly of the same code. Raises CompilerFailed."""
        (folder / "kernel.hip").write_text(text, encoding="utf-8")
        self._run([*self._flags(arch), "-S", "kernel.hip", "-o", "kernel.s"], folder)
        return (folder / "kernel.s").read_text(encoding="utf-8")

    def _flags(self, arch: str) -> list[str]:
        """Of a compilation for the GPU alone."""
        flags = ["-x", "hip", "-O3", *FLAGS, "-DANDIRON_DEVICE_ONLY", "-Wall", "-fno-caret-diagnostics"]
        if self.kind == "zig":
            return [
                *_FRONT,
                "-target-cpu",
                arch,
                "-mrelocation-model",
                "pic",
                "-pic-level",
                "1",
                f"-debug-info-kind={_LINES}",
                *flags,
            ]
        alone = () if self.kind == "rocm" else ("-nogpuinc", "-nogpulib")
        return [*_DRIVER, *alone, f"--offload-arch={arch}", f"-g{_LINES}", *flags]

    def link(self, sources: list[Path], arch: str, library: Path) -> None:
        """A shared library of texts with their launchers. Raises CompilerFailed."""
        if self.kind != "rocm":
            raise CompilerFailed(f"{self.version} has no library that launches: this takes hipcc of ROCm")
        flags = ["-x", "hip", "-O3", *FLAGS, f"--offload-arch={arch}", "-shared", "-fPIC", "-o", str(library)]
        self._run([*flags, *map(str, sources)], library.parent)

    def _run(self, args: list[str], folder: Path) -> str:
        env = dict(os.environ)
        if self.kind == "zig":
            env.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache().folder("zig")))
            env.setdefault("ZIG_LOCAL_CACHE_DIR", str(cache().folder("zig")))
        try:
            return run_command([self.command, *args], folder, self.version, env)
        except CompilerFailed as error:
            lacking = sorted(set(re.findall(r"undefined (?:hidden )?symbol: (__\w+)", error.message)))
            if not lacking:
                raise
            raise CompilerFailed(
                f"{self.version} has no {', '.join(lacking)}: ROCm's library of functions has",
                help="use ROCm's compiler (hipcc on PATH, or ROCM_PATH)",
            ) from None


def find_clangs() -> tuple[Clang, ...]:
    """All that answer, best first: ANDIRON_HIPCC alone if it is set, ROCm's, zig's, the system's newest."""
    return _find(*(os.environ.get(n, "") for n in ("ANDIRON_HIPCC", "PATH", "ROCM_PATH", "HIP_PATH")))


@lru_cache(maxsize=8)
def _find(asked: str, path: str, *homes: str) -> tuple[Clang, ...]:
    found = []
    for command, kind in _candidates(asked, path, homes):
        try:
            said = run_command([command, *(["clang"] if kind == "zig" else []), "--version"], Path.cwd(), command)
        except CompilerFailed:
            continue
        first = re.search(r"^.*clang version.*$", said, re.MULTILINE)
        version = first[0].strip() if first else said.strip().splitlines()[0]
        found.append(Clang(command, kind, f"{kind}, {version}"))
    return tuple(found)


def _candidates(asked: str, path: str, homes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if asked:
        yield asked, "rocm" if "hipcc" in Path(asked).name else "clang"
        return
    for folder in [path, *(str(Path(h) / "bin") for h in [*homes, "/opt/rocm"] if h)]:
        if found := shutil.which("hipcc", path=folder or None):
            yield found, "rocm"
            break
    for folder in package_folders("ziglang"):
        yield str(folder / ("zig.exe" if sys.platform == "win32" else "zig")), "zig"
    for name in [*(f"clang-{n}" for n in range(_NEWEST, _OLDEST - 1, -1)), "clang"]:
        if found := shutil.which(name, path=path or None):
            yield found, "clang"
            return


@lru_cache(maxsize=8)
def _known(command: str, kind: str) -> frozenset[str]:
    args = [*(["clang"] if kind == "zig" else []), "--target=amdgcn-amd-amdhsa", "--print-supported-cpus"]
    try:
        return frozenset(run_command([command, *args], Path.cwd(), command).split())
    except CompilerFailed:
        return frozenset()
