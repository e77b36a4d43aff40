"""The house: imports run one way, files stay short, and importing the package costs nothing."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ["grammar", "dsl", "codegen", "runtime", "tools"]  # each may import those before it
FILES = sorted(p for room in [*ROOMS, "stdlib"] for p in (ROOT / room).rglob("*.py"))
LONGEST = 450


def imports(path):
    """The rooms of this package that a file imports, anywhere in it."""
    depth = len(path.relative_to(ROOT).parts) - 1
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if node.level == depth + 1:  # `from ..dsl.x import y`, `from .. import __version__`
                yield (node.module or "").partition(".")[0]
            elif node.level == 0 and (node.module or "").partition(".")[0] == "andiron":
                yield "absolute import"
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == "andiron":
                    yield "absolute import"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_one_way(path):
    room = path.relative_to(ROOT).parts[0]
    allowed = {"", room, *(ROOMS[: ROOMS.index(room)] if room in ROOMS else ())}
    assert set(imports(path)) <= allowed


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


def loaded_after(statement):
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}, json.loads(done.stdout)


def test_importing_loads_nothing_heavy():
    packages, modules = loaded_after("import andiron; dir(andiron)")
    assert not packages & {"lark", "jinja2", "islpy", "numpy", "torch", "ziglang"}
    assert [m for m in modules if m.startswith("andiron")] == ["andiron"]


def test_the_command_line_starts_without_the_heavy_packages():
    packages, _ = loaded_after("from andiron.tools.cli import parser; parser()")
    assert not packages & {"lark", "jinja2", "islpy", "numpy"}


def test_every_public_name_is_there():
    import andiron

    for name in andiron.__all__:
        assert getattr(andiron, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        andiron.nothing  # noqa: B018


def test_values_that_are_kept_have_no_lock():
    """`functools.cached_property` has one for all instances before Python 3.12: threads could wait for each other forever."""
    for path in FILES:
        if path.name != "cached.py":
            assert "functools import cached_property" not in path.read_text(encoding="utf-8"), path
