"""Values that a loop does not change leave it, where they can be read: `codegen.transforms.licm`."""

from __future__ import annotations

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Buffer, For, If, Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.transforms.licm import hoist_invariants
from andiron.dsl.index.expr import ONE, Var, as_expr
from andiron.dsl.values import Apply, loads, walk

from ...support.tile_programs import F32, ZERO, N, T, add, at, buffer, gpu, loop, put, when

X = buffer("X", "input", "global", "grid", 32)
Y = buffer("Y", "output", "global", "grid", 32)
C = Buffer("c", F32, "input", "global", "grid", (), (), ONE)
R = Buffer("r", F32, "local", "register", "thread", (), (), ONE)
I = Var("i")
USE = loop(I, 0, N, put(Y, T, value=add(at(Y, T), add(at(R), at(R)))))
DATA = {"X": np.arange(32, dtype=np.float32), "c": np.float32(3)}


def program(*body) -> Program:
    return gpu("t", (N,), (X, Y, C), [(Var("b", 0, 0), 1)], 1, put(Y, T, value=ZERO), Alloc(R, body))


def moved(p: Program, n: int = 2) -> bool:
    """Whether the sum left the loop; the program means what it meant."""
    after = hoist_invariants(p)
    for size in (0, n):
        np.testing.assert_array_equal(interpret(after, DATA, {"N": size})["Y"], interpret(p, DATA, {"N": size})["Y"])
    inside = [s for loop in statements(after.launches[0].body) if isinstance(loop, For) for s in statements(loop.body)]
    return not any(x.tensor == "r" for s in inside if isinstance(s, Store) for x in loads(s.value))


def test_out_of_a_loop_and_of_the_one_around_it():
    assert moved(program(put(R, value=at(X, T)), USE))
    assert moved(program(put(R, value=at(X, T)), loop(Var("j"), 0, N, USE)))


def test_not_what_the_loop_changes():
    assert not moved(program(put(R, value=at(X, T)), loop(I, 0, N, *USE.body, put(R, value=at(X, T)))))


def test_idle_units_read_nothing_that_they_never_stored():
    some = (15 - as_expr(T),)
    first = when(some, put(R, value=at(X, T)))
    assert not moved(program(first, loop(I, 0, N, when(some, *USE.body))))
    assert moved(program(first, when(some, USE)))
    assert moved(program(put(R, value=at(X, T)), loop(I, 0, N, when(some, *USE.body))))


def test_stored_on_both_ways():
    some = (15 - as_expr(T),)
    one = put(R, value=at(X, T))
    assert moved(program(If(some, (one,), (put(R, value=ZERO),)), USE))
    guarded = loop(I, 0, N, when(some, *USE.body))
    assert not moved(program(If(some, (one,), (put(Y, T, value=ZERO),)), guarded))


def test_a_loop_that_may_not_run_stores_nothing():
    fill = loop(Var("j"), 0, N, put(R, value=at(X, T)))
    assert not moved(program(fill, USE))


def kept_exponentials(*body) -> int:
    """How many exponentials are computed in the loop."""
    j = Var("j", 0, 3)
    p = program(put(R, value=ZERO), loop(j, 0, 4, *body))
    after = hoist_invariants(p)
    np.testing.assert_array_equal(interpret(after, DATA, {"N": 3})["Y"], interpret(p, DATA, {"N": 3})["Y"])
    loops = [s for s in statements(after.launches[0].body) if isinstance(s, For)]
    values = [v for s in statements(tuple(loops)) if isinstance(s, Store) for v in walk(s.value)]
    return sum(isinstance(v, Apply) and v.fn == "exp" for v in values)


def test_what_is_costly_leaves_a_loop_that_runs():
    """Whatever it reads: the loop runs. Not what the loop changes, not what a condition in it may keep from being read."""
    power = Apply("exp", (at(X, T),), F32)
    assert kept_exponentials(put(Y, T, value=add(at(Y, T), power))) == 0
    assert kept_exponentials(put(Y, T, value=add(at(Y, T), Apply("exp", (at(Y, T),), F32)))) == 1
    assert kept_exponentials(put(Y, T, value=add(at(Y, T), Apply("exp", (at(X, Var("j", 0, 3)),), F32)))) == 1
    assert (
        kept_exponentials(Barrier("block"), put(Y, T, value=add(at(Y, T), power))) == 1
    )  # others may have written it just then
    assert kept_exponentials(when((15 - as_expr(T),), put(Y, T, value=add(at(Y, T), power)))) == 1
    assert (
        kept_exponentials(loop(I, 0, N, put(Y, T, value=add(at(Y, T), power)))) == 0
    )  # this loop may not run, the other one does


def test_scalars_of_the_call():
    use = loop(I, 0, N, put(Y, T, value=add(at(Y, T), add(at(C), at(C)))))
    after = hoist_invariants(program(put(R, value=ZERO), use))
    assert after != program(put(R, value=ZERO), use)
    assert F32 in {s.buffer.dtype for s in statements(after.launches[0].body) if isinstance(s, Alloc)}
