"""The tests: their folders mirror those of the package, files and folders stay small, and no test file imports another."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from ..support.paths import ROOT, TESTS

LONGEST = 400
FULLEST = 16
# Folders of tests that stand for none of the package.
OWN = {
    "codegen/transforms/rewrites", "docs", "end_to_end", "fuzz", "fuzz/wide", "project", "runtime/gpu/on_device", "support",
    "support/cpp", "support/gpu", "support/library", "support/programs", "support/random", "support/tuning",
}  # fmt: skip
FILES = sorted(TESTS.rglob("*.py"))
NAMES = [p.relative_to(TESTS).as_posix() for p in FILES]


def test_files_stay_short():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in zip(NAMES, FILES, strict=True)}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_folders_stay_small():
    of = Counter(p.parent.relative_to(TESTS).as_posix() for p in FILES)
    assert {folder: n for folder, n in of.items() if n > FULLEST} == {}


def test_folders_mirror_the_package():
    """A folder that is gone is taken off the list."""
    folders = {p.parent.relative_to(TESTS).as_posix() for p in FILES} - {"."}
    assert sorted(f for f in folders if not (ROOT / f).is_dir() or f == "docs") == sorted(OWN)


def test_only_conftest_stands_beside_the_folders():
    assert [name for name in NAMES if "/" not in name] == ["conftest.py"]


def test_no_test_file_is_imported():
    """Samples and helpers that several files need are in `support`."""
    assert [(name, m) for name in NAMES for m in _imported(TESTS / name) if m.rpartition(".")[2].startswith("test_")] == []


def _imported(path: Path) -> list[str]:
    return [n.module or "" for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.ImportFrom)]
