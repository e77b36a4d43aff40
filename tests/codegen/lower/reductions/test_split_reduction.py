"""Reductions shared by units: through registers, through a memory, through a workspace, by atomics. All give the whole."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import AllReduce, Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import CannotMeet, NotYet
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

TEXT = """
import std.devices.cpu
op total[N](X: f32[N]) -> (Y: f32[]):
    Y[] = sum(i) X[i]
op mean[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[i] = (sum(j) X[i, j]) / f32(N)
op place[N](X: f32[N]) -> (Y: i64[]):
    Y[] = argmax(i) X[i]
"""
SCHEDULES = {
    "lanes": ("total", ["keep Y in register", "tile i: 32", "tile i: 1 -> lane", "compute"]),
    "memory": ("total", ["keep Y in register", "tile i: 64 -> core", "tile i: 1 every 8 -> lane", "compute"]),
    "memory, place": ("place", ["keep Y in register", "tile i: 64 -> core", "tile i: 16", "tile i: 1 -> lane", "compute"]),
    "workspace": ("total", ["tile i: 64 -> core by workspace", "keep Y in register", "tile i: 1", "compute"]),
    "workspace, epilogue": ("mean", ["tile j: 16 -> core by workspace", "compute"]),
    "atomic": ("total", ["tile i: 64 -> core by atomic", "keep Y in register", "tile i: 1", "compute"]),
    "atomic, epilogue": ("mean", ["tile j: 16 -> core by atomic", "compute"]),
}
LAUNCHES = {"workspace": 2, "workspace, epilogue": 2, "atomic": 2, "atomic, epilogue": 3}


def module(name: str):
    op, lines = SCHEDULES[name]
    return loads(TEXT + f"schedule s for {op}:\n" + "".join(f"    {x}\n" for x in lines)), op


def arguments(op: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    return rng.integers(-8, 9, (3, n) if op == "mean" else n).astype("f4")  # exact sums: every order gives the same bits


def wanted(op: str, x: np.ndarray) -> np.ndarray:
    if op == "place":
        return np.asarray(x.argmax(), "i8")
    return x.sum(dtype="f8").astype("f4") if op == "total" else (x.sum(1) / np.float32(x.shape[1])).astype("f4")


@pytest.mark.parametrize("name", SCHEDULES)
def test_right(name: str) -> None:
    mod, op = module(name)
    program = compile_program(mod, mod.ops[op], mod.schedules["s"], mod.devices["cpu:avx2"]).program
    assert len(program.launches) == LAUNCHES.get(name, 1)
    for n in (333, 64, 1, *((0,) if op == "total" else ())):
        for cores in (1, 3):
            x = arguments(op, n)
            (y,) = interpret(program, {"X": x}, finite={"cores": cores}).values()
            np.testing.assert_array_equal(y, wanted(op, x))


@pytest.mark.parametrize("name", SCHEDULES)
def test_natively(name: str) -> None:
    mod, op = module(name)
    kernel = compile(mod, op=op, schedule="s", target="cpu")
    for n in (100_003, 5):
        x = arguments(op, n)
        for threads in (1, 2):
            np.testing.assert_array_equal(kernel(x, threads=threads), wanted(op, x))


def test_what_combines_them() -> None:
    def kinds(name: str) -> tuple[int, int]:
        mod, op = module(name)
        program = compile_program(mod, mod.ops[op], mod.schedules["s"], mod.devices["cpu:avx2"]).program
        every = [s for x in program.launches for s in statements(x.body)]
        return sum(isinstance(s, AllReduce) for s in every), sum(isinstance(s, Store) and s.atomic == "sum" for s in every)

    assert kinds("lanes") == (1, 0)
    assert kinds("workspace")[1] == 0
    assert kinds("atomic") == (0, 1)


@pytest.mark.parametrize(
    "lines", [["tile i: 8 -> block"], ["tile i: 8", "tile i: 2 -> block"], ["tile i: 8 -> block", "tile i: 1 -> thread"]]
)
def test_no_block_reads_what_all_make(lines: list[str]) -> None:
    """Blocks do not wait for each other, so a sum over them and what reads it are no matter of one launch."""
    text = """
import std.devices.nvidia
op f[M](A: f32[M]) -> (Y: f32[M]):
    e[i] = exp(A[i])
    total = sum(i) e[i]
    Y[i] = e[i] / total
schedule s for f on sm_80:
"""
    mod = loads(text + "".join(f"    {x}\n" for x in [*lines, "keep e in register", "compute"]))
    with pytest.raises(CannotMeet, match="`Y` needs what every block makes of `total`") as caught:
        compile_program(mod, mod.ops["f"], mod.schedules["s"], mod.device("sm_80"))
    assert caught.value.span
    assert caught.value.help


def test_a_reduction_is_split_over_units_that_cannot_meet_once() -> None:
    text = TEXT + "schedule s for mean:\n    tile j: 16 -> core by workspace\n    tile j: 4 -> core by workspace\n"
    mod = loads(text)
    with pytest.raises(NotYet, match="split a second time") as error:
        compile_program(mod, mod.ops["mean"], mod.schedules["s"], mod.device("cpu:avx2"))
    assert error.value.labels


@pytest.mark.parametrize("split", ["atomic", "workspace"])
def test_an_index_of_a_maximum_is_not_split_over_units_that_cannot_meet(split: str) -> None:
    """The way out is not the other kind of split."""
    text = f"op f[N](X: f32[N]) -> (y: i32[]):\n    y = argmax(n) X[n]\nschedule s for f:\n    tile n: 8 -> block by {split}\n"
    mod = loads(text)
    with pytest.raises(NotYet, match="`argmax` cannot be split over units without a barrier yet") as caught:
        compile_program(mod, mod.ops["f"], mod.schedules["s"], mod.device("sm_80"))
    assert (caught.value.help or "").startswith("distribute another index here")


@pytest.mark.parametrize("n", [0, 1, 2, 17])
@pytest.mark.parametrize(("device", "memory", "unit"), [("cpu:avx2", "l3", "core"), ("sm_80", "shared", "block")])
def test_two_sums_that_one_line_splits(device: str, memory: str, unit: str, n: int) -> None:
    """They share the loops, and read what the launch computes above them: each unit stores a part of both."""
    module = loads(
        "op f[M, N](A: f32[M, N]) -> (Y: f32[]):\n    t[m, n] = sum(r: 5) A[m, n]\n"
        "    Y = sum(m) ((sum(n) t[m, n]) + (sum(n) t[m, n]))\n"
        "schedule s for f where M <= 4, N <= 64:\n    {}tile n: 1 -> {} by workspace\n".format(
            f"keep t in {memory}\n    " if memory == "l3" else "", unit
        )
    )
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    a = np.arange(3 * n, dtype="f4").reshape(3, n)
    got = interpret(program, {"A": a}, {"M": 3, "N": n}, {level: 3 for level, _ in program.finite})["Y"]
    assert got == 10 * a.sum()
