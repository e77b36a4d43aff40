"""A memoised function computes once for each object, and its results do not outlive the object."""

from __future__ import annotations

import gc
import weakref

from andiron.dsl.index.expr import Expr, Var
from andiron.dsl.index.prove import conjuncts
from andiron.dsl.support.fast_replace import replace
from andiron.dsl.support.memoised import IdentityMemo, memoised, memoised_with
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, Load, loads


def test_computed_once_for_each_object():
    met = []

    @memoised
    def text(e: Expr) -> str:
        met.append(e)
        return str(e)

    x, y = Var("i") + 1, Var("i") + 2
    assert [text(x), text(y), text(x)] == ["i + 1", "i + 2", "i + 1"]
    assert len(met) == 2


def test_two_functions_do_not_share_results():
    x = Var("i") + 1
    assert memoised(str)(x) == "i + 1"
    assert memoised(repr)(x) == "Expr(i + 1)"


def test_a_result_that_contains_its_object_is_freed_with_it():
    e = Var("i", 0, 7) - 3
    assert conjuncts(e) == (e,)
    gone = weakref.ref(e)
    del e
    gc.collect()
    assert gone() is None


def test_a_load_is_freed_without_the_collector():
    """It does not keep a tuple of itself: there are thousands in a compilation."""
    load = Load("X", (), TYPES["f32"])
    gc.collect()
    gc.disable()
    try:
        assert loads(load) == (load,)
        gone = weakref.ref(load)
        del load
        assert gone() is None
    finally:
        gc.enable()


def test_equal_objects_have_their_own_results():
    """Equal objects may differ in type: 1 == 1.0."""
    memo: IdentityMemo[list, type] = IdentityMemo()
    assert [memo.of(x, lambda x: type(x[0])) for x in ([1], [1.0], [True])] == [int, float, bool]


def test_no_other_object_is_taken_for_one_that_is_gone():
    memo: IdentityMemo[list, int] = IdentityMemo()
    assert [memo.of([n], lambda x: x[0]) for n in range(100)] == list(range(100))


def test_what_a_value_loads_is_found_once():
    f32 = TYPES["f32"]
    x, y = Load("X", (), f32), Load("Y", (), f32, Load("Z", (), f32))
    v = Apply("add", (x, Cast(y, f32)), f32)
    assert [ld.tensor for ld in loads(v)] == ["X", "Y", "Z"]
    assert loads(v) is loads(v)
    assert loads(replace(v, args=(x, x))) == (x, x)


def test_each_two_once():
    """By identity of the second one: equal ones may have different results."""
    met = []

    @memoised_with
    def text(e: Expr, other: object) -> str:
        met.append(other)
        return f"{e}, {other}"

    x, y = Var("i") + 1, Var("i") + 2
    ones = (1, 1.0)
    assert [text(e, other) for e in (x, y, x) for other in ones] == [f"i + {n}, {o}" for n in (1, 2, 1) for o in ones]
    assert met == [1, 1.0, 1, 1.0]
