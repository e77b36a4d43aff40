"""Kernels for CPUs built with -O1, for tests that ask what a text computes: g++ takes half as long again with -O3."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from andiron.codegen.targets import TargetMachine
from andiron.runtime.native import build_library, cpu_features


def _flags_for(machine: TargetMachine, kind: str) -> tuple[str, ...]:
    return tuple("-O1" if x == "-O3" else x for x in cpu_features.flags_for(machine, kind))


_FEATURES = SimpleNamespace(**{**vars(cpu_features), "flags_for": _flags_for})


def build_with_little_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built has its flags in its key, so other tests do not use it."""
    monkeypatch.setattr(build_library, "cpu_features", _FEATURES)
