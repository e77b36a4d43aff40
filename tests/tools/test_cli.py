"""The command line: every command on a real file."""

import io
import json
import shlex
import stat
import sys
from pathlib import Path

import pytest
from andiron.dsl.module import loads
from andiron.tools.cli import main
from andiron.tools.commands import bench

from ..support.gemm_file import GEMM, SMALL


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--check"], ["--compare"]),
        (["--no-check"], ["--no-compare"]),
        (["--no-checks", "--target", "emulate:sm_80"], ["--no-sanitize", "--target", "emulate:sm_80"]),
        (["--report", "--target", "emulate:sm_80"], ["--count", "--target", "emulate:sm_80"]),
    ],
    ids=" ".join,
)
def test_old_spellings_of_run(old, new, gemm, capsys):
    """They do the same, with a note that the output for programs is free of."""
    answers = []
    for words in (old, new):
        assert main(["run", gemm, *SMALL, "--repeat", "1", "--json", *words]) == 0
        out, err = capsys.readouterr()
        answers.append(
            {k: v for k, v in json.loads(out).items() if k not in ("seconds", "samples", "gflops", "gbytes", "cached")}
        )
        assert (f"`{old[0]}` is now `{new[0]}`" in err) == (words is old)
    assert answers[0] == answers[1]
    assert ("ok" in answers[0]) == (new[0] != "--no-compare")
    assert ("counts" in answers[0]) == (new[0] == "--count")


def test_run(gemm, capsys):
    assert main(["run", gemm, *SMALL, "--repeat", "2", "--threads", "1"]) == 0
    said = capsys.readouterr().out
    for wanted in ("gemm: M=9, N=7, K=5", "compiler", "GFLOP/s", "GB/s", "check     OK"):
        assert wanted in said


def test_run_refuses_checks_that_a_cpu_does_not_make(gemm, capsys):
    assert main(["run", gemm, *SMALL, "--sanitize"]) == 1
    assert "`--sanitize`: cpu runs without checks" in capsys.readouterr().err
    assert main(["run", gemm, *SMALL, "--sanitize", "--target", "emulate:sm_80", "--repeat", "1"]) == 0


