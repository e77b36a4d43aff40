"""Tests of the compiler: the numbers of the kernels that it makes."""

from __future__ import annotations

import pytest

from ..support.cpp.little_optimised import build_with_little_optimisation


@pytest.fixture(autouse=True)
def little_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are built with little optimisation here.

    As users build them, every fourth op of the library is built and checked in `tests/stdlib`, and of the schedules for CPUs;
    every fourth text of the printer in `tests/codegen/emit` (by `support.cpp.build`), and every eighth test of other folders.
    """
    build_with_little_optimisation(monkeypatch)
