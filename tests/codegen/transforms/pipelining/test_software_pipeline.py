"""Pipelines: what copies made ahead become, in lowered programs and in those written by hand, and what an author is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Commit, For, If, Staging, Stmt, Wait
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.transforms.pipelining.software_pipeline import pipeline_copies
from andiron.dsl.errors.schedule import CapacityExceeded, ModifierArgument
from andiron.dsl.index.expr import Var
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.paths import DEVICES
from ....support.pipelines import all_statements, compiled, main_loops, module
from ....support.tile_programs import add, at, buffer, exprs, gpu, loop, put

# ------------------------------------------------------------ what it becomes


def test_copies_that_stand_together_are_one_group():
    """Not made ahead, but under way at once."""
    p = compiled("none")[1].program
    assert sum(isinstance(s, Commit) for s in all_statements(p)) == sum(isinstance(s, Wait) for s in all_statements(p)) == 1


def test_a_synchronous_copy_waits_in_registers():
    """Loads before the turn's work, stores after it."""
    p = compiled("sync2")[1].program
    (turn,) = main_loops(p)
    text = str(replace(p, launches=(replace(p.launches[0], body=turn.body),)))
    load, meet, work, store = (text.index(x) for x in ("a_shared_ahead[] = (A[", "barrier", "fma(", "] = a_shared_ahead[]"))
    assert load < meet < work < store


def test_the_last_staging_step_is_the_one_of_the_schedule():
    p = compiled("hop")[1].program
    held = {s.buffer.name for s in all_statements(p) if isinstance(s, Alloc) and s.buffer.memory == "register"}
    assert "a_shared_ahead" not in held
    assert "b_shared_ahead" in held


def test_registers_rotate_by_copies_of_the_loop():
    """A loop of unknown length is written out as many turns at a time as there are buffers."""
    p = compiled("only_regs")[1].program
    unrolled = [(str(s.stop), s.unroll) for s in all_statements(p) if isinstance(s, For) and s.var.name.endswith("_turn")]
    assert set(unrolled) == {("3", 0)}
    assert "float a[3][2];" in emit(p, "cuda")
    assert "a[(k1_turn + 2) % 3]" in emit(p, "cuda")  # a constant in each copy of the loop's body


@pytest.mark.parametrize(("k", "by_turns"), [(16, False), (17, True)])
def test_a_short_loop_over_registers_is_unrolled(k: int, by_turns: bool):
    mod = module()
    op = specialise(mod.ops["gemm"], {"K": k})
    p = compile_program(mod, op, mod.schedules["only_regs"], mod.devices["simt"]).program
    assert any(isinstance(s, For) and s.var.name.endswith("_turn") for s in all_statements(p)) == by_turns


def test_fixed_sizes_take_no_more_buffers_than_iterations():
    mod = module()
    op = specialise(mod.ops["gemm"], {"K": 8})
    p = compile_program(mod, op, mod.schedules["async4"], mod.devices["simt"]).program
    assert {str(s.buffer.shape[0]) for s in all_statements(p) if isinstance(s, Alloc) and s.buffer.memory == "shared"} == {"2"}
    one = compile_program(mod, specialise(mod.ops["gemm"], {"K": 4}), mod.schedules["async4"], mod.devices["simt"]).program
    assert not main_loops(one)


def test_lifted_out_of_a_loop_that_does_not_change_it():
    p = compiled("lift")[1].program
    inner = next(
        s for s in all_statements(p) if isinstance(s, For) and s.var.name.startswith("n") and "b_shared" in str(s.body)
    )
    assert "A" not in {name for s in statements(inner.body) for name in _loaded(s)}


def _loaded(s: Stmt) -> list[str]:
    from andiron.codegen.ir.tile_visitors import accessed

    return list(accessed(s))


# ------------------------------------------------------------ programs written by hand


K = Var("k", 0, 9)
T = Var("t", 0, 127)


def staged(var: Var, depth: int, name: str, source, rest: tuple[Stmt, ...], through: bool = False) -> Alloc:
    b = buffer(name, "local", "shared", "block", 128)
    return Alloc(b, (put(b, T, value=at(source, var, T)), *rest), staging=Staging(1, depth, var, through))


def test_separate_copies_in_one_iteration():
    """P of each turn is used before Q is: two batches, of different depths."""
    x = buffer("X", "input", "global", "grid", 10, 128)
    y = buffer("Y", "output", "global", "grid", 128)
    r = buffer("R", "local", "register", "thread", 1)
    p, q = buffer("P", "local", "shared", "block", 128), buffer("Q", "local", "shared", "block", 128)
    use = put(r, 0, value=add(at(r, 0), at(q, (T + 32) % 128)))
    second = staged(K, 2, "Q", x, (use,))
    first = staged(K, 4, "P", x, (put(r, 0, value=add(at(r, 0), at(p, 127 - T))), second))
    body = Alloc(r, (put(r, 0, value=at(x, 0, T)), loop(K, 1, 10, first), put(y, T, value=at(r, 0))))
    program = gpu("apart", (), (x, y), [(Var("b", 0, 0), 1)], 4, body)
    program = _threads(program)
    from andiron.codegen.transforms.barriers.place_barriers import place_barriers

    notes: list[str] = []
    done = place_barriers(pipeline_copies(program, notes.append))
    data = np.arange(1280, dtype=np.float32).reshape(10, 128)
    want = data[0] + sum(row[::-1] + np.roll(row, -32) for row in data[1:])
    (got,) = interpret(done, {"X": data}).values()
    np.testing.assert_array_equal(got, want)
    assert not notes
    (turn,) = main_loops(done)
    assert sum(isinstance(s, Barrier) for s in statements(turn.body)) == 1


