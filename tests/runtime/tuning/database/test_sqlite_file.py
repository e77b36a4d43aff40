"""A database in a file: many processes, kills, and files that are not ours, are damaged, or are of another version."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import pytest
from andiron.dsl.errors.database import DamagedDatabase, DatabaseBusy, DatabaseFailed, ForeignDatabase, NoDatabase
from andiron.runtime.tuning.database import schema, sqlite_file
from andiron.runtime.tuning.database.exchange import export_rows
from andiron.runtime.tuning.database.open_database import open_database

from ....support.paths import ROOT
from ....support.tuning.measurements import row, rows, task

WRITER = f"""
import sys
sys.path.insert(0, {str(ROOT.parent)!r})
sys.path.insert(0, {str(ROOT)!r})
from andiron.runtime.tuning.database.open_database import open_database
from tests.support.tuning.measurements import rows

path, name, count, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
database = open_database(path)
print("ready", flush=True)
added = 0
for i in range(times):
    added += database.add(rows(count, run=f"{{name}} {{i}}"))
    added += database.add(rows(count, run=f"all {{i}}"))
print(added, flush=True)
"""


def writer(path, name, count, times):
    command = [sys.executable, "-c", WRITER, str(path), name, str(count), str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_write_at_once(tmp_path):
    """None of the rows is lost, and none is there twice: each writer has rows of its own, and all share some."""
    path = tmp_path / "new" / "x.db"
    writers = [writer(path, f"process {i}", 3, 4) for i in range(3)]
    added = [int(p.communicate(timeout=120)[0].split()[1]) for p in writers]
    found = list(open_database(path).rows())
    assert len(found) == sum(added) == 3 * 4 * (3 + 1)
    assert len({m.key for m in found}) == len(found)
    assert {m.run for m in found} == {f"process {i} {j}" for i in range(3) for j in range(4)} | {f"all {j}" for j in range(4)}


def test_a_killed_writer_leaves_whole_batches(tmp_path):
    path = tmp_path / "x.db"
    process = writer(path, "killed", 400, 10**6)
    assert process.stdout is not None
    process.stdout.readline()
    while not path.exists() or path.stat().st_size < 1 << 20:  # some batches are written, and one is on its way
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    database = open_database(path)
    runs = [m.run for m in database.rows()]
    assert {runs.count(run) for run in set(runs)} == {400}
    assert database.add(rows(400, run="after")) == 400


def refused(path, error, match):
    def use(create):
        database = open_database(path, create)
        database.add([row()])
        list(database.rows())

    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(error, match=match):
            use(create)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_other_files_are_not_touched(tmp_path):
    path = tmp_path / "x.db"
    path.write_text("a text\n")
    refused(path, ForeignDatabase, "no database of Andiron's")
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE andiron_texts (a)")
    other.close()
    refused(path, ForeignDatabase, "no database of Andiron's")


def test_damaged_files_are_not_touched(tmp_path):
    path = tmp_path / "x.db"
    open_database(path).add(rows(200))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, DamagedDatabase, "damaged")
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    refused(path, DamagedDatabase, "damaged")


@pytest.mark.parametrize("cut", [False, True])
def test_a_part_of_a_damaged_file_is_not_taken_for_all(tmp_path, cut):
    """Whatever page is lost: SQLite reads the others without a word."""
    path, whole = tmp_path / "x.db", tmp_path / "whole.db"
    open_database(whole).add(rows(300))
    data = whole.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    if cut:  # as an earlier version of SQLite leaves it, which does not count the pages
        data = data[:92] + bytes(4) + data[96:]
    pages = len(data) // size
    good = open_database(tmp_path / "good.db")
    said = 0
    for page in range(pages // 2, pages, 5):
        path.write_bytes(data[: page * size] if cut else data[: page * size] + bytes(size) + data[(page + 1) * size :])
        before = path.read_bytes()
        try:
            damaged = open_database(path, create=False)
        except DamagedDatabase:
            continue
        said += 1
        uses = (
            good.merge,
            lambda d: export_rows(d, str(tmp_path / "x.jsonl")),
            lambda d: d.merge(good),
            lambda d: d.prune(keep=1),
        )
        for use in uses:
            with pytest.raises(DamagedDatabase):
                use(damaged)
        assert path.read_bytes() == before
    assert said > 0
    assert list(good.rows()) == []
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.parametrize("bytes_cut", [1, 100, 4095, 4096, 10000])
def test_a_file_that_was_cut_is_not_read(tmp_path, bytes_cut):
    path = tmp_path / "x.db"
    open_database(path).add(rows(300))
    path.write_bytes(path.read_bytes()[:-bytes_cut])
    with pytest.raises(DamagedDatabase) as caught:
        open_database(path, create=False)
    assert bytes_cut > 4095 or "the file was cut" in str(caught.value)


def test_what_sqlite_finds_is_said_briefly(tmp_path):
    path = tmp_path / "x.db"
    database = open_database(path)
    database.add(rows(300))
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    path.write_bytes(data[: -20 * size] + bytes(10 * size) + data[-10 * size :])
    good = open_database(tmp_path / "good.db")
    for use in (lambda: good.merge(database), lambda: database.merge(good)):
        with pytest.raises(DamagedDatabase) as caught:
            use()
        assert "***" not in caught.value.message
        assert len(caught.value.message) < len(str(path)) + 130


def test_newer_files_are_not_touched_and_older_ones_are_brought_up(tmp_path, monkeypatch):
    path = tmp_path / "x.db"
    open_database(path).add([row()])
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        newer = ("ALTER TABLE andiron_measurements ADD COLUMN more TEXT", "CREATE TABLE andiron_more (x TEXT)")
        patch.setattr(schema, "STEPS", [*schema.STEPS, (*newer, "CREATE TABLE andiron_more (x TEXT)")])
        with pytest.raises(DatabaseFailed, match="already exists"):
            open_database(path)
        assert path.read_bytes() == before  # a step that fails leaves all as it was
        patch.setattr(schema, "STEPS", [*schema.STEPS[:-1], newer])
        assert open_database(path).find(task().key) == [row()]
    refused(path, ForeignDatabase, "newer version")


@pytest.mark.parametrize("statement", ["DELETE FROM andiron_measurements", "DELETE FROM andiron_texts", "VACUUM"])
def test_pruning_on_a_full_disk(tmp_path, monkeypatch, statement):
    """All rows are there, or the message says that they were removed."""
    database = open_database(tmp_path / "x.db")
    database.add([*rows(5), *rows(5, n=32)])
    seen = 0

    def full(call):
        def use(session, sql, *values, **more):
            nonlocal seen
            seen += sql.startswith(statement)
            if sql.startswith(statement) and (seen == 2 or "id = :id" not in sql):  # not at the first task
                raise sqlite3.OperationalError("database or disk is full")
            return call(session, sql, *values, **more)

        return use

    with monkeypatch.context() as patch:
        for name in ("execute", "execute_many"):
            patch.setattr(sqlite_file._SqliteSession, name, full(getattr(sqlite_file._SqliteSession, name)))
        with pytest.raises(DatabaseFailed, match="8 rows were removed" if statement == "VACUUM" else "was not done") as caught:
            database.prune(keep=1)
    assert "free s" in str(caught.value.help)
    assert len(list(database.rows())) == (2 if statement == "VACUUM" else 10)
    assert list(database.check()) == []


def older(path, monkeypatch):
    """The file in the form before rows had hashes of what came of them."""
    made = path.with_name("older.db")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:2])
        open_database(made)
    with sqlite3.connect(made) as old:
        old.execute("ATTACH ? AS now", (str(path),))
        for table in ("andiron_texts", "andiron_tasks", "andiron_measurements"):
            names = ", ".join(line[1] for line in old.execute(f"PRAGMA main.table_info({table})"))
            old.execute(f"INSERT INTO main.{table} SELECT {names} FROM now.{table}")
    old.close()
    return made


def test_older_rows_get_hashes(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "_HASHED_AT_ONCE", 2)
    path = tmp_path / "x.db"
    open_database(path).add([*rows(5), row(1, seconds=(), verdict="died")])
    made = older(path, monkeypatch)
    database = open_database(made, create=False)
    assert list(database.check()) == []
    assert list(database.rows()) == list(open_database(path).rows())
    with sqlite3.connect(made) as file:
        file.execute("UPDATE andiron_measurements SET detail = 'x', seconds = seconds WHERE verdict = 'right'")
    file.close()
    assert len(list(database.check())) == 5


def test_an_older_row_whose_time_is_not_of_its_samples(tmp_path, monkeypatch):
    """A step hashes rows as they are: what was changed before is told by the samples."""
    path = tmp_path / "x.db"
    open_database(path).add(rows(2))
    made = older(path, monkeypatch)
    with sqlite3.connect(made) as file:
        file.execute("UPDATE andiron_measurements SET seconds = 1e-6 WHERE id = (SELECT MIN(id) FROM andiron_measurements)")
    file.close()
    (fault,) = open_database(made).check()
    assert "has 1e-06 as its seconds, and its samples give 0.001" in fault


def test_rows_of_a_process_of_an_earlier_version(tmp_path):
    """It had opened the database before it got hashes. Its rows have none, and are read."""
    path = tmp_path / "x.db"
    open_database(path).add(rows(2))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE andiron_measurements SET rank_hash = NULL, content_hash = NULL")
    file.close()
    database = open_database(path)
    assert (list(database.check()), len(list(database.rows())), database.summary(task()).rows) == ([], 2, 2)


def test_a_damaged_older_file_is_not_brought_up(tmp_path, monkeypatch):
    path = tmp_path / "x.db"
    open_database(path).add(rows(300))
    made = older(path, monkeypatch)
    data = bytearray(made.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    data[-8 * size : -4 * size] = bytes(4 * size)
    made.write_bytes(data)
    with pytest.raises(DamagedDatabase):
        open_database(made)
    assert made.read_bytes() == data


def test_an_empty_file_is_a_new_database(tmp_path):
    path = tmp_path / "x.db"
    path.touch()
    assert open_database(f"sqlite:///{path}").add([row()]) == 1
    assert open_database(path, create=False).find(task().key) == [row()]


def test_who_reads_writes_nothing(tmp_path):
    path = tmp_path / "x.db"
    path.touch()
    with pytest.raises(NoDatabase, match="is empty"):
        open_database(path, create=False)
    assert path.read_bytes() == b""


def test_what_is_not_there(tmp_path):
    with pytest.raises(NoDatabase, match="there is no database"):
        open_database(tmp_path / "x.db", create=False)
    with pytest.raises(NoDatabase, match="mongodb"):
        open_database("mongodb://host/name")
    for path in (tmp_path, f"{tmp_path}/\0.db"):
        with pytest.raises(NoDatabase, match="cannot be read"):
            open_database(path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(NoDatabase, match="there can be no database"):
        open_database(tmp_path / "file" / "x.db")


def test_a_lock_that_nobody_gives_back(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "_PATIENCE", 0.01)
    path = tmp_path / "x.db"
    database = open_database(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy, match="locked by others"):
        database.add([row()])
    other.execute("COMMIT")
    other.close()
    assert database.add([row()]) == 1


def test_a_file_that_goes_away_meanwhile_does_not_come_back_empty(tmp_path):
    path = tmp_path / "x.db"
    database = open_database(path)
    path.unlink()
    with pytest.raises(DatabaseFailed, match="unable to open"):
        database.add([row()])
    assert not path.exists()


def test_a_file_that_may_only_be_read():
    """Root may write every file, so the reader is another user. It cannot enter the folder of the tests."""
    code = f"""
import os, sys
sys.path[:0] = [{str(ROOT.parent)!r}, {str(ROOT)!r}]
from andiron.dsl.errors.database import DatabaseFailed
from andiron.runtime.tuning.database.open_database import open_database
from tests.support.tuning.measurements import row, task
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
database = open_database(sys.argv[1])
assert database.find(task().key) == [row()]
try:
    database.add([row(run="two")])
except DatabaseFailed as error:
    print(error)
"""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = os.path.join(folder, "x.db")
        open_database(path).add([row()])
        os.chmod(path, 0o444)
        os.chmod(folder, 0o555)
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        os.chmod(folder, 0o755)
    assert "readonly" in done.stdout, done.stderr
    assert f"see who may write {path} and its folder {folder}" in done.stdout
