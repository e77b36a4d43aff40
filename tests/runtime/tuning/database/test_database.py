"""Rows: values that are checked, added once, found, and the choice among them."""

import pytest
from andiron.dsl.errors.database import BadMeasurement, DamagedDatabase
from andiron.runtime.tuning.database import database as module
from andiron.runtime.tuning.database import read_rows, sqlite_file
from andiron.runtime.tuning.database.exchange import export_rows
from andiron.runtime.tuning.database.measurement import Task
from andiron.runtime.tuning.database.open_database import open_database

from ....support.tuning.measurements import MACHINE, OP, row, rows, task


@pytest.fixture
def database(tmp_path):
    return open_database(tmp_path / "x.db")


def test_rows_come_back_as_they_were(database, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 7)
    monkeypatch.setattr(read_rows, "PAGE", 5)
    monkeypatch.setattr(module, "PAGE", 1)
    added = [*rows(20), row(run="b", detail="d\0d", verdict="late"), row(32, run="c", seconds=(), verdict="died")]
    assert database.add(added) == len(added)
    assert database.add(reversed(added)) == 0
    for found in (database.rows(), database.rows(op="scale"), [*database.find(task().key), *database.find(task(32).key)]):
        assert sorted(found, key=lambda m: m.key) == sorted(added, key=lambda m: m.key)
    assert database.find(task().key, "another") == []
    assert list(database.rows(op="other")) == list(database.rows(target="cuda:sm_80")) == []
    assert {t.key for t in database.tasks()} == {task().key, task(32).key}
    assert list(database.tasks(key=task().key[:7])) == list(database.tasks(key=task().key)) == [task()]
    assert list(database.tasks(key="nothing")) == []


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
        *(
            (lambda x=x: row(seconds=(1e-3, x)), "no time of a call")
            for x in (0, -1.0, 1e-300, 9e-13, float("nan"), float("inf"))
        ),
        (lambda: row(seconds=(10**400,)), "larger than any"),
        *((lambda x=x: row(seconds=(x,)), "no number of seconds") for x in ("x", True, None)),
        *((lambda x=x: row(seconds=x), "a list of numbers") for x in ("12", 3, None)),
        (lambda: row(seconds=()), "there are no samples"),
        (lambda: row(schedule="\ud800"), r"the schedule of a measurement has half of a character: \\ud800 at 0"),
        (lambda: Task(OP + "\udfff", "scale", {}, "cpu", ""), "the op of a task has half of a character"),
        (lambda: Task(OP, "scale", {"\ud800": 1}, "cpu", ""), "the sizes of a task has half of a character"),
        (lambda: row(time="today"), "no time in UTC"),
        (lambda: row(time="2026-13-01T12:00:00Z"), "no time in UTC"),
        (lambda: row(time="2026-02-31T00:00:00Z"), "no time in UTC"),
        (lambda: row(time="2026-02-29T00:00:00Z"), "no time in UTC"),
        (lambda: row(time="0000-01-01T00:00:00Z"), "no time in UTC"),
        (lambda: row(verdict=[]), "no verdict"),
        (lambda: row(run=3), "the run of a measurement is no text"),
        (lambda: task("64"), "no mapping of names to integers"),
        (lambda: Task(None, "scale", {}, "cpu", ""), "must be strings"),
    ],
)
def test_what_is_no_measurement(make, match):
    with pytest.raises(BadMeasurement, match=match):
        make()


def test_a_day_of_a_leap_year_and_a_leap_second():
    assert row(time="2028-02-29T23:59:60Z").time == "2028-02-29T23:59:60Z"


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


