"""Ops of the library, with nothing written in their schedules, are text that compilers for four GPUs take without a word.

Every fourth op, on one GPU each; with `ALL_OPS=1` every op on all four.
"""

from __future__ import annotations

import os

import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.ops.specialise import bind_params, specialise

from ..support.gpu.compilers import accepted, toolchain
from ..support.library.cases import library
from ..support.library.ops import OPS
from ..support.rotation import rotated

pytestmark = pytest.mark.usefixtures("first_choices")

DEVICES = {"sm_80": "cuda", "gfx90a": "hip", "sm_90a": "cuda", "gfx1100": "hip"}
ALL_OPS = bool(os.environ.get("ALL_OPS"))
CASES = [(name, DEVICES[d], d) for name, d in rotated(OPS if ALL_OPS else [*OPS][::7], [*DEVICES], every=ALL_OPS)]


@pytest.mark.parametrize(("name", "dialect", "device"), CASES)
def test_accepted(name: str, dialect: str, device: str, tmp_path) -> None:
    found = toolchain(dialect, device)
    if isinstance(found, str):
        pytest.skip(found)  # before the work of compiling is done
    op = bind_params(library().ops[name])
    program = compile_program(library(), op, None, library().device(device)).program
    made = accepted(dialect, emit(program, dialect), tmp_path, device)
    assert made.data


@pytest.mark.parametrize("name", ["gemm", "batched_gemm"])
@pytest.mark.parametrize("device", ["sm_80", "sm_90a"])
def test_products_spill_nothing(name: str, device: str, tmp_path) -> None:
    """What the model takes for registers is what the assembler can give, in both variants."""
    found = toolchain("cuda", device)
    if isinstance(found, str):
        pytest.skip(found)
    program = compile_program(library(), bind_params(library().ops[name]), None, library().device(device)).program
    made = found.make(emit(program, "cuda"), device, "cubin", tmp_path)
    assert len(made.usage) == 2
    assert [(u.spills, u.stack) for u in made.usage] == [(0, 0), (0, 0)], made.usage


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("gemm_f16", "gfx950"),
        ("gemm_bf16", "gfx950"),
        ("gemm_tn", "gfx950"),
        ("gemm_f16_nt", "gfx950"),
        ("gemm_f16", "gfx942"),
        ("gemm_f16", "gfx90a"),
    ],
)
def test_products_on_two_files_of_registers_spill_nothing(name: str, device: str, tmp_path) -> None:
    """With 128 x 128 results a subgroup, which fill one of the files, these spilled up to 2 KiB a lane. `gemm_tn`
    spilled 60 bytes while what waits in registers was stored behind a branch."""
    found = toolchain("hip", device)
    if isinstance(found, str):
        pytest.skip(found)
    op = specialise(library().ops[name], dict.fromkeys("MNK", 4096))
    program = compile_program(library(), op, None, library().device(device)).program
    made = found.make(emit(program, "hip"), device, "o", tmp_path)
    assert [(u.spills, u.stack) for u in made.usage] == [(0, 0), (0, 0)], made.usage
