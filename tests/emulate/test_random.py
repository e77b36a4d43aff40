"""Law 1 on random ops under random schedules for GPUs: the emitted text runs under the emulator to the reference's results
with no report, or the schedule is refused with a line.

`FUZZ=5000 pytest -n 2 tests/emulate/test_random.py` looks further (for every night); `FUZZ_FROM=1000000` begins elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors.emulate import EmulatorFault
from andiron.dsl.module import loads
from andiron.dsl.ops.bind_op import specialise
from andiron.runtime.emulator.program import play, variant_of

from ..random_cases import agree, inputs_of
from ..random_gpu import FEATURES, features, gpu, gpu_case

CASES = int(os.environ.get("FUZZ", "480"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
BATCH = 40
LONG = 150_000  # characters: hundreds of elements in registers, each with its own line, take compilers many seconds
MANY = 400  # cases among which each feature is


def outcome(seed: int) -> tuple[str, set[str]]:
    """ "right", or the identifier of the error that refuses the schedule; what the case is about."""
    case = gpu_case(seed)
    module = loads(case.text)
    op = module.ops[f"op{seed}"]
    shown = str(case)
    try:
        special = specialise(op, {n: case.sizes[n] for n in case.fixed})
        program = compile_program(module, special, module.schedules["s"], gpu(case.device)).program
    except UserError as error:
        refused = error.errors if isinstance(error, UserErrors) else (error,)
        for e in refused:
            assert e.span is not None, f"an error without a place: {e}\n{shown}"
        return refused[0].id, set()
    variant = variant_of(program)
    if len(variant.source) > LONG:
        return "long", set()
    sizes = {v.name: case.sizes[v.name] for v in program.dims}
    try:
        got = play(variant, inputs_of(case, op), sizes)
    except (EmulatorFault, UserErrors) as fault:
        pytest.fail(f"{fault}\n{shown}")
    agree(case, op, got)
    return "right", features(case)


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, BATCH))
def test_results(first: int) -> None:
    outcomes = Counter(outcome(seed)[0] for seed in range(first, first + BATCH))
    assert outcomes["right"] > outcomes.total() / 4, outcomes
