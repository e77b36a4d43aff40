"""The tree of statements as lines."""

from __future__ import annotations

import pytest
from andiron.codegen.emit.c.c_text import line_of, print_statements, print_texts
from andiron.codegen.emit.c.c_tree import (
    Assign,
    AssignAll,
    Block,
    Comment,
    Declaration,
    Declarations,
    Directive,
    ExprStatement,
    For,
    If,
    SetPart,
)
from andiron.codegen.emit.c.text_builder import join_short, with_else
from andiron.dsl.source import Source, Span

A, B = Assign("a", "1"), Assign("b", "2")


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        (Declaration("int", "i", "n / 4", const=True), "const int i = n / 4;"),
        (Declaration("float", "acc", sizes=("4", "16")), "float acc[4][16];"),
        (Declaration("int64_t", "far", "n", const=True, note="why"), "const int64_t far = n;  // why"),
        (Declarations("float", (("a", "0.0f"), ("b", None))), "float a = 0.0f, b;"),
        (Assign("x[i]", "y", "+"), "x[i] += y;"),
        (AssignAll(("a", "b"), "0"), "a = b = 0;"),
        (SetPart("u16", "w", "1", "x"), "m_set_part_u16(w, 1, x);"),
        (ExprStatement("f(x)", "why"), "f(x);  // why"),
        (Comment("tile m: 4"), "// tile m: 4"),
        (Directive("#pragma unroll 4"), "#pragma unroll 4"),
        (If("n < 4", [A], short=True), "if (n < 4) a = 1;"),
    ],
)
def test_a_statement_is_a_line(statement, line):
    assert line_of(statement) == line
    assert print_texts([statement]) == [line]


def test_blocks_are_indented():
    loop = For("int", "i", "0", "n", "4", [Block([A], "[=]() m_outlined", "}();")])
    assert print_texts([loop]) == [
        "for (int i = 0; i < n; i += 4) {",
        "    [=]() m_outlined {",
        "        a = 1;",
        "    }();",
        "}",
    ]


def test_an_if_alone_in_an_else_is_an_else_if():
    choice = If("x", [A], [If("y", [B], [A])])
    assert print_texts([choice]) == ["if (x) {", "    a = 1;", "} else if (y) {", "    b = 2;", "} else {", "    a = 1;", "}"]
    several = If("x", [A], [If("y", [B]), A])
    assert print_texts([several])[2:4] == ["} else {", "    if (y) {"]
    short = If("x", [A], [If("y", [B], short=True)])
    assert print_texts([short])[2:] == ["} else {", "    if (y) b = 2;", "}"]


def test_each_line_has_the_span_of_its_statement():
    one, two, three = (Span(Source("f", "text"), i, i + 1) for i in range(3))
    choice = If("x", [Assign("a", "1", span=two)], [If("y", [B], span=three)], span=one)
    assert [line.span for line in print_statements([choice])] == [one, two, three, None, None]


def test_an_else_has_no_braces_of_its_own_around_a_block():
    assert with_else(If("x", [A]), [Block([B, A])]) == If("x", [A], [B, A])
    assert with_else(If("x", [A]), [B, Block([A])]) == If("x", [A], [B, Block([A])])
    assert with_else(If("x", [A]), [Block([B], "[=]()", "}();")]) == If("x", [A], [Block([B], "[=]()", "}();")])


def test_an_if_of_one_short_statement_is_a_line():
    assert join_short(If("x", [A])) == If("x", [A], short=True)
    assert join_short(If("x", [ExprStatement("store(p, x)", brief=True)])) == If(
        "x", [ExprStatement("store(p, x)", brief=True)], short=True
    )
    for stays in (
        If("x", [A, B]),
        If("x", [A], [B]),
        If("x", [ExprStatement("f(x)")]),
        If("x" * 90, [A]),
        If("x", [If("y", [A])]),
    ):
        assert join_short(stays) == stays