def _threads(p: Program) -> Program:
    """T stands for the thread's number in its block."""
    from andiron.codegen.ir.tile_visitors import map_exprs

    from ....support.tile_programs import T as thread
    from ....support.tile_programs import W

    number = 32 * W(4) + thread
    return replace(p, launches=tuple(replace(x, body=map_exprs(x.body, lambda e: e.subs({T: number}))) for x in p.launches))


@pytest.mark.parametrize("why", ["the loop writes what it copies", "it is not filled once a turn"])
def test_what_cannot_run_ahead_does_not(why):
    x, y = buffer("X", "input", "global", "grid", 10, 128), buffer("Y", "output", "global", "grid", 10, 128)
    p = buffer("P", "local", "shared", "block", 128)
    if "writes" in why:
        turn: tuple[Stmt, ...] = (staged(K, 2, "P", y, (put(y, K + 1, T, value=at(p, T)),)),)
    else:
        turn = (loop(Var("i", 0, 1), 0, 2, If(exprs(K - 3), (staged(K, 2, "P", x, (put(y, K, T, value=at(p, T)),)),))),)
    program = gpu("no", (), (x, y), [(Var("b", 0, 0), 1)], 4, loop(K, 0, 9, *turn))
    notes: list[str] = []
    done = pipeline_copies(program, notes.append)
    assert notes == [f"`pipeline` of `P`: {why}; one buffer"]
    assert [s.buffer.shape for s in all_statements(done) if isinstance(s, Alloc)] == [exprs(128)]


# ------------------------------------------------------------ what the author is told


GEMM = "import std.devices.cpu\nop gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n"
GEMM += "    C[m, n] = sum(k) A[m, k] * B[k, n]\nschedule s for gemm:\n"


def notes_of(lines: str, device: str = "cpu:avx2", where: str = "") -> str:
    mod = loads(GEMM.replace("for gemm:", f"for gemm{where}:") + lines)
    return "\n".join(compile_program(mod, mod.ops["gemm"], mod.schedules["s"], mod.device(device)).report["notes"])


def test_a_cache_is_not_filled_ahead():
    said = notes_of("    tile n: 64\n    tile k: 64 pipeline 2\n    move B -> l3\n    tile m: 4 -> core\n    compute\n")
    assert "`pipeline 2` of `B`: `l3` is a cache" in said


def test_a_pipeline_of_nothing():
    assert "`pipeline` of the tiles of `k`" in notes_of("    tile m: 4 -> core\n    tile k: 64 pipeline 2\n    compute\n")


@pytest.mark.parametrize(("k", "ahead"), [(480, True), (512, False)])
def test_a_copy_takes_a_quarter_of_the_registers_on_its_way(k: int, ahead: bool):
    """Of 255: 60 are fewer, 64 are more."""
    lines = f"    tile m: 8, n: 8 -> block\n    keep C in register\n    tile k: {k} pipeline 2\n    move A -> shared\n"
    said = notes_of(lines + "    move B -> shared\n    tile m: 1, n: 1 -> thread\n    compute\n", "sm_75")
    assert ("is more than a unit's registers hold" not in said) == ahead


def test_through_that_cannot_be_is_told():
    assert "3 iterations are no multiple" in compiled("through_odd")[1].report["notes"][0]
    assert "an asynchronous copy that it reads has one buffer" in compiled("through_awaited")[1].report["notes"][0]
    assert not compiled("through")[1].report["notes"]


def test_a_loop_that_does_not_change_what_is_moved():
    with pytest.raises(ModifierArgument, match="no loop above changes what is moved of `A`"):
        notes_of("    tile m: 4 -> core\n    tile n: 8\n    move A -> l2 pipeline 2\n    compute\n", where=" where K <= 64")


def test_all_buffers_count():
    text = (DEVICES / "pipelines.sched").read_text(encoding="utf-8").replace("tile k: 4 pipeline 4", "tile k: 400 pipeline 4")
    mod = loads((DEVICES / "simt.sched").read_text(encoding="utf-8") + text)
    with pytest.raises(CapacityExceeded, match="need 200 KiB") as error:
        compile_program(mod, mod.ops["gemm"], mod.schedules["async4"], mod.devices["simt"])
    assert "4 x 16 x 400 x f32" in error.value.note
    assert error.value.help == "`pipeline 3` would need 150 KiB"
