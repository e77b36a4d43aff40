"""Measured search: the winner is used and kept; what is wrong, breaks or does not end cannot win."""

from __future__ import annotations

import os
import re
import signal
import threading

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentShape, CannotTune, NothingRight
from andiron.runtime.compile import CompileRequest, resolve_request
from andiron.runtime.tuning import search
from andiron.runtime.tuning import worker_client as benches
from andiron.runtime.tuning.tuning_store import load_record
from andiron.runtime.tuning.worker_client import WorkerClient, WorkerFailed

from ...support.gemm_file import GEMM_OP as GEMM

PARAM = """
schedule rows for gemm:
    param R in 1, 2, 4
    tile m: R -> core
    tile n: 16
    keep C in register
    tile k: 1
    compute
"""
SIZES = {"M": 61, "N": 47, "K": 33}
ENTRY = re.compile(r'(extern "C" [^\n]* int andiron_\w+\([^\n]*\) \{\n)')


@pytest.fixture
def last_wins(monkeypatch):
    """What is fastest is a matter of the day; what becomes of it is not."""
    monkeypatch.setattr(search, "winner", lambda trials: [t for t in trials if t.samples and not t.rejected][-1])


def spoil(monkeypatch, statement: str, also_first: bool = False) -> None:
    """The second candidate, or all of them, gets a statement at the beginning of its code."""
    plain, seen = CompileRequest.variant, []

    def variant(self, schedule, values=None):
        made = plain(self, schedule, values)
        seen.extend([made.schedule] if made.schedule not in seen else [])
        if seen.index(made.schedule) == 1 or also_first:
            made.source = ENTRY.sub(lambda m: m[1] + statement + "\n", made.source)
            assert statement in made.source
        return made

    monkeypatch.setattr(CompileRequest, "variant", variant)


def matrices(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(-4, 5, (m, k)).astype("f4"), rng.integers(-4, 5, (k, n)).astype("f4")


# ---------------------------------------------------------------- the winner


def test_the_winner_is_used_and_found_again(last_wins, monkeypatch):
    k = andiron.compile(GEMM, **SIZES)
    default = k.schedule
    found = k.tune(top=3)
    assert found.kept
    assert found.best.number
    assert k.schedule == found.schedule != default
    assert all(len(t.samples) >= 1 for t in found.trials)
    a, b = matrices(61, 47, 33)
    np.testing.assert_array_equal(k(a, b), a @ b)
    again = andiron.compile(GEMM, **SIZES)
    assert again.schedule == found.schedule
    assert again.source == k.source
    assert "found by tuning" in str(again.report)
    np.testing.assert_array_equal(again(a, b), a @ b)
    # other sizes, another target, another count of threads, other lines: nothing was found for these
    for other in (
        andiron.compile(GEMM, **{**SIZES, "M": 62}),
        andiron.compile(GEMM, target="cpu:generic", **SIZES),
        andiron.compile(GEMM, threads=7, **SIZES),
        andiron.compile(GEMM, schedule="schedule s for gemm:\n    tile m: 4 -> core\n    auto\n", **SIZES),
    ):
        assert other.tuned is None
    # nor where it is not wanted
    assert andiron.compile(GEMM, tune=0, **SIZES).schedule == default
    monkeypatch.setenv("ANDIRON_TUNED", "0")
    assert andiron.compile(GEMM, **SIZES).schedule == default


def test_compile_tunes_once(last_wins, monkeypatch):
    k = andiron.compile(GEMM, tune=2, **SIZES)
    assert k.tuned is not None
    assert k.tuned.asked == 2
    monkeypatch.setattr(search, "Search", None)  # whoever measures now fails
    again = andiron.compile(GEMM, tune=2, **SIZES)
    assert again.schedule == k.schedule
    with pytest.raises(TypeError):
        andiron.compile(GEMM, tune=3, **SIZES)


def test_what_is_no_gain_is_kept_as_such(monkeypatch):
    monkeypatch.setattr(search, "winner", lambda trials: trials[0])
    k = andiron.compile(GEMM, tune=2, **SIZES)
    found = load_record(resolve_request(GEMM, given=SIZES))
    assert found is not None
    assert found.schedule is None
    assert andiron.compile(GEMM, **SIZES).schedule == k.schedule
    assert "nothing faster" in str(andiron.compile(GEMM, **SIZES).report)


def test_given_arrays_and_open_sizes(last_wins):
    a, b = matrices(41, 35, 17)
    k = andiron.compile(GEMM, K=17)
    found = k.tune(a, b, top=2)
    assert found.sizes == {"M": 41, "N": 35, "K": 17}
    again = andiron.compile(GEMM, K=17)
    assert again.schedule == found.schedule
    for m, n in ((41, 35), (1, 1), (100, 3)):
        x, y = matrices(m, n, 17)
        np.testing.assert_array_equal(again(x, y), x @ y)
    with pytest.raises(ArgumentShape):
        k.tune(a, b[:3])


def test_what_was_found_takes_part_again(last_wins):
    k = andiron.compile(GEMM, **SIZES)
    first = k.tune(top=3).schedule
    second = andiron.compile(GEMM, tune=0, **SIZES).tune(top=2)
    assert first in [t.schedule for t in second.trials]


def test_not_kept_if_not_wanted(last_wins):
    k = andiron.compile(GEMM, **SIZES)
    found = k.tune(top=2, keep=False)
    assert k.schedule == found.schedule
    assert andiron.compile(GEMM, **SIZES).tuned is None


def test_parameters_of_a_schedule(last_wins):
    k = andiron.compile(GEMM + PARAM, **SIZES)
    found = k.tune(top=3)
    assert sorted(re.findall(r"tile m: (\d) -> core", "".join(t.schedule for t in found.trials))) == ["1", "2", "4"]
    again = andiron.compile(GEMM + PARAM, **SIZES)
    assert again.schedule == found.schedule
    assert "tile m: 1 -> core" not in again.schedule
    assert "tile m: 1 -> core" in andiron.compile(GEMM + PARAM, R=1, **SIZES).schedule  # said explicitly


def test_several_variants(last_wins):
    """The one for the sizes at hand is tuned, the others stay; conditions hold for the winner, too."""
    text = GEMM + PARAM.replace("for gemm:", "for gemm where M <= 64:") + "\nschedule wide for gemm:\n    tile n: 64 -> core\n"
    k = andiron.compile(text, N=47, K=33)
    assert len(k.variants) == 2
    k.tune(*matrices(61, 47, 33), top=2)
    again = andiron.compile(text, N=47, K=33)
    assert again.schedule == k.schedule
    assert "M <= 64" in again.schedule
    for m in (61, 65):
        a, b = matrices(m, 47, 33)
        np.testing.assert_array_equal(again(a, b), a @ b)


# ---------------------------------------------------------------- who cannot win


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("return 0;", "wrong"),
        ("__builtin_trap();", "ended the process: SIG"),
        ("for (volatile int i = 0;; i++) {}", "cut short"),
    ],
)
def test_a_broken_candidate_is_rejected(monkeypatch, statement, reason):
    spoil(monkeypatch, statement)
    monkeypatch.setattr("andiron.runtime.tuning.racing._PATIENCE", 1.0)  # the endless one is given up sooner
    k = andiron.compile(GEMM, **SIZES)
    found = k.tune(top=3, seconds=600)  # on a busy machine the good ones take their time
    bad = found.trials[1]
    assert bad.rejected.startswith(reason)
    assert bad is not found.best
    assert not bad.samples
    assert sum(not t.rejected for t in found.trials) == 2
    assert reason in str(found)
    a, b = matrices(61, 47, 33)
    np.testing.assert_array_equal(k(a, b), a @ b)


def test_results_that_are_no_floats_are_poisoned_twice(monkeypatch):
    """An element that is not written holds by chance what is right."""
    text = "op count[M, N](X: i8[M, N]) -> (S: i32[M]):\n    S[i] = sum(j) i32(X[i, j])\n"
    spoil(monkeypatch, "return 0;")
    k = andiron.compile(text, M=40, N=1)
    x = np.full((40, 1), -1, "i1")
    assert k.tune(x, top=2).trials[1].rejected.startswith("wrong")


