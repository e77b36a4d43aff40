"""The public API is documented: what goes in, what comes out, and what is raised, for every name on the page `api.md`."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import sys

import andiron
import pytest

from ..support.paths import ROOT

sys.path.insert(0, str(ROOT / "docs"))  # an installed package has no docs
api = importlib.import_module("generator.api")
sys.path.remove(str(ROOT / "docs"))

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = {name: getattr(andiron, name) for name in andiron.__all__}
CLASSES = [*(x for x in PUBLIC.values() if inspect.isclass(x)), *api.RETURNED]
MEMBERS = {f"{cls.__name__}.{name}": value for cls in CLASSES for name, value in api.members(cls)}
FUNCTIONS = {n: f for n, f in (PUBLIC | MEMBERS).items() if inspect.isfunction(f)}
ARGUMENTS_OF = "arguments are those of `andiron.compile`"


def named(doc: str) -> set[str]:
    """The names that the lists of a docstring explain."""
    lists = [block for block in doc.split("\n\n") if api.ENTRY.match(block)]
    return {name for block in lists for names, _ in api.entries(block) for name in names}


def test_there_are_names():
    assert len(FUNCTIONS) > 35
    assert {"compile", "Kernel.__call__", "Schedule.tile", "Module.device"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", andiron.__all__)
def test_every_public_name_is_on_the_page(name):
    assert f"### `andiron.{name}`\n" in PAGE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_returns_and_raises(name):
    doc, found = inspect.getdoc(FUNCTIONS[name]) or "", inspect.signature(FUNCTIONS[name])
    arguments = {p for p in found.parameters if p != "self"}
    if ARGUMENTS_OF in doc:
        arguments -= set(inspect.signature(andiron.compile).parameters) | {"text"}
    assert arguments <= named(doc)
    assert "Raises " in doc
    assert "Returns " in doc or found.return_annotation == "None"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_that_is_named_exists(name):
    """Also in lists: a name there is an argument, or an error."""
    doc, known = inspect.getdoc(FUNCTIONS[name]) or "", api.error_places()
    raised = re.findall(r"\b(?:Raises|or|and|raises) ([A-Z][a-z]+[A-Z]\w+)", doc)
    assert [e for e in raised if e not in known and not hasattr(builtins, e)] == []
    assert {n for n in named(doc) if n not in known} <= set(inspect.signature(FUNCTIONS[name]).parameters)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_a_class_says_what_its_attributes_are(cls):
    assert f"`{cls.__name__}`\n" in PAGE or f"`andiron.{cls.__name__}`\n" in PAGE
    explained = {name for base in cls.__mro__ for name in named(inspect.getdoc(base) or "")}
    assert {n for n in api.types_of(cls) if not n.startswith("_")} <= explained
    for name, value in api.members(cls):
        assert inspect.getdoc(value), name


def test_a_docstring_as_markdown():
    doc = "Reads it.\n\npath  a path;\n      it is read\nNoSuchFile  none is there\n\n    x = 1\n\nRaises NoDevice."
    assert api.markdown(doc, {"path": "str"}) == [
        *("Reads it.", ""),
        "- `path` (`str`): a path; it is read",
        *("- [`NoSuchFile`](errors/module.md#no-such-file): none is there", ""),
        *("```text", "x = 1", "```", ""),
        *("Raises [`NoDevice`](errors/target.md#no-device).", ""),
    ]
