"""This machine's CPU as device text: `detect_cpu()`.

The system's figures (cores, caches, clock, vector extension) refine the matching device of `stdlib/devices`; other figures
stay. So this never fails: at worst it is `cpu:generic` with one core.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ...codegen.targets import MACHINES
from . import cpu_features

NAME = "cpu:native"

# Best first, with the f32 operations a cycle of one core: two vector multiply-adds; without fma an addition and a product.
_FLOPS = {"cpu:avx512": 64, "cpu:avx2": 32, "cpu:neon": 16, "cpu:generic": 8}

_SYSFS = Path("/sys/devices/system/cpu")


def detect_cpu(sysfs: Path = _SYSFS, cpus: list[int] | None = None) -> str:
    """Text of a device `cpu:native` that extends the fitting one of `stdlib/devices/cpu.sched`; `cpus` are the usable ones."""
    parent = fitting_device()
    cores = usable_cpus() if cpus is None else cpus
    lines = [f"device {NAME} extends {parent}:", f"    level core: finite {len(cores)}"]
    for level, size in sorted(_caches(cores, sysfs).items(), reverse=True):
        lines.append(f"    memory l{level} of {'socket' if level == 3 else 'core'}: {size // 1024} KiB")
    if hertz := _clock(cores[0], sysfs):
        peak = hertz * _FLOPS[parent] / 1e9
        lines.append(f"    clock {hertz / 1e9:g} GHz, f32 {peak:g} GFLOP/s per core, f64 {peak / 2:g} GFLOP/s per core")
    return "\n".join(lines) + "\n"


def fitting_device() -> str:
    """The device of the standard library with the widest vectors that this CPU has."""
    known = cpu_features.features()
    for name in _FLOPS:
        machine = MACHINES[name]
        if machine.architecture == cpu_features.architecture() and (
            machine.features <= known or (not known and name == "cpu:neon")
        ):
            return name  # vectors are part of every AArch64, whether the system tells or not
    return "cpu:generic"


def usable_cpus() -> list[int]:
    """Numbers of the CPUs that this process may run on; never empty."""
    if hasattr(os, "sched_getaffinity"):
        try:
            return sorted(os.sched_getaffinity(0)) or [0]
        except OSError:
            pass
    return list(range(cpu_features.usable_cores()))


def _caches(cores: list[int], sysfs: Path) -> dict[int, int]:
    """Bytes by level, 1 to 3: of levels 1 and 2 one core's share (SMT siblings, and clusters, divide them), of level 3 all."""
    found = _sysctl_caches() if sys.platform == "darwin" else _sysfs_caches(cores, sysfs)
    if not found and hasattr(os, "sysconf"):
        for level, name in ((1, "SC_LEVEL1_DCACHE_SIZE"), (2, "SC_LEVEL2_CACHE_SIZE"), (3, "SC_LEVEL3_CACHE_SIZE")):
            with contextlib.suppress(ValueError, OSError):
                found[level] = os.sysconf(name)
    return {level: size for level, size in found.items() if level in (1, 2, 3) and size >= 1024}


def _sysfs_caches(cores: list[int], sysfs: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for index in sorted((sysfs / f"cpu{cores[0]}" / "cache").glob("index*")):
        level, size = _number(index / "level"), _bytes(_read(index / "size"))
        if _read(index / "type") in ("Data", "Unified") and level and size:
            sharers = len(_cpu_list(_read(index / "shared_cpu_list")) & set(cores))
            found[level] = size if level >= 3 else size // max(1, sharers)
    return found


def _sysctl_caches() -> dict[int, int]:
    """macOS: of the fast cores where there are two kinds."""
    found: dict[int, int] = {}
    for prefix in ("hw.", "hw.perflevel0."):
        for level, name in ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize")):
            size = _whole(cpu_features._sysctl(prefix + name))
            sharers = (_whole(cpu_features._sysctl("hw.perflevel0.cpusperl2")) or 1) if level == 2 else 1
            if size:
                found[level] = size // sharers
    return found


def _clock(core: int, sysfs: Path) -> float | None:
    """The highest rate in Hz, or the present one."""
    if kilohertz := _number(sysfs / f"cpu{core}" / "cpufreq" / "cpuinfo_max_freq"):
        return kilohertz * 1e3
    text = cpu_features._sysctl("hw.cpufrequency_max") if sys.platform == "darwin" else cpu_features._cpuinfo("cpu MHz")
    try:
        hertz = float(text) * (1 if sys.platform == "darwin" else 1e6)
    except ValueError:
        return None
    return round(hertz, -6) if 1e8 < hertz < 1e11 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _number(path: Path) -> int | None:
    return _whole(_read(path))


def _bytes(text: str) -> int | None:
    """`48K`, `32768K`, `1M`, plain bytes."""
    scale = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper())
    value = _whole(text[:-1] if scale else text)
    return None if value is None else value * (scale or 1)


def _cpu_list(text: str) -> set[int]:
    """`0-3,8` as a set; empty where it cannot be read."""

    def numbers() -> Iterable[int]:
        for piece in text.split(","):
            first, _, last = piece.partition("-")
            a, b = _whole(first), _whole(last or first)
            if a is not None and b is not None:
                yield from range(a, b + 1)

    return set(numbers())
