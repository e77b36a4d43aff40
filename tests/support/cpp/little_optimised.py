"""Kernels built in less time, for tests that ask what a text computes: g++ takes twice as long for what users get.

With -Og it leaves out what costs most. Zig takes that for a build to debug, and kernels then check themselves: it gets -O1.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from andiron.codegen.targets import TargetMachine
from andiron.runtime.emulator import build
from andiron.runtime.native import build_library, cpu_features


def _flags_for(machine: TargetMachine, kind: str) -> tuple[str, ...]:
    little = "-Og" if kind == "gcc" else "-O1"
    return tuple(little if x == "-O3" else x for x in cpu_features.flags_for(machine, kind))


_FEATURES = SimpleNamespace(**{**vars(cpu_features), "flags_for": _flags_for})


def build_with_little_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native kernels and emulated ones. What is built has its flags in its key, so other tests do not use it."""
    monkeypatch.setattr(build_library, "cpu_features", _FEATURES)
    monkeypatch.setitem(build.OPTIMISATION, "gcc", "-Og")
