"""The examples: formatted, right at odd sizes with each of their schedules, and the commands that they name work."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from andiron.codegen.targets import target_of
from andiron.dsl.module import load
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.text.format import format_source
from andiron.runtime.compile import compile
from andiron.runtime.devices import device_of, extended_devices, is_for_device
from andiron.tools import cli

from ..support.library.cases import check_right
from ..support.paths import ROOT

TEXTS = sorted((ROOT / "examples").glob("*.sched"))
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
MODULES = {f.name: load(f) for f in TEXTS}
COMMANDS = [
    c for f in (*TEXTS, *PROGRAMS) for c in re.findall(r"^(?:#   |    )(andiron .*)$", f.read_text(), flags=re.MULTILINE)
]


def cases():
    """Each op of an example with each schedule for it, and with none named."""
    for file, module in MODULES.items():
        for op in module.ops:
            yield file, op, None
            yield from ((file, op, s.name) for s in module.schedules.values() if s.op in (op, "contraction"))


def target_for(module, schedule):
    if schedule is None or module.schedules[schedule].device is None:
        return "cpu"
    return module.schedules[schedule].device


def test_there_are_examples():
    assert len(TEXTS) >= 8
    assert len(PROGRAMS) >= 3


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_formatted(path):
    text = path.read_text(encoding="utf-8")
    assert format_source(text) == text


@pytest.mark.parametrize(("file", "op_name", "schedule"), list(cases()), ids=str)
def test_right(file, op_name, schedule):
    module = MODULES[file]
    target = target_for(module, schedule)
    goal = target_of(target, {n: extended_devices(d, module)[1:] for n, d in module.devices.items()})
    assert schedule is None or is_for_device(module.schedules[schedule], device_of(goal, module), module)
    kernel = compile(module, op=op_name, schedule=schedule, target=target)
    check_right(bind_params(module.ops[op_name]), lambda case: kernel(*case.arrays, threads=2), ["odd"])


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, monkeypatch, capsys):
    if "--from-torch" in command:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(ROOT)
    _, *words = command.split()
    if words[0] in ("run", "bench"):
        words += ["--repeat", "1"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_programs(path):
    if "import torch" in path.read_text(encoding="utf-8"):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=ROOT.parent, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout
