"""A search outwards on an engine: cut off and begun again it measures nothing twice, and a second run measures nothing."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import andiron
import pytest
from andiron.runtime.tuning.cluster import remote_tasks, task_run, task_search
from andiron.runtime.tuning.cluster.campaign import Campaign
from andiron.runtime.tuning.cluster.candidates import CompiledCandidate, MeasuredBatch, MeasuredCandidate
from andiron.runtime.tuning.cluster.dispatcher import Dispatcher
from andiron.runtime.tuning.cluster.engine import COMPILE, MEASURE
from andiron.runtime.tuning.cluster.task import task_of
from andiron.runtime.tuning.cluster.task_run import TaskRun
from andiron.runtime.tuning.database.database import Database
from andiron.runtime.tuning.database.sqlite_file import SqliteFile

from ....support.tuning.landscape import OP, SIZES, seconds_of

TRIALS = 20


class Killed(Exception):
    """As Dask says that a worker died."""


class Engine:
    """Work is done at once. `fails`: the numbers of measurements that raise, each with what."""

    measures_alone, names_worker = False, True
    lacking = staticmethod(lambda kind, target: "")
    close = interrupt = staticmethod(lambda *_: None)

    def __init__(self, fails=None):
        self.fails, self.races = fails or {}, []

    def submit(self, kind, target, function, *arguments):
        future = Future()
        if kind == MEASURE and function is not remote_tasks.describe_machine:
            self.races.append([c.schedule for c in arguments[1]])
            error = self.fails.get(len(self.races))
            if isinstance(error, KeyboardInterrupt):
                raise error
            if error is not None:
                future.set_exception(error)
                return future
        future.set_result(function(*arguments))
        return future

    def slots(self, kind):
        return 1 if kind == MEASURE else 4

    def workers(self):
        return 4


def measure(task, candidates, inputs=None, seconds=None):
    found = tuple(MeasuredCandidate(c.schedule, "right", (seconds_of(c.schedule),) * 9, "", "") for c in candidates)
    return MeasuredBatch(found, "", "here", "host", 0.01)


@pytest.fixture(autouse=True)
def stubs(monkeypatch):
    """Candidates are compiled to text; none is built or run."""

    def compiled(task, candidate):
        made = remote_tasks.outline_candidate(task, candidate)
        return CompiledCandidate(
            made.about, made.predicted, made.bound, made.schedule, made.source, b"code", refused=made.refused
        )

    for module in (task_run, task_search):
        monkeypatch.setattr(module, "compile_candidate", compiled)
        monkeypatch.setattr(module, "measure_candidates", measure)
    monkeypatch.setattr(remote_tasks, "fingerprint_of", lambda request: "here")


def tune(path, engine, trials=TRIALS):
    request = andiron.compile(OP, target="cpu:avx2", threads=1, tune=0, **SIZES).request
    assert request is not None
    run = TaskRun(task_of(request, 0, 4, 60.0, trials=trials), request, 0)
    campaign = Campaign(engine, [run], Database(SqliteFile(path)))
    campaign.run()
    return run, campaign


def test_a_search_that_was_cut_off_goes_on(tmp_path):
    plain = Engine()
    run, _ = tune(tmp_path / "a.db", plain)
    assert len(run.trials) == TRIALS
    assert run.best is not None
    assert run.best.number >= 4
    cut = Engine({3: KeyboardInterrupt()})
    stopped, campaign = tune(tmp_path / "b.db", cut)
    assert campaign.stopped == "interrupted"
    assert stopped.best is not None
    again = Engine()
    resumed, _ = tune(tmp_path / "b.db", again)
    # The same races as without the cut. Each schedule is measured once, and again only to be compared with.
    assert cut.races[:2] + again.races == plain.races
    first, *later, _ = plain.races
    new = [*first, *(s for race in later for s in race[1:])]
    assert sorted(new) == sorted({t.schedule for t in run.trials})
    assert resumed.best is not None
    assert resumed.best.schedule == run.best.schedule
    # A second run measures nothing, nor does a shorter one. A longer one goes on.
    for trials in (TRIALS, 10):
        idle, _ = tune(tmp_path / "b.db", engine := Engine(), trials)
        assert engine.races == []
        assert idle.measured == 0
        assert idle.best is not None
        assert idle.best.schedule == run.best.schedule
    longer = Engine()
    more, _ = tune(tmp_path / "b.db", longer, TRIALS + 8)
    assert 0 < more.measured <= 8
    assert len(longer.races) == 2


def test_a_batch_that_kills_workers_is_split_and_compared(tmp_path):
    """Each half has the incumbent."""
    engine = Engine({2: Killed("died")})
    run, _ = tune(tmp_path / "a.db", engine, 12)
    assert run.state == "done"
    assert {race[0] for race in engine.races[1:4]} == {engine.races[1][0]}
    assert len(run.trials) == 12
    assert all(t.verdict == "right" for t in run.trials)


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 549. MiB"), OSError("no space left")])
@pytest.mark.parametrize("race", [1, 2])
def test_a_lack_of_memory_is_no_verdict(tmp_path, race, error):
    """It is given out twice. The task fails with the reason, and the next run measures what is missing."""
    engine = Engine({race: error, race + 1: error})
    run, _ = tune(tmp_path / "a.db", engine, 12)
    assert run.state == "failed"
    assert str(error) in run.reason
    assert len(engine.races) == race + 1
    assert {m.verdict for m in Database(SqliteFile(tmp_path / "a.db")).rows()} <= {"right"}
    again, _ = tune(tmp_path / "a.db", Engine(), 12)
    assert again.state == "done"
    assert len(again.trials) == 12


@pytest.mark.parametrize("race", [1, 2])
@pytest.mark.parametrize("had_it", [False, True])
def test_what_perhaps_no_worker_had_is_measured_by_the_next_run(tmp_path, monkeypatch, race, had_it):
    """All of a race is silent, and each of its halves: everything is set aside, and stored only if workers had it."""
    monkeypatch.setattr("andiron.runtime.tuning.cluster.dispatcher._MOMENT", 1e-3)
    seconds = iter(range(10**9))
    hasty = partial(Dispatcher, clock=lambda: 1e3 * next(seconds))
    monkeypatch.setattr("andiron.runtime.tuning.cluster.campaign.Dispatcher", hasty)
    engine = Silent(race, had_it)
    run, _ = tune(tmp_path / "a.db", engine, 12)
    verdict = "late" if had_it else "unanswered"
    assert verdict in {t.verdict for t in run.trials}
    found = {m.verdict for m in Database(SqliteFile(tmp_path / "a.db")).rows()}
    assert ("late" in found) == had_it
    assert found <= {"right", "late"}


class Silent(Engine):
    """No measurement from a number on is answered."""

    def __init__(self, race, had_it):
        super().__init__()
        self.first, self.had_it = race, had_it

    def submit(self, kind, target, function, *arguments):
        if kind == MEASURE and function is not remote_tasks.describe_machine and len(self.races) + 1 >= self.first:
            self.races.append([])
            return Future()
        return super().submit(kind, target, function, *arguments)

    def abandon(self, future):
        return self.had_it


class Overtaken(Engine):
    """Another process does all of the task while this one compiles, or measures for the first time."""

    def __init__(self, path, kind, trials):
        super().__init__()
        self.path, self.kind, self.trials, self.other = path, kind, trials, None

    def submit(self, kind, target, function, *arguments):
        future = super().submit(kind, target, function, *arguments)
        if kind == self.kind and function is not remote_tasks.describe_machine and self.other is None:
            self.other, _ = tune(self.path, Engine(), self.trials)
            rows = future.result()
            if kind == MEASURE:  # as it came, it would be slower
                slower = [replace(c, samples=tuple(3 * x for x in c.samples)) for c in rows.candidates]
                future = Future()
                future.set_result(replace(rows, candidates=tuple(slower)))
        return future


@pytest.mark.parametrize("kind", [COMPILE, MEASURE])
@pytest.mark.parametrize("trials", [0, TRIALS])
def test_two_processes_with_one_task_agree(tmp_path, kind, trials):
    """What the other one has stored by then is not measured again, and what both have measured is taken as it is stored."""
    engine = Overtaken(tmp_path / "a.db", kind, trials)
    run, _ = tune(tmp_path / "a.db", engine, trials)
    assert len(engine.races) == (kind == MEASURE)
    assert run.best is not None
    assert (run.best.schedule, run.best.samples) == (engine.other.best.schedule, engine.other.best.samples)
    assert {(t.schedule, t.samples) for t in run.trials} == {(t.schedule, t.samples) for t in engine.other.trials}
    rows = list(Database(SqliteFile(tmp_path / "a.db")).rows())
    assert len({m.key for m in rows}) == len(rows)
