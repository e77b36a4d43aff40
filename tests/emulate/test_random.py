"""Law 1 on random ops under random schedules for GPUs: the emitted text runs under the emulator to the reference's results
with no report, or the schedule is refused with a line. `FUZZ=500 pytest tests/emulate/test_random.py` looks further.

Schedules are those for a machine of cores and lanes (random_schedules), in a GPU's words.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from random import Random

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.device import Device
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors.emulate import EmulatorFault
from andiron.dsl.module import loads, std_device
from andiron.dsl.ops.bind_op import specialise
from andiron.runtime.emulator.program import emulate

from ..random_cases import Case, agree, inputs_of, random_case

CASES = int(os.environ.get("FUZZ", "48"))
BATCH = 6
WORDS = {"core": "block", "lane": "thread", "l3": "shared", "l2": "shared", "l1": "shared"}
outcomes: Counter[str] = Counter()


def on_gpu(seed: int) -> tuple[Case, str, Device]:
    """The case of a seed, the text of its op and of its schedule for a GPU, the GPU."""
    case = random_case(seed)
    rng = Random(seed)
    device = std_device(rng.choice(("sm_80", "gfx90a", "gfx1100")))
    assert device is not None
    lines = re.sub(rf"\b({'|'.join(WORDS)})\b", lambda m: WORDS[m[1]], case.schedule)
    lines = re.sub(r"compute with \w+", "compute", lines)
    if "-> block" not in lines:  # lanes alone: one block
        return case, f"{case.op.text}\n{lines}", device
    if rng.random() < 0.5:
        level = "warp" if device.name.startswith("sm") else "wave"
        lines = lines.replace("-> thread", f"-> {level}", 1) if lines.count("-> thread") > 1 else lines
    return case, f"{case.op.text}\n{lines}", device


def outcome(seed: int) -> str:
    case, text, device = on_gpu(seed)
    module = loads(text)
    op = module.ops[f"op{seed}"]
    shown = f"{device.name}\n{text}\n{case}"
    try:
        special = specialise(op, {n: case.sizes[n] for n in case.fixed})
        program = compile_program(module, special, module.schedules["s"], device).program
    except UserError as error:
        refused = error.errors if isinstance(error, UserErrors) else (error,)
        for e in refused:
            assert e.span is not None, f"an error without a place: {e}\n{shown}"
        return refused[0].id
    sizes = {v.name: case.sizes[v.name] for v in program.dims}
    try:
        got = emulate(program, inputs_of(case, op), sizes)
    except (EmulatorFault, UserErrors) as fault:
        pytest.fail(f"{fault}\n{shown}")
    agree(case, op, got)
    return "right"


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_results(first: int) -> None:
    for seed in range(first, first + BATCH):
        outcomes[outcome(seed)] += 1


def test_many_schedules_are_taken() -> None:
    if not outcomes:
        pytest.skip("no case was run")
    assert outcomes["right"] > outcomes.total() / 4, outcomes
