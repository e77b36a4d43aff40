"""Emitted C++: reductions over lanes, and levels that cannot do what is asked of them."""

from dataclasses import replace

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, Barrier, If, Launch, Units
from andiron.dsl.errors import InternalError
from andiron.dsl.errors.schedule import CannotMeet
from andiron.dsl.index.expr import Var, as_expr, ceildiv
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, IndexValue, Masked

from ....support.cpp.build import COMPILERS, run
from ....support.cpp.check import agrees, ints
from ....support.cpp.programs import (
    CORE,
    CORES,
    F32,
    at,
    buffer,
    const,
    elementwise,
    lane,
    loop,
    program,
    put,
    register,
    units,
    when,
)

N, I, J, R = Var("N"), Var("i"), Var("j"), Var("r", 0, 3)
I64, BOOL = TYPES["i64"], TYPES["bool"]
W = 8
L = lane(W)
both = pytest.mark.parametrize("compiler", COMPILERS)


def rows(body_of, out_dtype=F32, width=W, **more):
    """One row a step, its values in registers r of each lane; `body_of(store)` makes the rest."""
    m = Var("M")
    x = register("x", (4,))
    col = 4 * L + R
    fill = loop(R, 4, (put("x", (R,), Masked((N - 1 - col,), at("X", I, col), const(-np.inf), F32)),), unroll=0)
    body = loop(I, m, (Alloc(x, (fill, *body_of)),), CORE, CORES)
    return program(
        "rows", (m, N), (buffer("X", "input", (m, N)), buffer("Y", "output", (m,), out_dtype)), (body,), width, **more
    )


@both
def test_reduction_over_lanes(compiler):
    top = register("top", (1,))
    steps = loop(R, 4, (put("top", (0,), Apply("max", (at("top", 0), at("x", R)), F32)),), unroll=0)
    body = Alloc(top, (
        put("top", (0,), const(-np.inf)), steps, AllReduce("lane", "max", 1, W, (("top", (as_expr(0),)),)),
        when((-L,), put("Y", (I,), at("top", 0))),
    ))  # fmt: skip
    x = ints(5, 30)
    x[2, 7], x[3, 3] = 99, np.nan
    agrees(rows((body,)), {"X": x}, {"M": 5, "N": 30}, compiler, x.max(1), threads=2)


@both
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_argmax_over_lanes(compiler, kind):
    sign = "gt" if kind == "argmax" else "lt"
    v, i = register("v", (1,)), register("where", (1,), I64)
    init = (put("v", (0,), at("X", I, L)), put("where", (0,), IndexValue(as_expr(L), I64)))
    better = Apply(sign, (at("X", I, L + 8 * J), at("v", 0)), BOOL)
    pick = Apply("where", (better, IndexValue(L + 8 * J, I64), at("where", 0, dtype=I64)), I64)
    more = loop(
        J, 3, (put("where", (0,), pick), put("v", (0,), Apply("where", (better, at("X", I, L + 8 * J), at("v", 0)), F32))), 1
    )
    cells = (("v", (as_expr(0),)), ("where", (as_expr(0),)))
    body = Alloc(
        v,
        (
            Alloc(
                i, (*init, more, AllReduce("lane", kind, 1, W, cells), when((-L,), put("Y", (I,), at("where", 0, dtype=I64))))
            ),
        ),
    )
    m = Var("M")
    prog = program("arg", (m,), (buffer("X", "input", (m, 24)), buffer("Y", "output", (m,), I64)), (loop(I, m, (body,)),))
    x = ints(9, 24)
    agrees(prog, {"X": x}, {"M": 9}, compiler, getattr(x, kind)(1))


@both
def test_partial_groups_of_lanes(compiler):
    s = register("s", (1,))
    body = Alloc(
        s,
        (put("s", (0,), at("X", I, L)), AllReduce("lane", "sum", 2, 2, (("s", (as_expr(0),)),)), put("Y", (I, L), at("s", 0))),
    )
    prog = program("groups", (N,), (buffer("X", "input", (N, W)), buffer("Y", "output", (N, W))), (loop(I, N, (body,)),))
    x = ints(3, W)
    agrees(prog, {"X": x}, {"N": 3}, compiler, x + x[:, [i ^ 2 for i in range(W)]])


@both
def test_reductions_where_groups_of_lanes_part(compiler):
    """Each half of the lanes sums a row, if there is one; the first half also in a loop of its own."""
    s, again, row = register("s", (1,)), Var("again", 0, 1), 2 * I + L // 4
    total = AllReduce("lane", "sum", 1, 4, (("s", (as_expr(0),)),))
    more = loop(again, 2, (put("s", (0,), Apply("mul", (at("s", 0), const(2.0)), F32)), total))
    part = If((N - 1 - row,), (
        put("s", (0,), at("X", row, L % 4)), total, If((3 - L,), (more,)), when((-(L % 4),), put("Y", (row,), at("s", 0))),
    ))  # fmt: skip
    prog = program("halves", (N,), (buffer("X", "input", (N, 4)), buffer("Y", "output", (N,))), ())
    body = loop(I, ceildiv(N, 2), (Alloc(s, (part,)),))
    prog = replace(prog, launches=(replace(prog.launches[0], body=(body,)),))
    for n in (1, 4, 7):
        x = ints(n, 4)
        agrees(prog, {"X": x}, {"N": n}, compiler, x.sum(1) * np.where(np.arange(n) % 2, 1, 64))


def test_what_cannot_be_printed_is_refused():
    prog = program("wait", (), (), (AllReduce("lane", "sum", 1, 3, (("c", (as_expr(0),)),)),))
    with pytest.raises(InternalError):
        emit(prog)
    with pytest.raises(InternalError, match="at most 64"):
        emit(elementwise(128))
    with pytest.raises(InternalError, match="a power of two"):
        emit(elementwise(6))
    with pytest.raises(InternalError):
        emit(elementwise(W), "fortran")


def test_units_that_are_a_loop_cannot_wait():
    """Blocks run one after another: a barrier of all of them would never be passed; one inside each may be."""
    block = Var("block", 0, 3)
    for level, refused in (("socket", True), ("block", False)):
        prog = program("waits", (N,), (buffer("Y", "output", (N,)),), ())
        outer, *inner = prog.device.levels
        device = replace(prog.device, levels=(outer, replace(outer, name="block"), *inner))
        launch = Launch("main", (Units("block", block, as_expr(4)), *units(W)), (Barrier(level), put("Y", (L,), const(1.0))))
        prog = replace(prog, device=device, launches=(launch,))
        if refused:
            with pytest.raises(CannotMeet, match="run one after another"):
                emit(prog)
        else:
            assert (run(prog, {}, {"N": 8}, threads=2)["Y"] == 1).all()
