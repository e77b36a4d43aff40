"""Work that is lost is done again, a bounded number of times; what is late is given up; results that came are kept."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, CancelledError, Future

import pytest
from andiron.dsl.errors import InternalError
from andiron.dsl.errors.run import ExecutorFailed, VersionsDiffer
from andiron.runtime.tuning.cluster.dispatcher import Dispatcher, Work
from andiron.runtime.tuning.cluster.engine import COMPILE, MEASURE


class Killed(Exception):
    """As Dask says that a worker died."""


class Script:
    """An engine whose workers do what a list of answers says: a value, an exception, or None for no answer at all."""

    lacking = staticmethod(lambda kind, target: "")
    close = interrupt = staticmethod(lambda: None)

    def __init__(self, answers, slots=4, measures_alone=False, names_worker=True):
        self.answers, self.count = list(answers), slots
        self.measures_alone, self.names_worker = measures_alone, names_worker
        self.had_it = True  # whether a worker had what was late
        self.futures, self.abandoned, self.renewed, self.most = [], 0, 0, 0

    def submit(self, kind, target, function, *arguments):
        future = Future()
        self.futures.append(future)
        self.most = max(self.most, sum(not f.done() for f in self.futures))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)
        return future

    def slots(self, kind):
        return self.count

    def workers(self):
        return self.count

    def abandon(self, future):
        self.abandoned += 1
        return self.had_it

    def renew(self, reason):
        self.renewed += 1


def work(log, name, kind=COMPILE, most=2, limit=1e9):
    def note(what):
        return lambda *answer: log.append((name, what, *answer))

    return Work(kind, "cpu", len, (), limit, most, note("done"), note("refused"), note("lost"))


def run(engine, *works, **options):
    dispatcher = Dispatcher(engine, **options)
    for one in works:
        dispatcher.add(one)
    dispatcher.run()


def test_lost_work_is_done_again_and_then_set_aside():
    log, said = [], []
    run(Script([Killed("x"), 7]), work(log, "a"), say=said.append)
    run(Script([Killed("y. See its log"), Killed("y. See its log")]), work(log, "b"))
    assert log == [("a", "done", 7), ("b", "lost", "died", "Killed: y")]
    assert len(said) == 1


def test_a_lack_of_memory_is_no_death():
    """Another worker may have it; so work that may fail once only is done again too."""
    log, said = [], []
    run(Script([MemoryError("549. MiB"), 7]), work(log, "a", most=1), say=said.append)
    run(Script([MemoryError("549. MiB")] * 2), work(log, "b", most=1))
    assert log == [("a", "done", 7), ("b", "lost", "unable", "it has not enough memory: 549. MiB")]
    assert said == ["a worker failed, and its work is done again: it has not enough memory: 549. MiB"]


def test_a_lack_of_memory_before_another_work_breaks_the_pool_is_no_death():
    """What was under way when a pool broke is done again alone, whatever a worker lacked before."""
    log = []
    engine = Script([MemoryError(), BrokenExecutor("x"), BrokenExecutor("x"), 1, 2], slots=2, names_worker=False)
    run(engine, work(log, "a"), work(log, "b"))
    assert sorted(log) == [("a", "done", 1), ("b", "done", 2)]


def test_what_would_fail_anywhere_is_not_done_again():
    log = []
    mistakes = [VersionsDiffer("old"), ModuleNotFoundError("no module andiron.new"), KeyError("ours")]
    run(Script(mistakes, slots=1), *(work(log, n) for n in "abc"))
    assert [(name, what, type(error)) for name, what, error in log] == [
        ("a", "refused", VersionsDiffer), ("b", "refused", VersionsDiffer), ("c", "refused", InternalError)
    ]  # fmt: skip


def test_work_whose_worker_is_silent_is_late(monkeypatch):
    """The clock moves on by itself, as for who waits. A result of another worker moves the limit."""
    monkeypatch.setattr("andiron.runtime.tuning.cluster.dispatcher._MOMENT", 1e-3)
    log, seconds = [], iter(range(10**6))
    engine = Script([None, 1, None])
    run(engine, work(log, "a", limit=30, most=2), work(log, "b"), clock=lambda: next(seconds))
    assert log == [("b", "done", 1), ("a", "lost", "late", "no answer for 30 s")]
    assert engine.abandoned == 2


def test_a_lost_connection_is_no_fault_of_the_work():
    log = []
    engine = Script([None, 1, CancelledError("scheduler lost"), 2, 3])
    run(engine, *(work(log, name, most=1) for name in "abc"))
    assert sorted(log) == [("a", "done", 2), ("b", "done", 1), ("c", "done", 3)]
    assert engine.renewed == 1


def test_who_broke_a_pool_is_found_alone():
    """`a` and `b` ran when the pool broke. Alone `a` breaks it again; `b` does not."""
    log = []
    engine = Script([None, BrokenExecutor("x"), BrokenExecutor("x"), 2], names_worker=False)
    run(engine, work(log, "a"), work(log, "b"))
    assert log == [("a", "lost", "died", "BrokenExecutor: x"), ("b", "done", 2)]
    assert engine.renewed == 2


def test_an_executor_that_only_fails_is_given_up():
    with pytest.raises(ExecutorFailed, match="6 times without a result"):
        run(Script([ConnectionError("no")] * 20), work([], "a"))


def test_nothing_is_compiled_while_is_measured_on_the_same_machine():
    log = []
    engine = Script([1, 2, 3, 4], measures_alone=True)
    run(engine, *(work(log, kind, kind) for kind in (COMPILE, MEASURE, COMPILE, MEASURE)))
    assert [kind for kind, *_ in log] == [COMPILE, MEASURE, COMPILE, MEASURE]


def test_a_worker_is_late_while_others_work(monkeypatch):
    """What comes back of another kind does not hide it."""
    monkeypatch.setattr("andiron.runtime.tuning.cluster.dispatcher._MOMENT", 1e-3)
    log, seconds = [], iter(range(10**6))
    engine = Script([None, *range(1, 40)])
    run(engine, work(log, "m", MEASURE, limit=30, most=1), *(work(log, "c") for _ in range(39)), clock=lambda: next(seconds))
    assert log[-1] != ("m", "lost", "late", "no answer for 30 s")
    assert ("m", "lost", "late", "no answer for 30 s") in log


def test_work_that_perhaps_no_worker_had_is_not_late(monkeypatch):
    monkeypatch.setattr("andiron.runtime.tuning.cluster.dispatcher._MOMENT", 1e-3)
    log, seconds = [], iter(range(10**6))
    engine = Script([None, None])
    engine.had_it = False
    run(engine, work(log, "a", MEASURE, limit=30), clock=lambda: next(seconds))
    assert log == [("a", "lost", "unanswered", "no answer for 30 s")]


@pytest.mark.parametrize("patient", [True, False])
def test_work_waits_while_there_is_no_worker(monkeypatch, patient):
    """The only worker has gone, and comes after many limits. What is waited for is said at once, and then rarely."""
    monkeypatch.setattr("andiron.runtime.tuning.cluster.dispatcher._MOMENT", 1e-3)
    log, said, now = [], [], [1.0]
    engine = Script([None] * 9)

    def lacking(kind, target):
        now[0] += 10.0
        if now[0] < 1000.0:
            return "a worker that measures: `it`"
        if patient:
            engine.futures[0].set_result(7)
        return ""

    engine.lacking = lacking
    waiting = work(log, "a", MEASURE, limit=30)
    waiting.patient = patient
    run(engine, waiting, clock=lambda: now[0], say=said.append)
    if patient:
        assert log == [("a", "done", 7)]
        assert said == ["waiting for a worker that measures: `it`"] * 4
        assert engine.abandoned == 0
    else:
        assert log == [("a", "lost", "late", "no answer for 30 s")]
