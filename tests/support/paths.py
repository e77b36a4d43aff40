"""Folders of the repository that tests read texts from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
STDLIB = ROOT / "stdlib"
TESTS = ROOT / "tests"
DEVICES = TESTS / "support" / "devices"
