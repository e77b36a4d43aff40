"""Conditions as text: as a person writes them, and so that each can be read back."""

from __future__ import annotations

import random

import pytest
from andiron.dsl.index.condition_text import condition_text, conditions_text
from andiron.dsl.index.expr import Expr, Var, as_expr, maximum

M, K, m1, thread, warp = Var("M"), Var("K"), Var("m1"), Var("thread", 0, 31), Var("warp", 0, 7)
below = Var("below", None, None)


@pytest.mark.parametrize(
    ("cond", "text"),
    [
        (M - 4 * m1 - 4, "4*m1 + 4 <= M"),
        (M - m1 - 1, "m1 < M"),
        (4 * m1 + 3 - M, "M <= 4*m1 + 3"),
        ((1 << 30) - as_expr(M), "M <= 1073741824"),
        (-as_expr(thread), "thread == 0"),
        (-thread - warp, "thread + warp == 0"),
        (-(K % 2), "K % 2 == 0"),
        (-as_expr(below), "below <= 0"),
        (as_expr(m1), "m1 >= 0"),
        (m1 - 3, "m1 >= 3"),
        (m1 + 3, "0 <= m1 + 3"),
        (-m1 - 1, "m1 + 1 <= 0"),
        (as_expr(5), "0 <= 5"),
        (as_expr(-5), "5 <= 0"),
        (M // 4 - maximum(m1, warp) - 1, "max(m1, warp) < M/4"),
    ],
)
def test_conditions_read_as_a_person_writes_them(cond, text):
    assert condition_text(cond) == text


def test_several_conditions_are_joined():
    assert conditions_text([-as_expr(warp), -as_expr(thread)]) == "warp == 0 and thread == 0"
    assert conditions_text([]) == "true"


def test_a_condition_can_be_read_back():
    """By the four rules of the module's docstring and the values of the variables, at many expressions and points."""
    rng = random.Random(1)
    variables = (M, K, m1, thread, warp, below)
    for _ in range(300):
        e = as_expr(rng.randint(-3, 3))
        for v in rng.sample(variables, rng.randint(0, 3)):
            e = e + rng.choice((-4, -1, 1, 2)) * v
        assert _read(condition_text(e)) == e, (e, condition_text(e))


def _read(text: str) -> Expr:
    left, sign, right = text.partition(next(s for s in (" <= ", " >= ", " == ", " < ") if s in text))
    names = {v.name: v for v in (M, K, m1, thread, warp, below)}
    a, b = (as_expr(eval(side, {}, names)) for side in (left, right))
    return {" <= ": b - a, " < ": b - a - 1, " >= ": a - b, " == ": b - a}[sign]
