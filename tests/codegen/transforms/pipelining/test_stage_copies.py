"""Pipelines: copies made ahead are right at every number of turns, wait no longer than they must, and take one barrier a turn.

The interpreter is the oracle: it reports reads of what was not waited for, races, and copies under way to memory given up.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from random import Random

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Commit, For, If, Let, Staging, Stmt, Wait
from andiron.codegen.ir.tile_visitors import map_bodies, map_places, statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.transforms.pipelining.stage_copies import stage_copies
from andiron.dsl.errors import UserError
from andiron.dsl.errors.schedule import CapacityExceeded, ModifierArgument
from andiron.dsl.index.expr import Expr, Fn, Var, as_expr
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference

from ....support.gpu.compilers import cuda, hip, toolchain
from ....support.gpu.emulate import run as run_emitted
from ....support.paths import DEVICES
from ....support.tile_programs import add, at, buffer, exprs, gpu, loop, put

# schedule -> how much of the reduction is a turn, and how many buffers it has at most
PIPELINES = {
    "sync2": (4, 2), "sync3": (4, 3), "async2": (4, 2), "async3": (4, 3), "async4": (4, 4), "mixed": (4, 3), "mixed2": (4, 4),
    "one": (4, 3), "none": (4, 1), "nested": (4, 2), "nested_async": (4, 3), "regs": (4, 2), "through": (4, 2),
    "through_async": (4, 3), "through4": (4, 4), "through_single": (4, 2), "through_odd": (3, 2), "only_regs": (1, 3),
    "reg_and_shared": (4, 2), "peel": (4, 2), "peel_async": (4, 3), "split": (4, 3), "split_warp": (4, 2), "lift": (4, 2),
    "first_last": (4, 2), "first_last2": (4, 2), "prologue": (4, 2), "hop": (8, 2), "idle": (4, 2), "strip": (32, 2),
    "mma": (32, 4),
}  # fmt: skip


OPS = (DEVICES / "pipelines.sched").read_text(encoding="utf-8").partition("schedule ")[0]


@lru_cache(maxsize=2)
def module(device: str = "simt") -> Module:
    text = (DEVICES / "pipelines.sched").read_text(encoding="utf-8")
    if device == "simt":
        return loads((DEVICES / "simt.sched").read_text(encoding="utf-8") + text)
    vendor, level = ("nvidia", "warp") if device.startswith("sm") else ("amd", "wave")
    return loads(f"import std.devices.{vendor}\n" + text.replace("on simt", f"on {device}").replace("-> warp", f"-> {level}"))


@lru_cache(maxsize=50)
def compiled(name: str, device: str = "simt"):
    mod = module(device)
    op = bind_params(mod.ops[mod.schedules[name].op], {})
    return op, compile_program(mod, op, mod.schedules[name], mod.device(device))


def sizes_of(op, k: int, m: int = 19) -> dict[str, int]:
    return {"M": 3, "N": k} if op.name == "rowsum" else {"M": m, "N": m + 1, "K": k}


def inputs(op, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {t.name: [e.evaluate(sizes) for e in t.shape] for t in op.inputs}
    return {t.name: rng.integers(-3, 4, shapes[t.name]).astype(t.dtype.numpy) for t in op.inputs}


def faults(program: Program, op, sizes: dict[str, int]) -> set[str]:
    """What the interpreter finds, and whether the result is wrong."""
    found: list = []
    arrays = inputs(op, sizes)
    (out,) = interpret(program, arrays, sizes=sizes, on_fault=found).values()
    right = np.array_equal(out.astype("f8"), np.asarray(reference(op)(*arrays.values()), "f8"))
    return {f.kind for f in found} | (set() if right else {"wrong"})


@pytest.mark.parametrize("name", PIPELINES)
def test_right_at_every_number_of_turns(name):
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    for k in sorted({0, 1, tile - 1, *(tile * n for n in range(1, depth + 3)), tile * depth + 1}):
        for m in (1, 16, 19):
            assert not faults(result.program, op, sizes_of(op, k, m)), (k, m)


CASES = int(os.environ.get("FUZZ", "40"))


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


# ------------------------------------------------------------ as few as needed, and none to spare

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


def edited(p: Program, edit: Callable[[Stmt], list[Stmt]]) -> Program:
    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(x for s in stmts for x in edit(map_bodies(s, body)))

    return replace(p, launches=tuple(replace(x, body=body(x.body)) for x in p.launches))


def main_loops(p: Program) -> list[For]:
    """Loops with barriers in them."""
    return [s for s in _all(p) if isinstance(s, For) and any(map(meets, statements(s.body)))]


def meets(s: Stmt) -> bool:
    """Is it a barrier of the block? (Those of lockstep units mean nothing to the interpreter.)"""
    return isinstance(s, Barrier) and s.level == "block"


@pytest.mark.parametrize("name", ONE_A_TURN)
def test_one_barrier_a_turn(name):
    (turn,) = main_loops(compiled(name)[1].program)
    assert sum(map(meets, statements(turn.body))) == 1


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
    total = sum(map(meets, _all(result.program)))
    for n in range(total):
        seen = iter(range(total))
        less = edited(result.program, lambda s, n=n, seen=seen: [] if meets(s) and next(seen) == n else [s])
        assert "race" in faults(less, op, sizes_of(op, tile * (depth + 2), 15)), f"barrier {n} of {name}"


@pytest.mark.parametrize("name", WAITING)
def test_each_wait_is_as_long_as_it_must_be(name):
    """Without it, or with one more group under way, something is read that has not arrived."""
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    total = sum(isinstance(s, Wait) for s in _all(result.program))
    assert total
    for n in range(total):
        for weaker in (lambda s: [], lambda s: [replace(s, pending=s.pending + 1)]):
            seen = iter(range(total))

            def edit(s: Stmt, n=n, seen=seen, weaker=weaker) -> list[Stmt]:
                return weaker(s) if isinstance(s, Wait) and next(seen) == n else [s]

            found = faults(edited(result.program, edit), op, sizes_of(op, tile * (depth + 3), 15))
            assert "in-flight" in found, f"wait {n} of {name}"


@pytest.mark.parametrize("name", ["sync2", "async2", "async3", "async4", "mixed", "through", "through_async", "mma"])
def test_no_buffer_is_to_spare(name):
    """With one less than there are, turns that are under way together meet in one."""
    op, result = compiled(name)
    tile, depth = PIPELINES[name]
    many = {b.name: b.shape[0] for s in _all(result.program) if isinstance(s, Alloc) and (b := s.buffer).memory == "shared"}

    def fewer(e: Expr, n: int) -> Expr:
        """`x % n` as `x % (n - 1)`; other numbers of buffers are below n."""
        if len(e.terms) == 1 and isinstance(f := e.terms[0][0], Fn) and f.kind == "mod" and f.args[1] == as_expr(n):
            return f.args[0] % (n - 1)
        return e % (n - 1)

    slots = {s.var: s.value for s in _all(result.program) if isinstance(s, Let) and s.var.name.startswith("slot")}

    def place(buffer: str, coords: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if buffer not in many:
            return coords
        return fewer(coords[0].subs(slots), many[buffer].constant or 0), *coords[1:]

    p = result.program
    less = replace(p, launches=tuple(replace(x, body=map_places(x.body, place)) for x in p.launches))
    assert faults(less, op, sizes_of(op, tile * (depth + 3), 15))


def _all(p: Program) -> list[Stmt]:
    return [s for x in p.launches for s in statements(x.body)]


# ------------------------------------------------------------ what it becomes


def test_copies_that_stand_together_are_one_group():
    """Not made ahead, but under way at once."""
    p = compiled("none")[1].program
    assert sum(isinstance(s, Commit) for s in _all(p)) == sum(isinstance(s, Wait) for s in _all(p)) == 1


def test_a_synchronous_copy_waits_in_registers():
    """Loads before the turn's work, stores after it."""
    p = compiled("sync2")[1].program
    (turn,) = main_loops(p)
    text = str(replace(p, launches=(replace(p.launches[0], body=turn.body),)))
    load, meet, work, store = (text.index(x) for x in ("a_shared_ahead[] = (A[", "barrier", "fma(", "] = a_shared_ahead[]"))
    assert load < meet < work < store


