"""Independent iterations of a loop are executed together: which ones they are, and that nothing else differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.interpret.memory import Memory
from andiron.codegen.interpret.separate_iterations import iterations_together, same_iteration, stored_separately
from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, For, Launch
from andiron.codegen.verify import check_once
from andiron.dsl.index.expr import Expr, Var, as_expr
from andiron.dsl.module import loads, std_device
from andiron.dsl.values import Cast, IndexValue

from ...support.tile_programs import CPU, F32, I64, ZERO, B, T, add, at, buffer, exprs, gpu, let, loop, put, when

X = buffer("X", "input", "dram", "socket", 128)
Y = buffer("Y", "output", "dram", "socket", 128)
Z = buffer("Z", "output", "dram", "socket", 16, 8)
I, J, K = Var("i", 0, 127), Var("j", 0, 7), Var("k", 0, 127)
DATA = {"X": np.arange(128, dtype=np.float32)}
SEPARATE = {
    "a copy": loop(I, 0, 128, put(Y, I, value=at(X, 127 - I))),
    "a sum of its own": loop(I, 0, 16, loop(J, 0, 8, put(Z, I, 0, value=add(at(Z, I, 0), at(X, 8 * I + J))))),
    "steps": loop(I, 0, 42, put(Y, 3 * I, value=at(Y, 3 * I))),
    "a name for it": loop(I, 0, 64, let(K, I + 64), put(Y, K, value=at(Y, I + 64))),
    "a condition": loop(I, 0, 64, when(exprs(31 - I), put(Y, I, value=ZERO))),
    "others of its row": loop(I, 0, 16, loop(J, 1, 8, put(Z, I, J, value=at(Z, I, J - 1)))),
}
DEPENDENT = {
    "the one before": loop(I, 1, 128, put(Y, I, value=at(Y, I - 1))),
    "one element": loop(I, 0, 128, put(Y, 0, value=add(at(Y, 0), at(X, I)))),
    "the same twice": loop(I, 0, 128, put(Y, I // 2, value=at(X, I))),
    "two orders": loop(I, 0, 64, put(Y, I, value=ZERO), put(Y, 63 - I, value=ZERO)),
    "tiles that may overlap": loop(I, 0, 32, loop(J, 0, 8, put(Y, 2 * I + J, value=at(X, I)))),
    "an element together": loop(I, 0, 128, put(Y, 0, value=at(X, I), atomic="sum")),
    "another row of a sum": loop(I, 0, 15, put(Z, I, 0, value=at(Z, I + 1, 0))),
}


@pytest.mark.parametrize("case", SEPARATE.values(), ids=SEPARATE)
def test_iterations_that_are_independent(case: For) -> None:
    assert stored_separately(case) is not None


@pytest.mark.parametrize("case", DEPENDENT.values(), ids=DEPENDENT)
def test_iterations_that_may_depend_on_one_another(case: For) -> None:
    assert stored_separately(case) is None


QUAD = Var("q", 0, 3)


@pytest.mark.parametrize(
    ("place", "apart"),
    [
        *[(x, True) for x in (as_expr(QUAD), 4 * T + QUAD, T + 32 * QUAD, T + 32 * QUAD + 128 * B, 32 * T + 8 * QUAD + 5)],
        *[
            (x, False)
            for x in (T + QUAD, 3 * T + QUAD, T + 31 * QUAD, T + 32 * QUAD + 127 * B, T + 32 * QUAD + 96 * B, QUAD + B)
        ],
    ],
    ids=str,
)
def test_iterations_of_all_units(place: Expr, apart: bool) -> None:
    """What one unit stores in one iteration no unit accesses in another one."""
    assert stored_separately(loop(QUAD, 0, 4, put(Y, place, value=ZERO))) == {"Y": apart}


def test_a_unit_may_read_what_another_one_stored_in_the_iteration_before() -> None:
    """Lanes run iteration by iteration together."""
    shared = buffer("S", "local", "shared", "block", 128)
    source, found = buffer("X", "input", "global", "grid", 128), buffer("Y", "output", "global", "grid", 128)
    body = Alloc(
        shared,
        (
            loop(QUAD, 0, 4, put(shared, 32 * QUAD + T, value=at(source, 32 * QUAD + T))),
            loop(QUAD, 0, 4, put(shared, T + QUAD, value=add(at(shared, T + QUAD), at(source, 1)))),
            loop(QUAD, 0, 4, put(found, 4 * T + QUAD, value=at(shared, 4 * T + QUAD))),
        ),
    )
    got = interpret(gpu("t", (), (source, found), [(Var("b", 0, 0), 1)], 1, body), DATA)
    times = sum((np.arange(128) >= q) & (np.arange(128) < 32 + q) for q in range(4))
    np.testing.assert_array_equal(got["Y"], DATA["X"] + times)


def alone(*body, buffers=(X, Y)) -> Program:
    """One unit over X and Y."""
    return Program("t", CPU, (), (), (), tuple(buffers), (Launch("main", (), tuple(body)),), ())


def test_iterations_follow_one_another() -> None:
    """As units and values; those of units that have no such iteration are left out."""
    found = list(iterations_together(3, np.array([0, 1, 2]), np.array([4, 1, 4]), 2))
    assert [(list(units), list(values)) for units, values in found] == [([0, 2, 0], [0, 2, 2])]
    assert list(iterations_together(3, 5, 5, 1)) == []
    parts = list(iterations_together(1000, 0, 3, 1))
    assert [(len(values), int(values[0])) for _, values in parts] == [(1000, 0), (1000, 1), (1000, 2)]


def test_independent_iterations_are_one_statement() -> None:
    log: dict[str, Memory] = {}
    got = interpret(alone(SEPARATE["a copy"]), DATA, log=log)
    np.testing.assert_array_equal(got["Y"], DATA["X"][::-1])
    assert len(log["Y"].log or []) == 1
    interpret(alone(loop(I, 0, 128, put(Y, I // 2, value=ZERO), put(Y, I // 2 + 64, value=ZERO))), DATA, log=log)
    assert len(log["Y"].log or []) == 256


def test_loops_whose_ends_differ_by_unit() -> None:
    """Each lane sums up a part of its own of the input."""
    total = buffer("R", "output", "global", "grid", 32)
    source, own = buffer("X", "input", "global", "grid", 128), buffer("r", "local", "register", "thread", 32)
    body = Alloc(
        own,
        (
            loop(J, 0, 8, put(own, J, value=ZERO)),
            loop(I, T, 32, put(own, I, value=at(source, I + T))),
            put(total, T, value=at(own, 31)),
        ),
    )
    got = interpret(gpu("t", (), (source, total), [(Var("b", 0, 0), 1)], 1, body), DATA)
    np.testing.assert_array_equal(got["R"], 31 + np.arange(32))


def test_traffic_is_that_of_each_iteration() -> None:
    traffic: dict[tuple[str, str], int] = {}
    interpret(alone(SEPARATE["a copy"]), DATA, traffic=traffic)
    assert traffic == {("dram", "read"): 512, ("dram", "written"): 512}


def test_a_fault_names_the_first_iteration_and_others_go_on() -> None:
    found: list[Fault] = []
    value = Cast(IndexValue(exprs(I)[0], I64), F32)
    got = interpret(alone(loop(I, 0, 128, put(Y, I + 3, value=value))), DATA, on_fault=found)
    assert [f.kind for f in found] == ["out-of-bounds", "never-written"]
    assert "`Y`[128] is outside shape [128]" in found[0].message
    np.testing.assert_array_equal(got["Y"][3:], np.arange(125))


@pytest.mark.parametrize(
    ("start", "step", "same"),
    [
        (0, 2, True),
        (np.array([0, 1, 0]), 2, True),
        (np.array([0, 2]), 2, False),
        (np.array([3, 3]), 1, True),
        (0, np.array([1, 2]), False),
    ],
)
def test_units_that_reach_a_value_in_the_same_iteration(start: Any, step: Any, same: bool) -> None:
    assert same_iteration(start, step) == same


def test_a_unit_that_reads_what_another_one_stores_an_iteration_later() -> None:
    """Both have the same value of the variable there, in iterations of their own."""
    op = loads("op total[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n").ops["total"]
    program = parse(
        """program total(M, N) on sm_80
finite grid: grids
input X: f32[M, N] in global of grid strides (N, 1) size M*N
output Y: f32[M] in global of grid strides (1) size M
workspace s: f32[M] in global of grid strides (1) size M

launch main over block block < 1, warp warp < 1, thread thread < 2:
    for m in thread .. M:
        if thread < 1:
            s[m] = 0.0
            for n in 0 .. N:
                s[m] = s[m] + X[m, n]
        if thread >= 1:
            Y[m] = s[m]
        if m <= 0:
            Y[m] = s[m]
""",
        std_device,
    )
    with pytest.raises(Fault, match=r"uninitialised: `s`\[1\]"):
        check_once(program, op, {"M": 4, "N": 3})
    with pytest.raises(Fault, match=r"not-once: Y\[1\]"):
        check_once(program, op, {"M": 4, "N": 3}, checks=False)
