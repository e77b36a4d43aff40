"""Pipelines are right at every number of iterations, wait no longer than they must, and take one barrier an iteration.

The interpreter is the oracle: it reports reads of what was not waited for, races, and copies in flight to memory given up.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Commit, If, Let, Stmt, Wait
from andiron.codegen.ir.tile_visitors import buffers_used, map_places, statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.index.expr import Expr, Fn, as_expr, minimum
from andiron.dsl.module import loads

from ....support.edit_programs import edited_launches
from ....support.paths import DEVICES
from ....support.pipelines import OPS, PIPELINES, all_statements, compiled, faults, is_block_barrier, main_loops, sizes_of
from ....support.random.counts import case_count
from ....support.rotation import LONG


@pytest.mark.parametrize("name", PIPELINES)
def test_right_at_every_number_of_iterations(name):
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    for n, k in enumerate(sorted({0, 1, tile - 1, *(tile * n for n in range(1, depth + 3)), tile * depth + 1})):
        for m in (1, 16, 19) if LONG or k == tile * depth + 1 else (1, 16, 19)[n % 3 :][:1]:
            assert not faults(result.program, op, sizes_of(op, k, m)), (k, m)


CASES = case_count(40)


def written(rng: Random) -> str:
    """The lines of a matrix product of blocks, warps and threads, with pipelines anywhere."""

    def words(most: int = 4, through: bool = False) -> str:
        if rng.random() < 0.4:
            return ""
        return f" pipeline {rng.randint(2, most)}" + (" through" if through and rng.random() < 0.6 else "")

    accumulator, lines = "keep C in register", ["tile m: 16, n: 16 -> block"]
    above = rng.random() < 0.8
    lines += [accumulator] * above
    if rng.random() < 0.3:
        lines.append(f"tile k: {rng.choice((8, 12, 20))}" + words())
    lines.append(f"tile k: {rng.choice((3, 4, 4, 8))}" + words() + rng.choice(("", "", "", " peel")))
    for tensor in "AB" if rng.random() < 0.8 else "BA":
        if rng.random() < 0.9:
            how = rng.choice(("", "", " with cp_async", " with cp_async", " pad 4", " swizzle"))
            block = ":\n        tile k: 1 -> warp\n        tile m: 1 -> thread\n        move A -> register" if not how else ""
            lines.append(
                f"move {tensor} -> shared{rng.choice(('', words()))}{how}"
                + (block if tensor == "A" and rng.random() < 0.3 else "")
            )
        if rng.random() < 0.1:
            lines.append("tile n: 8")
    lines += [accumulator] * (not above)
    lines += [f"tile m: {rng.choice((8, 16, 4))} -> warp", f"tile m: {rng.choice((1, 2))}, n: {rng.choice((2, 4))} -> thread"]
    lines.append(f"tile k: {rng.choice((1, 2))}" + words(3, through=True))
    lines += [f"move {tensor} -> register{words(3)}" for tensor in "AB" if rng.random() < 0.6]
    return "".join(f"    {x}\n" for x in (*lines, "compute"))


@pytest.mark.parametrize("first", range(0, CASES, 10))
def test_right_whatever_is_written(first):
    for seed in range(first, first + 10):
        rng = Random(seed)
        lines = written(rng)
        name = rng.choice(("gemm", "gemm", "hgemm"))
        mod = loads(f"{(DEVICES / 'simt.sched').read_text(encoding='utf-8')}{OPS}schedule s for {name} on simt:\n{lines}")
        try:
            p = compile_program(mod, mod.ops[name], mod.schedules["s"], mod.devices["simt"]).program
        except UserError:
            continue
        for k in {rng.randint(0, 40), 4 * rng.randint(0, 9), 0}:
            sizes = {"M": rng.choice((1, 16, 19)), "N": 4 * rng.randint(1, 5), "K": k}
            assert not faults(p, mod.ops[name], sizes), f"seed {seed}, {sizes}\n{lines}"


ONE_A_TURN = [
    "sync2",
    "sync3",
    "async2",
    "async3",
    "async4",
    "mixed",
    "mixed2",
    "regs",
    "through",
    "through_async",
    "hop",
    "mma",
]
WAITING = ["async2", "async3", "async4", "mixed", "mixed2", "none", "nested_async", "through_async", "through4", "split", "mma"]


@pytest.mark.parametrize("name", ONE_A_TURN)
def test_one_barrier_an_iteration(name):
    (turn,) = main_loops(compiled(name)[1].program)
    assert sum(map(is_block_barrier, statements(turn.body))) == 1


def test_the_ampere_sketch():
    """Four buffers: one barrier, one wait and one group a turn, whatever else the program is prepared for."""
    mod = loads((DEVICES / "gpu_sketches.sched").read_text(encoding="utf-8"))
    p: Program | None = compile_program(mod, mod.ops["hgemm"], mod.schedules["ampere"], mod.device("sm_80")).program
    while p is not None:
        (turn,) = main_loops(p)
        inside = list(statements(turn.body))
        assert [s.pending for s in inside if isinstance(s, Wait)] == [2]
        assert [sum(isinstance(s, kind) for s in inside) for kind in (Barrier, Commit)] == [1, 1]
        made = {s.buffer.name: s.buffer for x in p.launches for s in statements(x.body) if isinstance(s, Alloc)}
        assert [str(made[b].shape[0]) for b in ("a_shared", "b_shared", "a", "b")] == ["4", "4", "2", "2"]
        p = p.instead


@pytest.mark.parametrize("name", ["sync2", "sync3", "async3", "mixed2", "through", "through_async", "split_warp", "hop", "mma"])
def test_each_barrier_is_needed(name):
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    total = sum(map(is_block_barrier, all_statements(result.program)))
    for n in range(total):
        seen = iter(range(total))
        less = edited_launches(result.program, lambda s, n=n, seen=seen: [] if is_block_barrier(s) and next(seen) == n else [s])
        assert "race" in faults(less, op, sizes_of(op, tile * (depth + 2), 15)), f"barrier {n} of {name}"


@pytest.mark.parametrize("name", WAITING)
def test_each_wait_is_as_long_as_it_must_be(name):
    """Without it, or with one more group under way, something is read that has not arrived."""
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    total = sum(isinstance(s, Wait) for s in all_statements(result.program))
    assert total
    for n in range(total):
        for weaker in (lambda s: [], lambda s: [replace(s, pending=s.pending + 1)]):
            seen = iter(range(total))

            def edit(s: Stmt, n=n, seen=seen, weaker=weaker) -> list[Stmt]:
                return weaker(s) if isinstance(s, Wait) and next(seen) == n else [s]

            found = faults(edited_launches(result.program, edit), op, sizes_of(op, tile * (depth + 3), 15))
            assert "in-flight" in found, f"wait {n} of {name}"


@pytest.mark.parametrize("name", ["sync2", "async2", "async3", "async4", "mixed", "through", "through_async", "mma"])
def test_no_buffer_is_to_spare(name):
    """With one less than there are, turns that are under way together meet in one."""
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    many = {
        b.name: b.shape[0]
        for s in all_statements(result.program)
        if isinstance(s, Alloc) and (b := s.buffer).memory == "shared"
    }

    def fewer(e: Expr, n: int) -> Expr:
        """`x % n` as `x % (n - 1)`; other numbers of buffers are below n."""
        if len(e.terms) == 1 and isinstance(f := e.terms[0][0], Fn) and f.kind == "mod" and f.args[1] == as_expr(n):
            return f.args[0] % (n - 1)
        return e % (n - 1)

    slots = {s.var: s.value for s in all_statements(result.program) if isinstance(s, Let) and s.var.name.startswith("slot")}

    def place(buffer: str, coords: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if buffer not in many:
            return coords
        return fewer(coords[0].subs(slots), many[buffer].constant or 0), *coords[1:]

    p = result.program
    less = replace(p, launches=tuple(replace(x, body=map_places(x.body, place)) for x in p.launches))
    assert faults(less, op, sizes_of(op, tile * (depth + 3), 15))


def test_loads_to_registers_are_under_way_while_a_turn_waits():
    """They stand before its wait and its barrier. What is stored does not: of A copies, of B the elements that were loaded."""
    op, result = compiled("mixed")
    (turn,) = main_loops(result.program)
    first = next(n for n, s in enumerate(turn.body) if isinstance(s, If))
    assert "b_shared_ahead" in buffers_used((turn.body[first],))
    assert isinstance(turn.body[first + 1], Wait)
    assert is_block_barrier(turn.body[first + 2])
    later = [n for n, s in enumerate(turn.body) if isinstance(s, If) and n > first]
    assert [buffers_used((turn.body[n],)) & {"a_shared", "b_shared"} for n in later] == [{"a_shared"}, {"b_shared"}]
    for n in later:
        moved = (*turn.body[: first + 1], turn.body[n], *turn.body[first + 1 : n], *turn.body[n + 1 :])

        def edit(s: Stmt, moved=moved) -> list[Stmt]:
            return [replace(s, body=moved)] if s is turn else [s]

        found = faults(edited_launches(result.program, edit), op, sizes_of(op, 4 * 6, 15))
        assert "race" in found, n


THROUGH = ["through", "through_async", "through4", "through_single", "mma"]


@pytest.mark.parametrize("name", THROUGH)
def test_copies_to_registers_stand_under_no_condition(name):
    """Also those of the next iteration, of which there may be none; and only they."""
    (turn,) = main_loops(compiled(name)[1].program)
    guarded = tuple(s for s in statements(turn.body) if isinstance(s, If) and s.turns)
    assert guarded
    assert buffers_used(guarded).isdisjoint({"a", "b"})
    assert not any(isinstance(s, Commit) for s in statements(guarded))


def last_copied(p: Program, turn) -> Program:
    """With another iteration's copies in place of those of `min(k + 1, last)`; `turn`: k + 1, last -> iteration."""

    def edit(s: Stmt) -> list[Stmt]:
        if isinstance(s, Let) and isinstance(f := next((f for f, _ in s.value.terms), None), Fn) and f.kind == "mod":
            least = next((g for g, _ in f.args[0].terms), None)
            if isinstance(least, Fn) and least.kind == "min":
                following, last = sorted(least.args, key=lambda e: not any(v.name == "k1" for v in e.variables()))
                return [replace(s, value=turn(following, last) % f.args[1])]
        return [s]

    return edited_launches(p, edit)


@pytest.mark.parametrize("name", ["through", "through_async", "through4", "mma"])
def test_the_last_iteration_copies_what_is_there(name):
    """Of one iteration more there may be nothing yet, and the last one's first elements are used."""
    op, result = compiled(name)
    tile, _ = PIPELINES[name]
    beyond = last_copied(result.program, lambda following, last: following)
    assert "uninitialised" in faults(beyond, op, sizes_of(op, tile, 15))
    one_before = last_copied(result.program, lambda following, last: minimum(following, last - 1))
    assert "wrong" in faults(one_before, op, sizes_of(op, 3 * tile, 15))
