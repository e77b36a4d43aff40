"""Help of the command line: its examples run, and a mistyped word gets the nearest one."""

import itertools
import shutil
import subprocess
import sys

import pytest
from andiron.runtime.tuning.database.open_database import open_database
from andiron.tools import cli
from andiron.tools.cli import main

from ..support.paths import ROOT
from ..support.tuning.measurements import row


@pytest.mark.parametrize(
    "line", [*cli.EXAMPLES, *(line for c in cli.COMMANDS for line in c.EXAMPLES)], ids=lambda line: line.replace("/", ".")
)
def test_examples_of_the_help_run(line, tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    program, *words = line.split()
    assert program == "andiron"
    if "--from-torch" in words:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    if words[0] == "db":  # of its own: other tests count rows
        monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
        open_database().add([row()])
    if words[0] in ("repl", "lsp"):  # they read what is typed, and end with it
        command = [sys.executable, "-m", "andiron", *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    elif words[-1] == "--help":
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
    else:
        few = ["--repeat", "1"] if words[0] == "bench" else []  # it rests before each sample
        status = 1 if words == ["db", "train"] else 0  # one row is too little to learn from
        assert main([*words, *few]) == status, capsys.readouterr().err
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
