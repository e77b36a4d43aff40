"""Each transform by itself: tile text in, tile text out (`rewrites`), and both mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.verify.well_formed import check_well_formed

from .cases import TRANSFORMS, Rewrite, rewrites

CASES = [x for transform in TRANSFORMS for x in rewrites(transform)]
ORDER = ("place_barriers", "pipeline_copies")  # before these, units race


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_comes_out(case: Rewrite) -> None:
    assert case.result() == case.after


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_means_the_same(case: Rewrite) -> None:
    """Run by the interpreter, which reports what units race for, and what is read before it is written."""
    program = TRANSFORMS[case.transform](case.program)
    check_well_formed(program)
    if case.transform == "pipeline_copies":
        program = TRANSFORMS["place_barriers"](program)
    for n in (0, 1, 64, 70, 192):
        data = {"X": np.arange(1, n + 1, dtype="f4"), "c": np.float32(3)}
        got = interpret(program, data, {"N": n})["Y"]
        if case.transform not in ORDER:
            np.testing.assert_array_equal(got, interpret(case.program, data, {"N": n})["Y"])


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_three_of_each(transform: str) -> None:
    cases = [x for x in CASES if x.transform == transform]
    assert len(cases) >= 3
    assert any(x.before != x.after for x in cases)
