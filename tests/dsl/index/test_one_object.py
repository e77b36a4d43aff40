"""ONE_OBJECT: equal expressions are one object, in every thread, and are freed when nothing refers to them."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.index import expr
from andiron.dsl.index.expr import Var, as_expr, maximum, xor
from andiron.dsl.index.prove import conjuncts

from ...support.library.cases import library
from ...support.library.ops import OPS

i, M = Var("i", 0, 7), Var("M", 1)


def test_equal_means_identical():
    assert Var("i", 0, 7) is i
    assert Var("i", 0, 8) is not i
    assert (i + 4 * M) // 4 is M + as_expr(i) // 4
    assert maximum(i, M, xor(i, M)) is maximum(xor(M, i), M, i)
    assert (i + M).subs({i: 3}) is M + 3


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_is_the_same_object(again):
    e = (M + i) // 4 + xor(i, M)
    assert again(e) is e
    assert again(i) is i


def test_what_nothing_refers_to_is_freed():
    x = Var("a name of its own", 0, 9)
    e = x // M - 3
    parts = (x, e, e.terms[0][0], *conjuncts(e))  # the last ones are kept with the condition
    gone = list(map(weakref.ref, parts))
    del x, e, parts
    gc.collect()
    assert not any(part() is not None for part in gone)


def test_compilations_leave_nothing():
    """But for what the latest proofs are remembered by, which is the same each time."""
    sizes = []
    for _ in range(3):
        compile_program(library(), OPS["softmax"], None, library().device("cpu:avx2"))
        gc.collect()
        sizes.append(len(expr._TABLE))
    assert sizes[1] == sizes[2]


def test_threads_that_build_one_expression_at_once_get_one_object():
    count, turns = 4, 300
    meet = Barrier(count)

    def build(_: int) -> list[int]:
        out = []
        for n in range(turns):
            meet.wait()
            out.append(Var(f"{n}", 0, 9) * 3 + n)
        return out

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(count) as pool:
            first, *others = pool.map(build, range(count))
    finally:
        sys.setswitchinterval(before)
    assert all(x is y for other in others for x, y in zip(first, other, strict=True))
