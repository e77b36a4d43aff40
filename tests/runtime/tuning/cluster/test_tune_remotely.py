"""`Kernel.tune` with executors of the standard library: the same rows whichever it is, and a worker that dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentKind, ExecutorFailed
from andiron.runtime.tuning.cluster import remote_tasks
from andiron.runtime.tuning.cluster.task_run import inputs_key
from andiron.runtime.tuning.database.open_database import open_database

from ....support.gemm_file import GEMM_OP as GEMM

SIZES = {"M": 61, "N": 47, "K": 33}


def processes(count: int = 2) -> ProcessPoolExecutor:
    """Forked, so that they have what a test has patched."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("fork"))


def rows():
    return sorted((m.schedule, m.verdict, m.run) for m in open_database().rows())


def fatal_once(monkeypatch, tmp_path, *names: str) -> None:
    """The first call of each kills the process that it is in."""
    for name in names:
        plain, file = getattr(remote_tasks, name), tmp_path / name
        file.touch()

        def call(*arguments, plain=plain, file=file):
            try:
                file.unlink()  # one process alone removes it
            except FileNotFoundError:
                return plain(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        call.__module__, call.__qualname__ = remote_tasks.__name__, name
        monkeypatch.setattr(remote_tasks, name, call)
        monkeypatch.setattr(f"andiron.runtime.tuning.cluster.task_run.{name}", call)


def test_rows_are_the_same_whichever_executor(monkeypatch, tmp_path):
    seen = []
    for number, make in enumerate((lambda: ThreadPoolExecutor(2), processes)):
        monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / str(number)))
        k = andiron.compile(GEMM, **SIZES)
        with make() as pool:
            found = k.tune(top=3, seconds=5, executor=pool)
        assert [t.verdict for t in found.trials] == ["right"] * 3
        assert found.kept
        assert k.schedule == found.schedule
        a, b = np.ones((61, 33), "f4"), np.ones((33, 47), "f4")
        np.testing.assert_array_equal(k(a, b), a @ b)
        assert andiron.compile(GEMM, **SIZES).tuned is not None
        seen.append(rows())
    assert len(seen[0]) == 3
    assert seen[0] == seen[1]
    # A second time nothing is measured, and no row is added.
    monkeypatch.setattr(remote_tasks, "TrialRuns", None)
    again = andiron.compile(GEMM, tune=0, **SIZES).tune(top=3, seconds=5, executor=lambda: ThreadPoolExecutor(2))
    assert [t.samples for t in again.trials[:3]] == [t.samples for t in found.trials]
    assert rows() == seen[1]


def test_processes_that_die_lose_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    fatal_once(monkeypatch, tmp_path, "compile_candidate", "measure_candidates")
    found = andiron.compile(GEMM, **SIZES).tune(top=2, seconds=5, executor=processes)
    assert [t.verdict for t in found.trials] == ["right"] * 2
    assert len(rows()) == 2
    assert not list(tmp_path.glob("*_candidate*"))


def test_a_broken_pool_that_nobody_makes_again_ends_in_words(monkeypatch, tmp_path):
    fatal_once(monkeypatch, tmp_path, "compile_candidate")
    with processes() as pool, pytest.raises(ExecutorFailed, match="the executor broke"):
        andiron.compile(GEMM, **SIZES).tune(top=2, executor=pool)


def test_given_arrays_are_measured_with_and_others_are_another_task():
    a, b = np.ones((61, 33), "f4"), np.ones((33, 47), "f4")
    k = andiron.compile(GEMM, K=33)
    found = k.tune(a, b, top=1, seconds=5, executor=lambda: ThreadPoolExecutor(2))
    assert found.sizes == SIZES
    assert len({inputs_key(None), inputs_key([a, b]), inputs_key([a + 1, b])}) == 3


def test_what_is_no_executor_is_refused():
    with pytest.raises(ArgumentKind, match="executor is a int; expected one with `submit`"):
        andiron.compile(GEMM, **SIZES).tune(executor=3)


class Faulty:
    """An executor whose `submit` does what a function does."""

    def __init__(self, submit):
        self.submit = submit


def raises(*_):
    raise ValueError("not today")


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        (Faulty(raises), "`submit` of the executor raised ValueError: not today"),
        (Faulty(lambda: None), "`submit` of the executor raised TypeError"),
        (Faulty(lambda *_: 3), "`submit` of the executor gave a int, which has no `add_done_callback`"),
        (lambda: Faulty(lambda *_: None), "`submit` of the executor gave a NoneType"),
        (raises, "the function that makes an executor raised ValueError: not today"),
        (lambda one: None, "the function that makes an executor raised TypeError"),
    ],
)
def test_a_faulty_executor_ends_in_words(executor, said):
    with pytest.raises(ExecutorFailed) as caught:
        andiron.compile(GEMM, **SIZES).tune(top=1, executor=executor)
    assert said in caught.value.message
    assert caught.value.help


@pytest.mark.parametrize("asked", [{"top": 10**20}, {"top": 1, "trials": 10**20}])
def test_far_too_many_candidates_are_refused(asked):
    """By a search here too."""
    for executor in (None, lambda: ThreadPoolExecutor(1)):
        with pytest.raises(ArgumentKind, match="is too large"):
            andiron.compile(GEMM, tune=0, **SIZES).tune(executor=executor, **asked)
