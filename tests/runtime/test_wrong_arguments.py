"""Arguments of the wrong type or range are refused by name, not by a later failure."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentCount, ArgumentKind
from andiron.dsl.errors.target import CannotWrite

TEXT = """
op double[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = 2.0 * X[i]

schedule blocks for double:
    param B in 2, 4 = 4
    tile i: B -> core
    compute
"""
MODULE = andiron.loads(TEXT)


@pytest.fixture(scope="module")
def kernel():
    return andiron.compile(MODULE, schedule="blocks")


@pytest.mark.parametrize("tune", [-1, 1.5, "3"])
def test_a_number_of_candidates_is_a_whole_number(tune):
    with pytest.raises(ArgumentKind, match="`tune`"):
        andiron.compile(MODULE, schedule="blocks", tune=tune)


@pytest.mark.parametrize(
    "options", [{"top": 0}, {"top": -1}, {"top": "all"}, {"seconds": "x"}, {"seconds": -1}, {"seconds": float("nan")}]
)
def test_options_of_a_search_are_numbers(kernel, options):
    with pytest.raises(ArgumentKind, match=f"`{next(iter(options))}`"):
        kernel.tune(**options)


@pytest.mark.parametrize("repeat", [0, -1, "x"])
def test_a_benchmark_has_samples(kernel, repeat):
    with pytest.raises(ArgumentKind, match="`repeat`"):
        kernel.benchmark(np.ones(3, "f4"), repeat=repeat)


@pytest.mark.parametrize("value", [None, [], "4"])
def test_a_parameter_is_a_number(value):
    with pytest.raises(ArgumentKind, match="`B`"):
        andiron.compile(MODULE, schedule="blocks", params={"B": value})


def test_a_kernel_is_saved_to_a_path(kernel, tmp_path):
    with pytest.raises(ArgumentKind, match="`path`"):
        kernel.save(None)
    with pytest.raises(CannotWrite, match="null"):
        kernel.save(f"{tmp_path}/a\0b")


def test_lines_of_a_schedule_builder_have_their_arguments():
    schedule = andiron.Schedule("s", "double")
    for arguments in ((), ("Y",)):
        with pytest.raises(ArgumentCount, match="`keep`"):
            schedule.keep(*arguments)
    assert "layout (3)" in str(schedule.move("X", "l2", layout=3))
