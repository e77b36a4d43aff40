"""`compile(tuned=...)`: the exact sizes, else the nearest that fit, else the model; and what says so."""

import json
import sqlite3

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.database import ForeignDatabase, NoDatabase
from andiron.dsl.errors.run import ArgumentKind
from andiron.runtime.compile import resolve_request
from andiron.runtime.tuning.database import choose
from andiron.runtime.tuning.database.describe import fingerprint_of, task_of
from andiron.runtime.tuning.database.measurement import Measurement
from andiron.runtime.tuning.database.open_database import open_database
from andiron.runtime.tuning.tuning_store import TunedRecord, store_record
from andiron.tools.cli import main

from ....support.gemm_file import GEMM_OP as GEMM

SIZES = {"M": 61, "N": 47, "K": 33}
TILED = "schedule found for gemm:\n    tile m: {} -> core\n    compute\n"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "x.db")


def add(path, sizes, rows, text=GEMM, machine=None, target="cpu", **given):
    """Measurements: seconds by the size of a tile, or by the text of a schedule."""
    request = resolve_request(text, target=target, given=sizes)
    machine = machine or fingerprint_of(request)
    made = [
        Measurement(
            task_of(request), TILED.format(x) if isinstance(x, int) else x, machine, "cc", "run", "right", (s,), **given
        )
        for x, s in rows.items()
    ]
    assert open_database(path).add(made) == len(made)


def tile(kernel):
    """The size of the tile of `TILED`; None where the schedule is another one."""
    found = [line.split() for line in kernel.schedule.splitlines() if line.endswith("-> core")]
    return int(found[0][2]) if kernel.tuned is not None and found else None


def test_the_exact_sizes_come_first(path):
    add(path, SIZES, {3: 2e-3, 5: 1e-3})
    add(path, {**SIZES, "M": 62}, {7: 1e-6})
    add(path, SIZES, {9: 1e-6}, machine="another")
    add(path, SIZES, {11: 1e-6}, target="cpu:generic")
    add(path, SIZES, {13: 1e-6}, GEMM.replace("A[m, k] * B[k, n]", "B[k, n] * A[m, k]"))
    k = andiron.compile(GEMM, tuned=path, **SIZES)
    assert (tile(k), k.tuned.distance, k.tuned.seconds) == (5, 0, 1e-3)
    assert f"fastest measured for these sizes: 1 ms, 1 run on {k.tuned.machine}; from {path}" in str(k.report)
    a, b = np.ones((61, 33), np.float32), np.ones((33, 47), np.float32)
    assert (k(a, b) == a @ b).all()
    assert tile(andiron.compile(GEMM, tuned=path, tune=0, **SIZES)) is None
    assert tile(andiron.compile(GEMM, **SIZES)) is None
    assert andiron.op(GEMM, tuned=path, **SIZES).schedule == k.schedule


def test_the_nearest_sizes_that_fit_come_next(path):
    wrong = "schedule wrong for gemm:\n    tile q: 4 -> core\n    compute\n"
    add(path, {**SIZES, "M": 64}, {wrong: 1e-3})
    add(path, {**SIZES, "M": 80}, {5: 1e-3, 7: 2e-3})
    add(path, {**SIZES, "M": 40}, {9: 1e-3})
    add(path, {**SIZES, "M": 61, "N": 8192}, {11: 1e-3})  # too far away
    k = andiron.compile(GEMM, tuned=path, **SIZES)
    assert (tile(k), k.tuned.sizes) == (5, {**SIZES, "M": 80})
    assert "the nearest sizes, K=33, M=80, N=47: 1 ms" in str(k.report)
    # What this machine has measured for these very sizes comes before.
    request = resolve_request(GEMM, given=SIZES)
    store_record(request, TunedRecord(TILED.format(21), 0, 1e-3, 2e-3, 5, 5, SIZES, "2026-01-01"))
    assert tile(andiron.compile(GEMM, tuned=path, **SIZES)) == 21
    assert tile(andiron.compile(GEMM, tuned=path, M=61, N=47)) is None  # another size is open


def test_open_sizes(path):
    add(path, {"N": 47}, {5: 1e-3})
    assert tile(andiron.compile(GEMM, tuned=path, N=47)) == 5
    k = andiron.compile(GEMM, tuned=path, N=50)
    assert tile(k) == 5
    for m in (3, 70):
        a, b = np.ones((m, 8), np.float32), np.ones((8, 50), np.float32)
        assert (k(a, b) == a @ b).all()