def test_run_as_json(gemm, capsys):
    assert main(["run", gemm, *SMALL, "--schedule", "rows", "--repeat", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"]
    assert answer["sizes"] == {"M": 9, "N": 7, "K": 5}
    assert answer["compiler"]
    assert len(answer["samples"]) == 2


def test_run_says_which_sizes_it_chose(gemm, capsys):
    assert main(["run", gemm, "--size", "M=3,K=2", "--repeat", "1", "--no-check"]) == 0
    assert "sizes chosen by default: N" in capsys.readouterr().out


def test_a_wrong_result_fails(gemm, capsys, monkeypatch):
    from andiron.runtime import check_results

    monkeypatch.setattr(check_results, "check", lambda *_: check_results.CheckResult(False, 1.0, 1e-6))
    assert main(["run", gemm, *SMALL, "--repeat", "1"]) == 1
    assert "FAIL" in capsys.readouterr().out


FITTING = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

schedule narrow for gemm on cpu:generic where N <= 48, M >= 600:
    tile m: 4, n: 8
    keep C in register

schedule short for gemm on cpu:generic where 4*K <= 100:
    tile m: 4, n: 8
    keep C in register
"""


@pytest.mark.parametrize(
    ("options", "name", "sizes"),
    [
        ((), "narrow", {"M": 600, "N": 48, "K": 512}),
        (("--schedule", "narrow"), "narrow", {"M": 600, "N": 48, "K": 512}),
        (("--size", "N=7"), "narrow", {"M": 600, "N": 7, "K": 512}),
        (("--schedule", "short"), "short", {"M": 16, "N": 16, "K": 16}),
        (("--size", "M=64,K=3"), "short", {"M": 64, "N": 512, "K": 3}),
        (("--schedule", "auto", "--size", "K=3"), "auto", {"M": 512, "N": 512, "K": 3}),
        (("--size", "M=30,N=20,K=30"), "auto", {"M": 30, "N": 20, "K": 30}),
    ],
)
def test_run_tests_the_schedule_of_the_file_and_names_it(tmp_path, capsys, options, name, sizes):
    """Sizes that nobody gave are such that the file's schedule takes them."""
    (tmp_path / "x.sched").write_text(FITTING)
    command = ["run", str(tmp_path / "x.sched"), "--target", "cpu:generic", "--repeat", "1", *options]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["schedule"], answer["sizes"]) == (name, sizes)
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert f"  schedule  {'the compiler' if name == 'auto' else name}" in shown


def test_a_wrong_result_says_where_and_whose_fault_it_is(gemm, capsys, monkeypatch):
    from andiron.runtime.kernel import Kernel

    def broken(self, results):
        (c,) = results
        c = c.copy()
        c[2, 3:5] += 100.0
        return [c]

    monkeypatch.setattr(Kernel, "fetch", broken)
    assert main(["run", gemm, *SMALL, "--repeat", "1", "--seed", "5", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (wrong,) = answer["wrong"]
    assert (wrong["tensor"], wrong["count"], wrong["at"]) == ("C", 2, [2, 3])
    assert wrong["of"] == answer["sizes"]["M"] * answer["sizes"]["N"]
    assert abs(wrong["got"] - wrong["expected"] - 100.0) < 1e-3
    assert main(shlex.split(answer["reproduce"])[1:]) == 1
    shown = capsys.readouterr().out
    assert f"2 of {wrong['of']:,} elements of C are wrong, the first C[2, 3]: expected " in shown
    assert "a fault of Andiron's" in shown
    assert f"andiron run {gemm} --op gemm --schedule " in shown
    assert "--seed 5" in shown


def test_a_wrong_row_is_told_by_its_place_in_the_whole(monkeypatch):
    """Where only some rows are compared, for ops whose reference would take long."""
    import numpy as np
    from andiron.runtime import check_results

    module = loads("op neg[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[m, n] = -X[m, n]\n")
    monkeypatch.setattr(check_results, "_REFERENCE_FLOPS", 1)
    x = np.ones((100, 3), np.float32)
    y = -x
    y[99, 1] = 7
    found = check_results.check(module.ops["neg"], [x], [y])
    assert not found.ok
    (wrong,) = found.wrong
    assert (wrong.at, wrong.count, wrong.of, wrong.expected, wrong.got) == ((99, 1), 1, 48, -1.0, 7.0)


@pytest.mark.parametrize("size", ["M=0,N=7,K=5", "M=1,N=1,K=1", "M=9,N=7,K=0"])
def test_run_at_the_edges(gemm, size):
    assert main(["run", gemm, "--size", size, "--repeat", "1"]) == 0


def test_check(gemm, tmp_path, capsys):
    assert main(["check", gemm]) == 0
    bad = tmp_path / "bad.sched"
    bad.write_text(GEMM.replace("B[k, n]", "Q[k, n]"))
    assert main(["check", gemm, str(bad)]) == 1
    assert "--> " in capsys.readouterr().err
    assert main(["check", "--json", str(bad)]) == 1
    (error, *_) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["file"], error["line"]) == (str(bad), 2)
    assert error["id"]


def test_check_compiles_the_schedules(tmp_path, capsys):
    path = tmp_path / "bad.sched"
    path.write_text(GEMM.replace("tile m: 4", "tile q: 4"))
    assert main(["check", str(path)]) == 1
    assert "q" in capsys.readouterr().err


def test_fmt_in_place_keeps_permissions_and_links(gemm, tmp_path, capsys):
    path = Path(gemm)
    untidy = GEMM.replace("A[m, k] *", "A[m,k]  *").replace("    tile", "  tile").replace("    auto", "  auto")
    path.write_text(untidy)
    path.chmod(0o640)
    link = tmp_path / "link.sched"
    link.symlink_to(path)
    assert main(["fmt", "--check", gemm]) == 1
    assert main(["fmt", "--diff", gemm]) == 0
    assert "-    C[m, n] = sum(k) A[m,k]" in capsys.readouterr().out
    assert path.read_text() == untidy
    assert main(["fmt", str(link)]) == 0
    assert path.read_text() == GEMM
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gemm.sched", "link.sched"]
    assert main(["fmt", "--check", gemm]) == 0


def test_fmt_of_the_input_stream(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GEMM.replace("[m, k]", "[m,k]").encode())))
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == GEMM


