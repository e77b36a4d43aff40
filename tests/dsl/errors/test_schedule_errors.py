"""One case for each mistake in a schedule: `schedule/ID.sched` is refused by `andiron check` with exactly `schedule/ID.txt`.

`--update-goldens` writes the texts; read what changed before it is committed.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import Diagnostics, UserError, UserErrors, online
from andiron.dsl.errors import schedule as mistakes
from andiron.dsl.module import load_with_mistakes, loads
from andiron.tools.checks.compile_schedules import check_schedules

CASES = sorted((Path(__file__).parent / "schedule").glob("*.sched"))
# No mistake of a text alone; see ELSEWHERE of `test_catalogue`.
BY_NAME = {"schedule-cannot-meet", "schedule-device", "schedule-not-one-line"}


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.stem)
def test_message(case, update_goldens):
    module, diagnostics = load_with_mistakes(text=case.read_text(encoding="utf-8"), name=case.name)
    for error in check_schedules(module):
        diagnostics.add(error)
    with pytest.raises(UserError) as caught:
        diagnostics.raise_if_any()
    error = caught.value
    expected = case.with_suffix(".txt")
    if update_goldens:
        expected.write_text(f"{error}\n", encoding="utf-8")
    assert f"{error}\n" == expected.read_text(encoding="utf-8")
    found = error.errors if isinstance(error, UserErrors) else (error,)
    assert {e.id for e in found} == {case.stem}
    for one in found:
        assert one.span is not None
        assert one.help or one.labels, f"no way out: {one.message}"


def test_every_mistake_has_a_case():
    ids = {c.id for room in (mistakes, online) for _, c in inspect.getmembers(room, inspect.isclass) if c is not UserError}
    assert ids == {c.stem for c in CASES} | BY_NAME


def test_a_schedule_for_another_device():
    module = loads("op neg[N](x: f32[N]) -> (y: f32[N]):\n    y[i] = -x[i]\nschedule s for neg on cpu:avx512:\n    auto\n")
    schedule = module.schedules["s"]
    compile_program(module, module.ops["neg"], schedule, module.device("cpu:avx512"))
    with pytest.raises(mistakes.DeviceMismatch, match="for cpu:avx512, not for cpu:neon") as caught:
        compile_program(module, module.ops["neg"], schedule, module.device("cpu:neon"))
    assert caught.value.span is not None


def test_mistakes_of_ops_and_of_all_schedules_at_once():
    text = """
op bad[N](x: f32[N]) -> (y: f32[N]):
    y[i] = z[i]
op neg[N](x: f32[N]) -> (y: f32[N]):
    y[i] = -x[i]
schedule for_bad for bad:
    tile q: 4
schedule first for neg:
    tile q: 4
    tile i: 4 -> nowhere
schedule second for neg:
    move w -> register
"""
    module, diagnostics = load_with_mistakes(text=text)
    assert isinstance(diagnostics, Diagnostics)
    for error in check_schedules(module):
        diagnostics.add(error)
    with pytest.raises(UserErrors) as caught:
        diagnostics.raise_if_any()
    assert [e.id for e in caught.value.errors] == [
        "unknown-tensor",
        "schedule-unknown-index",
        "schedule-unknown-level",
        "schedule-unknown-tensor",
    ]