def test_else_the_model_chooses(path):
    add(path, {**SIZES, "M": 130}, {5: 1e-3})  # more than a doubling
    k = andiron.compile(GEMM, tuned=path, **SIZES)
    assert k.tuned is None
    assert "the schedule is the model's choice" in str(k.report)
    assert k.schedule == andiron.compile(GEMM, **SIZES).schedule


def test_the_authors_schedule_stays(path):
    add(path, SIZES, {5: 1e-3})
    text = GEMM + "\nschedule mine for gemm where M <= 64:\n    tile m: 3 -> core\n    compute\n"
    for given in ({}, {"schedule": "mine"}):
        k = andiron.compile(text, tuned=path, **given, **SIZES)
        assert (k.tuned, "tile m: 3" in k.schedule) == (None, True)
        assert "was not asked: the schedule is the author's" in str(k.report)
    assert tile(andiron.compile(text, schedule="auto", tuned=path, **SIZES)) == 5
    add(path, {**SIZES, "M": 100}, {7: 1e-3})
    assert tile(andiron.compile(text, tuned=path, **{**SIZES, "M": 100})) == 7


def test_for_a_gpu_that_is_not_here(path):
    add(path, SIZES, {5: 1e-3}, target="cuda:sm_80", machine="few")
    block = "schedule found for gemm:\n    tile m: 16, n: 16 -> block\n    tile m: 1, n: 1 -> thread\n    compute\n"
    add(path, SIZES, {block: 2e-3, "of another version": 1e-3}, target="cuda:sm_80", machine="GPU model")
    k = andiron.compile(GEMM, target="cuda:sm_80", tuned=path, **SIZES)
    assert (k.tuned.machine, k.tuned.seconds) == ("GPU model", 2e-3)
    k = andiron.compile(GEMM, target="cuda:sm_80", tuned=path, **{**SIZES, "M": 60})
    assert (k.tuned.machine, k.tuned.sizes) == ("GPU model", SIZES)


def test_the_environment_names_one(path, monkeypatch, capsys, tmp_path):
    file = tmp_path / "gemm.sched"
    file.write_text(GEMM)
    words = ["explain", str(file), "--size", "M=61,N=47,K=33"]

    def explained():
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    monkeypatch.setenv("ANDIRON_TUNED", path)
    assert explained()["schedule_from"] == {"source": "model"}  # nothing there yet: no reason to fail
    assert "measurements are not used: there is no database" in str(andiron.compile(GEMM, **SIZES).report)
    add(path, {**SIZES, "M": 64}, {5: 1e-3})
    said = explained()["schedule_from"]
    assert (said["source"], said["database"], said["sizes"]["M"]) == ("database", path, 64)
    assert main(words) == 0
    assert f"from {path}" in capsys.readouterr().out
    monkeypatch.setenv("ANDIRON_TUNED", "1")
    assert explained()["schedule_from"] == {"source": "model"}
    file.write_text(GEMM + "\nschedule mine for gemm:\n    tile m: 3 -> core\n")
    assert explained()["schedule_from"] == {"source": "file"}


def test_a_database_that_cannot_be_read_is_an_error_where_it_was_asked_for(path, tmp_path):
    with pytest.raises(NoDatabase):
        andiron.compile(GEMM, tuned=path, **SIZES)
    (tmp_path / "text.db").write_text("a text")
    with pytest.raises(ForeignDatabase):
        andiron.compile(GEMM, tuned=tmp_path / "text.db", **SIZES)
    with pytest.raises(ArgumentKind, match="tuned"):
        andiron.compile(GEMM, tuned=3, **SIZES)
    for name in ("", "x" * 5000):
        with pytest.raises(NoDatabase):
            andiron.compile(GEMM, tuned=name, **SIZES)


def test_a_database_that_others_lock_is_not_used_and_a_note_says_so(path, monkeypatch):
    add(path, SIZES, {5: 1e-3})
    monkeypatch.setattr(choose, "_PATIENCE", 0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    k = andiron.compile(GEMM, tuned=path, **SIZES)
    assert f"measurements are not used: {path} was locked by others" in str(k.report)
    other.close()
    assert tile(andiron.compile(GEMM, tuned=path, **SIZES)) == 5


def test_a_note_says_that_one_cannot_be_read_also_beside_a_winner_of_this_machine(path, monkeypatch):
    store_record(resolve_request(GEMM, given=SIZES), TunedRecord(TILED.format(21), 0, 1e-3, 2e-3, 5, 5, SIZES, "2026-01-01"))
    monkeypatch.setenv("ANDIRON_TUNED", path)
    k = andiron.compile(GEMM, **SIZES)
    assert tile(k) == 21
    assert f"measurements are not used: there is no database {path}" in str(k.report)
