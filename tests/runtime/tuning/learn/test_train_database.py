"""`andiron db train` on a database of schedules that compile: what it prints, what it leaves out, what it computes again."""

import json

import pytest
from andiron.runtime.compile import CompileRequest
from andiron.runtime.tuning.candidates import tuning_candidates
from andiron.runtime.tuning.database.describe import task_of
from andiron.runtime.tuning.database.measurement import Measurement
from andiron.runtime.tuning.database.open_database import open_database
from andiron.runtime.tuning.learn import schedule_features, train_model
from andiron.tools.cli import main

MACHINE = "CPU of tests, 1 thread"
OPS = [f"op op{n}[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = {n} * X[i, j]\n" for n in range(5)]


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setattr(train_model, "FEWEST_ROWS", 20)
    made = open_database(tmp_path / "x.db")
    for number, op in enumerate(OPS):
        request = CompileRequest.from_text(op, f"op{number}", "auto", "cpu:avx2", 1, {"M": 64, "N": 256})
        task = task_of(request)
        texts = {request.variant(c.schedule, v).schedule for c, v in list(tuning_candidates(request, 0))[1:6]}
        made.add(
            Measurement(task, text, MACHINE, "cc 1", "one", "right", (1e-6 * (1 + n),)) for n, text in enumerate(sorted(texts))
        )
        made.add([Measurement(task, "schedule old for op0:\n    gone\n", MACHINE, "cc 1", "one", "right", (1e-6,))])
    return made


def says(capsys, *words, status=0):
    assert main(["db", "train", *words]) == status
    return capsys.readouterr()


def test_training(database, capsys, monkeypatch):
    pytest.importorskip("lightgbm", reason="the extra `learn`")
    said = says(capsys, "--db", database.name).out
    for line in (f"cpu:avx2 on {MACHINE}", "5 tasks, 5 ops", "on ops not seen", "regret@10", "most depends on: "):
        assert line in said
    assert "left out: 5 rows: this version does not accept the schedule" in said

    def compiled_again(*_):
        raise AssertionError

    monkeypatch.setattr(schedule_features, "compile_program", compiled_again)  # the features are in the cache
    found = json.loads(says(capsys, "--db", database.name, "--json").out)
    (model,) = found["models"]
    assert (model["fingerprint"], model["tasks"], model["ops"]) == (MACHINE, 5, 5)
    assert set(model["closed"]["mean"]) == {"tau", "regret@1", "regret@10"}


def test_nothing_to_train_on(tmp_path, capsys):
    pytest.importorskip("lightgbm", reason="the extra `learn`")
    empty = open_database(tmp_path / "empty.db")
    assert "has no schedules to compare" in says(capsys, "--db", empty.name, status=1).err
    assert "there is no database" in says(capsys, "--db", str(tmp_path / "none.db"), status=1).err


def test_too_few(database, capsys, monkeypatch):
    pytest.importorskip("lightgbm", reason="the extra `learn`")
    monkeypatch.setattr(train_model, "FEWEST_ROWS", 1000)
    assert "schedules of 5 ops were measured" in says(capsys, "--db", database.name, status=1).err
