"""Tests of the compiler: the numbers of the kernels that it makes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from andiron.codegen.targets import TargetMachine
from andiron.runtime.native import build_library, cpu_features


@pytest.fixture(scope="session")
def flags_but_optimisation() -> SimpleNamespace:
    def flags_for(machine: TargetMachine, kind: str) -> tuple[str, ...]:
        return tuple("-O1" if x == "-O3" else x for x in cpu_features.flags_for(machine, kind))

    return SimpleNamespace(**{**vars(cpu_features), "flags_for": flags_for})


@pytest.fixture(autouse=True)
def built_with_little_optimisation(monkeypatch: pytest.MonkeyPatch, flags_but_optimisation: SimpleNamespace) -> None:
    """Kernels for CPUs are built with -O1 here: these tests ask what the text computes, and -O3 takes half as long again.

    With the flags that users have, every op of the library is built and checked in `tests/stdlib`, the texts of the printer in
    `tests/codegen/emit` (by `support.cpp.build`), examples and samples in `tests/docs`, and others in `tests/end_to_end` and
    `tests/runtime`. What is built has its flags in its key, so nothing that is built here is used there.
    """
    monkeypatch.setattr(build_library, "cpu_features", flags_but_optimisation)
