"""`andiron db`: what each action prints, for people and for programs."""

import json

import pytest
from andiron.runtime.tuning.database.measurement import Measurement, Task
from andiron.runtime.tuning.database.open_database import open_database
from andiron.tools.cli import main

from ...support.tuning.measurements import MACHINE, row, rows, task


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("ANDIRON_TUNED", str(tmp_path / "x.db"))
    open_database().add([*rows(3), row(run="two", schedule="another", verdict="wrong"), row(128, fingerprint="CPU b")])
    return str(tmp_path / "x.db")


def says(capsys, *words, status=0):
    assert main(["db", *words]) == status
    return capsys.readouterr().out


def test_listing_and_showing(path, capsys):
    said = says(capsys, "list")
    for line in (f"{task().key[:12]}        4 rows  scale: N=64; cpu", f"1 ms  {MACHINE}", f"2 tasks in {path}"):
        assert line in said
    assert "1 task in" in says(capsys, "list", "--op", "scale", "--limit", "1")
    assert "0 tasks" in says(capsys, "list", "--target", "cuda:sm_80")
    found = json.loads(says(capsys, "list", "--json", "--limit", "1"))
    assert (len(found["tasks"]), found["more"], found["database"]) == (1, True, path)

    said = says(capsys, "show", task().key[:12])
    for line in (f"{MACHINE}: 3 right, 1 wrong; 2026-11-01", "the fastest takes 1 ms, 1 run:", "schedule s0 for scale:"):
        assert line in said
    found = json.loads(says(capsys, "show", "--json", task(128).key))
    assert found["sizes"] == {"N": 128}
    assert found["rows"][0] | {"fingerprint": "CPU b", "verdict": "right", "seconds": 2e-3} == found["rows"][0]
    assert main(["db", "show", "nothing"]) == 1
    assert "no task has a key" in capsys.readouterr().err


def test_what_others_wrote_does_not_reach_the_terminal_raw(tmp_path, capsys):
    """Neither an op's name, nor a machine's, nor a schedule moves the cursor, changes the title or turns a line round."""
    path = str(tmp_path / "foreign.db")
    told = Task("op", "scale\x1b[2J\nTotal", {"N\x9b": 1}, "cpu\u202e", "d")
    machine = "CPU \x1b]0;pwn\x07\u2028"
    open_database(path).add([Measurement(told, "s\x1b[2J\n\tcompute\r", machine, "cc", "one", "right", (1e-3,))])
    for words in (["list"], ["show", told.key]):
        said = says(capsys, *words, "--db", path)
        assert [c for c in said if c not in "\n\t" and not c.isprintable()] == []
        assert r"scale\x1b[2J\nTotal: N\x9b=1; cpu\u202e" in said
        assert r"CPU \x1b]0;pwn\x07\u2028" in said
    assert "s\\x1b[2J\n\tcompute\\r" in said
    assert json.loads(says(capsys, "list", "--json", "--db", path))["tasks"][0]["op_name"] == told.op_name
    with open_database(path).storage.transaction(write=True) as session:
        session.execute("UPDATE andiron_measurements SET time = :time", time="\x1b[2J")
    assert "\x1b" not in says(capsys, "check", "--db", path, status=1)
    assert main(["db", "show", told.key, "--db", path]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"`\x1b[2J` is no time" in said


def test_an_empty_key_is_no_task(path, capsys):
    assert main(["db", "show", ""]) == 1
    assert "the key of the task is empty" in capsys.readouterr().err


def test_exchanging(path, tmp_path, capsys):
    file, other = str(tmp_path / "rows.jsonl"), str(tmp_path / "other.db")
    assert "wrote 5 rows" in says(capsys, "export", file)
    assert json.loads(says(capsys, "export", "-", "--op", "scale").splitlines()[0])["form"] == 2
    assert main(["db", "merge", other]) == 1  # nothing there: a mistake
    assert "there is no database" in capsys.readouterr().err
    assert "added 5 rows" in says(capsys, "import", file, "--db", other)
    assert json.loads(says(capsys, "merge", other, "--json")) == {"added": 0}
    assert "removed 4 rows" in says(capsys, "prune", "--keep", "0", "--before", "2026-11-02", "--db", other)
    assert "1 task" in says(capsys, "list", "--db", other)


def test_who_reads_creates_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ANDIRON_TUNED", str(tmp_path / "x.db"))
    for words in (["list"], ["show", "0"], ["export", str(tmp_path / "rows")], ["check"], ["prune", "--keep", "1"], ["train"]):
        assert main(["db", *words]) == 1
        assert "there is no database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_pruning_and_checking(path, capsys):
    assert main(["db", "prune"]) == 2
    assert "--before DATE, --keep N" in capsys.readouterr().err
    assert "removed 2 rows" in says(capsys, "prune", "--keep", "1")
    assert "is sound" in says(capsys, "check")
    with open_database().storage.transaction(write=True) as session:
        session.execute("UPDATE andiron_measurements SET run = 'x' WHERE verdict = 'wrong'")
    assert "not what its key stands for" in says(capsys, "check", status=1)
    assert len(json.loads(says(capsys, "check", "--json", status=1))["faults"]) == 1
    with pytest.raises(SystemExit):
        main(["db", "prune", "--before", "yesterday"])
    assert "no date as 2026-11-01" in capsys.readouterr().err
