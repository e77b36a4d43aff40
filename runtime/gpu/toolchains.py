"""The compiler for a dialect and a device, and compilation through the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from ...codegen.targets import Target
from ...dsl.errors import InternalError
from ...dsl.errors.target import CompilerFailed, NoCompiler
from ..native.build_library import version
from ..storage.cache import cache, key_of
from .clang import find_clangs
from .device_code import FORMATS, CompilerOutput, DeviceCode, KernelUsage
from .nvcc import find_nvcc
from .nvrtc import find_nvrtc


class Toolchain(Protocol):
    """A compiler of device code. `version` says which, in one line; it is part of the keys of what it makes."""

    @property
    def version(self) -> str: ...

    def knows(self, arch: str) -> bool:
        """Whether it makes code for a device of this name."""
        ...

    def make(self, text: str, arch: str, form: str, folder: Path) -> CompilerOutput:
        """Raises CompilerFailed."""
        ...


def _cuda() -> Iterator[Toolchain]:
    """NVRTC first: it starts no process. A compiler that the user names is the only one."""
    finders = (find_nvcc,) if os.environ.get("ANDIRON_NVCC") else (find_nvrtc, find_nvcc)
    for finder in finders:
        if (found := finder()) is not None:
            yield found


# For each toolchain of a target's family: those that there are, the one to use first, and how to get one.
_FINDERS: dict[str, tuple[Callable[[], Iterator[Toolchain]], str]] = {
    "cuda": (_cuda, "pip install 'andiron[cuda-tools]' brings one; or put nvcc on PATH"),
    "hip": (lambda: iter(find_clangs()), "pip install 'andiron[hip]' brings one; or put hipcc on PATH"),
}


def find_toolchain(target: Target) -> Toolchain:
    """The compiler to use for a target. Raises NoCompiler."""
    finder, way_out = _FINDERS[target.family.toolchain]
    if not target.arch:
        raise NoCompiler(
            f"compilers know no device `{target.device}`: it extends none of the library's",
            help="let it extend the nearest one",
        )
    others = []
    for found in finder():
        if found.knows(target.arch):
            return found
        others.append(found.version)
    if others:
        raise NoCompiler(f"no compiler here knows {target.arch}: {'; '.join(others)}", help=way_out)
    raise NoCompiler(f"no compiler for {target.name} on this machine", help=way_out)


def toolchain_versions(family: str) -> list[str]:
    """Of a family's toolchains on this machine, in the order in which they are asked."""
    return [found.version for found in _FINDERS[family][0]()]


def build_code(text: str, target: Target, form: str | None = None, what: str = "kernel") -> DeviceCode:
    """The code of an emitted text, from the cache when it is there.

    `form`: one of `FORMATS` of the dialect, the first by default. Raises NoCompiler, CompilerFailed; InternalError when the
    text is at fault.
    """
    form = form or FORMATS[target.family.dialect][0]
    toolchain = find_toolchain(target)
    key = key_of("code", version(), text, target.arch, target.family.dialect, form, toolchain.version)

    def make(folder: Path) -> dict[str, Any]:
        try:
            made = toolchain.make(text, target.arch, form, folder)
        except CompilerFailed as error:
            if "error:" in error.message:  # it read the text, and did not accept it
                raise InternalError(
                    f"the emitted text of {what} is not good {target.family.dialect}. {error.message}"
                ) from None
            raise
        (folder / "code").write_bytes(made.data)
        said = {"usage": [asdict(u) for u in made.usage], "words": made.words}
        return {"what": f"{what} for {target.name} as {form}", "compiler": toolchain.version, **said}

    for again in (True, False):
        entry, fresh = cache().get_or_make(key, make)
        try:
            data = (entry.path / "code").read_bytes()
        except OSError:  # another process removed it, to keep the cache in its bounds
            if not again:
                raise
            continue
        usage = tuple(KernelUsage(**u) for u in entry.info["usage"])
        return DeviceCode(data, usage, entry.info["words"], form, toolchain.version, not fresh)
    raise AssertionError
