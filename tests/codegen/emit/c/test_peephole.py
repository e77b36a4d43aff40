"""What is said shorter in the text of GPUs means the same."""

from __future__ import annotations

import random

import pytest
from andiron.codegen.emit.c.c_expr import ATOM, F32, PRODUCT, SUM, TERNARY, CExpr
from andiron.codegen.emit.c.c_text import print_texts
from andiron.codegen.emit.c.c_tree import (
    Assign,
    Binary,
    Block,
    Declaration,
    ExprStatement,
    For,
    If,
    SetPart,
    Statement,
    renamed,
    words,
)
from andiron.codegen.emit.c.peephole import peephole
from andiron.codegen.emit.c.simplify_conditions import simplify_conditions
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.source import Source, Span
from andiron.dsl.support.fast_replace import replace


def shorter(*stmts: Statement) -> list[str]:
    return print_texts(peephole(stmts))


def parts(element: str, word: str, *values: str) -> list[SetPart]:
    return [SetPart(element, word, str(i), value) for i, value in enumerate(values)]


def test_words_are_cleared_at_once():
    half, quarters = parts("u16", "a_0", "0", "0"), parts("u8", "b", "0", "0", "0", "0")
    assert peephole([Block(half), ExprStatement("x"), *quarters]) == [
        Block([Assign("a_0", "0")]),
        ExprStatement("x"),
        Assign("b", "0"),
    ]
    assert peephole(quarters[:3]) == quarters[:3]
    other = [half[0], SetPart("u16", "a_1", "1", "0")]
    assert peephole(other) == other


def test_words_are_put_together_at_once_unless_a_part_is_read():
    given = parts("u16", "a_0", "f(x, 1)", "y")
    assert peephole(given) == [Assign("a_0", "m_pack_u16(f(x, 1), y)")]
    reading = parts("u16", "a_0", "f(x, 1)", "m_part_u16(a_0, 0)")
    assert peephole(reading) == reading
    assert peephole(given[::-1]) == given[::-1]


def test_a_shorter_statement_comes_from_where_the_first_one_came_from():
    span = Span(Source("f", "text"), 0, 1)
    first, second = parts("u16", "a", "0", "0")
    (word,) = peephole([replace(first, span=span), second])
    assert word.span is span


def variable(text: str, precedence: int = ATOM) -> CExpr:
    return CExpr(text, F32, precedence=precedence)


def infix(a: CExpr, op: str, b: CExpr) -> CExpr:
    return CExpr.infix(a, op, b, F32, False, SUM if op in "+-" else PRODUCT)


X, Y, Z = map(variable, "xyz")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (infix(Y, "+", infix(X, "*", Z)), "y += x * z;"),
        (infix(Y, "+", variable("f(a - b, c)")), "y += f(a - b, c);"),
        (infix(Y, "*", X), "y *= x;"),
        (infix(Y, "*", infix(X, "/", Z)), "y *= (x / z);"),
        (infix(Y, "+", variable("c ? a : b", TERNARY)), "y += (c ? a : b);"),
        (infix(infix(Y, "*", X), "/", Z), None),  # another order of rounding
        (infix(infix(Y, "+", X), "-", Z), None),
        (infix(Y, "-", X), None),
        (infix(X, "+", Y), None),
        (variable("y + x", SUM), None),  # only the structure counts
    ],
)
def test_what_grows_is_named_once(value, shown):
    assert shorter(Assign("y", value.code)) == [shown or f"y = {value.text};"]


def test_variables_and_elements_grow():
    assert shorter(Declaration("float", "y", infix(Y, "+", X).code)) == ["float y = y + x;"]
    assert shorter(Assign("y[i]", Binary("y[i]", "+", "x"))) == ["y[i] += x;"]
    assert shorter(Assign("y[i]", Binary("y[j]", "+", "x"))) == ["y[i] = y[j] + x;"]


