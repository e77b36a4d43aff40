"""Derived names say what they are, however they are copied, and nobody else reads their text."""

from __future__ import annotations

import ast
import pickle
import re
from copy import copy, deepcopy
from dataclasses import replace

import pytest
from andiron.codegen.plan.computations import Computation
from andiron.codegen.plan.derived_names import (
    Accumulator,
    ArgreduceIndex,
    CombiningAccumulator,
    Component,
    KeptResult,
    RoundedResult,
    SharedValue,
    StagedCopy,
    StoredCopy,
    UnstoredResult,
    buffer_name,
    buffer_owners,
    result_of,
    shown_name,
    tensor_of,
)
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.op import Reduction
from andiron.dsl.types import TYPES
from andiron.dsl.values import Load

from ...support.imports import modules

KINDS = [
    Accumulator, CombiningAccumulator, KeptResult, RoundedResult, ArgreduceIndex, StagedCopy, StoredCopy, SharedValue,
    Component,
]  # fmt: skip
C = Accumulator("C")
NAMES = [*(kind("C") for kind in KINDS), ArgreduceIndex(C), StagedCopy(C), KeptResult(StagedCopy("C")), SharedValue("C", 3)]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_string_that_knows_what_it_derives_from(name):
    assert name == str(name)
    assert hash(name) == hash(str(name))
    assert {name: 1}[str(name)] == 1
    assert str(name).startswith(str(name.of))
    assert tensor_of(name) == "C"


def test_equal_names_are_of_one_class():
    assert len({str(name) for name in NAMES}) == len(NAMES)
    assert len({kind.mark for kind in KINDS}) == len(KINDS)
    assert not any(re.match(r"\w", kind.mark) for kind in KINDS)  # which a name of an op could go on with
    assert SharedValue("C", 1) != SharedValue("C", 2)


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_a_name_is_of_its_class(name):
    load = Load(name, (), TYPES["f32"])
    copies = [copy(name), deepcopy(name), *(pickle.loads(pickle.dumps(name, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1))]
    for other in (*copies, replace(load, dtype=TYPES["f16"]).tensor, pickle.loads(pickle.dumps(load)).tensor, *{name: 0}):
        assert other == name
        assert isinstance(other, type(name))
        assert vars(other) == vars(name)
        assert isinstance(vars(other)["of"], type(name.of))


def test_names_before_the_result_is_stored():
    assert result_of("C") == "C"
    assert [result_of(x) for x in (C, CombiningAccumulator("C"), KeptResult("C"), RoundedResult("C"))] == ["C"] * 4
    assert result_of(KeptResult(StagedCopy("A"))) == StagedCopy("A")
    for other in (StagedCopy(C), StoredCopy("C"), ArgreduceIndex(C)):
        assert result_of(other) is other
        assert not isinstance(other, UnstoredResult)


def test_names_in_traces():
    assert [shown_name(x) for x in ("C", C, ArgreduceIndex(C), StoredCopy("C"), StagedCopy(C))] == ["C"] * 5
    assert shown_name(KeptResult(StagedCopy("A"))) == "A~"
    assert isinstance(shown_name(StagedCopy("A")), StagedCopy)


@pytest.mark.parametrize(("name", "in_registers", "shared"), [
    ("A.left", "a.left", "a.left"),
    (C, "c", "c"),
    (CombiningAccumulator("C"), "c", "c"),
    (ArgreduceIndex(C), "c__at", "cat"),
    (KeptResult("C"), "c_", "c"),
    (StagedCopy("A"), "a_", "a_shared"),
    (KeptResult(StagedCopy("A")), "a__", "a_shared"),
])  # fmt: skip
def test_names_of_buffers(name, in_registers, shared):
    assert (buffer_name(name), buffer_name(name, "shared")) == (in_registers, shared)


@pytest.mark.parametrize(("kind", "count"), [("sum", 1), ("argmax", 2), ("argmin", 2)])
def test_names_of_a_reduction(kind, count):
    value = Load("X", (as_expr(Var("i")), as_expr(Var("k"))), TYPES["f32"])
    w = Computation(Accumulator("Y"), ("i",), value, Reduction(kind, ("k",)), ())
    assert (w.result, w.names) == ("Y", ("Y", w.name))
    assert w.accumulators == (w.name, ArgreduceIndex(w.name))[:count]


# ---------------------------------------------------------------- the text of names

MARKS = re.compile(r"\w*[@~][\w@~]*")
OTHER_TEXT = {
    "codegen.transforms.barriers.access": "a variable of a loop in another iteration",
    "codegen.coverage.prove_coverage": "the coordinates of an element",
    "codegen.coverage.prove_contributions": "the number of a unit",
    "codegen.lower.shared_loops.lower_online": "a running value before an iteration, as people write it",
}


def marks(text):
    """The lines with a string that is a mark, or several."""
    found = (x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Constant) and isinstance(x.value, str))
    return [x.lineno for x in found if MARKS.fullmatch(str(x.value))]


@pytest.mark.parametrize("text", [
    'w.name + "@"', 'name.rstrip("@~")', 'f"{name}~"', 'name.endswith("@at")', '"@" in name', 'name.replace("~", "_")',
    'name == "C@"', 'BACK = "@back"',
])  # fmt: skip
def test_marks_are_noticed(text):
    assert marks(text) == [1]


def test_only_one_module_looks_into_names():
    """Emission has names of C only: what it marks is its own text."""
    found = {
        module: lines
        for module, path in modules("codegen", "tools").items()
        if not module.startswith("codegen.emit.") and (lines := marks(path.read_text(encoding="utf-8")))
    }
    assert found.keys() == {"codegen.plan.derived_names"} | OTHER_TEXT.keys()


@pytest.mark.parametrize(
    ("buffer", "owner"),
    [
        ("y", "Y"),
        ("y12", "Y"),
        ("yes_shared", "Yes"),
        ("y_carried_before", "totals of Y"),
        ("y_total1", "totals of Y"),
        ("y_left_", "Y.left"),
        ("other", "other"),
    ],
)
def test_a_buffer_goes_by_a_name_that_lines_have(buffer: str, owner: str) -> None:
    assert [*buffer_owners([buffer], ["Y", "Yes", "Y.left"])] == [owner]
