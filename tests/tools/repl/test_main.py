"""The shell as a command: fed by a pipe, and on a real terminal."""

from __future__ import annotations

import io
import os
import sys
import time

import pytest
from andiron.tools import cli

from ...support.gemm_file import GEMM_OP as GEMM


def piped(monkeypatch, capsys, text: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    status = cli.main(["repl"])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_input_from_a_pipe(monkeypatch, capsys):
    status, out, err = piped(monkeypatch, capsys, GEMM + "tile m: 4 -> core\nshow\nquit\nbogus\n")
    assert (status, err) == (0, "")
    assert "schedule draft for gemm:\n    tile m: 4 -> core" in out


def test_a_mistake_in_a_pipe_is_told_and_passed_over(monkeypatch, capsys):
    status, out, err = piped(monkeypatch, capsys, GEMM + "tile q: 4\ntile m: 4\nshow\n")
    assert status == 1
    assert err.startswith("error[")
    assert "tile m: 4" in out


def test_on_a_terminal(tmp_path):
    pexpect = pytest.importorskip("pexpect", reason="pexpect drives a terminal")
    pyte = pytest.importorskip("pyte", reason="pyte shows what a terminal would")
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(tmp_path)}
    environment |= {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = [sys.executable, "-m", "andiron", "repl"]
    child = pexpect.spawn(command[0], command[1:], encoding="utf-8", env=environment, dimensions=(60, 120), cwd=str(tmp_path))
    screen = pyte.Screen(120, 60)
    stream = pyte.Stream(screen)

    def text() -> str:
        return "\n".join(line.rstrip() for line in screen.display).rstrip()

    def until(what: str, patience: float = 60.0) -> None:
        end = time.monotonic() + patience
        while what not in text():
            assert time.monotonic() < end, f"no `{what}` in\n{text()}"
            try:
                stream.feed(child.read_nonblocking(65536, timeout=0.2))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                assert what in text(), text()
                return

    until("Ctrl-D leaves.")
    child.send("op twice[N](X: f32[N]) -> (Y: f32[N]):\r")
    until("\n.")
    child.send("Y[i] = 2.0 * X[i]\r")  # the margin is there already
    until("    Y[i] = 2.0 * X[i]\n.")
    child.send("\r")
    until("op twice: i < N")
    child.send("schedule pairs for twice on cpu:avx2:\r")  # its lines come one by one
    until("@socket")
    child.send("tile i: 8 -> cor\r")
    until("did you mean `core`?")
    child.send("e\r")  # what was wrong is still there
    until("@core")
    child.send("mov\t")
    until("\n      move")
    child.sendcontrol("c")
    child.send("undo\r")
    child.send("undo\r")
    until("no schedule yet")
    for _ in range(30):  # between two prompts the terminal itself takes a Ctrl-D, and nobody reads it
        child.sendcontrol("d")
        if child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=2) == 0:
            break
    child.close()
    assert child.exitstatus == 0
    assert "tile i: 8 -> core" in (tmp_path / ".local" / "state" / "andiron" / "history").read_text()
