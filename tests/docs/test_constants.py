"""Numbers of the compiler's modules: each has its unit and its source beside it, and the tests that they name exist."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ..support.paths import ROOT


@pytest.fixture(scope="module")
def maker() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module("generator.constants")
    sys.path.remove(str(ROOT / "docs"))


def test_every_number_has_a_unit_and_a_source(maker: Any) -> None:
    assert len(list(maker.constants())) > 100


GOOD = [
    "ENTER = 40.0  # cycles: to begin a tile [estimate; test_every_number_has_a_unit_and_a_source]\n",
    "# cycles: to begin a tile,\n# and to end it [fact: a book]\nENTER = (1, 2)\n",
    "A = f(3)\nb = 2\nC = True\nD = (1, None)\nE = 'text'\n",
]
BAD = [
    ("ENTER = 40.0\n", "write one number a line"),
    ("ENTER = 40.0  # to begin a tile\n", "write one number a line"),
    ("A, B = 1, 2  # cycles: both [estimate]\n", "write one number a line"),
    ("ENTER = 40.0  # cycles: to begin a tile [guess]\n", "the kinds are"),
    ("ENTER = 40.0  # cycles: to begin a tile [measured]\n", "the kinds are"),
    ("ENTER = 40.0  # cycles: to begin a tile [limit: a book]\n", "the kinds are"),
    ("ENTER = 40.0  # cycles: to begin a tile [measured: nowhere]\n", "there is no page"),
    ("ENTER = 40.0  # cycles: to begin a tile [measured: cpu-nests]\n", "names the test"),
    ("ENTER = 40.0  # cycles: to begin a tile [estimate]\n", "names the test"),
    ("ENTER = (40.0, 2)  # cycles: to begin a tile [tried]\n", "names the test"),
    ("ENTER = 40.0  # cycles: to begin a tile [limit; test_that_nobody_wrote]\n", "there is no test"),
]


@pytest.mark.parametrize("text", GOOD)
def test_comments_of_the_form_are_read(maker: Any, text: str) -> None:
    for c in maker.constants_of(text, "codegen/x.py"):
        assert (c.name, c.unit) == ("ENTER", "cycles")
        assert c.meaning.startswith("to begin a tile")


@pytest.mark.parametrize(("text", "message"), BAD)
def test_other_numbers_are_refused(maker: Any, text: str, message: str) -> None:
    with pytest.raises(maker.BadComment, match=message):
        list(maker.constants_of(text, "codegen/x.py"))