def test_a_candidate_that_cannot_be_compiled_is_set_aside(monkeypatch):
    """Whatever is wrong with it, a fault of ours too; the first one's is raised."""
    plain, seen = CompileRequest.variant, []

    def variant(self, schedule, values=None):
        seen.append(schedule)
        if len(seen) == 4:
            raise KeyError("a fault")
        return plain(self, schedule, values)

    monkeypatch.setattr(CompileRequest, "variant", variant)
    found = andiron.compile(GEMM, **SIZES).tune(top=3, keep=False)
    assert len(found.trials) == 3
    assert [reason for _, reason in found.refused] == ["internal: KeyError: 'a fault'"]
    assert "1 more could not be made" in str(found)


@pytest.mark.parametrize("others", [0.0, 60.0])
def test_a_deadline_moves_by_the_time_that_others_had_the_core(monkeypatch, others):
    """For a worker that cannot run when it is asked something, because others do, or for another reason."""
    with WorkerClient(lambda ask: ask("take", [])) as bench:
        bench.ask("take", [])
        process = bench._process
        assert process is not None
        said = iter([0.0])
        monkeypatch.setattr(benches, "_waited", lambda pid: next(said, others))
        os.kill(process.pid, signal.SIGSTOP)
        if not others:
            with pytest.raises(WorkerFailed) as caught:
                bench.ask("take", [], limit=0.2)
            assert caught.value.late
            return
        threading.Timer(1.0, os.kill, (process.pid, signal.SIGCONT)).start()
        bench.ask("take", [], limit=0.2)


def test_no_candidate_is_right(monkeypatch):
    spoil(monkeypatch, "return 0;", also_first=True)
    with pytest.raises(NothingRight, match="as it was: wrong"):
        andiron.compile(GEMM, **SIZES).tune(top=2)
    assert load_record(resolve_request(GEMM, given=SIZES)) is None


def test_no_time_at_all():
    """The schedule as it was is measured, and that is all."""
    found = andiron.compile(GEMM, **SIZES).tune(top=3, seconds=0.0)
    assert found.best.number == 0
    assert "time is up" in found.interrupted
    assert andiron.compile(GEMM, **SIZES).tuned.asked == 0


def test_what_cannot_be_tuned(tmp_path):
    with pytest.raises(CannotTune, match="emulated"):
        andiron.compile(GEMM, target="emulate:sm_80", **SIZES).tune()
    explicit = andiron.compile(GEMM, **SIZES).schedule
    with pytest.raises(CannotTune, match="nothing open"):
        andiron.compile(GEMM, schedule=explicit, **SIZES).tune()
    k = andiron.compile(GEMM, target="cpu:generic", **SIZES)
    k.save(tmp_path / "k")
    loaded = andiron.load_kernel(tmp_path / "k")
    loaded.request = None
    with pytest.raises(CannotTune, match="loaded"):
        loaded.tune()


def test_auto_is_the_compilers_own():
    text = GEMM + "\nschedule tiny for gemm:\n    tile m: 1\n    compute\n"
    assert andiron.compile(text, **SIZES).schedule.startswith("schedule tiny")
    assert andiron.compile(text, schedule="auto", **SIZES).schedule == andiron.compile(GEMM, **SIZES).schedule


# ---------------------------------------------------------------- the process that runs them


def test_a_worker_that_dies_is_replaced():
    started = []
    with WorkerClient(lambda ask: started.append(ask("take", []))) as bench:
        with pytest.raises(WorkerFailed, match="KeyError"):
            bench.ask("time", 5, 1)  # an error is an answer
        assert len(started) == 1
        assert bench._process is not None
        bench._process.send_signal(signal.SIGSTOP)  # its answer would come at once
        with pytest.raises(WorkerFailed, match="took too long") as late:
            bench.ask("check", 0, limit=0.0)
        assert late.value.late
        bench.ask("drop", 0)
        assert len(started) == 2


def test_a_lack_of_memory_is_no_verdict():
    """Whether it is the first thing that a worker does, or a later one."""
    request = andiron.compile(GEMM, tune=0, **SIZES).request
    assert request is not None
    far_too_much = ("random", request.op, {"M": 1 << 31, "N": 1, "K": 1 << 31}, 0)
    with WorkerClient(lambda ask: None) as bench:
        with pytest.raises(WorkerFailed) as caught:
            bench.ask(*far_too_much)
        assert caught.value.verdict == "unable"
    with WorkerClient(lambda ask: ask(*far_too_much)) as bench, pytest.raises(MemoryError):
        bench.ask("drop", 0)
