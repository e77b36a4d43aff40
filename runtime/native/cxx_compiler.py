"""Finds a C++ compiler that works, and runs it.

The first good one in this order is taken:

    ANDIRON_CXX   binding: if it does not work, that is an error
    CXX, c++, g++, clang++
    the `ziglang` package, a whole compiler that pip installs

Good means: it compiles and links a tiny shared library with vector types and the flags of kernels, which this process loads and
calls. That is tried once, and the cache remembers the answer.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from subprocess import TimeoutExpired

from ...codegen.targets import NATIVE
from ...dsl.errors import AndironError
from ...dsl.errors.target import CompilerFailed, NoCompiler
from ...dsl.support.processes import run_program
from ..progress import show_progress
from ..storage.cache import cache, key_of
from . import cpu_features

SUFFIX = ".dll" if sys.platform == "win32" else ".dylib" if sys.platform == "darwin" else ".so"
_NOT_STARTED = (OSError, RuntimeError)  # RuntimeError: isolated subinterpreters start no processes
_TIMEOUT = 600.0  # seconds; zig builds its own runtime library at its first use

# Variables that change what gcc or clang make of the same command (their manuals, "Environment Variables").
_OBEYED = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("CCC_OVERRIDE_OPTIONS", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET"),
)

_PROBE = """\
typedef float v8 __attribute__((vector_size(32)));
extern "C" int andiron_probe(const float* p, float* q) {
    v8 a;
    __builtin_memcpy(&a, p, sizeof a);
    a = a * a + 1.0f;
    __builtin_memcpy(q, &a, sizeof a);
    return 42;
}
"""


@dataclass(frozen=True)
class CxxCompiler:
    """A compiler that works. `command` starts it, `kind` is gcc, clang or zig, `version` its own words in one line, `words` all
    that it says of itself."""

    command: tuple[str, ...]
    kind: str
    version: str
    words: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Part of the key of all that it builds: itself, what it looks for in the environment, and this system with its C
        library."""
        return self.version, self.words, self.command, *((n, os.environ.get(n)) for n in _OBEYED), sys.platform, _c_library()

    def __str__(self) -> str:
        return f"{self.version} ({shlex.join(self.command)})"

    def build(self, source: Path, library: Path, flags: tuple[str, ...]) -> None:
        """Compiles a C++ text to a shared library. Raises CompilerFailed."""
        self.run([*flags, "-o", str(library), str(source), "-lm"], source.parent)

    def run(self, args: list[str], folder: Path) -> None:
        """Starts it in a folder. Raises CompilerFailed."""
        _run(self, args, folder)


def find_compiler() -> CxxCompiler:
    """The compiler to use. Raises NoCompiler. Follows the environment as it is now."""
    env = tuple(os.environ.get(name, "") for name in ("ANDIRON_CXX", "CXX", "PATH"))
    return _find(*env)


@lru_cache(maxsize=8)
def _find(asked: str, preferred: str, path: str) -> CxxCompiler:
    if asked:
        compiler, problem = _examine(_split(asked), path)
        if compiler is None:
            raise NoCompiler(
                f"ANDIRON_CXX is `{asked}`, which does not work: {problem}", help="unset ANDIRON_CXX, or correct it"
            )
        return compiler
    tried: list[str] = []
    for command in _candidates(preferred):
        compiler, problem = _examine(command, path)
        if compiler is not None:
            return compiler
        tried.append(f"{shlex.join(command)}: {problem}")
    raise NoCompiler(
        "no working C++ compiler on this machine" + "".join(f"\n  tried {line}" for line in tried),
        help="pip install 'andiron[compiler]' brings one; or install g++ or clang with the system's package manager",
    )


