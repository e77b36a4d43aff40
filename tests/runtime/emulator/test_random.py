"""Law 1 on random ops under random schedules for GPUs: the emitted text runs under the emulator to the reference's results
with no report, or the schedule is refused with a line.

`FUZZ=5000 pytest -n 2 tests/runtime/emulator/test_random.py` looks further (for every night);
`FUZZ_FROM=1000000` begins elsewhere.
"""

from __future__ import annotations

from collections import Counter

import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors.emulate import EmulatorFault
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.emulator.run_program import emulated_variant, run_variant

from ...support.random.cases import Case, agree, inputs_of
from ...support.random.counts import case_count, first_seed
from ...support.random.gpu import gpu_case
from ...support.random.gpu_draft import gpu
from ...support.random.gpu_features import FEATURES, features

CASES = case_count(20)  # `tests/fuzz` draws from a larger grammar, and runs beside these
FIRST = first_seed()
BATCH = 20
LONG = 150_000  # characters: hundreds of elements in registers, each with its own line, take compilers many seconds
MANY = 480  # of so many cases some have each feature


def compiled(seed: int) -> tuple[Case, Op, Program | None, str]:
    """A case, its op, and its tile program, or the identifier of the error that refuses the schedule."""
    case = gpu_case(seed)
    module = loads(case.text)
    op = module.ops[f"op{seed}"]
    special = specialise(op, {n: case.sizes[n] for n in case.fixed})
    try:
        return case, op, compile_program(module, special, module.schedules["s"], gpu(case.device)).program, "right"
    except UserError as error:
        refused = error.errors if isinstance(error, UserErrors) else (error,)
        for e in refused:
            assert e.span is not None, f"an error without a place: {e}\n{case}"
        return case, op, None, refused[0].id


def outcome(seed: int) -> str:
    """`right`, the identifier of the error that refuses the schedule, or `long`."""
    case, op, program, said = compiled(seed)
    if program is None:
        return said
    variant = emulated_variant(program)
    if len(variant.source) > LONG:
        return "long"
    sizes = {v.name: case.sizes[v.name] for v in program.dims}
    try:
        got = run_variant(variant, inputs_of(case, op), sizes)
    except (EmulatorFault, UserErrors) as fault:
        pytest.fail(f"{fault}\n{case}")
    agree(case, op, got)
    return said


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, BATCH))
def test_results(first: int) -> None:
    outcomes = Counter(outcome(seed) for seed in range(first, first + BATCH))
    assert outcomes["right"] > BATCH / 3, outcomes


def test_each_feature_is_reached() -> None:
    """Those that compile, of the cases from which `test_results` runs the first."""
    missing = set(FEATURES)
    for seed in range(FIRST, FIRST + max(CASES, MANY)):
        if features(gpu_case(seed)) & missing and compiled(seed)[2] is not None:
            missing -= features(gpu_case(seed))
        if not missing:
            return
    pytest.fail(f"none of {max(CASES, MANY)} cases has {missing}")