DAMAGES = {
    "row 0": "UPDATE andiron_measurements SET run = 'x' WHERE id = (SELECT MAX(id) FROM andiron_measurements)",
    "row 1": "UPDATE andiron_measurements SET samples = 'x'",
    "row 2": "UPDATE andiron_measurements SET verdict = x'ff'",
    "row 3": "UPDATE andiron_measurements SET samples = '3'",
    "row 4": "UPDATE andiron_measurements SET time = 'x'",
    "row 5": "UPDATE andiron_measurements SET seconds = 1e-9",
    "row 6": "UPDATE andiron_measurements SET seconds = 'abc'",
    "row 7": "UPDATE andiron_measurements SET samples = '[1e-9]', seconds = 1e-9",
    "row 8": "UPDATE andiron_measurements SET samples = '[5.0, 1e-3]'",
    "row 9": "UPDATE andiron_measurements SET verdict = 'wrong'",
    "row 10": "UPDATE andiron_measurements SET detail = 'x'",
    "row 11": "UPDATE andiron_measurements SET host = 'x'",
    "row 12": "UPDATE andiron_measurements SET time = '2026-01-01T00:00:00Z'",
    "a text": "UPDATE andiron_texts SET text = CAST(x'61ff62' AS TEXT)",
    "a task 0": "UPDATE andiron_tasks SET sizes = '[]'",
    "a task 1": "UPDATE andiron_tasks SET target = 'cuda'",
    "no tasks": "DELETE FROM andiron_tasks",
    "missing": "DELETE FROM andiron_texts",
}