def _c_library() -> str:
    """Which one a library built here needs: on another machine of the same kind, with the same folder, it may be older."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def _split(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return (command,)


def _candidates(preferred: str) -> Iterator[tuple[str, ...]]:
    if preferred:
        yield _split(preferred)
    for name in ("c++", "g++", "clang++"):
        yield (name,)
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("ziglang")
        for folder in (spec and spec.submodule_search_locations) or []:
            zig = os.path.join(folder, "zig.exe" if sys.platform == "win32" else "zig")
            yield (zig, "c++")


def _examine(command: tuple[str, ...], path: str) -> tuple[CxxCompiler | None, str]:
    """The compiler behind a command if it is good, and what is wrong with it otherwise."""
    if not command:
        return None, "an empty command"
    program = shutil.which(command[0], path=path or None)
    if program is None:
        return None, "not found"
    command = (os.path.abspath(program), *command[1:])  # it is started in other folders
    try:
        said = run_program([*command, "--version"], timeout=60)
    except (*_NOT_STARTED, TimeoutExpired) as error:
        return None, str(error)
    if said.returncode != 0:
        return None, (said.stderr.strip().splitlines() or ["it does not answer to --version"])[-1][:200]
    first = (said.stdout.strip().splitlines() or ["unknown version"])[0]
    zig = command[1:2] == ("c++",) and Path(program).stem == "zig"
    kind = "zig" if zig else "clang" if "clang" in said.stdout.lower() else "gcc"
    compiler = CxxCompiler(command, kind, f"zig, {first}" if zig else first, said.stdout)
    key = key_of("probe", _PROBE, *compiler.key, cpu_features.flags_for(NATIVE, kind), cpu_features.identity())

    def probe(folder: Path) -> dict[str, str]:
        if zig:
            show_progress(
                "trying zig as a compiler, once: it builds its own runtime library first, which takes some ten seconds"
            )
        _try_out(compiler, folder)
        return {"what": f"probe of {compiler}"}

    try:
        cache().get_or_make(key, probe)
    except AndironError as error:
        return None, getattr(error, "message", str(error))
    return compiler, ""


def _try_out(compiler: CxxCompiler, folder: Path) -> None:
    source, library = folder / "probe.cpp", folder / f"probe{SUFFIX}"
    source.write_text(_PROBE, encoding="utf-8")
    compiler.build(source, library, cpu_features.flags_for(NATIVE, compiler.kind))
    try:
        probe = ctypes.CDLL(str(library)).andiron_probe
        values, squares = (ctypes.c_float * 8)(*range(8)), (ctypes.c_float * 8)()
        good = probe(values, squares) == 42 and list(squares) == [i * i + 1.0 for i in range(8)]
    except (OSError, AttributeError) as error:
        raise CompilerFailed(f"its self-test failed: the library cannot be loaded: {error}") from None
    if not good:
        raise CompilerFailed("its self-test failed: a wrong result")


def _run(compiler: CxxCompiler, args: list[str], folder: Path) -> None:
    command, env = list(compiler.command), dict(os.environ)
    if compiler.kind == "zig":
        # The text does not use the C++ library, and zig would first build its own: half a minute. Its cache of objects is
        # of no use under ours, so it lives as long as the build.
        command.append("-nostdlib++")
        scratch = tempfile.mkdtemp(prefix="andiron-zig-")
        env["ZIG_LOCAL_CACHE_DIR"] = scratch
        env.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache().folder("zig")))
    else:
        scratch = None
    try:
        run_command([*command, *args], folder, compiler.version, env)
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def run_command(command: list[str], folder: Path, version: str, env: dict[str, str] | None = None) -> str:
    """What a compiler says while it does its work well. Raises CompilerFailed with its words where it does not."""
    try:
        done = run_program(command, _TIMEOUT, folder, env)
    except (*_NOT_STARTED, TimeoutExpired) as error:
        raise CompilerFailed(f"{shlex.join(command)}: {error}") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        killed = f"it was ended by signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        shown = "\n  ".join(lines[:20]) or killed
        raise CompilerFailed(f"{version} failed ({killed}):\n  {shown}")
    return done.stdout + done.stderr
