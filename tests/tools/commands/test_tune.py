"""`andiron tune`: what it prints, what it keeps, and how it ends."""

from __future__ import annotations

import json
import os
import sys

import pytest
from andiron.runtime.tuning import racing, search
from andiron.tools.cli import main

from ...support.gemm_file import GEMM_OP as GEMM

SIZES = ["--size", "M=61,N=47,K=33"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(racing, "ROUNDS", 3)


@pytest.fixture
def gemm(tmp_path):
    path = tmp_path / "gemm.sched"
    path.write_text(GEMM)
    return str(path)


def test_what_it_finds_is_used_and_said(gemm, capsys, monkeypatch):
    monkeypatch.setattr(search, "winner", lambda trials: [t for t in trials if t.samples and not t.rejected][-1])
    assert main(["tune", gemm, *SIZES, "--top", "3"]) == 0
    said = capsys.readouterr()
    assert "3 candidates" in said.out
    assert "kept in the cache" in said.out
    assert said.err == ""  # progress is for terminals
    assert main(["complete", gemm, *SIZES]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# the schedule was found by tuning")
    assert main(["explain", gemm, *SIZES]) == 0
    assert "found by tuning" in capsys.readouterr().out
    assert main(["run", gemm, *SIZES, "--repeat", "1"]) == 0
    assert "found by tuning" in capsys.readouterr().out
    monkeypatch.setenv("ANDIRON_TUNED", "0")
    assert main(["complete", gemm, *SIZES]) == 0
    assert text.partition("\n")[2] != capsys.readouterr().out


def test_the_cache_tells_results_from_kernels(gemm, capsys):
    assert main(["tune", gemm, *SIZES, "--top", "2"]) == 0
    capsys.readouterr()
    assert main(["cache", "--tuned"]) == 0
    said = capsys.readouterr().out
    assert "tuned gemm for cpu: M=61, N=47, K=33" in said
    assert "1 entry" in said
    assert main(["cache", "clear", "--tuned", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 1
    assert main(["cache", "--json"]) == 0
    kinds = [e.get("kind") for e in json.loads(capsys.readouterr().out)]
    assert kinds
    assert "tuned" not in kinds


def test_json_and_dry_run(gemm, capsys):
    assert main(["tune", gemm, *SIZES, "--top", "2", "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sizes"] == {"M": 61, "N": 47, "K": 33}
    assert not answer["kept"]
    assert len(answer["candidates"]) == 2
    assert all(c["samples"] and c["schedule"] for c in answer["candidates"])
    assert main(["cache", "--tuned", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_device_that_is_not_here_is_ranked(gemm, capsys):
    assert main(["tune", gemm, *SIZES, "--target", "emulate:sm_80", "--top", "4"]) == 0
    said = capsys.readouterr().out
    assert "not measured, and nothing is kept: emulate:sm_80 is emulated" in said
    assert main(["tune", gemm, *SIZES, "--target", "emulate:sm_80", "--top", "4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert not answer["measured"]
    assert len(answer["candidates"]) == 4
    assert all(c["predicted"] for c in answer["candidates"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--schedule", "tiny"], "leaves nothing open"),
        (["--op", "gemn"], "no op"),
        (["--size", "Q=3"], "no size"),
    ],
)
def test_faults(gemm, capsys, more, said):
    with open(gemm, "a") as file:
        file.write("\nschedule tiny for gemm:\n    tile m: 1\n    compute\n")
    assert main(["tune", gemm, *more]) == 1
    assert said in capsys.readouterr().err


def test_fewer_trials_than_candidates(gemm, capsys):
    assert main(["tune", gemm, *SIZES, "--trials", "4"]) == 1
    said = capsys.readouterr().err
    assert "`trials` is 4, fewer than `top`, 10" in said
    assert "help: " in said


def test_one_candidate(gemm, capsys):
    assert main(["tune", gemm, *SIZES, "--target", "emulate:sm_80", "--top", "1"]) == 0
    assert "; 1 candidate\n" in capsys.readouterr().out


def test_wrong_usage(gemm):
    with pytest.raises(SystemExit) as error:
        main(["tune", gemm, "--top", "0"])
    assert error.value.code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_ctrl_c_on_a_terminal(gemm, tmp_path):
    """Progress is shown; Ctrl-C keeps the best so far, and the status says that it was interrupted."""
    import pexpect

    child = pexpect.spawn(
        sys.executable,
        ["-m", "andiron", "tune", gemm, *SIZES, "--top", "3"],
        env=dict(os.environ),
        cwd=str(tmp_path),
        timeout=120,
    )
    child.expect("building")
    child.expect("checking")
    child.expect("round 1 of")
    child.sendintr()
    child.expect("interrupted: the best so far counts")
    child.expect("kept in the cache")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert main(["cache", "--tuned"]) == 0
