"""`sizes={...}` and `params={...}`: sizes and parameters whose names are those of arguments."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import UserError

CLASHES = ("op", "target", "threads", "checks", "tune", "mod", "schedule", "verify", "sizes", "params")
TWICE = """
op twice[{n}](X: f32[{n}]) -> (Y: f32[{n}]):
    Y[i] = 2.0 * X[i]
"""
PARAM = """
op twice[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = 2.0 * X[i]

schedule s for twice:
    param {n} in 4, 8 = 4
    tile i: {n}
    compute
"""


@pytest.mark.parametrize("name", CLASHES)
def test_size_named_as_an_argument(name):
    k = andiron.compile(TWICE.format(n=name), target="cpu:generic", sizes={name: 8})
    assert k.sizes[name] == 8
    assert andiron.op(TWICE.format(n=name), target="cpu:generic", sizes={name: 8}).sizes[name] == 8


@pytest.mark.parametrize("name", CLASHES)
def test_parameter_of_a_schedule_named_as_an_argument(name):
    k = andiron.compile(PARAM.format(n=name), schedule="s", target="cpu:generic", params={name: 8}, N=32)
    assert "tile i: 8" in k.schedule


def test_decorator():
    @andiron.kernel(TWICE.format(n="threads"), sizes={"threads": 3})
    def twice(X): ...

    assert (twice(np.ones(3, np.float32)) == 2).all()
    assert twice.kernel.sizes == {"threads": 3}


def test_without_target_the_sizes_are_kept_for_other_devices():
    k = andiron.compile(TWICE.format(n="op"), sizes={"op": 3})
    assert (k(np.ones(3, np.float32)) == 2).all()
    assert k.request is not None
    assert k.request.elsewhere is not None


@pytest.mark.parametrize(
    "given", [{"sizes": {"N": 8}, "N": 8}, {"params": {"N": 8}, "N": 8}, {"sizes": {"N": 8}, "params": {"N": 8}}]
)
def test_a_name_given_twice_is_refused(given):
    with pytest.raises(UserError, match="`N` is given twice"):
        andiron.compile(TWICE.format(n="N"), target="cpu:generic", **given)


def test_what_is_no_mapping_is_refused_with_the_way_to_say_it():
    with pytest.raises(UserError, match="expected a mapping") as error:
        andiron.compile(TWICE.format(n="sizes"), target="cpu:generic", sizes=8)  # pyright: ignore[reportArgumentType]
    assert 'sizes={"sizes": ...}' in (error.value.help or "")


def test_schedules_by_programs():
    schedule = andiron.Schedule("s", "f").tile(sizes={"to": 4, "order": 2}, m=3)
    assert "tile m: 3, to: 4, order: 2" in str(schedule)
    with pytest.raises(UserError, match="index `m` is given twice"):
        schedule.tile(m=3, sizes={"m": 3})
