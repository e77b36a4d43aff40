"""The instruction sets that this CPU can execute, and a key that distinguishes it from others."""

from __future__ import annotations

import os
import platform
import sys
from functools import lru_cache
from subprocess import TimeoutExpired

from ...codegen.targets import MACHINES, NATIVE, TargetMachine, compiler_flags
from ...dsl.errors import did_you_mean
from ...dsl.errors.target import UnknownTarget
from ...dsl.support.processes import run_program

# The same feature under other names: macOS, and Linux' own irregular ones.
_SPELLINGS = {"sse4.2": "sse4_2", "avx1.0": "avx", "abm": "lzcnt", "neon": "asimd", "advsimd": "asimd"}


def architecture() -> str:
    """`x86_64`, `aarch64`, or what the system calls another one."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@lru_cache(maxsize=1)
def features() -> frozenset[str]:
    """Names of CPU features, as Linux spells them; empty where the system does not report them.

    `ANDIRON_CPU` limits them to those of the device it names. Raises UnknownTarget if that names no CPU device.
    """
    limit = machine_limit()
    return limit.features if limit else _own_features()


@lru_cache(maxsize=1)
def machine_limit() -> TargetMachine | None:
    """The CPU device that `ANDIRON_CPU` names: `cpu` then means that device's instructions, not all of this machine's.

    So one machine tests, and compiles for, an older one of its kind. None where the variable is not set.
    Raises UnknownTarget if it names no CPU device, or one that this machine cannot execute.
    """
    name = os.environ.get("ANDIRON_CPU")
    if not name:
        return None
    machine = MACHINES.get(name)
    if machine is None:
        raise UnknownTarget(f"ANDIRON_CPU names no CPU device: `{name}`", help=did_you_mean(name, MACHINES))
    if machine.architecture not in (None, architecture()):
        raise UnknownTarget(f"ANDIRON_CPU is `{name}`, but this machine is of the {architecture()} architecture")
    lacking = sorted(machine.features - _own_features()) if _own_features() else []
    if lacking:
        raise UnknownTarget(f"ANDIRON_CPU is `{name}`, but this machine lacks {', '.join(lacking)}")
    return machine


def _own_features() -> frozenset[str]:
    return frozenset(_SPELLINGS.get(word, word) for word in _feature_words())


def flags_for(machine: TargetMachine, kind: str) -> tuple[str, ...]:
    """The flags for code of `machine` with a compiler of this kind; `NATIVE` obeys `ANDIRON_CPU`."""
    return compiler_flags((machine_limit() or machine) if machine is NATIVE else machine, kind)


@lru_cache(maxsize=1)
def identity() -> str:
    """A text that differs between machines whose `native` code differs: model and features. It is part of cache keys."""
    return f"{architecture()} {model()} {' '.join(sorted(features()))}"


def missing(machine: TargetMachine) -> list[str]:
    """What this machine lacks to execute code for `machine`; empty when nothing, or when the system does not tell."""
    if machine.architecture not in (None, architecture()):
        return [f"the {machine.architecture} architecture"]
    known = features()
    return sorted(machine.features - known) if known else []


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def _cpuinfo(*keys: str) -> str:
    """The first line of /proc/cpuinfo with one of the keys, after its colon."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in keys:
                    return value.strip()
    except OSError:
        pass
    return ""


def _sysctl(*names: str) -> str:
    try:
        done = run_program(["sysctl", "-n", *names], timeout=10)
    except (OSError, TimeoutExpired):
        return ""
    return done.stdout


def _feature_words() -> list[str]:
    if sys.platform == "darwin":
        words = _sysctl("machdep.cpu.features", "machdep.cpu.leaf7_features").lower().split()
        return [*words, "asimd"] if architecture() == "aarch64" else words
    return _cpuinfo("flags", "Features").lower().split()


def model() -> str:
    """The CPU's name, as the system reports it."""
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string").strip()
    return _cpuinfo("model name", "CPU part") or platform.processor()
