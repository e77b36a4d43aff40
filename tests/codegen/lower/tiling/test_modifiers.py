"""Modifiers that change the shape of loops and nothing else: peel, vector, order, unroll."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import For
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

OP = """
op add[M, N](X: f32[M, N], Z: f32[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = X[i, j] + Z[i, j]
schedule s for add:
"""
LINES = {
    "peel": ["tile i: 1 -> core", "tile j: 64 peel", "compute vector 8"],
    "peel both": ["tile i: 4, j: 8 peel"],
    "vector tile": ["tile i: 1 -> core", "tile j: 32 vector 8"],
    "vector above cores": ["tile j: 8 vector 8", "tile i: 1 -> core"],
    "vector above cores in rows": ["tile j: 8 vector 8", "tile i: 4", "tile i: 1 -> core", "tile i: 1 -> core"],
    "two vectors above cores": ["tile i: 4 vector 2", "tile j: 8 vector 4", "tile j: 4 -> core"],
    "numbers left open": [
        "tile i: 8, j: 24 unroll auto",
        "move X -> l3 pad auto pipeline auto",
        "tile j: 12 -> core vector auto",
    ],
    "no vector fits": ["tile i: 3 unroll auto", "tile j: 5 vector auto"],
    "order": ["tile i: 4, j: 8 order j, i"],
    "unroll": ["tile i: 4 unroll", "tile j: 8 unroll 4"],
    "unroll all of an open number": ["tile i: 1 -> core", "tile j: 1 unroll"],
}


def program(name: str):
    mod = loads("import std.devices.cpu\n" + OP + "".join(f"    {x}\n" for x in LINES[name]))
    return compile_program(mod, mod.ops["add"], mod.schedules["s"], mod.devices["cpu:avx2"]).program


@pytest.mark.parametrize("name", LINES)
def test_right(name: str) -> None:
    p = program(name)
    for shape in ((33, 101), (1, 1), (4, 64), (0, 5), (5, 0)):
        x, z = (np.random.default_rng(n).standard_normal(shape).astype("f4") for n in (1, 2))
        (y,) = interpret(p, {"X": x, "Z": z}, finite={"cores": 2}).values()
        np.testing.assert_array_equal(y, x + z)


def test_peeled_loop_has_no_guards() -> None:
    loops = [s for s in statements(program("peel").launches[0].body) if isinstance(s, For) and s.var.name.startswith("j")]
    whole = loops[0]
    assert not any(type(s).__name__ == "If" for s in statements(whole.body))


def test_vector_goes_to_lanes() -> None:
    assert [str(u.count) for u in program("vector tile").launches[0].units if u.level == "lane"] == ["8"]


def test_lanes_are_those_of_the_units_below() -> None:
    """Each core has its own; a core that is not the first would otherwise have nothing to do."""
    text = str(program("vector above cores"))
    assert "if core == 0" not in text
    assert text.index("-> core") < text.index("-> lane")


def test_numbers_left_open_are_printed() -> None:
    assert "auto" not in program("numbers left open").head
    assert "unroll 4" in program("numbers left open").head


def test_order_puts_the_first_named_outermost() -> None:
    loops = [s.var.name for s in statements(program("order").launches[0].body) if isinstance(s, For)]
    assert loops[0].startswith("j")


def test_some_iterations_of_an_open_number_are_unrolled() -> None:
    (loop,) = (
        s for s in statements(program("unroll all of an open number").launches[0].body) if isinstance(s, For) and s.unroll != 1
    )
    assert loop.unroll == 8
