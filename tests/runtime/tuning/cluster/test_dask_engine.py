"""Tuning on a cluster of Dask: a scheduler, a worker that measures and three that compile, all of them on this machine."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import andiron
import pytest
from andiron.dsl.errors.run import ExecutorFailed, NoPackage
from andiron.runtime.tuning.cluster import dask_engine
from andiron.runtime.tuning.cluster.campaign import Campaign
from andiron.runtime.tuning.cluster.engine import COMPILE, MEASURE
from andiron.runtime.tuning.cluster.open_engine import open_engine
from andiron.runtime.tuning.cluster.task import task_of
from andiron.runtime.tuning.cluster.task_run import TaskRun
from andiron.runtime.tuning.database.open_database import open_database

from ....support.gemm_file import GEMM_OP as GEMM
from ....support.tuning.dask_nodes import DaskNodes

RESOURCES = ["measure=1", "compile=1", "compile=1", "compile=1"]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    folder = tmp_path_factory.mktemp("nodes")
    found = DaskNodes(folder, folder / "cache", RESOURCES)
    yield found
    found.close()


def campaign(executor, database: Path, sizes=((61, 47), (64, 48), (61, 47)), watch=lambda _: None) -> Campaign:
    """Two tasks, one of them twice."""
    runs = []
    for m, n in sizes:
        request = andiron.compile(GEMM, tune=0, M=m, N=n, K=33).request
        assert request is not None
        runs.append(TaskRun(task_of(request, 0, 2, 5.0), request, 0))
    engine = open_engine(executor)
    found = Campaign(engine, runs, open_database(database), watch=watch)
    try:
        found.run()
    finally:
        engine.close()
    return found


def rows(database: Path) -> list[tuple[str, str, str, str]]:
    return sorted((str(m.task.sizes), m.schedule, m.verdict, m.run) for m in open_database(database).rows())


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The rows that there must be, from threads of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("andiron.runtime.tuning.racing.ROUNDS", 3)
        folder = tmp_path_factory.mktemp("expected")
        patch.setenv("ANDIRON_CACHE", str(folder / "cache"))
        campaign(lambda: ThreadPoolExecutor(2), folder / "rows.db")
    found = rows(folder / "rows.db")
    assert len(found) == 4
    return found


def test_no_row_is_lost_and_none_is_twice(nodes, expected, tmp_path):
    found = campaign(nodes.address, tmp_path / "rows.db")
    assert [r.state for r in found.runs] == ["done"] * 3
    assert rows(tmp_path / "rows.db") == expected
    again = campaign(nodes.address, tmp_path / "rows.db")
    assert (again.measured, rows(tmp_path / "rows.db")) == (0, expected)


@pytest.mark.parametrize("faults", [("kill-list", "kill-compile", "kill-measure"), ("scheduler-measure",)])
def test_not_even_where_some_die(nodes, expected, tmp_path, faults):
    """A worker while it lists, one while it compiles, one while it measures; the scheduler while something is measured. Nobody
    sees a traceback of Dask's."""
    for fault in faults:
        (nodes.folder / f"{fault}_candidates").touch()
    said = StringIO()
    handler = logging.StreamHandler(said)
    for name in dask_engine.LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        found = campaign(nodes.address, tmp_path / "rows.db", sizes=[(61, 47)])
    finally:
        for name in dask_engine.LOGGERS:
            logging.getLogger(name).removeHandler(handler)
    assert said.getvalue() == ""
    assert found.runs[0].state == "done"
    assert rows(tmp_path / "rows.db") == [row for row in expected if "61" in row[0]]
    assert not list(nodes.folder.glob("*_candidates"))


def test_a_worker_that_hangs_is_given_up(nodes, expected, tmp_path):
    """It is ended, and started again: it would keep the device for ever."""
    (nodes.folder / "hang-measure_candidates").touch()
    limits = []

    def limit_it(found: Campaign) -> None:
        if (nodes.folder / "hanging").exists():  # the time is up at once
            (nodes.folder / "hanging").unlink()
            (running,) = found._dispatcher._running.values()
            running.work.limit = 0.0
            limits.append(running)

    campaign(nodes.address, tmp_path / "rows.db", sizes=[(61, 47)], watch=limit_it)
    assert len(limits) == 1
    assert rows(tmp_path / "rows.db") == [row for row in expected if "61" in row[0]]


