"""The house: imports run one way, files stay short, and importing the package costs nothing."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from ..support.paths import ROOT

ROOMS = ["grammar", "dsl", "codegen", "runtime", "tools"]  # each may import those before it
FILES = sorted(p for room in [*ROOMS, "stdlib"] for p in (ROOT / room).rglob("*.py"))
LONGEST = 400
FULLEST = 16  # files of a folder, beside its `__init__`

# The operators of an index expression simplify it: their functions call each other.
CIRCLES = [["dsl.index.expr", "dsl.index.print_index", "dsl.index.simplify", "dsl.index.substitute"]]

# Each may import those of the ranks before it, and none beside it.
CODEGEN = [
    {"ir"}, {"name_mangling"}, {"abi"}, {"targets"}, {"analysis"}, {"plan"}, {"schedule"}, {"lower"}, {"autoschedule"},
    {"lower_launches"}, {"transforms"}, {"emit", "interpret"}, {"verify", "lint"}, {"pipeline"},
    {"record_passes", "enumerate_schedules"},
]  # fmt: skip

PRIVATE_WORDS = (
    "again ahead asked at_once put_in parts where written_out"
    " used tidy deal once own held placed whole places made kept found said"
)
PRIVATELY_NAMED = []


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


def test_folders_stay_small():
    of = Counter(p.parent.relative_to(ROOT) for p in FILES if p.name != "__init__.py")
    assert {str(folder): n for folder, n in of.items() if n > FULLEST} == {}


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(p): p for p in FILES}


@cache
def imported():
    """Module -> the modules of the package that it imports, anywhere in it, but not where only a type checker looks."""
    return {module: set(_imported(module, path)) for module, path in MODULES.items()}


def _imported(module, path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    typing = {inner for n in checks for branch in n.body for inner in ast.walk(branch)}
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in typing:
            base = ".".join([*package[: len(package) - node.level + 1], *(node.module or "").split(".")]).strip(".")
            for name in node.names:
                inner = f"{base}.{name.name}".lstrip(".")
                if (found := inner if inner in MODULES else base) in MODULES:
                    yield found


def circles(graph):
    """The strongly connected components of more than one node: those that reach each other."""
    reached = {start: _reached(graph, start) for start in graph}
    found = {frozenset(x for x in reached[start] if start in reached[x]) for start in graph if start in reached[start]}
    return sorted(sorted(c) for c in found if len(c) > 1)


def _reached(graph, start):
    seen, queue = set(), [start]
    while queue:
        new = graph[queue.pop()] - seen
        seen |= new
        queue += new
    return seen


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]


def test_no_more_files_import_each_other():
    """A circle that is gone is taken off the list, which may not grow."""
    assert circles(imported()) == CIRCLES


def test_the_folders_of_codegen_have_an_order():
    rank = {name: n for n, names in enumerate(CODEGEN) for name in names}
    against = set()
    for module, others in imported().items():
        for other in others:
            (room, _, inner), (its_room, _, its) = module.partition("."), other.partition(".")
            if room == its_room == "codegen" and inner and its:
                mine, theirs = inner.partition(".")[0], its.partition(".")[0]
                if mine != theirs and rank[theirs] >= rank[mine]:
                    against.add((inner, its))
    assert against == set()


def private_words():
    """The last column of the glossary, but for words that are wrong in one sense only, `text (of a kernel)`."""
    rows = [line.strip("|").split("|") for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()]
    cells = [r[2].strip() for r in rows if len(r) == 3]
    words = {w.strip().replace(" ", "_") for cell in cells for w in cell.split(",") if "(" not in w}
    return (words | set(PRIVATE_WORDS.split())) - {"", "not", "---"}


def public_names(path):
    """The file's name, and its classes and functions, in lower case with underscores."""
    yield path.stem
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower().strip("_")


def test_names_are_words_of_the_field():
    """A name that is gone is taken off the list, which may not grow."""
    private = private_words()
    assert {"seen_through", "hop", "turn"} <= private
    found = [(module, name) for module, path in MODULES.items() for name in public_names(path) if name in private]
    assert sorted(found) == PRIVATELY_NAMED


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
