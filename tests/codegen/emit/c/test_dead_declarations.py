"""Declarations that nothing uses go, with those that only they use."""

from __future__ import annotations

from andiron.codegen.emit.c.c_tree import (
    Assign,
    Block,
    Comment,
    Declaration,
    Declarations,
    ExprStatement,
    For,
    If,
    SetPart,
    all_mentioned,
)
from andiron.codegen.emit.c.dead_declarations import live_statements, remove_dead

from ....support.count_calls import calls


def const(name: str, value: str) -> Declaration:
    return Declaration("int", name, value, const=True)


def test_unused_declarations_go():
    block = Block([const("c", "2"), ExprStatement("use(c)")])
    stmts = [const("a", "1"), const("b", "a"), block, Declaration("float*", "c", "p")]
    assert remove_dead(stmts) == [block]
    assert remove_dead(stmts, {"c", "b"}) == stmts


def test_a_name_in_another_block_is_another_one():
    used = For("int", "i", "0", "n", "1", [const("x", "i"), ExprStatement("use(x)")])
    assert remove_dead([Block([const("x", "1")]), used]) == [Block([]), used]


def test_a_name_after_its_block_is_another_one():
    unused = If("a", [const("x", "1")], [const("x", "2"), ExprStatement("use(x)")])
    assert remove_dead([unused, ExprStatement("use(x)")], {"x"})[0] == If("a", [], unused.orelse)


def test_what_is_set_later_or_has_a_comment_stays():
    kept = [
        Declaration("float", "a"),
        Declarations("float", (("b", "0.0f"), ("c", "0.0f"))),
        const("m", "1"),
        Comment("tile m"),
    ]
    assert remove_dead(kept) == kept


def test_the_names_that_statements_mention_come_with_them():
    stmts, used = live_statements([const("a", "n"), Assign("x[0]", "y", span=None), If("c < 1", [ExprStatement("f(z)")])])
    assert len(stmts) == 2
    assert {"x", "y", "c", "f", "z"} <= used
    assert not {"a", "n"} & used


def test_the_text_of_a_statement_is_read_for_names_once():
    stmts = [
        If("c < 1", [ExprStatement("f(z)"), SetPart("i8", "w", "3", "v")]),
        *(Assign(f"x[{n}]", "y + 1") for n in range(20)),
    ]
    first, second = (calls(lambda: all_mentioned(stmts)) for _ in range(2))
    assert 2 * second < first
    assert {"c", "f", "z", "w", "v", "m_set_part_i8", "x", "y"} <= all_mentioned(stmts)
