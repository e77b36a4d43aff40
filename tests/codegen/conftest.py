"""Tests of the compiler: the numbers of the kernels that it makes."""

from __future__ import annotations

import pytest

from ..support.cpp.little_optimised import build_with_little_optimisation


@pytest.fixture(autouse=True)
def little_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for CPUs are built with -O1 here.

    With the flags that users have, every third op of the library is built and checked in `tests/stdlib`, and each schedule for
    CPUs; the texts of the printer in `tests/codegen/emit` (by `support.cpp.build`), examples and samples in `tests/docs`, and
    others in `tests/end_to_end` and `tests/runtime`.
    """
    build_with_little_optimisation(monkeypatch)
