"""What is no program: other files, files without an end, arguments of another kind. One clear error each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import andiron
import pytest
from andiron.dsl.errors import UserError, UserErrors

TEXT = "op g[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n"
PASSWORDS = "".join(f"user{i}:x:{i}:{i}:user:/home/user{i}:/bin/sh\n" for i in range(30))
FILES = {
    "not-text": b"\x7fELF\x02\x01\x01\0\0\0" + bytes(range(256)),
    "not-sched": PASSWORDS.encode(),
    "not-utf8": TEXT.encode() + b"# \xe9\n",
    "text-too-large": b"# a line of a comment\n" * 400_000,
}


def one(call) -> UserError:
    with pytest.raises(UserError) as found:
        call()
    assert not isinstance(found.value, UserErrors), "several errors for one mistake"
    return found.value


@pytest.mark.parametrize("id", FILES)
def test_another_file(id, tmp_path):
    path = tmp_path / "other.sched"
    path.write_bytes(FILES[id])
    assert one(lambda: andiron.load(path)).id == id


@pytest.mark.parametrize("command", ["check", "fmt"])
@pytest.mark.parametrize("name", ["/dev/zero", "-"])
def test_a_file_without_an_end(name, command):
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero")
    with open("/dev/zero", "rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "andiron", command, name], stdin=zeros, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 1
    assert "error[not-text]" in done.stdout + done.stderr


def test_a_few_stray_lines_are_told_one_by_one():
    with pytest.raises(UserError) as found:
        andiron.loads("opp g[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n")
    errors = found.value.errors if isinstance(found.value, UserErrors) else (found.value,)
    assert {e.id for e in errors} == {"unknown-declaration"}


KINDS = {
    "loads(None)": lambda: andiron.loads(None),  # type: ignore[arg-type]
    "loads(bytes)": lambda: andiron.loads(TEXT.encode()),  # type: ignore[arg-type]
    "loads(name)": lambda: andiron.loads(TEXT, 3),  # type: ignore[arg-type]
    "loads(base)": lambda: andiron.loads(TEXT, base=3),  # type: ignore[arg-type]
    "loads(line_offset)": lambda: andiron.loads(TEXT, line_offset="3"),  # type: ignore[arg-type]
    "load(None)": lambda: andiron.load(None),  # type: ignore[arg-type]
    "load(3)": lambda: andiron.load(3),  # type: ignore[arg-type]
    "compile(None)": lambda: andiron.compile(None),  # type: ignore[arg-type]
    "compile(bytes)": lambda: andiron.compile(TEXT.encode()),  # type: ignore[arg-type]
    "compile(op)": lambda: andiron.compile(TEXT, op=3),  # type: ignore[arg-type]
    "compile(schedule)": lambda: andiron.compile(TEXT, schedule=3),  # type: ignore[arg-type]
    "compile(target)": lambda: andiron.compile(TEXT, target=3),  # type: ignore[arg-type]
    "compile(tune)": lambda: andiron.compile(TEXT, tune="all"),  # type: ignore[arg-type]
    "reference(None)": lambda: andiron.reference(None),  # type: ignore[arg-type]
    "op(None)": lambda: andiron.op(None),  # type: ignore[arg-type]
    "kernel(None)": lambda: andiron.kernel(None),  # type: ignore[arg-type]
    "load_kernel(None)": lambda: andiron.load_kernel(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", KINDS)
def test_an_argument_of_another_kind(call):
    error = one(KINDS[call])
    assert error.id == "argument-kind"
    assert "expected" in error.message


def test_a_folder_is_no_file(tmp_path):
    for call in (andiron.load, andiron.load_kernel):
        assert one(lambda call=call: call(tmp_path)).id == "no-such-file"


def test_names_that_no_file_can_have():
    for name in ("x\0y", "x" * 5000, os.sep):
        assert one(lambda name=name: andiron.load(name)).id == "no-such-file"


def test_no_saved_kernel_without_an_end():
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero")
    assert one(lambda: andiron.load_kernel("/dev/zero")).id == "damaged-file"
