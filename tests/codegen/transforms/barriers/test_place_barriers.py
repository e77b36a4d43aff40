"""Barriers: each rule of `codegen.transforms.barriers.place_barriers` places what is needed and nothing more.

Every program here is run by the interpreter with its barriers (nothing is reported, results are right) and without any single
one of them (a race is reported): so no barrier is missing, and none is there for nothing.
"""

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Call, Commit, If, Launch, Piece, Units, Wait
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.transforms.barriers.known_facts import _in_rows
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.dsl.errors.base import InternalError
from andiron.dsl.errors.schedule import CannotMeet
from andiron.dsl.index.expr import Var, as_expr, minimum, xor
from andiron.dsl.source import Source, Span

from ....support.tile_programs import (
    CASES,
    CPU,
    ZERO,
    N,
    T,
    W,
    add,
    at,
    barriers,
    buffer,
    copy4,
    each_without,
    gpu,
    let,
    loop,
    put,
    when,
)

X = buffer("X", "input", "global", "grid", 128)
Y = buffer("Y", "output", "global", "grid", 128)
R = buffer("R", "local", "register", "thread", 1)
S = buffer("S", "local", "shared", "block", 128)
Z = buffer("Z", "local", "shared", "block", 128)
U = 32 * W(4) + T
V = 127 - U  # a unit of another warp
DATA = {"X": np.arange(128, dtype=np.float32)}
I = Var("i")


def block(*body, dims=(), instrs=()) -> Program:
    """One block of 4 warps over X and Y, with S and Z shared and R private at hand."""
    return gpu("t", dims, (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(S, (Alloc(Z, (Alloc(R, body),)),)), instrs=instrs)


def text(program: Program) -> str:
    """The body of the program, less what `block` put around it, without reasons."""
    body = program.launches[0].body
    while len(body) == 1 and isinstance(body[0], Alloc):
        body = body[0].body
    shown = show(replace(program, launches=(replace(program.launches[0], body=body),)))
    lines = shown[shown.index("\nlaunch ") + 1 :].splitlines()[1:]
    return dedent("\n".join(line.split("  #")[0] for line in lines))


def check(program: Program, count: int, arrays=DATA, sizes=None) -> Program:
    placed = place_barriers(program)
    assert barriers(placed) == count, text(placed)
    assert place_barriers(placed) == placed
    interpret(placed, arrays, sizes)
    for number, less in each_without(placed):
        found = []
        interpret(less, arrays, sizes, on_fault=found)
        assert any(f.kind == "race" for f in found), f"barrier {number} is there for nothing\n{text(placed)}"
    return placed


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("vector_add", 0),
        ("transpose", 1),
        ("gemm_simt", 2),
        ("gemm_twice_buffered", 1),
        ("gemm_async", 1),
        ("gemm_mma", 0),
        ("block_sum", 2),
        ("gemm_cores", 2),
    ],
)
def test_programs(name, count):
    program, arrays, expected = CASES[name]()
    placed = check(program, count, arrays)
    for output, value in interpret(placed, arrays).items():
        np.testing.assert_array_equal(value, expected[output])


def test_write_then_read():
    placed = check(block(put(S, U, value=at(X, U)), put(Y, U, value=at(S, V))), 1)
    assert text(placed).splitlines()[1] == "barrier block"


def test_read_then_write():
    fill = put(S, U, value=at(X, U))
    use = put(R, 0, value=at(S, V))
    placed = check(block(fill, use, put(S, U, value=ZERO), put(Y, U, value=add(at(R, 0), at(S, V)))), 3)
    whys = [s.why for s in _all(placed)]
    assert whys == ["S is written before, read after", "S is read before, written after", "S is written before, read after"]


def test_write_then_write():
    check(block(put(S, U, value=ZERO), put(S, V, value=at(X, U)), put(Y, U, value=at(S, V))), 1)


def test_one_barrier_serves_several_buffers():
    fill = put(S, U, value=at(X, U)), put(Z, U, value=at(X, U))
    check(block(*fill, put(Y, U, value=add(at(S, V), at(Z, V)))), 1)