def test_the_last_hop_is_the_one_written():
    p = compiled("hop")[1].program
    held = {s.buffer.name for s in _all(p) if isinstance(s, Alloc) and s.buffer.memory == "register"}
    assert "a_shared_ahead" not in held
    assert "b_shared_ahead" in held


def test_registers_rotate_by_name():
    """A loop of unknown length is written out as many turns at a time as there are buffers."""
    p = compiled("only_regs")[1].program
    unrolled = [(str(s.stop), s.unroll) for s in _all(p) if isinstance(s, For) and s.var.name.endswith("_turn")]
    assert set(unrolled) == {("3", 0)}
    assert "a_0_0" in emit(p, "cuda")
    assert "float a[" not in emit(p, "cuda")


def test_fixed_sizes_take_no_more_buffers_than_turns():
    from andiron.dsl.ops.specialise import specialise

    mod = module()
    op = specialise(mod.ops["gemm"], {"K": 8})
    p = compile_program(mod, op, mod.schedules["async4"], mod.devices["simt"]).program
    assert {str(s.buffer.shape[0]) for s in _all(p) if isinstance(s, Alloc) and s.buffer.memory == "shared"} == {"2"}
    one = compile_program(mod, specialise(mod.ops["gemm"], {"K": 4}), mod.schedules["async4"], mod.devices["simt"]).program
    assert not main_loops(one)


