"""What turns emitted CUDA and HIP into code without a GPU, in tests: whatever the runtime finds, else the test is skipped."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from andiron.codegen.targets import FAMILIES, Target
from andiron.dsl.errors.target import NoCompiler
from andiron.runtime.gpu import nvcc, toolchains


@lru_cache(maxsize=30)
def toolchain(dialect: str, arch: str) -> toolchains.Toolchain | str:
    """The compiler, or why there is none."""
    try:
        return toolchains.find_toolchain(Target(f"{dialect}:{arch}", FAMILIES[dialect], arch, arch=arch))
    except NoCompiler as error:
        return f"{error.message} ({error.help})"


def needs(target: Target) -> None:
    """Skips the test where nothing makes code for the target."""
    found = toolchain(target.family.dialect, target.arch)
    if isinstance(found, str):
        pytest.skip(found)


def accepted(dialect: str, text: str, folder: Path, arch: str) -> toolchains.CompilerOutput:
    """What the compiler makes of a text. Fails on anything that it has to object to."""
    found = toolchain(dialect, arch)
    if isinstance(found, str):
        pytest.skip(found)
    made = found.make(text, arch, {"cuda": "ptx", "hip": "o"}[dialect], folder)
    assert not made.words, made.words
    return made


def cuda(text: str, folder: Path, arch: str = "sm_80") -> None:
    accepted("cuda", text, folder, arch)


def hip(text: str, folder: Path, arch: str = "gfx90a") -> None:
    accepted("hip", text, folder, arch)


def cuda_whole(text: str, folder: Path, arch: str = "sm_80") -> Path:
    """A shared library of the text with its launcher, which only nvcc builds."""
    found = nvcc.find_nvcc()
    if found is None:
        pytest.skip("no nvcc")
    source = folder / "kernel.cu"
    source.write_text(text, encoding="utf-8")
    found.link([source], arch, folder / "kernel.so")
    return folder / "kernel.so"
