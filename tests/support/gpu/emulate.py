"""Runs a tile program's text for GPUs under the emulator, for tests that print programs themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from andiron.codegen.ir.program import Program
from andiron.runtime.emulator.run_program import emulate


def run(program: Program, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], folder: Path) -> dict[str, np.ndarray]:
    """Outputs by name. Raises an EmulatorFault for whatever the run does wrong."""
    return emulate(program, arrays, sizes)