def test_fmt_goes_on_after_a_broken_file(gemm, tmp_path, capsys):
    bad = tmp_path / "bad.sched"
    bad.write_text("op (")
    Path(gemm).write_text(GEMM + "\n\n\n")
    assert main(["fmt", str(bad), gemm]) == 1
    assert Path(gemm).read_text() == GEMM
    assert bad.read_text() == "op ("


def test_fmt_names_the_file_of_a_mistake(tmp_path, capsys, monkeypatch):
    for n in (1, 2):
        (tmp_path / f"bad{n}.sched").write_text("op f(:\n")
    assert main(["fmt", str(tmp_path / "bad1.sched"), str(tmp_path / "bad2.sched")]) == 1
    said = capsys.readouterr().err
    assert f"--> {tmp_path / 'bad1.sched'}:1:" in said
    assert f"--> {tmp_path / 'bad2.sched'}:1:" in said
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"op f(:\n")))
    assert main(["fmt", "-"]) == 1
    assert "--> <stdin>:1:" in capsys.readouterr().err


def test_emit(gemm, tmp_path, capsys):
    assert main(["emit", gemm]) == 0
    text = capsys.readouterr().out
    assert 'extern "C"' in text
    out = tmp_path / "gemm.cpp"
    assert main(["emit", gemm, "-o", str(out)]) == 0
    assert out.read_text() == text
    assert main(["emit", gemm, "--stage", "schedule"]) == 0
    assert "schedule" in capsys.readouterr().out
    capsys.readouterr()
    assert main(["emit", gemm, "--stage", "op"]) == 0
    assert capsys.readouterr().out == GEMM.partition("\n\n")[0] + "\n"
    assert main(["emit", gemm, "--stage", "program"]) == 0
    assert "Program(" not in capsys.readouterr().out
    # Text for a machine that this one is not.
    for target in ("cpu:neon", "cpu:avx512", "cpu:generic", "cpu:avx2"):
        assert main(["emit", gemm, "--target", target]) == 0


def test_complete_is_a_schedule_again(gemm, tmp_path, capsys):
    assert main(["complete", gemm, "--schedule", "rows"]) == 0
    text = capsys.readouterr().out
    again = tmp_path / "again.sched"
    again.write_text(GEMM.partition("schedule")[0] + text)
    assert main(["complete", str(again)]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(("library", "op"), [("conv", "conv1d"), ("gemm", "gemm")])
def test_completed_schedules_for_ranges_of_sizes_may_stand_in_one_file(library, op, tmp_path, capsys):
    text = f"import std.ops.{library}\n\n"
    first, again = tmp_path / "first.sched", tmp_path / "again.sched"
    first.write_text(text)
    assert main(["complete", str(first), "--op", op, "--target", "cpu:avx2"]) == 0
    schedules = capsys.readouterr().out
    assert schedules.count(f"schedule {op}_auto") > 2
    again.write_text(text + schedules)
    assert main(["complete", str(again), "--op", op, "--target", "cpu:avx2"]) == 0
    assert capsys.readouterr().out == schedules


def test_explain(gemm, capsys):
    assert main(["explain", gemm, *SMALL]) == 0
    assert "flops" in capsys.readouterr().out
    assert main(["explain", gemm, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["op"] == "gemm"


def test_bench(gemm, capsys, monkeypatch):
    for name in bench.THREAD_COUNTS:
        monkeypatch.setenv(name, "1")
    assert main(["bench", gemm, *SMALL, "--repeat", "2", "--vs", "numpy", "--all", "--json"]) == 0
    names = [r["name"] for r in json.loads(capsys.readouterr().out)["results"]]
    assert names[:2] == ["default", "rows"]
    assert "matmul" in names[2]
    assert main(["bench", gemm, *SMALL, "--repeat", "2", "--vs", "numpy", "--threads", "1"]) == 0
    assert "x as fast" in capsys.readouterr().out


def test_targets(capsys):
    assert main(["targets"]) == 0
    said = capsys.readouterr().out
    assert "cpu:avx512" in said
    assert "compiler:" in said
    assert main(["targets", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"][0]["target"] == "cpu"


def test_cache(gemm, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    assert main(["run", gemm, *SMALL, "--repeat", "1"]) == 0
    capsys.readouterr()
    assert main(["cache", "list"]) == 0
    assert "gemm for cpu" in capsys.readouterr().out
    assert main(["cache", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "cache")
    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] >= 1
    assert main(["cache", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
