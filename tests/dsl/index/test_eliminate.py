"""Conditions without a variable hold exactly where some integer satisfies those with it."""

import random

from andiron.dsl.index.eliminate import without
from andiron.dsl.index.expr import Var, as_expr

T, I, N = (Var(name, None, None) for name in ("t", "i", "n"))


def conditions(rng):
    """Each has the variable once, multiplied, divided, or both."""
    of = [
        rng.choice((-3, -1, 0, 1, 2)) * T,
        (T + rng.randint(-2, 3)) // 3,
        (2 * T - I) // 4,
        -3 * ((I - T) // 2),
        I // 2 - T // 2,
    ]
    return [rng.choice(of) + rng.choice((-2, 0, 1)) * I + rng.randint(-3, 3) for _ in range(rng.randint(0, 3))]


def test_some_value_satisfies_them():
    rng = random.Random(0)
    for _ in range(200):
        conds = [*conditions(rng), as_expr(T), N - 1 - T]
        found = without(conds, "t")
        assert found is not None
        assert all(v.name != "t" for c in found for v in c.variables())
        for i in range(-4, 5):
            for n in range(4):
                some = any(all(c.evaluate({"t": t, "i": i, "n": n}) >= 0 for c in conds) for t in range(n))
                assert all(c.evaluate({"i": i, "n": n}) >= 0 for c in found) == some


def test_a_quotient():
    assert list(map(str, without([I // 4 - T // 4, as_expr(T)], "t"))) == ["4*(i/4) + 3"]


def test_what_has_it_twice_or_divides_by_it_stays():
    assert without([T // 2 + T - I, N - T], "t") is None
    assert without([T % 3 - I % 3], "t") is None
    assert without([T * I], "t") is None
    assert without([N // (T + 1)], "t") is None
