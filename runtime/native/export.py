"""A kernel as a shared library or an archive with a C header, for programs in other languages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...codegen.abi import symbol
from ...codegen.emit.c_header import dispatch_function, header
from ...codegen.emit.printers import emit
from ...dsl.errors.target import CompilerFailed, NoCompiler
from ..kernel import Kernel
from ..op_counts import too_small_for_threads
from ..storage.cache import cache, key_of
from . import cpu_features
from .build_library import version
from .cxx_compiler import CxxCompiler, find_compiler, run_command


@dataclass(frozen=True)
class ExportedLibrary:
    """`data` of the library; `header` is its C header."""

    data: bytes
    header: str
    compiler: str
    cached: bool


def export_library(kernel: Kernel, form: str) -> ExportedLibrary:
    """All variants behind one function, as `lib`, a shared library, or `archive`, to be linked with `-lm -pthread`.

    Raises NoCompiler, CompilerFailed.
    """
    first = kernel.variants[0]
    texts = _texts(kernel)
    target = first.target
    if target.family.launcher == "driver":
        link, compiler, extra = _gpu_linker(kernel, form)
    else:
        link, compiler, extra = _cpu_linker(kernel, form)
    key = key_of("library", version(), form, target.name, target.arch, compiler, *extra, *texts)

    def make(folder: Path) -> dict[str, Any]:
        ending = {"cuda": "cu", "hip": "hip"}.get(target.family.dialect, "cpp")
        sources = [folder / f"text{i}.{ending}" for i in range(len(texts))]
        for path, text in zip(sources, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        link(sources, folder / "library")
        return {"what": f"{symbol(first.program)} for {target.name} as {form}", "compiler": compiler}

    entry, made = cache().get_or_make(key, make)
    shown = header(first.program, target.family.dialect, target.name, version())
    return ExportedLibrary((entry.path / "library").read_bytes(), shown, compiler, not made)


def _texts(kernel: Kernel) -> list[str]:
    """The variants' own, or where there are several the same under names apart, and what chooses among them."""
    variants, dialect = kernel.variants, kernel.variants[0].target.family.dialect
    if len(variants) == 1:
        return [variants[0].source]
    programs = [replace(v.program, name=f"{v.program.name}_{i}") for i, v in enumerate(variants)]
    small = (too_small_for_threads(kernel.op),)
    choice = dispatch_function(symbol(variants[0].program), [symbol(p) for p in programs], dialect)
    return [*(emit(p, dialect, small) for p in programs), choice]


Linker = Callable[[list[Path], Path], None]


def _cpu_linker(kernel: Kernel, form: str) -> tuple[Linker, str, tuple[Any, ...]]:
    compiler, target = find_compiler(), kernel.variants[0].target
    flags = cpu_features.flags_for(target.machine, compiler.kind)
    extra = (flags, *compiler.key, cpu_features.identity() if target.device is None else cpu_features.architecture())
    if form == "lib":

        def share(sources: list[Path], out: Path) -> None:
            compiler.run([*flags, "-o", str(out), *map(str, sources), "-lm"], out.parent)

        return share, str(compiler), extra
    archiver = _archiver(compiler)

    def collect(sources: list[Path], out: Path) -> None:
        objects = []
        for path in sources:
            objects.append(path.with_suffix(".o"))
            compiler.run([*(f for f in flags if f != "-shared"), "-c", "-o", str(objects[-1]), str(path)], out.parent)
        run_command([*archiver, "rcs", str(out), *map(str, objects)], out.parent, "ar")
        for path in objects:
            path.unlink()

    return collect, str(compiler), extra


def _archiver(compiler: CxxCompiler) -> tuple[str, ...]:
    if compiler.kind == "zig":
        return (compiler.command[0], "ar")
    found = shutil.which("ar")
    if found is None:
        raise NoCompiler("no `ar` on this machine, which makes archives", help="build a shared library instead: `--format lib`")
    return (found,)


def _gpu_linker(kernel: Kernel, form: str) -> tuple[Linker, str, tuple[Any, ...]]:
    from ..gpu.clang import find_clangs
    from ..gpu.nvcc import find_nvcc

    target = kernel.variants[0].target
    if form != "lib":
        raise CompilerFailed(f"no archive is made for {target.name}", help="`--format lib` makes a shared library")
    found: Any = (
        find_nvcc() if target.family.toolchain == "cuda" else next((c for c in find_clangs() if c.kind == "rocm"), None)
    )
    if found is None:
        tool = {"cuda": "nvcc of a CUDA toolkit", "hip": "hipcc of ROCm"}[target.family.toolchain]
        raise NoCompiler(
            f"a library that launches on {target.name} takes {tool}",
            help="device code alone needs less: `--format cubin`, `hsaco`",
        )
    return lambda sources, out: found.link(sources, target.arch, out), found.version, ()
