"""Arguments of the wrong type or range are refused by name, not by a later failure."""

from __future__ import annotations

import copy
import pickle

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentCount, ArgumentKind, ArgumentShape, CannotSave, OutputReadOnly
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
    "flag", [{"checks": 2}, {"checks": "no"}, {"checks": None}, {"verify": "x"}, {"verify": 3}, {"verify": None}]
)
def test_a_flag_is_true_or_false(flag):
    with pytest.raises(ArgumentKind, match=f"`{next(iter(flag))}`"):
        andiron.compile(MODULE, schedule="blocks", **flag)


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


@pytest.mark.parametrize("value", [None, [], "4", 2.0, float("nan"), float("inf")])
def test_a_parameter_is_an_integer(value):
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


@pytest.mark.parametrize("argument", [5, "x", None, object(), [1.0]])
def test_what_is_no_array_is_refused_with_a_way_out(kernel, argument):
    with pytest.raises(ArgumentKind, match="not an array") as caught:
        kernel(argument)
    assert caught.value.help


@pytest.mark.parametrize("method", ["host", "place", "fetch", "prepare"])
def test_what_is_no_list_of_arrays_is_refused(kernel, method):
    with pytest.raises(ArgumentKind, match=" is 5 of type int; expected"):
        getattr(kernel, method)(5)


def test_rows_of_several_lengths_beside_an_array_of_a_wrong_rank():
    kernel = andiron.compile(andiron.loads("op add[N](X: f32[N], Z: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] + Z[i]"))
    with pytest.raises(ArgumentKind, match="Z is a list"):
        kernel(np.ones((3, 3), "f4"), [[1], [2, 3]])
    with pytest.raises(ArgumentShape, match="X has shape"):
        kernel(np.ones((3, 3), "f4"), np.ones(3, "f4"))


@pytest.mark.parametrize("out", [5, 5.0, np.float32(5)])
def test_a_number_is_no_memory_for_a_result(out):
    kernel = andiron.compile(andiron.loads("op total[N](X: f32[N]) -> (Y: f32):\n    Y = sum(i) X[i]"))
    with pytest.raises(OutputReadOnly, match="out `Y` is a number"):
        kernel(np.ones(3, "f4"), out=out)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_kernel_has_its_own_options(kernel, copied):
    other = copied(kernel)
    other.threads = kernel.threads + 1
    assert other.threads != kernel.threads
    assert other.source == kernel.source
    np.testing.assert_array_equal(other(np.ones(3, "f4")), [2, 2, 2])


def test_a_kernel_is_not_pickled(kernel):
    with pytest.raises(CannotSave, match="cannot be pickled") as caught:
        pickle.dumps(kernel)
    assert "load_kernel" in (caught.value.help or "")
