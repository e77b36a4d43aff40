"""The command line: every command on a real file, and every way to be told that something is wrong."""

import io
import itertools
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from andiron.dsl.module import loads
from andiron.tools import cli
from andiron.tools.cli import main
from andiron.tools.commands import bench

from ..support.paths import ROOT

GEMM = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

schedule rows for gemm:
    tile m: 4
    auto
"""
SMALL = ["--size", "M=9,N=7", "--size", "K=5"]


@pytest.fixture
def gemm(tmp_path):
    path = tmp_path / "gemm.sched"
    path.write_text(GEMM)
    return str(path)


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


# ---------------------------------------------------------------- what goes wrong


def test_a_cache_that_cannot_be_written_is_one_line_of_warning(gemm, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "file"))
    assert main(["run", gemm, *SMALL, "--repeat", "1"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: the cache folder")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--op", "gem"], "did you mean `gemm`"),
        (["--schedule", "row"], "did you mean `rows`"),
        (["--target", "cpux"], "targets are `cpu`, "),
        (["--target", "cpu:avx3"], "did you mean `cpu:avx2`"),
        (["--target", "sm_80"], "`cuda:sm_80`, `emulate:sm_80`"),
        (["--target", "cuda:sm_80"], "`--target emulate:sm_80` runs the same on a CPU"),
        (["--size", "M"], "bad-assignment"),
        (["--size", "Q=4"], "Q"),
        (["--size", "M=-1"], "negative"),
    ],
)
def test_faults_of_the_command(gemm, capsys, args, said):
    assert main(["run", gemm, *args]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.startswith("error[")


def test_wrong_usage_is_2(gemm, capsys):
    assert main([]) == 2
    assert "compile, run, check and time" in capsys.readouterr().err
    for args in (["dance"], ["run"], ["run", gemm, "--repeat", "0"], ["run", gemm, "--threads", "x"], ["cache", "eat"]):
        with pytest.raises(SystemExit) as caught:
            main(args)
        assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0


def test_a_file_that_is_not_there_has_a_neighbour(gemm, capsys):
    assert main(["run", gemm.removesuffix(".sched")]) == 1
    assert "did you mean `gemm.sched`?" in capsys.readouterr().err
    assert main(["run", gemm.replace("gemm", "other")]) == 1
    assert "known here: `gemm.sched`" in capsys.readouterr().err


def test_schedules_for_other_devices_are_not_passed_over_in_silence(tmp_path, capsys):
    path = tmp_path / "neg.sched"
    path.write_text(
        "op neg[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = -X[i]\n\nschedule b for neg on sm_80:\n    tile i: 64 -> block\n"
    )
    assert main(["emit", str(path)]) == 0
    assert "no schedule for neg is for cpu:native" in capsys.readouterr().err
    assert main(["emit", str(path), "--target", "cuda:sm_80"]) == 0
    assert "note" not in capsys.readouterr().err


def test_the_target_is_what_the_schedule_names(tmp_path, capsys):
    path = tmp_path / "neg.sched"
    path.write_text(
        "op neg[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = -X[i]\n\n"
        "schedule b for neg on sm_80:\n    tile i: 64 -> block\nschedule c for neg on cpu:avx2:\n    tile i: 64 -> core\n"
    )
    for schedule, target in (("b", "cuda:sm_80"), ("c", "cpu:avx2")):
        assert main(["explain", str(path), "--schedule", schedule]) == 0
        assert f" {target} (" in capsys.readouterr().out
    assert main(["bench", str(path), "--all", "--repeat", "1", "--target", "cpu:avx2", "--size", "N=99"]) == 0
    said = capsys.readouterr()
    assert "`b` is for sm_80, and left out" in said.err
    assert "  c  " in said.out


@pytest.mark.parametrize("command", ["run", "check", "fmt", "emit", "complete", "explain", "bench"])
def test_files_that_cannot_be_read(command, tmp_path, capsys):
    (tmp_path / "latin.sched").write_bytes(b"op \xe9")
    for path in (tmp_path / "missing.sched", tmp_path, tmp_path / "latin.sched"):
        assert main([command, str(path)]) == 1
        shown = capsys.readouterr().err
        assert shown.startswith(("error[no-such-file]", "error[not-utf8]"))
        assert str(path) in shown


def test_a_file_that_cannot_be_written(gemm, tmp_path, capsys):
    assert main(["emit", gemm, "-o", str(tmp_path / "no" / "such" / "folder")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_errors_as_json(tmp_path, capsys):
    bad = tmp_path / "bad.sched"
    bad.write_text("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = Q[i]\n")
    assert main(["run", str(bad), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["errors"][0]["line"] == 2


def test_our_own_faults_are_told_without_a_traceback(gemm, capsys, monkeypatch):
    from andiron.tools.commands import run

    def break_down(args):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(run, "run", break_down)
    assert main(["run", gemm]) == 1
    shown = capsys.readouterr().err
    assert "error[internal]: ZeroDivisionError: oops" in shown
    assert "report" in shown
    monkeypatch.setenv("ANDIRON_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["run", gemm])


def test_interrupted(gemm, capsys, monkeypatch):
    from andiron.tools.commands import run

    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", interrupt)
    assert main(["run", gemm]) == 130


def andiron(*args, **options):
    return subprocess.run([sys.executable, "-m", "andiron", *args], capture_output=True, text=True, **options)


def test_as_a_module_and_without_colour_when_not_on_a_terminal(tmp_path):
    done = andiron("check", "missing.sched", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error[no-such-file]")
    assert "\033" not in done.stderr


def test_a_reader_that_stops_reading(gemm):
    command = [sys.executable, "-m", "andiron", "emit", gemm]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        shown = process.stderr.read()
        assert process.wait() == 0
    assert shown == b""


def test_colour_on_a_terminal():
    from andiron.tools.terminal import paint

    text = "error[x]: message\n --> f:1:1\n1 | abc\n  | ^^^ here\n  help: do"
    assert paint(text).count("\033[0m") == 4


def test_characters_that_the_terminal_lacks(tmp_path):
    path = tmp_path / "ü.sched"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = andiron("check", str(path), env=env)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "line", [*cli.EXAMPLES, *(line for c in cli.COMMANDS for line in c.EXAMPLES)], ids=lambda line: line.replace("/", ".")
)
def test_examples_of_the_help_run(line, tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    program, *words = line.split()
    assert program == "andiron"
    if words[0] in ("repl", "lsp"):  # they read what is typed, and end with it
        command = [sys.executable, "-m", "andiron", *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    elif words[-1] == "--help":
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
    else:
        assert main(words) == 0, capsys.readouterr().err
    for option, path in itertools.pairwise(words):
        assert option != "-o" or (tmp_path / path).stat().st_size > 0


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda c: c.NAME)
def test_help_ends_with_an_example(command, capsys):
    with pytest.raises(SystemExit):
        main([command.NAME, "--help"])
    said = capsys.readouterr().out.rstrip().splitlines()
    assert said[-1 - len(command.EXAMPLES)] == "examples:"
    assert [line.strip() for line in said[-len(command.EXAMPLES) :]] == list(command.EXAMPLES)
    assert all(line.startswith(f"andiron {command.NAME}") for line in command.EXAMPLES)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["rnu", "x.sched"], "did you mean `run`?"),
        (["run", "x.sched", "--shedule", "s"], "did you mean `--schedule`?"),
        (["tune", "x.sched", "--secnds=3"], "did you mean `--seconds`?"),
        (["--vresion"], "did you mean `--version`?"),
        (["run", "x.sched", "--zzz"], "unrecognized arguments: --zzz"),
    ],
)
def test_usage_errors_propose_the_nearest_word(words, near, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert near in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_seed_below_zero_is_a_mistake_of_the_command_line(gemm, command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, gemm, "--seed", "-1"])
    assert ended.value.code == 2
    assert "argument --seed: -1 is less than 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("run", "--size", "M=9223372036854775807,N=1,K=1"), ("bench", "--sweep", "99999999999999999999999")]
)
def test_sizes_beyond_every_memory_are_refused(gemm, words, capsys):
    command, *rest = words
    assert main([command, gemm, *rest]) != 0
    assert "error[internal]" not in capsys.readouterr().err
