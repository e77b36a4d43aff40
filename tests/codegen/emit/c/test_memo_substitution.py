"""What is known of an expression's variables, put in: what is remembered of it is never another answer."""

from __future__ import annotations

import itertools

import andiron
import numpy as np
import pytest
from andiron.codegen.emit.c.memo_substitution import MemoSubstitution
from andiron.dsl.index.expr import Var, as_expr

from ....support.cpp.build import skip_unless_run_here

NAMES = ("a", "b", "c")
VARS = {n: Var(n, 0, 9) for n in NAMES}
ZERO, TWO = as_expr(0), as_expr(2)


def test_which_variables_are_known_matters():
    a, b, c = VARS.values()
    exprs = [a + b, (2 * a + b) // 3, (a + 5 * b) % 7 + c, ((a + b) // 2 + (b + c) % 3) // 2, (a + b) % 4, (a + c) % 4]
    put_in = MemoSubstitution()  # one for all
    known = [ZERO, TWO, None]
    for values in itertools.product(known, repeat=3):
        env = {v: e for v, e in zip(VARS.values(), values, strict=True) if e is not None}
        for e in exprs:
            assert put_in(e, env) == e.subs(env), (e, env)


@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("w", [5, 7])
def test_digits_of_an_unrolled_loop(w, target):
    skip_unless_run_here(target)
    kernel = andiron.compile(f"op g(X: f32[2, {w}]) -> (Y: f32[{2 * w}]):\n    Y[q] = X[q % 2, q / 2]\n", target=target)
    x = np.arange(2 * w, dtype=np.float32).reshape(2, w)
    got = np.full(2 * w, np.nan, np.float32)
    kernel(x, out=got)
    assert np.array_equal(got, x.T.ravel())