def test_entry_stands_before_the_loop():
    sums = loop(I, 0, 4, put(R, 0, value=add(at(R, 0), at(S, (V + I) % 128))))
    placed = check(block(put(S, U, value=at(X, U)), put(R, 0, value=ZERO), sums, put(Y, U, value=at(R, 0))), 1)
    assert text(placed).splitlines()[2:4] == ["barrier block", "for i: 0.. in 0 .. 4:"]


def test_back_edge_stands_inside_and_serves_the_entry():
    step = put(S, U, value=at(X, (U + I) % 128)), put(R, 0, value=add(at(R, 0), at(S, V)))
    before = put(S, U, value=at(X, U)), put(R, 0, value=at(S, U))
    placed = check(block(*before, loop(I, 0, 3, *step), put(Y, U, value=at(R, 0))), 2)
    assert text(placed).splitlines()[2:4] == ["for i: 0.. in 0 .. 3:", "    barrier block"]


def test_a_copy_loop_holds_no_barrier():
    """Each unit writes its own elements in every iteration."""
    row, column = W(4) + 4 * Var("i", 0, 3), T // 4
    wide = buffer("S", "local", "shared", "block", 16, 8)
    fill = loop(Var("i", 0, 3), 0, 4, when((-(T % 4),), put(wide, row, column, value=ZERO)))
    read = put(Y, U, value=at(wide, V % 16, V // 16))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(wide, (fill, read))), 1)


def test_first_iteration_what_the_loop_orders_meets_the_entry_once():
    """Slot 0 is filled and read before the loop, which fills slot 1 first: it needs no barrier before it."""
    two = buffer("D", "local", "shared", "block", 2, 128)
    ready = put(two, 0, U, value=at(X, U)), put(R, 0, value=at(two, 0, V))
    turn = put(two, (I + 1) % 2, U, value=at(R, 0)), put(R, 0, value=at(two, (I + 1) % 2, V))
    body = Alloc(two, (*ready, loop(I, 0, 5, *turn), put(Y, U, value=at(R, 0))))
    placed = check(block(body), 2)
    lines = text(placed).splitlines()
    assert not lines[next(n for n, x in enumerate(lines) if "for i" in x) - 1].strip().startswith("barrier")


def test_zero_trips_a_loop_that_may_not_run_orders_nothing():
    step = put(Z, U, value=at(X, U)), put(R, 0, value=add(at(R, 0), at(Z, V)))
    begin = put(S, U, value=at(X, U)), put(R, 0, value=ZERO)
    use = put(Y, U, value=add(at(R, 0), at(S, V)))
    placed = place_barriers(block(*begin, loop(I, 0, N, *step), use, dims=(N,)))
    assert text(placed).splitlines()[-2] == "barrier block"
    after = next(n for n, less in each_without(placed) if text(less).splitlines()[-2] != "barrier block")
    found = []
    less = dict(each_without(placed))[after]
    interpret(less, DATA, {"N": 0}, on_fault=found)
    assert [f.kind for f in found] == ["race"]
    interpret(placed, DATA, {"N": 0})
    interpret(placed, DATA, {"N": 3})
    check(block(*begin, loop(I, 0, 2, *step), use), 2)  # this one runs


def test_same_unit_needs_no_barrier():
    check(block(put(S, U, value=at(X, U)), put(Y, U, value=at(S, U))), 0)


def test_same_unit_through_lets_quotients_and_guards():
    m, n = Var("m"), Var("n")
    tile = buffer("S", "local", "shared", "block", 4, 32)
    lets = let(m, U // 32), let(n, U % 32)
    body = *lets, put(tile, m, n, value=at(X, U)), put(Y, U, value=at(tile, m, n))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(tile, body)), 0)
    first = when((-as_expr(W(4)),), put(S, T, value=at(X, T)))
    again = when((-as_expr(W(4)),), put(S, 31 - T, value=add(at(S, 31 - T), at(X, T))))
    check(block(first, again, put(Y, U, value=ZERO)), 0)


def test_same_unit_through_a_swizzle():
    tile = buffer("S", "local", "shared", "block", 8, 16)
    row, column = U // 16, U % 16
    stored = xor(column // 4, row % 4) * 4 + column % 4
    body = put(tile, row, stored, value=at(X, U)), put(Y, U, value=at(tile, row, stored))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(tile, body)), 0)
    wrong = put(Y, U, value=at(tile, row, column))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(tile, (body[0], wrong))), 0)  # a row is a warp's own
    across = put(Y, U, value=at(tile, V // 16, stored))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(tile, (body[0], across))), 1)


def test_before_the_first_iteration_there_was_none():
    """Chunks of 2 and then 1 of the 3 elements that a warp owns: with one more in front they would reach the neighbour's. In
    each iteration around them a warp owns others."""
    j, i, k = Var("j", 0, 1), Var("i", 0, 1), Var("k", 0, 2)
    element = 3 * W(4) + 3 * k + 2 * i + j
    chunks = loop(i, 0, 2, loop(j, 0, 2, when((2 - 2 * i - j,), put(S, element, value=at(X, W(4))))))
    placed = check(block(loop(k, 0, 3, chunks), put(Y, U, value=ZERO)), 1)
    assert [line.strip() for line in text(placed).splitlines()[:2]] == ["for k in 0 .. 3:", "barrier block"]


def test_lockstep_needs_no_barrier():
    own = buffer("S", "local", "shared", "warp", 32)
    body = put(own, T, value=at(X, U)), put(Y, U, value=at(own, 31 - T))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, Alloc(own, body)), 0)
    body = put(S, T, value=at(X, T)), put(Y, T, value=at(S, 31 - T))
    y = buffer("Y", "output", "global", "grid", 32)
    check(gpu("t", (), (X, y), [(Var("b", 0, 0), 1)], 1, Alloc(S, body)), 0)  # a block of one warp


