"""Random ops on all devices with no schedule: compiled, within what the device has, right, and the same when fed back; and some
of the lines of what was chosen, which are completed, or refused with a line of theirs.

`FUZZ=5000 pytest -n 2 tests/codegen/autoschedule/test_random_unscheduled.py` looks further (for every night);
`FUZZ_FROM=1000000` begins elsewhere.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.codegen.schedule.synthetic_spans import is_filled_in
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import Module, loads
from andiron.dsl.op import Op
from andiron.runtime.emulator.run_program import emulated_variant, run_variant

from ...support.interpreted import Formula, agrees, program_of
from ...support.library.unscheduled_walk import dialect, wrong
from ...support.random.cases import Case, agree, inputs_of
from ...support.random.counts import case_count, first_seed
from ...support.random.partial_schedules import some_lines
from ...support.random.unscheduled import AMD, CPUS, DEVICES, NVIDIA, auto_case, special

CASES = case_count(24)
FIRST = first_seed()
GPUS = (*NVIDIA, *AMD)
RUN = max(6, CASES // 6)  # of the cases, in each vendor's emulator, or in the interpreter for processors
LONG = 150_000  # characters: hundreds of elements in registers, each with its own line, take compilers many seconds
POINTS = 3000


def chosen(case: Case, schedule: str = "") -> tuple[Module, Op, CompiledProgram]:
    """The case by the compiler's own schedule, or by one that is given."""
    module, op = special(case)
    decl = None
    if schedule:
        module = loads(case.op.text + schedule)
        (decl,) = module.schedules.values()
    return module, op, compile_program(module, op, decl, module.device(case.device))


def text_of(c: CompiledProgram) -> str:
    device = c.program.device
    return emit(c.program, "cpp" if device.name.startswith("cpu") else dialect(device))


def right(case: Case, c: CompiledProgram) -> None:
    """What the program computes, where a machine of this size plays it in time."""
    op = loads(case.op.text).ops[f"op{case.seed}"]
    sizes = {v.name: case.sizes[v.name] for v in c.program.dims}
    if case.device in CPUS:
        got: dict[str, np.ndarray] = interpret(c.program, inputs_of(case, op), sizes, {"core": case.cores})
    else:
        variant = emulated_variant(c.program)
        if len(variant.source) > LONG:
            return
        got = run_variant(variant, inputs_of(case, op), sizes)
    agree(case, op, got)


@pytest.mark.every_second
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_it_fits_and_fed_back_it_is_the_same(seed: int, long: bool) -> None:
    case = auto_case(seed, DEVICES, long)
    if case is None:
        pytest.skip("no sizes suit the op")
    _, _, first = chosen(case)
    if case.device not in CPUS:
        assert wrong(first) == [], case
    _, _, again = chosen(case, first.schedule)
    assert again.schedule == first.schedule, case
    assert text_of(again) == text_of(first), f"{first.schedule}\n{case}"


@pytest.mark.every_second
@pytest.mark.parametrize("devices", [NVIDIA, AMD, CPUS], ids=["nvidia", "amd", "cpu"])
@pytest.mark.parametrize("seed", range(FIRST + CASES, FIRST + CASES + RUN))
def test_it_is_right(seed: int, devices: tuple[str, ...]) -> None:
    case = auto_case(seed, devices, points=POINTS)
    if case is not None:
        right(case, chosen(case)[2])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_some_of_its_lines_are_completed_or_refused(seed: int) -> None:
    case = auto_case(seed, DEVICES, points=POINTS)
    if case is None:
        pytest.skip("no sizes suit the op")
    module, _, first = chosen(case)
    (decl,) = loads(case.op.text + first.schedule).schedules.values()
    text = some_lines(Random(seed), decl, module.device(case.device).memories[0].name)
    if not text:
        return
    try:
        _, _, found = chosen(case, text)
    except UserError as error:
        for e in error.errors if isinstance(error, UserErrors) else (error,):
            assert e.span is not None, f"an error without a place: {e}\n{text}\n{case}"
            assert not is_filled_in(e.span), f"no line of the author's: {e}\n{text}\n{case}"
        return
    if seed % 5 == 0:
        right(case, found)


@pytest.mark.parametrize("device", ["gfx1100", "gfx90a", "sm_80", "cpu:avx2"])
def test_a_diagonal_is_not_turned_in_a_tile(device: str) -> None:
    """Its rows and columns are one index, so a staged tile of it has no second side."""
    diagonal = Formula(
        "op f[M, N](X: f64[M, N, M], Z: f64[M, N]) -> (Y: f64[M, N]):\n"
        "    t[n, m] = X[m, n, m]\n    Y[m, n] = Z[m, n] - t[n, m]\n",
        lambda x, z: z - np.diagonal(x, axis1=0, axis2=2).T,
    )
    agrees(diagonal, program_of(diagonal, "auto", device), {"M": 5, "N": 3})
