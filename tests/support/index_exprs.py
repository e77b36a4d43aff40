"""Random index expressions over a box of variables, for Hypothesis."""

from __future__ import annotations

from andiron.dsl.index.expr import Var, as_expr, maximum, minimum, xor
from hypothesis import strategies as st

BOX = {"a": (-4, 5), "b": (0, 7), "c": (0, 9), "d": (1, 3)}
VARS = {n: Var(n, lo, hi) for n, (lo, hi) in BOX.items()}


def linear():
    coefficients = st.lists(st.integers(-9, 9), min_size=4, max_size=4)
    return st.builds(
        lambda ks, c: sum((n * VARS[v] for n, v in zip(ks, BOX, strict=True)), as_expr(c)), coefficients, st.integers(-30, 30)
    )


def expression():
    x, c = linear(), st.sampled_from([2, 3, 4, 8])
    return st.one_of(
        x,
        st.builds(lambda x, y, c: x + 3 * (y // c), x, x, c),
        st.builds(lambda x, y, c: x - y % c, x, x, c),
        st.builds(lambda x, y: minimum(x, y) - 3, x, x),
        st.builds(lambda x, y: maximum(x, y) - 3, x, x),
        st.builds(lambda x, y: x - y % VARS["d"], x, x),
        st.builds(lambda x: x - xor(VARS["b"], VARS["c"]) + VARS["b"] * VARS["d"], x),
    )
