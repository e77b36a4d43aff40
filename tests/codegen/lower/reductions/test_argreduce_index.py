"""argmax and argmin: the first of equals, NaN before all, in whatever order elements are visited; how wide places are."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import Alloc
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

TEXT = """
import std.devices.cpu
op row[M, N](X: TYPE[M, N]) -> (Y: i64[M]):
    Y[i] = KIND(j) X[i, j]
op column[M, N](X: TYPE[M, N]) -> (Y: i64[N]):
    Y[j] = KIND(i) X[i, j]
op flat[M, N](X: TYPE[M, N]) -> (Y: i64[]):
    Y = KIND(i, j) X[i, j]
"""
AXES = {"row": 1, "column": 0, "flat": None}
SCHEDULES = {
    "lanes": ("row", "tile i: 1\nkeep Y in register\ntile j: 16\ntile j: 1 -> lane\ncompute"),
    "in runs": ("row", "tile i: 1\nkeep Y in register\ntile j: 48\ntile j: 2 every 16 -> lane\ncompute"),
    "by cores": ("row", "tile i: 1\nkeep Y in register\ntile j: 16 -> core\ntile j: 1 -> lane\ncompute"),
    "between loops": ("row", "tile i: 4\ntile j: 5\nkeep Y in register\ntile j: 1 -> lane\ncompute"),
    "scalar": ("row", "compute"),
    "down": ("column", "tile j: 8 -> core\nkeep Y in register\ntile i: 1\ntile j: 1 -> lane\ncompute"),
    "fused": ("flat", "fuse i, j as p\nkeep Y in register\ntile p: 16\ntile p: 1 -> lane\ncompute"),
    "fused the other way": ("flat", "fuse j, i as p\nkeep Y in register\ntile p: 16\ntile p: 1 -> lane\ncompute"),
    "columns first": ("flat", "keep Y in register\ntile j: 8\ntile i: 1\ntile j: 1 -> lane\ncompute"),
}


def module(op: str, lines: str, kind: str = "argmax", dtype: str = "f32", head: str = ""):
    text = TEXT.replace("TYPE", dtype).replace("KIND", kind)
    return loads(text + f"schedule s for {op}{head}:\n" + "".join(f"    {x}\n" for x in lines.split("\n")))


def program(name: str, **more: str):
    op, lines = SCHEDULES[name]
    mod = module(op, lines, **more)
    return compile_program(mod, mod.ops[op], mod.schedules["s"], mod.devices["cpu:avx2"]).program


def hard(shape: tuple[int, int], kind: str, seed: int) -> np.ndarray:
    """Equals, infinities, NaNs; in some rows nothing but what the reduction starts from."""
    rng = np.random.default_rng(seed)
    worst = -np.inf if kind == "argmax" else np.inf
    x = rng.integers(-2, 3, shape).astype("f4")
    x[rng.random(shape) < 0.3] = worst
    x[rng.random(shape) < 0.03] = np.nan
    x[::3] = worst
    return x


@pytest.mark.every_second
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_right(name: str, kind: str) -> None:
    prog = program(name, kind=kind)
    axis = AXES[SCHEDULES[name][0]]
    for shape in [(7, 83), (4, 16), (6, 5), (1, 1)]:
        for seed in range(3):
            x = hard(shape, kind, seed)
            want = (np.argmax if kind == "argmax" else np.argmin)(x, axis=axis)
            for cores in (1, 3):
                np.testing.assert_array_equal(interpret(prog, {"X": x}, finite={"cores": cores})["Y"], want)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32", "u8"])
def test_natively(dtype: str) -> None:
    mod = loads(TEXT.replace("TYPE", dtype).replace("KIND", "argmax"))
    for op, axis in AXES.items():
        kernel = compile(mod, op=op, target="cpu")
        element = kernel.op.inputs[0].dtype.numpy
        for shape in [(5, 131), (3, 64), (2, 1)]:
            x = hard(shape, "argmax", 1)
            x = x.astype(element) if dtype[0] == "f" else np.nan_to_num(x + 2, neginf=0).astype(element)
            for threads in (1, 2):
                np.testing.assert_array_equal(kernel(x, threads=threads), x.argmax(axis=axis))


def index_type(prog) -> str:
    """The type of the places that registers hold."""
    (found,) = {
        s.buffer.dtype.name for s in statements(prog.launches[0].body) if isinstance(s, Alloc) and "at" in s.buffer.name
    }
    return found


def test_width() -> None:
    """32 bits where that is proven to be enough, and where values are no wider."""

    def width(head: str, dtype: str = "f32") -> str:
        mod = module("row", SCHEDULES["lanes"][1], dtype=dtype, head=head)
        return index_type(compile_program(mod, mod.ops["row"], mod.schedules["s"], mod.devices["cpu:avx2"]).program)

    assert width("") == "i64"
    assert width(" where N <= 2147483647") == "i32"
    assert width(" where N <= 2147483648") == "i64"
    assert width(" where N <= 100", "f64") == "i64"
    assert width(" where N <= 100", "f16") == "i32"


def test_two_of_our_own() -> None:
    """With sizes left open there is a kernel for rows that can be counted in 32 bits, and one for all others."""
    mod = loads(TEXT.replace("TYPE", "f32").replace("KIND", "argmax"))
    kernel = compile(mod, op="row", target="cpu")
    assert [index_type(v.program) for v in kernel.variants] == ["i32", "i64"]
    assert [v.refusal({"M": 1, "N": 1 << 31}) is None for v in kernel.variants] == [False, True]
    assert [index_type(v.program) for v in compile(mod, op="row", target="cpu", N=64).variants] == ["i32"]
    assert [index_type(v.program) for v in compile(mod, op="row", target="cpu", N=1 << 31).variants] == ["i64"]


def test_ties_are_compared_only_where_places_may_shrink() -> None:
    def compares(name: str) -> bool:
        return "< y__at" in str(program(name))

    assert not compares("lanes")
    assert not compares("in runs")
    assert compares("fused the other way")
    assert compares("columns first")