def test_a_candidate_that_kills_workers_is_set_aside(nodes, expected, tmp_path):
    (nodes.folder / "kill-every-measure_candidates").write_text("as it was")
    try:
        found = campaign(nodes.address, tmp_path / "rows.db", sizes=[(61, 47)]).runs[0]
    finally:
        (nodes.folder / "kill-every-measure_candidates").unlink()
    assert [t.verdict for t in found.trials] == ["died", "right"]
    assert "set aside: died on 2 workers" in found.trials[0].rejected
    assert [verdict for _, _, verdict, _ in rows(tmp_path / "rows.db")].count("died") == 1


def test_an_executor_of_dasks_own_is_one_like_others(nodes, expected, tmp_path):
    from distributed import Client

    with Client(nodes.address, set_as_default=False) as client:
        campaign(client.get_executor(pure=False), tmp_path / "rows.db", sizes=[(61, 47)])
    assert rows(tmp_path / "rows.db") == [row for row in expected if "61" in row[0]]


def test_no_scheduler(monkeypatch):
    pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    monkeypatch.setattr(dask_engine, "_PATIENCE", 0.2)
    with pytest.raises(ExecutorFailed, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        open_engine("tcp://127.0.0.1:9")


def test_nothing_of_dasks_is_made_for_an_address_where_nothing_is(monkeypatch):
    """A failed client of Dask's takes a minute, and leaves a traceback when it is collected."""
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    monkeypatch.setattr(distributed, "Client", None)
    monkeypatch.setattr(dask_engine, "_PATIENCE", 0.1)
    for address in ("foo", "tcp://foo", "", "foo:", "foo:0", "foo:99999", "tcp://:8786", "a b", "::1"):
        with pytest.raises(ExecutorFailed, match="is no address of a scheduler: it has no host and port") as caught:
            open_engine(address)
        assert "8786" in str(caught.value.help)
    for address in ("127.0.0.1:9", "tls://127.0.0.1:9"):
        with pytest.raises(ExecutorFailed, match="no scheduler answers at"):
            open_engine(address)


def test_no_dask(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(NoPackage, match="Dask") as caught:
        open_engine("tcp://127.0.0.1:9")
    assert "andiron[cluster]" in str(caught.value)


def test_what_is_lacking_is_what_work_asked_for(monkeypatch):
    """Workers come and go with the scheduler. What was submitted for them waits for such ones, and so does what comes."""
    pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

    class Client:
        scheduler_info = staticmethod(lambda n_workers: {"workers": dict(enumerate(workers))})
        close = processing = staticmethod(lambda **_: {})

    workers = []
    monkeypatch.setattr(dask_engine, "_NEWS", 0.0)
    monkeypatch.setattr(dask_engine.DaskEngine, "_connected", lambda self: Client)
    engine = open_engine("tcp://host:8786")
    start = "`dask worker tcp://host:8786 --nthreads 1"
    assert engine.lacking(COMPILE, "cpu") == f"a worker: {start}`"
    assert engine.lacking(MEASURE, "cpu") == f"a worker that measures: {start} --resources measure=1`"
    workers = [{"resources": {"cuda:sm_90a": 1.0}, "nthreads": 1}, {"resources": {"compile": 1.0}, "nthreads": 1}]
    assert engine.lacking(COMPILE, "cpu") == engine.lacking(MEASURE, "cuda:sm_90a") == ""
    assert engine.lacking(MEASURE, "cpu")
    workers = []
    engine.renew("it was started again")
    assert engine.lacking(COMPILE, "cpu") == f"a worker that compiles: {start} --resources compile=1`"
    assert engine.lacking(MEASURE, "cuda:sm_90a") == f"a worker that measures: {start} --resources cuda:sm_90a=1`"
    assert engine.abandon(Future()) is False  # nobody had it