def test_lockstep_barriers_for_compilers_that_move_accesses():
    w = W(4)
    body = put(S, U, value=at(X, U)), put(Y, U, value=at(S, 32 * w + 31 - T))
    assert barriers(place_barriers(block(*body))) == 0
    placed = place_barriers(block(*body), lockstep=True)
    assert [b.level for b in _all(placed)] == ["warp"]
    interpret(placed, DATA)
    own = put(S, U, value=at(X, U)), put(Y, U, value=at(S, U))
    assert barriers(place_barriers(block(*own), lockstep=True)) == 0
    across = put(S, U, value=at(X, U)), put(Y, U, value=at(S, V))
    assert [b.level for b in _all(place_barriers(block(*across), lockstep=True))] == ["block"]


def test_arguments_are_ordered_within_a_block():
    check(block(put(Y, U, value=at(X, U)), put(R, 0, value=at(Y, V)), put(Y, V, value=add(at(R, 0), at(Y, V)))), 1)


def test_uniform_point_is_before_what_diverges():
    half = If((15 - as_expr(T),), (put(Y, U, value=at(S, V)),), (put(Y, U, value=ZERO),))
    placed = check(block(put(S, U, value=at(X, U)), half), 1)
    assert text(placed).splitlines()[1] == "barrier block"
    apart = when((as_expr(W(4)) - 1,), put(S, U, value=ZERO), put(Y, U, value=at(S, V)))
    with pytest.raises(InternalError, match="units diverge: `S` is written by one unit, then read by another"):
        place_barriers(block(apart))
    line = Span(Source("s.sched", "    tile m: 1 -> warp\n"), 4, 21)
    with pytest.raises(CannotMeet, match="divergent control flow") as caught:
        place_barriers(block(replace(apart, span=line)))
    assert caught.value.span == line
    assert caught.value.help


def test_guards_that_keep_accesses_apart():
    """Lanes up to 15 write, and read what only lanes from 16 on could have written."""
    body = put(S, U, value=at(X, U)), put(S, V, value=at(X, U))
    check(block(when((15 - as_expr(T),), *body), put(Y, U, value=ZERO)), 0)


