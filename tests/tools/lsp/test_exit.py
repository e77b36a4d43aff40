"""The language server as an editor starts and ends it: a process, bytes on its streams, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls")

INITIALIZE = {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}
OPEN = {
    "method": "textDocument/didOpen",
    "params": {"textDocument": {"uri": "file:///x.sched", "languageId": "sched", "version": 1, "text": "op f\n"}},
}


def served(*messages: dict) -> tuple[int, list[dict], str]:
    """The exit code, the answers and the error stream of a session."""
    said = b""
    for message in messages:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        said += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    command = [sys.executable, "-m", "andiron", "lsp", "--stdio"]
    done = subprocess.run(command, input=said, capture_output=True, timeout=120, env={**os.environ, "ANDIRON_DEBUG": ""})
    answers, rest = [], done.stdout
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        (length,) = (int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.startswith(b"Content-Length"))
        answers.append(json.loads(rest[:length]))
        rest = rest[length:]
    return done.returncode, answers, done.stderr.decode()


@pytest.mark.parametrize("between", [(), (OPEN,)], ids=["at once", "with a text open"])
def test_a_clean_exit(between):
    code, answers, errors = served(
        INITIALIZE, {"method": "initialized", "params": {}}, *between, {"id": 2, "method": "shutdown"}, {"method": "exit"}
    )
    assert {a["id"] for a in answers if "id" in a} == {1, 2}
    assert all("error" not in a for a in answers)
    assert (code, "internal" in errors, "Traceback" in errors) == (0, False, False), errors


def test_an_exit_without_shutdown_is_none():
    """As the protocol asks: 1."""
    code, _, errors = served(INITIALIZE, {"method": "exit"})
    assert code == 1
    assert "internal" not in errors


def test_an_editor_that_is_gone_ends_the_server():
    code, _, errors = served(INITIALIZE)
    assert "internal" not in errors, errors
    assert code == 0
