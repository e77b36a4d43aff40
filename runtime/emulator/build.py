"""From an emulated text to a function: the emulator's runtime is compiled once for each compiler, then linked to each kernel.

The kernel's code reports each plain access to memory to the observer: compilers insert the calls (`-fsanitize=thread`), and the
observer defines the called functions. The runtime itself is compiled without them. Without checks there is no observer.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...codegen.abi import FLAGS as ARITHMETIC
from ...codegen.emit.c.templates import folder
from ...codegen.targets import NATIVE
from ...dsl.errors import AndironError, InternalError
from ...dsl.errors.target import CompilerFailed
from ..native import cpu_features
from ..native.build_library import version
from ..native.cxx_compiler import SUFFIX, CxxCompiler, find_compiler
from ..progress import show_progress
from ..storage.cache import CacheEntry, cache, key_of
from .dwarf_lines import FLAGS as LINES

_HERE = Path(__file__).parent
_PLAIN = ("-fno-strict-aliasing", "-fvisibility=hidden", f"-I{_HERE}", f"-I{folder('emulate')}")
OPTIMISATION: dict[str, str] = dict.fromkeys(("gcc", "clang", "zig"), "-O1")  # of kernels, by the kind of compiler
_OPTIMISED = re.compile("-O[0-9]")
_OBSERVER = "observe"  # of the runtime's files the one that takes as long to compile as all others


@dataclass(frozen=True)
class EmulatedLibrary:
    """A loaded kernel: `call(args, dims, threads)` as in `codegen.abi`; `text`: the file name of its text."""

    call: Callable[..., int]
    library: ctypes.CDLL
    compiler: str
    path: Path
    cached: bool
    text: str = "kernel.cpp"


def build(source: str, symbol: str, target: str, checks: bool = True) -> EmulatedLibrary:
    """The function `symbol` of an emulated text. `checks`: whether accesses are observed.

    Raises NoCompiler, CompilerFailed; InternalError when the text is at fault.
    """
    compiler = find_compiler()
    runtime = _runtime(compiler)
    flags = (
        *_arithmetic(compiler, OPTIMISATION[compiler.kind]),
        "-fno-strict-aliasing",
        *_poisoned(compiler),
        *LINES,
        *(_observed(compiler) if checks else ()),
    )
    key = key_of("emulated", version(), source, flags, checks, runtime.key, *_where(compiler))

    def make(into: Path) -> dict[str, Any]:
        text, object_ = into / "kernel.cpp", into / "kernel.o"
        text.write_text(source, encoding="utf-8")
        try:
            compiler.run(["-c", *flags, "-o", str(object_), str(text)], into)
        except CompilerFailed as error:
            if f"{text.name}:" in error.message and "error:" in error.message:
                raise InternalError(f"the emulated text of {symbol} is not good C++. {error.message}") from None
            raise
        objects = sorted(str(p) for p in runtime.path.glob("*.o") if checks or p.stem != _OBSERVER)
        library = into / f"kernel{SUFFIX}"
        compiler.run(["-shared", "-pthread", "-o", str(library), str(object_), *objects, "-lm", "-ldl"], into)
        object_.unlink()
        return {"what": f"{symbol} for {target}", "compiler": str(compiler), "flags": list(flags)}

    entry, made = cache().get_or_make(key, make)
    try:
        library = _load(entry)
    except OSError:
        # Another process may have removed it between the check and the load, to keep the cache in its bounds.
        entry, made = cache().get_or_make(key, make)
        library = _load(entry)
    function = getattr(library, symbol)
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    function.restype = ctypes.c_int
    return EmulatedLibrary(function, library, str(compiler), entry.path / f"kernel{SUFFIX}", not made)


def build_runtime_early() -> None:
    """Compiles the runtime beside what this process does until it needs it, if that was not done on this machine before."""

    def work() -> None:
        with suppress(AndironError, OSError):  # said when a kernel is built
            _runtime(find_compiler())

    threading.Thread(target=work).start()


def _load(entry: CacheEntry) -> ctypes.CDLL:
    return ctypes.CDLL(os.fspath(entry.path / f"kernel{SUFFIX}"))


def _runtime(compiler: CxxCompiler) -> CacheEntry:
    """The runtime's objects, in an entry of the cache."""
    sources = _sources()
    flags = (*_arithmetic(compiler, "-O2"), *_PLAIN)
    key = key_of("emulator", version(), *(f"{name}\n{text}" for name, text in sources), flags[:-2], *_where(compiler))

    def make(into: Path) -> dict[str, Any]:
        show_progress("compiling the emulator's runtime, once for this compiler; with zig it takes half a minute")
        files = sorted(_HERE.glob("*.cpp"))
        parts = [[str(p) for p in files if (p.stem == _OBSERVER) == mine] for mine in (True, False)]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda part: compiler.run(["-c", *flags, *part], into), parts))
        return {"what": "the emulator's runtime", "compiler": str(compiler)}

    return cache().get_or_make(key, make)[0]


@lru_cache(maxsize=1)
def _sources() -> tuple[tuple[str, str], ...]:
    files = [*_HERE.glob("*.cpp"), *_HERE.glob("*.h"), *folder("emulate").glob("*.h")]
    return tuple((p.name, p.read_text(encoding="utf-8")) for p in sorted(files))


def _where(compiler: CxxCompiler) -> tuple[object, ...]:
    return *compiler.key, cpu_features.identity()


def _arithmetic(compiler: CxxCompiler, level: str) -> tuple[str, ...]:
    """What the text needs, and this machine's instructions: half precision in software is slow."""
    given = cpu_features.flags_for(NATIVE, compiler.kind)
    assert set(ARITHMETIC) <= set(given)
    return (level, *(f for f in given if f != "-shared" and not _OPTIMISED.fullmatch(f)))


def _poisoned(compiler: CxxCompiler) -> tuple[str, ...]:
    """Registers that were never set hold what shows: NaN with clang, with gcc a number beyond all others."""
    major = re.search(r"(\d+)\.\d+", compiler.version)
    old = compiler.kind == "gcc" and major is not None and int(major[1]) < 12
    return () if old else ("-ftrivial-auto-var-init=pattern",)


def _observed(compiler: CxxCompiler) -> tuple[str, ...]:
    """Every access by itself, and calls that return to the line that they stand in."""
    apart = ("-fsanitize=thread", "-fno-optimize-sibling-calls")
    if compiler.kind == "gcc":
        # Aggregates taken apart would show a wide access as several. What a loop writes at last, kept in a register meanwhile,
        # would be read before the loop, where nothing may have written it yet. Loops over registers are unrolled.
        return (*apart, "-fno-tree-sra", "-fno-tree-loop-im", "-fpeel-loops", "--param=tsan-instrument-func-entry-exit=0")
    return (*apart, "-fno-slp-vectorize", "-fno-vectorize", "-mllvm", "-tsan-instrument-func-entry-exit=0")
