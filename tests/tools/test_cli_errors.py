"""The command line where something is wrong: files, options, sizes, the cache, the terminal."""

import json
import os
import subprocess
import sys

import pytest
from andiron.tools.cli import main

from ..support.gemm_file import GEMM, SMALL


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


@pytest.mark.parametrize("sweep", ["0", "-1,3", "3,x", ""])
def test_a_sweep_that_is_no_list_of_sizes_is_a_mistake_of_the_command_line(gemm, sweep, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", gemm, f"--sweep={sweep}"])
    assert ended.value.code == 2
    assert "argument --sweep: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "M=1,M=2"), "error[bad-assignment]: `M` is given twice"),
        (("--size", "M=1", "--size", "M=1"), "error[bad-assignment]: `M` is given twice"),
        (("--size", "M=1", "--param", "M=2"), "error[bad-assignment]: `M` is given twice"),
        (
            ("--param", "X=3"),
            "error[unknown-size]: `X` is no size and no parameter of op `gemm`\n  help: known here: `K`, `M`, `N`",
        ),
        (("--size", "X=3"), "error[unknown-size]: `X` is no size and no parameter of op `gemm`"),
    ],
)
def test_sizes_that_are_not_taken(gemm, words, message, capsys):
    assert main(["run", gemm, *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "fmt", "run"])
def test_a_folder_is_no_file(tmp_path, command, capsys):
    assert main([command, str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"error[no-such-file]: {tmp_path} is a folder, not a file\n  help: name a `.sched` file\n"
    (tmp_path / "a.sched").write_text(GEMM)
    assert main([command, str(tmp_path)]) == 1
    assert f"help: name its files: `{tmp_path / 'a.sched'}`" in capsys.readouterr().err


def test_more_threads_than_a_kernel_takes(gemm, capsys):
    assert main(["run", gemm, *SMALL, "--threads", "99999", "--repeat", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threads"] == 256
