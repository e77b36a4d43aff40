"""From emitted text to a function to call: built through the cache, loaded with ctypes."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...codegen.emit.cpu.thread_team import LINKED, thread_team
from ...codegen.targets import Target
from ...dsl.errors import InternalError
from ...dsl.errors.target import CompilerFailed
from ..storage.cache import CacheEntry, cache, key_of
from . import cpu_features
from .cxx_compiler import SUFFIX, CxxCompiler, find_compiler

_TEAM_FLAGS = ("-O2", "-fPIC", "-pthread")


@dataclass(frozen=True)
class NativeLibrary:
    """A loaded kernel: `call(args, dims, threads)` as in `codegen.abi`; the compiler used; whether the cache had it."""

    call: Callable[..., int]
    compiler: str
    path: Path
    cached: bool


def version() -> str:
    """Andiron's version, part of every key."""
    return __version__


def build(source: str, symbol: str, target: Target, schedule: str = "") -> NativeLibrary:
    """The function `symbol` of the emitted text. Raises NoCompiler, CompilerFailed; InternalError when the text is at fault."""
    compiler = find_compiler()
    flags = cpu_features.flags_for(target.machine, compiler.kind)
    machine = cpu_features.identity() if target.device is None else cpu_features.architecture()
    key = key_of("kernel", version(), source, schedule, target.name, flags, machine, *compiler.key)
    team = None if cache().get(key) else _thread_team(compiler)  # before: entries are made one inside another by nobody

    def make(folder: Path) -> dict[str, Any]:
        text, library = folder / "kernel.cpp", folder / f"kernel{SUFFIX}"
        text.write_text(source, encoding="utf-8")
        try:
            _compile(compiler, text, library, flags, team)
        except CompilerFailed as error:
            if f"{text.name}:" in error.message and "error:" in error.message:  # it read the text, and did not accept it
                raise InternalError(f"the emitted text of {symbol} is not good C++. {error.message}") from None
            raise
        return {"what": f"{symbol} for {target.name}", "compiler": str(compiler), "flags": list(flags)}

    entry, made = cache().get_or_make(key, make)
    try:
        function = _load(entry, symbol)
    except OSError:
        # Another process may have removed it between the check and the load, to keep the cache in its bounds.
        shutil.rmtree(entry.path, ignore_errors=True)
        entry, made = cache().get_or_make(key, make)
        try:
            function = _load(entry, symbol)
        except OSError as error:
            raise CompilerFailed(f"the compiled kernel cannot be loaded: {error}") from None
    return NativeLibrary(function, str(compiler), entry.path / f"kernel{SUFFIX}", not made)


def _compile(compiler: CxxCompiler, text: Path, library: Path, flags: tuple[str, ...], team: Path | None) -> None:
    """Links `team`, the threads that all kernels have: to compile them anew takes as long as a small kernel. Without it, or if
    another process has removed it to keep the cache in its bounds, they are compiled from the text. Raises CompilerFailed."""
    try:
        compiler.build(text, library, (*flags, f"-D{LINKED}", os.fspath(team)) if team else flags)
    except CompilerFailed:
        if team is None or team.exists():
            raise
        compiler.build(text, library, flags)


def _thread_team(compiler: CxxCompiler) -> Path:
    """The object file of `thread_team`, through the cache. Raises CompilerFailed."""
    source = thread_team()

    def make(folder: Path) -> dict[str, Any]:
        text = folder / "team.cpp"
        text.write_text(source, encoding="utf-8")
        compiler.run([*_TEAM_FLAGS, "-c", "-o", str(folder / "team.o"), str(text)], folder)
        return {"what": "threads of kernels", "compiler": str(compiler), "flags": list(_TEAM_FLAGS)}

    entry, _ = cache().get_or_make(key_of("team", version(), source, _TEAM_FLAGS, *compiler.key), make)
    return entry.path / "team.o"


def load_library_bytes(data: bytes, symbol: str, origin: str) -> NativeLibrary:
    """The function of a library that was built before, from its bytes. Raises CompilerFailed where it cannot be loaded."""

    def make(folder: Path) -> dict[str, Any]:
        (folder / f"kernel{SUFFIX}").write_bytes(data)
        return {"what": f"{symbol} from {origin}"}

    entry, made = cache().get_or_make(key_of("saved", data, sys.platform), make)
    try:
        return NativeLibrary(_load(entry, symbol), f"saved in {origin}", entry.path / f"kernel{SUFFIX}", not made)
    except (OSError, AttributeError) as error:
        raise CompilerFailed(f"the saved kernel cannot be loaded: {error}") from None


def _load(entry: CacheEntry, symbol: str) -> Callable[..., int]:
    library = ctypes.CDLL(os.fspath(entry.path / f"kernel{SUFFIX}"))
    function = getattr(library, symbol)
    # Plain addresses: converting typed pointers at each call costs more than a small kernel.
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    function.restype = ctypes.c_int
    return function
