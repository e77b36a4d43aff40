"""`andiron tune --tasks`: what it prints, what it keeps, its page, and a second run that measures nothing."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import andiron
import pytest
from andiron.dsl.errors.database import DatabaseFailed
from andiron.runtime.tuning import racing
from andiron.runtime.tuning.cluster import patient_database
from andiron.runtime.tuning.database.database import Database
from andiron.runtime.tuning.database.open_database import open_database
from andiron.tools.cli import main
from andiron.tools.tuning import progress

from ...support.gemm_file import GEMM_OP as GEMM

TASKS = """
[defaults]
top = 2
seconds = 5

[[task]]
file = "gemm.sched"
sizes = [{ M = 61, N = 47, K = 33 }, { M = 64, N = 48, K = 32 }, { M = 61, N = 47, K = 33 }]
weight = 3

[[task]]
file = "gemm.sched"
sizes = { M = 16, N = 16, K = 16 }
target = "emulate:sm_80"
"""
# Ends as at Ctrl-C when the first task is done.
INTERRUPTED = """
import os, signal, sys
from andiron.runtime.tuning import racing
from andiron.tools.tuning import progress
racing.ROUNDS = 3
plain = progress.CampaignProgress._print
def interrupt(self, text):
    plain(self, text)
    if "; cpu" in text:
        os.kill(os.getpid(), signal.SIGINT)
progress.CampaignProgress._print = interrupt
from andiron.tools.cli import main
sys.exit(main(["tune", "--tasks", sys.argv[1]]))
"""


@pytest.fixture
def tasks(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(racing, "ROUNDS", 3)
    (tmp_path / "gemm.sched").write_text(GEMM)
    (tmp_path / "tasks.toml").write_text(TASKS)
    return str(tmp_path / "tasks.toml")


def test_tasks_are_tuned_once(tasks, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["tune", "--tasks", tasks, "--report", str(page)]) == 1  # one cannot be measured
    said = capsys.readouterr().out
    assert "gemm: M=61, N=47, K=33; cpu: " in said
    assert "emulated: its times say nothing" in said
    assert "2 of 3 tasks done, 1 failed; 4 candidates measured; gain " in said
    text = page.read_text()
    assert "<title>Tuning: 2 of 3 tasks</title>" in text
    assert "M=61" in text
    assert "weight 6.0" in text  # two tasks that are one
    assert andiron.compile(GEMM, M=61, N=47, K=33).tuned is not None
    assert len(list(open_database().rows())) == 4
    assert main(["tune", "--tasks", tasks, "--json"]) == 1
    again = json.loads(capsys.readouterr().out)
    assert again["summary"]["measured"] == 0
    assert [t["state"] for t in again["tasks"]] == ["done", "done", "failed"]
    assert len(list(open_database().rows())) == 4


def test_what_was_interrupted_goes_on(tasks, capsys):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, tasks], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert len(list(open_database().rows())) == 2
    assert main(["tune", "--tasks", tasks]) == 1
    assert "2 of 3 tasks done, 1 failed; 2 candidates measured" in capsys.readouterr().out


def test_a_database_may_be_named(tasks, tmp_path, capsys):
    file, rows = str(tmp_path / "gemm.sched"), str(tmp_path / "rows.db")
    assert main(["tune", file, "--size", "M=61,N=47,K=33", "--top", "2", "--db", rows]) == 0
    assert "2 candidates" in capsys.readouterr().out
    assert len(list(open_database(rows).rows())) == 2


def test_wrong_usage(tasks, capsys):
    assert main(["tune"]) == 2
    assert main(["tune", "x.sched", "--tasks", tasks]) == 2
    assert "name one of FILE and --tasks FILE" in capsys.readouterr().err


def test_what_the_file_says_of_each_task_is_no_option(tasks, capsys):
    for words, key in (
        (["--size", "M=3"], "`sizes`"), (["--op", "x"], "`op`"), (["--schedule", "auto"], "`schedule`"),
        (["--top", "3"], "`top`"), (["--target", "cpu"], "`target`"), (["--param", "P=3"], "`sizes`"),
        (["--trials", "99"], "`trials`"), (["--seconds", "3"], "`seconds`"), (["--threads", "1"], "`threads`"),
    ):  # fmt: skip
        assert main(["tune", "--tasks", tasks, *words]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {words[0]}: not with --tasks")
        assert f"write {key} in {tasks}" in said


def test_what_cannot_be_written_is_said_before_work_begins(tasks, tmp_path, monkeypatch, capsys):
    from andiron.runtime.tuning.cluster.campaign import Campaign

    monkeypatch.setattr(Campaign, "run", None)
    for place in (tmp_path / "nowhere" / "x.html", tmp_path):
        assert main(["tune", "--tasks", tasks, "--report", str(place)]) == 1
        assert f"cannot write {place}" in capsys.readouterr().err
    assert main(["tune", str(tmp_path / "gemm.sched"), "--report", str(tmp_path / "x.html")]) == 2
    assert "--report is for --tasks" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "cache") == ["gemm.sched", "tasks.toml"]


def test_a_dry_run_keeps_nothing(tasks, tmp_path, capsys):
    assert main(["tune", "--tasks", tasks, "--dry-run"]) == 1
    assert "2 of 3 tasks done, 1 failed; 4 candidates measured" in capsys.readouterr().out
    assert not (tmp_path / "cache" / "measurements.db").exists()
    assert andiron.compile(GEMM, M=61, N=47, K=33).tuned is None


def test_the_table_of_a_terminal(tasks):
    """All of it is there while tasks are under way."""
    console = pytest.importorskip("rich.console", reason="the extra `cluster` is not installed")
    from andiron.runtime.tuning.cluster.campaign import Campaign
    from andiron.runtime.tuning.cluster.open_engine import open_engine
    from andiron.runtime.tuning.cluster.task_file import read_task_file

    campaign = Campaign(open_engine(None), [t.run for t in read_task_file(tasks)])
    campaign.runs[0].state = "compiling"
    screen = console.Console(file=io.StringIO(), width=160)
    screen.print(progress.progress_table(campaign))
    text = screen.file.getvalue()
    for word in ("0 of 3 tasks", "0 candidates measured", "workers", "gemm: M=61, N=47, K=33; cpu", "compiling", "best so far"):
        assert word in text


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_database_may_be_away_for_a_while(tasks, monkeypatch, capsys, comes_back):
    """That is said once, and no row is lost. If it stays away, the summary comes, and a way out."""
    monkeypatch.setattr(patient_database, "_PAUSE", 0.001)
    monkeypatch.setattr(patient_database, "_PATIENCE", 60.0 if comes_back else 0.01)
    plain, calls = Database.add, []

    def add(self, measurements):
        calls.append(list(measurements))
        if len(calls) < 4 or not comes_back:
            raise DatabaseFailed("the server closed the connection")
        return plain(self, calls[-1])

    monkeypatch.setattr(Database, "add", add)
    assert main(["tune", "--tasks", tasks]) == 1
    out, err = capsys.readouterr()
    assert err.count("the database fails, and is tried again for") == 1
    assert len(list(open_database().rows())) == (4 if comes_back else 0)
    if comes_back:
        assert "2 of 3 tasks done, 1 failed; 4 candidates measured" in out
    else:
        assert " of 3 tasks done" in out
        assert "help: what was stored counts: give the same command again" in err
