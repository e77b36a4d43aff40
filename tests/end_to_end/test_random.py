"""Law 1 on random ops under random schedules: a schedule changes speed, never results; or it is refused with a line.

Interpreted with all checks, at odd sizes, at 0 and 1, with sizes open and fixed, on one to three cores. Hypothesis draws some
cases, and shrinks one that fails; the others come from fixed seeds.
`FUZZ=5000 pytest tests/end_to_end/test_random.py` looks further.
"""

from __future__ import annotations

from collections import Counter

import andiron.codegen.pipeline as pipeline
import numpy as np
import pytest
from andiron.codegen.ir.printer import show
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads, std_module
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..support.cpp.build import COMPILERS
from ..support.cpp.build import run as run_natively
from ..support.random.cases import Case, agree, check, compiled, inputs_of, random_case, run
from ..support.random.counts import case_count
from ..support.rotation import LONG

CASES = case_count(25)  # `tests/fuzz` draws from a larger grammar, and runs beside these
BATCH = 25
MACHINE = {"cpu:generic": "baseline", "cpu:avx2": "avx2", "cpu:avx512": "avx512"}
outcomes: Counter[str] = Counter()


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_results(first):
    for seed in range(first, first + BATCH):
        outcomes[check(random_case(seed)) or "right"] += 1


@settings(max_examples=CASES // 2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(0, 1000))
def test_results_of_drawn_cases(rng, seed):
    outcomes[check(random_case(seed, rng)) or "right"] += 1


def test_most_schedules_are_taken():
    if not outcomes:
        pytest.skip("no case was run")
    assert outcomes["right"] > outcomes.total() / 2, outcomes


def accepted(seeds) -> list[Case]:
    out = []
    for seed in seeds:
        case = random_case(seed)
        try:
            compiled(case)
        except UserError:
            continue
        out.append(case)
    return out


def test_guards(monkeypatch):
    """Proving guards away and making two versions changes no result."""
    cases = accepted(range(1000, 1000 + CASES // 10))
    after = [(result.program, run(case, result.program, op)) for case in cases for op, result in [compiled(case)]]
    without = tuple(x for x in pipeline.A_TRY if x.name not in ("prove_guards", "version_guards"))
    monkeypatch.setattr(pipeline, "A_TRY", without)
    changed = 0
    for case, (program, arrays) in zip(cases, after, strict=True):
        op, result = compiled(case)
        changed += result.program != program
        before = run(case, result.program, op)
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, before[name], err_msg=f"{name}\n{case}")
    assert changed


def test_complete_is_a_fixed_point():
    """The explicit schedule, fed back, gives the same program."""
    for case in accepted(range(2000, 2000 + CASES // 5)):
        fixed_point(case)


def fixed_point(case: Case) -> None:
    module = loads(case.text)
    op = specialise(module.ops[f"op{case.seed}"], {n: case.sizes[n] for n in case.fixed})
    device = module.device(case.device)
    first = compile_program(module, op, module.schedules["s"], device)
    again = compile_program(module, op, _parsed(first.schedule), device)
    assert again.schedule == first.schedule, str(case)
    assert show(again.program) == show(first.program), f"{first.schedule}\n{case}"


def _parsed(text: str):
    return parse(Source("<explicit>", text)).declarations[0]


@pytest.mark.parametrize("name", ["gemm", "norm", "reduce", "conv", "attention", "stencil", "tensor", "pool", "elementwise"])
def test_complete_is_a_fixed_point_for_the_library(name):
    """Every third op of a file, from the first on; with `FUZZ=N` all."""
    module = std_module(f"ops.{name}")
    device = module.device("cpu:avx2")
    for op in [*module.ops.values()][:: 1 if LONG else 3]:
        bound = bind_params(op, {name: 1 for name, default in op.params if default is None})
        first = compile_program(module, bound, None, device)
        again = compile_program(module, bound, _parsed(first.schedule), device)
        assert again.schedule == first.schedule, op.name
        assert show(again.program) == show(first.program), op.name


@pytest.mark.skipif(COMPILERS[0] != "gcc", reason="no g++")
@pytest.mark.parametrize("seed", range(3000, 3000 + CASES // 10))
def test_natively(seed):
    """The emitted C++ gives the reference's results, and the interpreter's bits where no rounding depends on the order."""
    case = random_case(seed)
    if case.device not in MACHINE:
        pytest.skip(f"{case.device} is no machine")
    try:
        op, result = compiled(case)
    except UserError as error:
        pytest.skip(f"refused: {error}")
    sizes = {v.name: case.sizes[v.name] for v in result.program.dims}
    got = run_natively(result.program, inputs_of(case, op), sizes, "gcc", MACHINE[case.device], case.cores)
    agree(case, op, got)
    if case.op.exact:
        for name, array in run(case, result.program, op).items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"{name}\n{case}")
