"""`--part K/N`: the parts of the suite are apart, and all of them together are the suite."""

from __future__ import annotations

import os
import subprocess
import sys

from ..support.paths import ROOT, TESTS

FILE = TESTS / "dsl" / "index" / "test_simplify.py"


def collected(*options: str) -> tuple[int, list[str], str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(FILE), *options]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # `-v` there changes what is listed
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    return done.returncode, [x for x in done.stdout.splitlines() if "::" in x], done.stdout + done.stderr


def test_parts_are_the_whole() -> None:
    _, whole, _ = collected()
    parts = [collected("--part", f"{k}/2")[1] for k in (1, 2)]
    assert len(whole) > 20
    assert sorted(x for part in parts for x in part) == sorted(whole)
    assert all(parts)


def test_no_such_part() -> None:
    for said in ("0/3", "4/3", "half"):
        code, tests, text = collected("--part", said)
        assert code
        assert not tests
        assert f"--part {said}: it is K/N" in text
