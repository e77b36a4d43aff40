"""Tests that need a GPU, its driver, and CuPy or PyTorch. Where one of them is missing they are skipped, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.types import TYPES
from andiron.runtime.gpu.arrays import any_library
from andiron.runtime.gpu.driver import find_driver


@dataclass(frozen=True)
class Gpu:
    """The first GPU of this machine: its family (which is a target), the name compilers know it by, an array library."""

    family: str
    arch: str
    library: Any


def _found() -> Gpu | str:
    said = []
    for family in ("cuda", "hip"):
        try:
            arch = find_driver(family).arch(0)
            return Gpu(family, arch, any_library(family, [TYPES["f32"]]))
        except UserError as error:
            said.append(error.message)
    return "; ".join(said)


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    found = _found()
    if isinstance(found, str):
        pytest.skip(found)
    return found
