"""A choice that cannot be compiled gives way to another, with a note; what the author's lines ask for is an error at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from andiron.codegen.autoschedule import complete
from andiron.codegen.lower.capacity import check_capacity
from andiron.codegen.pipeline import CompiledProgram
from andiron.codegen.schedule import schedule_fallback
from andiron.codegen.schedule.candidate import Candidate, Lines
from andiron.dsl import syntax
from andiron.dsl.errors import UserError
from andiron.dsl.errors.schedule import CapacityExceeded
from andiron.dsl.support.fast_replace import replace

from ...support.library.unscheduled import compiled, scheduled

OP = dict(M=64, N=64, K=64)


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """So many of the ways that are constructed for a launch get a last line that cannot be compiled."""
    own = complete.best_of_each_template_first

    def spoil(count: int) -> None:
        def order(candidates: list[Candidate]) -> list[Candidate]:
            found = own(candidates)
            return [*(replace(x, make=partial(bad, x)) for x in found[:count]), *found[count:]]

        def bad(x: Candidate) -> Lines:
            return (*x.lines[:-1], syntax.Compute("nothing"))

        monkeypatch.setattr(complete, "best_of_each_template_first", order)

    return spoil


def notes(c: CompiledProgram) -> list[str]:
    return [x for x in c.report["notes"] if "cannot be compiled" in x]


def test_the_next_way_is_taken(spoilt) -> None:
    assert not notes(compiled("gemm_f16", "sm_80", OP))
    spoilt(2)
    found = compiled("gemm_f16", "sm_80", OP)
    assert len(notes(found)) == 2
    assert all(x.startswith("launch C: ") for x in notes(found))
    assert "nothing" not in found.schedule
    assert len(found.report["choices"]) == 1


def test_the_best_of_another_nest_is_next(spoilt) -> None:
    """What one candidate of a nest lacks the others may lack, too."""
    first = compiled("gemm_f16", "sm_80", OP).report["choices"][0].candidates[0]
    spoilt(1)
    assert compiled("gemm_f16", "sm_80", OP).report["choices"][0].candidates[0].nest != first.nest


def test_the_fixture_first_choices_raises_the_error(first_choices, spoilt) -> None:
    spoilt(1)
    with pytest.raises(UserError):
        compiled("gemm_f16", "sm_80", OP)


def test_where_none_can_be_compiled_the_first_error_is_said(monkeypatch) -> None:
    said = iter(range(100))

    def refuse(program, lines, at, notes, again, tensors) -> None:
        raise CapacityExceeded(f"number {next(said)}", at)

    monkeypatch.setattr("andiron.codegen.passes.check_capacity_of", refuse)
    with pytest.raises(CapacityExceeded, match="number 0"):
        compiled("gemm_f16", "sm_80", OP)
    assert next(said) == schedule_fallback.MOST


def test_any_launch_may_be_to_blame(monkeypatch) -> None:
    """What is found when all launches are there is blamed on one after another."""
    first = []

    def refuse(program, lines, at, notes, again, tensors) -> None:
        first.append(program.launches[0])
        if program.launches[0] == first[0]:
            raise CapacityExceeded("the first launch", at)
        check_capacity(program, lines, at, notes, again, tensors)

    monkeypatch.setattr("andiron.codegen.passes.check_capacity_of", refuse)
    found = compiled("separable_conv2d", "sm_80")
    assert 1 < len(first) == len(notes(found)) + 1


def test_explicit_lines_are_tried_once(monkeypatch) -> None:
    calls = []

    def refuse(program, lines, at, notes, again, tensors) -> None:
        calls.append(1)
        raise CapacityExceeded("too much", at)

    monkeypatch.setattr("andiron.codegen.passes.check_capacity_of", refuse)
    with pytest.raises(CapacityExceeded):
        scheduled("gemm", "sm_80", "tile m: 8, n: 8 -> block\ntile m: 1, n: 1 -> thread\ncompute")
    assert len(calls) == 1
