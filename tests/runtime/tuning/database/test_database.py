"""Rows: values that are checked, added once, found, and the choice among them."""

import pytest
from andiron.dsl.errors.database import BadMeasurement
from andiron.runtime.tuning.database import database as module
from andiron.runtime.tuning.database.measurement import Task
from andiron.runtime.tuning.database.open_database import open_database

from ....support.tuning.measurements import MACHINE, OP, row, rows, task


@pytest.fixture
def database(tmp_path):
    return open_database(tmp_path / "x.db")


def test_rows_come_back_as_they_were(database, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 7)
    added = [*rows(20), row(run="b", detail="d\0d", verdict="late"), row(32, run="c", seconds=(), verdict="died")]
    assert database.add(added) == len(added)
    assert database.add(reversed(added)) == 0
    for found in (database.rows(), database.rows(op="scale"), [*database.find(task().key), *database.find(task(32).key)]):
        assert sorted(found, key=lambda m: m.key) == sorted(added, key=lambda m: m.key)
    assert database.find(task().key, "another") == []
    assert list(database.rows(op="other")) == list(database.rows(target="cuda:sm_80")) == []
    assert {t.key for t in database.tasks()} == {task().key, task(32).key}


def test_a_key_is_all_that_a_row_is_for():
    assert row() == row()
    assert row().key == row(seconds=(), detail="late", verdict="late").key  # of one run only one counts
    others = [row(65), row(schedule="s"), row(fingerprint="f"), row(run="two"), row(version="0")]
    assert len({m.key for m in (row(), *others)}) == 6
    assert task(N=1).key != task().key
    assert row().seconds == 2e-3  # the lower quartile


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: row(verdict="good"), "no verdict"),
        (lambda: row(seconds=(float("nan"),)), "0 or more"),
        (lambda: row(seconds=("x",)), "a sample or a time"),
        (lambda: row(time="today"), "a sample or a time"),
        (lambda: row(run=3), "the run of a measurement is no text"),
        (lambda: task("64"), "no mapping of names to integers"),
        (lambda: Task(None, "scale", {}, "cpu", ""), "must be strings"),
    ],
)
def test_what_is_no_measurement(make, match):
    with pytest.raises(BadMeasurement, match=match):
        make()


def test_the_best_is_the_median_of_its_runs(database):
    database.add(row(schedule="lucky once", seconds=(s,), run=str(s)) for s in (1e-3, 9e-3, 8e-3))
    database.add(row(schedule="steady", seconds=(s,), run=str(s)) for s in (4e-3, 6e-3))
    database.add([row(schedule="wrong elsewhere", seconds=(1e-6,)), row(schedule="late", seconds=(1e-6,), verdict="late")])
    database.add([row(schedule="wrong elsewhere", verdict="wrong", fingerprint="another", seconds=())])
    database.add([row(schedule="of another", seconds=(1e-6,), fingerprint="another")])
    best = database.best(task().key, MACHINE)
    assert (best.schedule, best.seconds, best.runs, best.task) == ("steady", 5e-3, 2, task())
    assert database.best(task(1).key, MACHINE) is None


def test_the_nearest_by_the_logarithms_of_sizes(database):
    database.add(row(n, schedule=str(n)) for n in (1, 16, 60, 64, 100, 5000))
    database.add([row(70, fingerprint="another"), row(66, verdict="wrong")])
    found = database.nearest(task(64), MACHINE)
    assert [int(c.schedule) for c in found] == [60, 100, 16, 1, 5000]
    assert found[2].distance == 2
    assert database.nearest(task(64, M=8), MACHINE) == []  # other sizes are open
    assert database.nearest(Task(OP, "scale", {"N": 64}, "cpu", "another device"), MACHINE) == []


def test_merging(database, tmp_path):
    other = open_database(tmp_path / "other.db")
    database.add(rows(5))
    other.add([*rows(3), row(1)])
    assert database.merge(other) == 1
    assert database.merge(other) == 0
    assert sorted(m.key for m in database.rows()) == sorted(m.key for m in (*rows(5), row(1)))
