"""What is said shorter in the text of GPUs means the same."""

from __future__ import annotations

import random

import pytest
from andiron.codegen.emit.c.peephole import peephole
from andiron.codegen.emit.c.simplify_conditions import simplify_conditions
from andiron.dsl.index.expr import Var, as_expr


def test_words_are_cleared_at_once():
    set_part = ["    m_set_part_u16(a_0, 0, 0);", "    m_set_part_u16(a_0, 1, 0);"]
    bytes_ = [f"m_set_part_u8(b, {i}, 0);" for i in range(4)]
    assert peephole([*set_part, "x;", *bytes_]) == ["    a_0 = 0;", "x;", "b = 0;"]
    assert peephole(bytes_[:3]) == bytes_[:3]
    assert peephole([set_part[0], "    m_set_part_u16(a_1, 1, 0);"])[0] == set_part[0]


def test_words_are_put_together_at_once_unless_a_part_is_read():
    parts = ["m_set_part_u16(a_0, 0, f(x, 1));", "m_set_part_u16(a_0, 1, y);"]
    assert peephole(parts) == ["a_0 = m_pack_u16(f(x, 1), y);"]
    reading = [parts[0], "m_set_part_u16(a_0, 1, m_part_u16(a_0, 0));"]
    assert peephole(reading) == reading
    assert peephole(parts[::-1]) == parts[::-1]


@pytest.mark.parametrize(
    ("line", "shorter"),
    [
        ("    y = y + x * z;", "    y += x * z;"),
        ("y = y + f(a - b, c);", "y += f(a - b, c);"),
        ("y = y * x;", "y *= x;"),
        ("y = y | x;", "y |= x;"),
        ("y = y * x / z;", None),  # another order of rounding
        ("y = y + x - z;", None),
        ("y = y & x == 0;", None),
        ("y = y + (c ? a : b);", "y += (c ? a : b);"),
        ("y = y + c ? a : b;", None),
        ("y = x + y;", None),
        ("float y = y + x;", None),
    ],
)
def test_what_grows_is_named_once(line, shorter):
    assert peephole([line]) == [shorter or line]


def test_what_is_zero_is_so_in_one_line():
    assert peephole(["    float a = 0.0f;", "    float b = -flt(0x7f800000);"]) == ["    float a = 0.0f, b = -flt(0x7f800000);"]
    assert peephole(["float a = 0.0f;", "int32_t b = 0;"]) == ["float a = 0.0f;", "int32_t b = 0;"]
    assert peephole(["a = 0;", "b = 0;", "c = 0.0f;"]) == ["a = b = 0;", "c = 0.0f;"]
    long = peephole([f"float c_{i} = 0.0f;" for i in range(40)])
    assert all(len(x) <= 112 for x in long)
    assert len(long) == 5


def test_a_value_has_one_name_in_a_block():
    lines = ["{", "    const int m3 = t / 4;", "    float* p2 = p + m3;"]
    lines += ["    const int m3_2 = t / 4;", "    float* p3 = p + m3_2;", "    use(p2, p3);"]
    lines += ["    const int n3 = t / 4;", "    use(n3);", "}", "const int m4 = t / 4;", "use(m4);"]
    assert peephole(lines) == [*lines[:3], "    use(p2, p2);", *lines[6:]]


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