def test_lifted_out_of_a_loop_that_does_not_change_it():
    p = compiled("lift")[1].program
    inner = next(s for s in _all(p) if isinstance(s, For) and s.var.name.startswith("n") and "b_shared" in str(s.body))
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


def test_copies_apart_in_one_turn():
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
    done = place_barriers(stage_copies(program, notes.append))
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
    done = stage_copies(program, notes.append)
    assert notes == [f"`pipeline` of `P`: {why}; one buffer"]
    assert [s.buffer.shape for s in _all(done) if isinstance(s, Alloc)] == [exprs(128)]


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


def test_through_that_cannot_be_is_told():
    assert "3 iterations are no multiple" in compiled("through_odd")[1].report["notes"][0]
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


# ------------------------------------------------------------ text

EMITTED = ["sync2", "sync3", "regs", "through", "only_regs", "reg_and_shared", "peel", "split_warp", "lift", "hop", "idle"]


@pytest.mark.parametrize("name", EMITTED)
def test_emitted_text_is_right(name, tmp_path):
    op, result = compiled(name)
    for k in (0, 4, 27):
        sizes = sizes_of(op, k)
        folder = tmp_path / str(k)
        folder.mkdir()
        arrays = inputs(op, sizes)
        (out,) = run_emitted(result.program, arrays, sizes, folder).values()
        np.testing.assert_array_equal(out, reference(op)(*arrays.values()))


@pytest.mark.parametrize("name", ["sync2", "async4", "mixed2", "through_async", "through4", "only_regs", "split", "prologue"])
def test_nvidia_takes_it(name, tmp_path):
    cuda(emit(compiled(name, "sm_80")[1].program, "cuda"), tmp_path)


@pytest.mark.parametrize("name", ["sync2", "sync3", "regs", "through", "only_regs", "split_warp", "prologue", "hop"])
def test_amd_takes_it(name, tmp_path):
    hip(emit(compiled(name, "gfx90a")[1].program, "hip"), tmp_path)


def test_four_stages_spill_nothing(tmp_path):
    mod = loads((DEVICES / "gpu_sketches.sched").read_text(encoding="utf-8"))
    p = compile_program(mod, mod.ops["hgemm"], mod.schedules["ampere"], mod.device("sm_80")).program
    found = toolchain("cuda", "sm_80")
    if isinstance(found, str):
        pytest.skip(found)
    for usage in found.make(emit(p, "cuda"), "sm_80", "cubin", tmp_path).usage:
        assert usage.spills == usage.stack == 0
        assert usage.registers <= 255