@pytest.mark.parametrize(("last", "count"), [(3, 1), (7, 2)])
def test_stages_are_apart_where_conditions_leave_one_of_an_extreme(last, count):
    """ROTATING: the earlier iterations fill their stage anew, then each reads the next one's, the last one its own."""
    stages = buffer("P", "local", "shared", "block", 4, 128)
    i, k = Var("i", 0, 7), Var("k", 0, 3)
    first = loop(k, 0, 4, put(stages, k, U, value=at(X, U)))
    ahead = put(R, 0, value=at(stages, minimum(7, i + 1) % 4, V))
    body = first, loop(i, 0, 8, when((last - as_expr(i),), put(stages, i % 4, U, value=at(X, U))), ahead)
    whole = Alloc(stages, (Alloc(R, (*body, put(Y, U, value=at(R, 0)))),))
    check(gpu("t", (), (X, Y), [(Var("b", 0, 0), 1)], 4, whole), count)


def test_uniform_conditions_hold_barriers():
    inner = when((N - 1,), put(S, U, value=at(X, U)), put(R, 0, value=at(S, V)))
    placed = place_barriers(block(put(R, 0, value=ZERO), inner, put(Y, U, value=at(R, 0)), dims=(N,)))
    assert barriers(placed) == 1
    for n in (0, 1):
        interpret(placed, DATA, {"N": n})


def test_visible_at_wait_the_barrier_comes_after():
    u = as_expr(U)
    copy = when((31 - u,), Call("copy4", (Piece("S", (u * 4,), 4), Piece("X", (u * 4,), 4))))
    placed = check(block(copy, Commit("group"), Wait("group", 0), put(Y, U, value=at(S, V)), instrs=(copy4(),)), 1)
    assert text(placed).splitlines()[-3:-1] == ["wait group until 0 pending", "barrier block"]


def test_a_barrier_that_is_there_counts():
    body = put(S, U, value=at(X, U)), Barrier("block"), put(Y, U, value=at(S, V))
    assert place_barriers(block(*body)) == block(*body)


def test_a_dealt_loop_gives_a_tile_to_one_core_whatever_their_number():
    """Tiles in two dimensions of symbolic extent, written in one pass and read in the next."""
    core, cores, k, t = Var("core", 0, 7), Var("cores", 1, 8), Var("k"), Var("tile")
    c = buffer("C", "output", "dram", "socket", N, 4 * Var("M"))
    lane = Var("lane", 0, 3)
    at_tile = t // Var("M"), t % Var("M") * 4 + lane
    first = put(c, *at_tile, value=ZERO)
    steps = loop(
        k, 0, 3, loop(t, core, N * Var("M"), put(c, *at_tile, value=add(at(c, *at_tile), at(c, *at_tile))), step=cores)
    )
    units = (Units("core", core, as_expr(cores)), Units("lane", lane, as_expr(4)))
    body = (loop(t, core, N * Var("M"), first, step=cores), steps)
    program = Program("t", CPU, (N, Var("M")), (), (("core", cores),), (c,), (Launch("main", units, body),))
    check(program, 0, {}, {"N": 3, "M": 5})


def _all(program: Program) -> list[Barrier]:
    return [s for launch in program.launches for s in statements(launch.body) if isinstance(s, Barrier)]


@pytest.mark.parametrize("row", [as_expr(3), as_expr(Var("S", 1)), as_expr(Var("S", 1)) + 2])
def test_elements_behind_a_digit_are_in_the_next_row(row):
    """Of a piece that begins at x/row, x % row, in a buffer of such rows; one that begins at a plain place stays in its row."""
    x, r = Var("x", 0), Var("r", 0, 1)
    rows = buffer("A", "input", "global", "grid", 8, row)
    found = _in_rows((x // row, x % row + r), rows, 2)
    for at_x, at_r, s in [(2, 1, 1), (5, 1, 1), (4, 0, 1), (7, 1, 6)]:
        env = {"x": at_x, "r": at_r, "S": s}
        assert [e.evaluate(env) for e in found] == [*divmod(at_x + at_r, row.evaluate(env))]
    assert _in_rows((as_expr(x), as_expr(r)), rows, 2) == (as_expr(x), as_expr(r))