def array(kind: str, name: str, *sizes: int) -> Declaration:
    return Declaration(kind, name, sizes=tuple(map(str, sizes)))


def test_an_array_has_its_values_where_it_is_declared():
    cells = [Assign("a[0]", "x"), Assign("a[1]", "y")]
    assert shorter(array("uint32_t", "a", 2), *cells) == ["uint32_t a[2] = {x, y};"]
    assert shorter(replace(array("uint32_t", "a", 2), value="{}"), *parts("u16", "a[0]", "x", "y"), cells[1]) == [
        "uint32_t a[2] = {m_pack_u16(x, y), y};"
    ]
    assert len(shorter(array("uint32_t", "a", 3), *cells)) == 3  # not all of them
    assert len(shorter(array("uint32_t", "a", 2), *cells[::-1])) == 3
    assert len(shorter(array("uint32_t", "a", 2), cells[0], Assign("a[1]", "a[0]"))) == 3
    assert len(shorter(array("uint16_t", "a", 2), *cells)) == 3  # C++ computes in `int`, and narrows nothing in braces


def test_a_pointer_for_one_use_has_no_name():
    q = Declaration("float*", "q", "p + 8 * (i ^ j)")
    assert shorter(q, ExprStatement("f(q + 4, a[i])")) == ["f(p + 8 * (i ^ j) + 4, a[i]);"]
    assert shorter(q, Assign("q[0]", "x")) == ["p[8 * (i ^ j)] = x;"]
    assert shorter(q, Assign("x", "q[0]")) == ["x = p[8 * (i ^ j)];"]
    for user in (Assign("q[i]", "x"), Assign("q[0]", "q[1]"), For("int", "i", "0", "4", "1", [ExprStatement("f(q)")])):
        assert shorter(q, user)[0] == "float* q = p + 8 * (i ^ j);"
    assert len(shorter(q, ExprStatement("f(q)"), ExprStatement("g(q)"))) == 3
    assert len(shorter(q, ExprStatement("f(x)"), ExprStatement("g(q)"))) == 3


def test_a_pointer_for_one_other_pointer_has_no_name():
    """If that one is in the same block: in a loop the sum would be computed in each iteration."""
    first, last = Declaration("T*", "q", "p + 4 * i"), Declaration("T*", "r", "q + 8 * j")
    j = Declaration("int", "j", "k / 2", const=True)
    use = ExprStatement("f(r, r + 1)")
    assert shorter(first, j, last, use) == ["const int j = k / 2;", "T* r = p + 4 * i + 8 * j;", "f(r, r + 1);"]
    for kept in (
        (first, j, last, use, ExprStatement("g(q)")),
        (first, For("int", "j", "0", "4", "1", [last, use, use])),
        (first, j, If("j < n", [use, use]), last, ExprStatement("g(r)")),
        (first, Declaration("U*", "r", "(U*)(q + 8)"), use),
    ):
        assert shorter(*kept)[0] == "T* q = p + 4 * i;"


def test_a_loop_over_one_statement_is_one_line():
    short = For("int", "i", "0", "4", "1", [Assign("a[i]", "x")])
    assert shorter(short) == ["for (int i = 0; i < 4; i++) a[i] = x;"]
    assert len(shorter(replace(short, body=[Assign("a[i]", "x" * 80)]))) == 3
    assert len(shorter(replace(short, body=[ExprStatement("f()", "why")]))) == 3


def test_what_is_zero_is_so_in_one_line():
    floats = [Declaration("float", n, "0.0f") for n in "ab"]
    assert shorter(*floats) == ["float a = 0.0f, b = 0.0f;"]
    assert shorter(floats[0], Declaration("int32_t", "b", "0")) == ["float a = 0.0f;", "int32_t b = 0;"]
    assert shorter(floats[0], Declaration("float", "b", "1.0f")) == ["float a = 0.0f;", "float b = 1.0f;"]
    assert shorter(Assign("a", "0"), Assign("b", "0"), Assign("c", "0.0f")) == ["a = b = 0;", "c = 0.0f;"]
    long = [Declaration("float", f"c_{i}", "0.0f") for i in range(40)]
    assert all(len(x) < 110 for x in shorter(*long))
    assert len(shorter(*long)) == 5


