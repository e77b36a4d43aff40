"""What `tune` measures is in the database, and a database that cannot be written does not break it."""

import warnings

import andiron
import pytest
from andiron.runtime.tuning.database import record_trials as module
from andiron.runtime.tuning.database.describe import fingerprint_of, task_of
from andiron.runtime.tuning.database.measurement import Measurement
from andiron.runtime.tuning.database.open_database import default_path, open_database
from andiron.runtime.tuning.result import Trial

from ....support.gemm_file import GEMM_OP as GEMM

SIZES = {"M": 61, "N": 47, "K": 33}


def test_every_timed_candidate_is_a_row():
    k = andiron.compile(GEMM, **SIZES)
    found = k.tune(top=3)
    rows = list(open_database().rows())
    assert {m.schedule: m.samples for m in rows} == {t.schedule: tuple(t.samples) for t in found.trials}
    assert {(m.verdict, m.task.op_name, m.task.target) for m in rows} == {("right", "gemm", "cpu")}
    assert rows[0].task.sizes == SIZES
    assert len({(m.run, m.fingerprint, m.version) for m in rows}) == 1
    assert rows[0].toolchain

    andiron.compile(GEMM, **SIZES).tune(top=2, keep=False)
    assert len(list(open_database().rows())) == len(rows)
    k = andiron.compile(GEMM, tuned=default_path(), **SIZES)
    assert k.schedule == min(rows, key=lambda m: m.seconds).schedule


def test_what_the_database_suggested_takes_part():
    k = andiron.compile(GEMM, **SIZES)
    schedule = "schedule found for gemm:\n    tile m: 3 -> core\n    compute\n"
    about = task_of(k.request), schedule, fingerprint_of(k.request)
    open_database().add([Measurement(*about, "cc", "run", "right", (1e-9,))])
    k = andiron.compile(GEMM, tuned=default_path(), **SIZES)
    assert "tile m: 3" in k.schedule
    assert k.schedule in {t.schedule for t in k.tune(top=1, keep=False).trials}


def test_trials_that_were_rejected_are_rows_too():
    k = andiron.compile(GEMM, **SIZES)
    trials = [Trial(n, "", None, "", k.variants[0]) for n in range(2)]
    trials[0].reject("wrong", "wrong: an error of 1, 0.1 is allowed there")
    module.record_trials(k.request, SIZES, trials)  # the other was not run
    (row,) = open_database().rows()
    assert (row.verdict, row.detail, row.samples, row.seconds) == ("wrong", trials[0].rejected, (), None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_database_that_cannot_be_written_is_told_once(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_TUNED", str(tmp_path / "x.db"))
    monkeypatch.setattr(module, "_told", set())
    (tmp_path / "x.db").write_text("a text")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        k = andiron.compile(GEMM, **SIZES)
        first = k.tune(top=1)
        assert first.best.seconds
        k.tune(top=1)
    assert [str(w.message) for w in caught if "measurements are not kept" in str(w.message)] == [
        f"measurements are not kept: {tmp_path / 'x.db'} is no database of Andiron's"
    ]
    assert (tmp_path / "x.db").read_text() == "a text"
