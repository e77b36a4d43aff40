"""The house: imports run one way, files and folders stay small, names are words of the field."""

import ast
import re
from collections import Counter
from functools import cache

import pytest

from ..support.imports import LAZY, TOP, circles, graph, imports, modules
from ..support.paths import ROOT

ROOMS = ["grammar", "dsl", "codegen", "runtime", "tools"]  # each may import those before it
FILES = sorted(p for room in [*ROOMS, "stdlib"] for p in (ROOT / room).rglob("*.py"))
MODULES = modules(*ROOMS, "stdlib")
LONGEST = 400
FULLEST = 16  # files of a folder, beside its `__init__`

# The operators of an index expression simplify it: their functions call each other.
CIRCLES = [["dsl.index.expr", "dsl.index.print_index", "dsl.index.simplify", "dsl.index.substitute"]]

# Each may import those of the ranks before it, and none beside it.
CODEGEN = [
    {"ir"}, {"name_mangling"}, {"abi"}, {"targets"}, {"analysis", "algebra"}, {"plan"}, {"schedule"}, {"lower"},
    {"autoschedule"}, {"lower_launches", "price_schedule"}, {"transforms"}, {"emit", "interpret"},
    {"verify", "lint"}, {"coverage"}, {"passes"}, {"pipeline"}, {"record_passes", "enumerate_schedules"},
]  # fmt: skip

PRIVATE_WORDS = (
    "again ahead asked at_once put_in parts where written_out"
    " used tidy deal once own held placed whole places made kept found said"
)
PRIVATELY_NAMED = []


def test_imports_run_one_way():
    against = []
    for path in FILES:
        room = path.relative_to(ROOT).parts[0]
        allowed = {"", "stdlib", room, *(ROOMS[: ROOMS.index(room)] if room in ROOMS else ())}
        for x in imports(path, MODULES):
            first = x.target.partition(".")[0]
            if first not in allowed if x.internal else first == "andiron":
                against.append((str(path.relative_to(ROOT)), x.target))
    assert against == []


def test_files_stay_short():
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_folders_stay_small():
    of = Counter(p.parent.relative_to(ROOT) for p in FILES if p.name != "__init__.py")
    assert {str(folder): n for folder, n in of.items() if n > FULLEST} == {}


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]


@cache
def found():
    return [x for path in MODULES.values() for x in imports(path, MODULES)]


def test_no_more_files_import_each_other():
    """Inside functions too. A circle that is gone is taken off the list, which may not grow."""
    assert circles(graph(found(), MODULES, (TOP, LAZY))) == CIRCLES


def test_the_folders_of_codegen_have_an_order():
    """Types are named in this order too."""
    rank = {name: n for n, names in enumerate(CODEGEN) for name in names}
    against = set()
    for x in found():
        (room, _, inner), (its_room, _, its) = x.module.partition("."), x.target.partition(".")
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


def test_the_list_of_passes_is_short():
    """What a newcomer reads first: the list and the driver."""
    assert len((ROOT / "codegen/pipeline.py").read_text().splitlines()) <= 120
