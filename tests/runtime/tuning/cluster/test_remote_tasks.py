"""Tasks are text and numbers: they travel, and are compiled and measured for the machine that measures."""

from __future__ import annotations

import pickle
from dataclasses import replace

import andiron
import pytest
from andiron.dsl.errors.run import CannotTune, VersionsDiffer
from andiron.runtime.tuning.cluster import remote_tasks, task
from andiron.runtime.tuning.cluster.candidates import CompiledCandidate
from andiron.runtime.tuning.trials import trials_for

from ....support.gemm_file import GEMM_OP as GEMM

SIZES = {"M": 61, "N": 47, "K": 33}


def task_for(text=GEMM, target="cpu", **sizes):
    request = andiron.compile(text, target=target, tune=0, **(sizes or SIZES)).request
    assert request is not None
    return request, task.task_of(request, 0, 3, 1.0)


@pytest.mark.parametrize("target", ["cpu", "cpu:generic", "cuda:sm_80"])
def test_candidates_are_those_of_a_search_here(target):
    request, asked = task_for(target=target)
    asked = pickle.loads(pickle.dumps(replace(asked, machine=task.Machine.here())))
    listed = remote_tasks.list_candidates(asked)
    made = [remote_tasks.compile_candidate(asked, c) for c in listed[:3]]  # the second is the first, which the model chooses
    trials, _ = trials_for(request, 0, 2, dict(asked.dims), lambda _: None)
    assert [*dict.fromkeys(c.source for c in made)] == [t.variant.source for t in trials]
    assert made[0].built_for


def test_code_for_another_machine_is_built_there():
    """The compiler is told of the other machine, and builds nothing that might use instructions it lacks."""
    _, asked = task_for()
    here = task.Machine.here()
    there = replace(
        here, identity="another", device="device cpu:native extends cpu:generic:\n    level core: finite 3\n", cores=3
    )
    asked = replace(asked, machine=there)
    made = remote_tasks.compile_candidate(asked, remote_tasks.list_candidates(asked)[0])
    plain = andiron.compile(GEMM, threads=2, tune=0, **SIZES)
    assert made.built_for == ""
    assert made.source != plain.source
    found = remote_tasks.measure_candidates(asked, (made,))
    assert found.candidates[0].verdict == "right"
    assert found.candidates[0].toolchain


def test_what_no_time_was_left_for_is_late(monkeypatch):
    """What a database has as right was timed."""
    _, asked = task_for()
    asked = replace(asked, machine=task.Machine.here())
    made = remote_tasks.compile_candidate(asked, remote_tasks.list_candidates(asked)[0])
    monkeypatch.setattr(remote_tasks.TrialRuns, "race", lambda *_: False)
    (found,) = remote_tasks.measure_candidates(asked, (made,)).candidates
    assert (found.verdict, found.samples, found.detail) == ("late", (), "not timed: no time was left")


def test_another_version_is_refused_in_words():
    _, asked = task_for()
    old = replace(asked, made_by=("0.0.1", 0))
    for call in (remote_tasks.describe_machine, remote_tasks.list_candidates):
        with pytest.raises(VersionsDiffer, match=r"has Andiron .* and the task is of 0\.0\.1 \(protocol 0\)"):
            call(old)
    with pytest.raises(VersionsDiffer):
        remote_tasks.measure_candidates(old, (CompiledCandidate("", code=b"of another version"),))


def test_an_emulated_device_is_not_measured():
    _, asked = task_for(target="emulate:sm_80")
    with pytest.raises(CannotTune, match="emulated"):
        remote_tasks.describe_machine(asked)