@pytest.mark.parametrize("sql", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_neither_merged_nor_exported(database, tmp_path, sql):
    """Nor is a part of it, as if it was all."""
    database.add(rows(7))
    with database.storage.transaction(write=True) as session:
        session.execute(sql)
    other = open_database(tmp_path / "other.db")
    for use in (lambda: other.merge(database), lambda: export_rows(database, str(tmp_path / "x.jsonl"))):
        with pytest.raises(DamagedDatabase) as caught:
            use()
        assert "with text" not in str(caught.value)
    assert list(other.rows()) == []
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.parametrize(
    "change",
    [
        "seconds = 1e-9",
        "seconds = 'abc'",
        "seconds = 0",
        "seconds = 9.0",
        "verdict = 'late'",
        "verdict = 'wrong'",
        "fingerprint = 'another'",
        "schedule = (SELECT schedule FROM andiron_measurements ORDER BY seconds DESC LIMIT 1)",
        "id = 'x'",
        "samples = '[1e-9]', seconds = 1e-9",
    ],
)
def test_no_changed_row_chooses(database, tmp_path, change):
    """Of the fastest row: nothing ranks with it, and nothing ranks without it as if it had not been."""
    database.add([*rows(5), row(32)])
    with database.storage.transaction(write=True) as session:
        session.execute(
            f"UPDATE andiron_measurements SET {change} WHERE seconds = (SELECT MIN(seconds) FROM andiron_measurements)"
        )
    uses = {
        "best": lambda: database.best(task().key, MACHINE),
        "of any": lambda: database.best(task().key, None),
        "nearest": lambda: database.nearest(task(32), MACHINE),
        "summary": lambda: database.summary(task()),
        "prune": lambda: database.prune(keep=1),
        "find": lambda: database.find(task().key),
        "export": lambda: export_rows(database, str(tmp_path / "x.jsonl")),
    }
    for use in uses.values():
        with pytest.raises(DamagedDatabase):
            use()
    assert [line.split()[0] for line in database.check()] == ["row"]
    assert database.summary(task(32)).rows == 1


def test_times_and_sizes_that_are_none(database):
    database.add([row(), row(32)])
    with database.storage.transaction(write=True) as session:
        session.execute("UPDATE andiron_measurements SET seconds = 'x'")
    for use in (lambda: database.summary(task()), lambda: database.best(task().key, MACHINE), lambda: database.prune(keep=1)):
        with pytest.raises(DamagedDatabase, match="has no times"):
            use()
    with database.storage.transaction(write=True) as session:
        session.execute('UPDATE andiron_tasks SET sizes = \'{"N": "x"}\'')
    with pytest.raises(DamagedDatabase, match="are no sizes"):
        database.nearest(task(), MACHINE)


def test_rows_of_earlier_versions_that_were_not_timed(database):
    database.add(rows(2))
    with database.storage.transaction(write=True) as session:
        session.execute("UPDATE andiron_measurements SET samples = '[]', seconds = NULL, rank_hash = NULL, content_hash = NULL")
    assert [(m.verdict, m.detail) for m in database.rows()] == [("late", "not timed")] * 2
    assert list(database.check()) == []


def test_pruning(database):
    database.add(row(schedule=f"s{s}", seconds=(s,), run=str(n)) for s in (1.0, 2.0, 3.0) for n in range(2))
    database.add([row(schedule="s2.0", seconds=(9.0,), fingerprint="another", time="2026-10-01T00:00:00Z")])
    database.add([row(schedule="wrong", verdict="wrong"), row(32, verdict="refused", seconds=())])
    assert database.prune() == 0
    assert database.prune(before="2026-10-02T00:00:00Z", keep=1) == 0  # the fastest of another machine
    assert database.prune(before="2026-10-02T00:00:00Z") == 1
    assert database.prune(keep=2) == 3
    assert sorted(m.schedule for m in database.rows()) == ["s1.0", "s1.0", "s2.0", "s2.0", "wrong"]
    assert list(database.tasks()) == [task()]
    with database.storage.transaction() as session:
        texts = {text for (text,) in session.execute("SELECT text FROM andiron_texts")}
    assert texts == {"s1.0", "s2.0", "wrong", task().op, task().device}


def test_checking(database):
    database.add([*rows(3), row(32)])
    assert list(database.check()) == []

    def change(sql):
        with database.storage.transaction(write=True) as session:
            session.execute(sql)
        return [line.split()[0] for line in database.check()]

    assert change("UPDATE andiron_measurements SET verdict = 'good' WHERE id = (SELECT MIN(id) FROM andiron_measurements)") == [
        "row"
    ]
    assert change("UPDATE andiron_measurements SET run = 'another'") == ["row"] * 4
    assert change("UPDATE andiron_tasks SET target = 'cuda'") == ["task"] * 2
    assert change("UPDATE andiron_texts SET text = text || ' '") == [*["text"] * 6, *["task"] * 2]


def test_rows_without_their_tasks(database):
    """A list of the tasks that are left would pass for all."""
    database.add([*rows(3), *rows(2, n=32), row(16)])
    with database.storage.transaction(write=True) as session:
        session.execute("DELETE FROM andiron_tasks WHERE task != :kept", kept=task(32).key)
    for use in (lambda: list(database.tasks()), lambda: list(database.rows(op="scale")), lambda: database.prune(keep=1)):
        with pytest.raises(DamagedDatabase, match="rows are there of 2 tasks that it lacks"):
            use()
    missing = sorted([task().key, task(16).key])
    assert list(database.check()) == [f"task {key} is missing, and rows of it are there" for key in missing]


def test_every_query_uses_an_index(database, monkeypatch):
    database.add([*rows(3), row(32)])
    plans = {}
    execute = sqlite_file._SqliteSession.execute

    def explained(session, sql, **values):
        if "andiron_m" in sql or "andiron_t" in sql:
            plans[sql] = [line[-1] for line in execute(session, f"EXPLAIN QUERY PLAN {sql}", **values)]
        return execute(session, sql, **values)

    monkeypatch.setattr(sqlite_file._SqliteSession, "execute", explained)
    monkeypatch.setattr(read_rows, "PAGE", 2)
    assert len(database.find(task().key)) == len(database.find(task().key, MACHINE)) == 3
    assert len([*database.rows(), *database.rows(op="scale"), *database.rows(op="scale", target="cpu")]) == 12
    assert len([*database.tasks(), *database.tasks(key=task().key[:4])]) == 3
    assert database.best(task().key, MACHINE)
    assert database.nearest(task(), MACHINE)
    database.prune(keep=1)
    assert len(plans) > 10
    lines = [(sql, line) for sql, plan in plans.items() for line in plan]
    assert [x for x in lines if "TEMP B-TREE FOR ORDER" in x[1]] == []
    # What no row needs is looked for among all tasks and texts, with the rows of each by an index.
    read = [x for x in lines if x[1].startswith(("SCAN", "SEARCH")) and " INDEX " not in x[1]]
    read = [x for x in read if x[1] != "SCAN measured"]  # the keys of tasks, of which each was found by an index
    assert {line for _, line in read} == {"SCAN andiron_tasks", "SCAN andiron_texts"}
    assert {sql.split()[0] for sql, _ in read} == {"DELETE"}