def test_a_value_has_one_name_in_a_block():
    inside = [
        Declaration("int", "m3", "t / 4", const=True),
        Declaration("float*", "p2", "p + m3"),
        Declaration("int", "m3_2", "t / 4", const=True),
        Declaration("float*", "p3", "p + m3_2"),
        ExprStatement("use(p2, p3)"),
        Declaration("int", "n3", "t / 4", const=True),  # another meaning
        ExprStatement("use(n3)"),
    ]
    after = [Declaration("int", "m4", "t / 4", const=True), ExprStatement("use(m4)")]
    assert peephole([Block(inside), *after]) == [Block([*inside[:2], ExprStatement("use(p2, p2)"), *inside[5:]]), *after]


def test_a_value_has_one_name_in_the_blocks_in_a_block_too():
    index = [Declaration("int", f"m{n}", "t / 4", const=True) for n in (1, 2)]
    inner = If("m2 < n", [index[1], Assign("p[m2]", "x")])
    assert peephole([index[0], inner]) == [index[0], If("m2 < n", [Assign("p[m1]", "x")])]
    changing = [replace(d, const=False) for d in index]
    assert peephole(changing) == changing


def test_other_names_stand_for_whole_names():
    assert renamed("m1[m12 + m1] - xm1(m1)", {"m1": "i"}) == "i[m12 + i] - xm1(i)"
    assert renamed("a + b", {"a": "b", "b": "a"}) == "b + a"
    assert renamed("1e5f * f", {"f": "g"}) == "1e5f * g"


def test_a_word_comes_with_the_character_after_it():
    assert words("m_max(x, f32x8_u)") == [("m_max", "("), ("x", ","), ("f32x8_u", ")")]
    assert words("x xx x") == [("x", " "), ("xx", " "), ("x", "")]
    assert words("+ ()") == []


def test_conditions_say_what_they_mean():
    K, k, warp, lane = Var("K"), Var("k"), Var("warp", 0, 3), Var("lane", 0, 31)
    assert simplify_conditions([(K + 31) // 32 - 1]) == [K - 1]
    assert simplify_conditions([(K + 31) // 32 - k - 2]) == [K - 32 * k - 33]
    assert simplify_conditions([63 - 32 * warp - lane]) == [1 - warp]
    assert simplify_conditions([K - k - 125, K - k - 129]) == [K - k - 129]
    assert simplify_conditions([K - k, K - k]) == [K - k]
    assert simplify_conditions([as_expr(warp), K - lane]) == [K - lane]
    assert simplify_conditions([K - 1, lane - 32]) == [as_expr(-1)]


def test_conditions_hold_as_before():
    """For all values: whatever is written in their place holds where they do."""
    rng = random.Random(7)
    n, i, lane = Var("n", 0, 40), Var("i", 0, 5), Var("lane", 0, 7)
    for _ in range(300):
        pieces = [n, i, lane, n // rng.randint(2, 9), (n + rng.randint(0, 9)) // rng.randint(2, 9), lane // rng.randint(2, 4)]
        conds = [
            sum((rng.choice([-8, -4, -1, 0, 1, 2, 8]) * p for p in pieces), as_expr(rng.randint(-40, 40))) for _ in range(2)
        ]
        found = simplify_conditions(conds)
        for _ in range(60):
            at = {"n": rng.randint(0, 40), "i": rng.randint(0, 5), "lane": rng.randint(0, 7)}
            assert all(c.evaluate(at) >= 0 for c in conds) == all(c.evaluate(at) >= 0 for c in found), (conds, found, at)
