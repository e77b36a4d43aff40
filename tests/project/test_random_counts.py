"""`FUZZ` and `FUZZ_FROM`: how many random cases there are. An empty variable is none; what is no number is said."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.paths import ROOT
from ..support.random.counts import case_count, first_seed


@pytest.mark.parametrize(("text", "count"), [(None, 20), ("", 20), ("0", 0), ("7", 7)])
def test_counts(text: str | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FUZZ", "FUZZ_FROM"):
        monkeypatch.delenv(name, raising=False)
        if text is not None:
            monkeypatch.setenv(name, text)
    assert case_count(20) == count
    assert first_seed(20) == count


@pytest.mark.parametrize(("name", "text", "code"), [("FUZZ", "", 0), ("FUZZ", "many", 4), ("FUZZ_FROM", "-1", 4)])
def test_collection(name: str, text: str, code: int) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/end_to_end/test_random.py"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, name: text}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert code == 0 or f"{name}={text}: it is a number" in done.stdout + done.stderr
