"""Loops that are parted where a bound takes hold: the first part does nothing but its work."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import Alloc, For, If, Stmt, Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.values import Masked, walk

TEXT = """
import std.devices.cpu
op twice[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = X[i] + X[i]
op top[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[i] = max(j) X[i, j]
op both[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = X[i, j] + X[i, j]
"""
SCHEDULES = {
    "rows": ("top", "tile i: 4 -> core\ntile i: 1\nkeep Y in register\ntile j: 16\ntile j: 1 -> lane"),
    "pieces": ("twice", "tile i: 64 -> core\ntile i: 16\ntile i: 1 -> lane"),
    "two bounds": ("both", "tile i: 4, j: 16 -> core\ntile i: 2, j: 8\ntile i: 1\ntile j: 1 -> lane"),
    "no guard": ("twice", "tile i: 1"),
}


def program(name: str, **sizes: int):
    op, lines = SCHEDULES[name]
    text = TEXT + f"schedule s for {op}:\n" + "".join(f"    {x}\n" for x in (*lines.split("\n"), "compute"))
    mod = loads(text)
    return mod, mod.ops[op], compile_program(mod, mod.ops[op], mod.schedules["s"], mod.devices["cpu:avx2"]).program


def guarded(body: tuple[Stmt, ...]) -> bool:
    """Whether anything in there asks for a bound."""
    values = [v for s in statements(body) if isinstance(s, Store) for v in walk(s.value)]
    return any(isinstance(s, If) for s in statements(body)) or any(isinstance(v, Masked) for v in values)


def neighbouring_loops(body: tuple[Stmt, ...]) -> list[tuple[For, For]]:
    """Neighbouring loops over the same variable."""
    blocks = [body, *(s.body for s in statements(body) if isinstance(s, For | Alloc | If))]
    pairs = [(a, b) for block in blocks for a, b in pairwise(block)]
    return [(a, b) for a, b in pairs if isinstance(a, For) and isinstance(b, For) and a.var == b.var]


@pytest.mark.parametrize(("name", "count"), [("rows", 1), ("pieces", 1), ("no guard", 0)])
def test_parted(name: str, count: int) -> None:
    _, _, prog = program(name)
    found = neighbouring_loops(prog.launches[0].body)
    assert len(found) == count
    for first, rest in found:
        assert first.stop == rest.start
        assert not guarded(first.body)
        assert guarded(rest.body)


@pytest.mark.every_second
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 16, 17, 64, 65, 81])
def test_right(name: str, n: int) -> None:
    _, op, prog = program(name)
    x = np.arange(5 * n, dtype="f4").reshape((5, n)) if len(op.inputs[0].shape) == 2 else np.arange(n, dtype="f4")
    want = x.max(1, initial=-np.inf) if op.name == "top" else x + x
    for cores in (1, 3):
        np.testing.assert_array_equal(interpret(prog, {"X": x}, finite={"cores": cores})["Y"], want)


def test_a_choice_of_an_outer_loop_is_made_before_the_loop_is_parted() -> None:
    """Rows see the keys up to their own: whole tiles have neither the test of the features' edge nor that of the diagonal."""
    text = """
    import std.devices.cpu
    op seen[N, D](p: f32[N, N], v: f32[N, D]) -> (Y: f32[N, D]):
        Y[i, d] = sum(t where t <= i) p[i, t] * v[t, d]
    schedule s for seen:
        tile i: 16 -> core
        tile d: 6
        keep Y in register
        tile t: 1
        tile i: 1 -> lane
        compute
    """
    mod = loads(dedent(text))
    for n, d in ((48, 8), (1, 1), (0, 3), (33, 13)):
        op = specialise(mod.ops["seen"], {"N": n, "D": d})
        prog = compile_program(mod, op, mod.schedules["s"], mod.devices["cpu:avx2"]).program
        found = neighbouring_loops(prog.launches[0].body)
        assert n != 48 or any(not guarded(first.body) and guarded(rest.body) for first, rest in found)
        rng = np.random.default_rng(n)
        p, v = rng.integers(-3, 4, (n, n)).astype("f4"), rng.integers(-3, 4, (n, d)).astype("f4")
        (got,) = interpret(prog, {"p": p, "v": v}, finite={"cores": 2}).values()
        np.testing.assert_array_equal(got, np.tril(p) @ v)
