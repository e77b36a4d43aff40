"""Conditions without a variable hold exactly where some integer satisfies those with it."""

import random

from andiron.dsl.index.eliminate import without
from andiron.dsl.index.expr import Var, as_expr

T, I, N = (Var(name, None, None) for name in ("t", "i", "n"))


def test_some_value_satisfies_them():
    rng = random.Random(0)
    for _ in range(50):
        conds = [rng.choice((-1, 0, 1)) * T + rng.choice((-2, 0, 1)) * I + rng.randint(-3, 3) for _ in range(rng.randint(0, 3))]
        conds += [as_expr(T), N - 1 - T]
        found = without(conds, "t")
        assert found is not None
        assert all(v.name != "t" for c in found for v in c.variables())
        for i in range(-4, 5):
            for n in range(4):
                some = any(all(c.evaluate({"t": t, "i": i, "n": n}) >= 0 for c in conds) for t in range(n))
                assert all(c.evaluate({"i": i, "n": n}) >= 0 for c in found) == some


def test_what_is_multiplied_or_divided_stays():
    assert without([2 * T - I, N - T], "t") is None
    assert without([T // 2 - I], "t") is None
