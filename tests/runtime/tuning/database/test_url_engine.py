"""A database on a server: the same rows, the same choices; writers at once; what a URL can be wrong in."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from andiron.dsl.errors.database import DatabaseBusy, DatabaseFailed, ForeignDatabase, NoDatabase
from andiron.dsl.errors.run import NoPackage
from andiron.runtime.tuning.database import schema, url_engine
from andiron.runtime.tuning.database.open_database import open_database
from andiron.runtime.tuning.learn.figures import Figures
from andiron.runtime.tuning.learn.model_store import LearnedModel, newest_model, store_model

from ....support.tuning import postgres
from ....support.tuning.measurements import MACHINE, row, rows, task

FIGURES = Figures({"tau": 0.5}, {"tau": 0.5})
MODEL = LearnedModel(
    "cpu", MACHINE, 9, 3, 3, FIGURES, FIGURES, "", 0.0, {"turns": 1.0}, "0.1.0", "2026-11-01T00:00:00Z", "tree"
)


def test_on_a_server(monkeypatch, tmp_path):
    """One test: a server takes seconds to start."""
    pytest.importorskip("sqlalchemy", reason="the extra `cluster`")
    pytest.importorskip("psycopg", reason="the extra `cluster`")
    programs = postgres.programs()
    if programs is None:
        pytest.skip("no PostgreSQL: neither the package of the extra `test` nor the system's")
    with postgres.server(programs) as url:
        with pytest.raises(NoDatabase, match="has no measurements"):
            open_database(url, create=False)  # who reads makes no tables
        # Opened by several at once, of whom one makes the tables. They write their own rows, and one lot all of them.
        with ThreadPoolExecutor(4) as pool:
            opened = list(pool.map(lambda _: open_database(url), range(4)))
            work = [[*rows(30, run=f"of {i}"), *rows(30, run="of all")] for i in range(4)]
            added = list(pool.map(lambda x: x[0].add(x[1]), zip(opened, work, strict=True)))
        database = opened[0]
        assert sum(added) == 5 * 30
        expected = {m.key: m for x in work for m in x}
        assert {m.key: m for m in database.rows()} == expected
        assert {m.key for m in database.rows(op="scale", target="cpu")} == expected.keys()

        local = open_database(tmp_path / "x.db")
        database.add([row(n, schedule=f"at {n}", seconds=(n * 1e-6,), run="x") for n in (16, 60, 100)])
        assert local.merge(database) == len(expected) + 3
        for asked in (task(64), task(61), task(1)):
            assert database.best(asked.key, MACHINE) == local.best(asked.key, MACHINE)
            assert database.nearest(asked, MACHINE) == local.nearest(asked, MACHINE)
        assert [db.prune(keep=2) for db in (database, local)] == [140, 140]
        assert list(database.rows()) == list(local.rows())
        assert {t.key for t in database.tasks()} == {t.key for t in local.tasks()}
        assert local.merge(database) == 0
        assert database.prune(before="2026-11-01T12:00:01Z") == 13
        assert [*database.tasks(), *database.rows()] == []

        for store in (database, local):
            store_model(store, MODEL)
            store_model(store, replace(MODEL, time="2026-11-02T00:00:00Z", rows=7))
            assert newest_model(store, "cpu", MACHINE).rows == 7
            assert newest_model(store, "cpu", "another machine") is None

        with monkeypatch.context() as patch:
            patch.setattr(url_engine, "_PATIENCE", 0.05)
            storage = url_engine.UrlEngine(url)
            with storage.transaction(alone=True), pytest.raises(DatabaseBusy, match="locked by others"):
                database.add([row()])
            assert database.add([row()]) == 1
            step = ("CREATE TABLE andiron_more (x TEXT)", "ALTER TABLE andiron_measurements ADD COLUMN more TEXT")
            patch.setattr(schema, "STEPS", [*schema.STEPS, (*step, step[0])])
            with pytest.raises(DatabaseFailed, match="already exists"):
                open_database(url)
            patch.setattr(schema, "STEPS", [*schema.STEPS[:-1], step])
            assert open_database(url).find(task().key) == [row()]
        with pytest.raises(ForeignDatabase, match="newer version"):
            open_database(url)
        with pytest.raises(NoDatabase, match="nothing"):
            open_database(url.replace("/postgres?", "/nothing?"))


def test_a_url_that_leads_nowhere(tmp_path):
    pytest.importorskip("psycopg", reason="the extra `cluster`")
    for url in (f"postgresql://tests:secret@/x?host={tmp_path}", "postgresql://[tests:secret"):
        with pytest.raises(NoDatabase) as caught:
            open_database(url)
        assert "secret" not in str(caught.value)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(NoPackage, match="databases on a server") as caught:
        open_database("postgresql://host/name")
    assert "andiron[cluster]" in str(caught.value.help)
