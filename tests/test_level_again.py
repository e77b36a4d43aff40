"""Lines that deal to a level where the focus is already: two lines multiply, a block has only the unit that it is for."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import BadLayout, LevelOrder
from andiron.dsl.module import loads
from andiron.dsl.ops.bind_op import specialise

OP = """
op double[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[m, n] = 2 * X[m, n]
op total[N](X: f32[N]) -> (Y: f32[]):
    Y = sum(n) X[n]
"""


def program(lines: str, device: str, op: str = "double", **sizes: int):
    body = "".join(f"    {x}\n" for x in lines.split("\n"))
    module = loads(f"{OP}schedule s for {op}:\n{body}")
    return compile_program(module, specialise(module.ops[op], sizes), module.schedules["s"], module.device(device)).program


@pytest.mark.parametrize(
    ("device", "lines"),
    [
        ("gfx90a", "tile m: 2 -> wave\ntile m: 1 -> wave arrange u: m = u"),
        ("gfx90a", "tile m: 2 -> wave\ntile m: 1 -> wave arrange u: m = 1 - u"),
        ("cpu:avx2", "tile m: 1 -> lane\ntile n: 3 -> lane arrange u: n = 2 - u"),
        ("sm_80", "tile m: 2 -> warp\ntile n: 1 -> thread\ntile m: 1 -> thread arrange u: m = 1 - u"),
        ("sm_80", "tile m: 2 -> warp\ntile m: 1, n: 4 -> warp arrange u: m = u % 2, n = u / 2\ntile n: 1 -> thread"),
    ],
)
@pytest.mark.parametrize("shape", [(3, 7), (4, 8), (3, 9)])
def test_arrange_is_over_the_tiles_of_its_own_line(device: str, lines: str, shape: tuple[int, int]) -> None:
    p = program(lines, device, M=shape[0], N=shape[1])
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    np.testing.assert_array_equal(interpret(p, {"X": x})["Y"], 2 * x)


@pytest.mark.parametrize(
    ("device", "lines"),
    [
        ("cpu:avx2", "tile n: 8\ntile n: 1 -> lane\nmove X -> l3:\n    tile m: 1 -> lane"),
        ("cpu:avx2", "tile m: 4, n: 8 -> core\nmove X -> l2:\n    tile m: 1 -> core"),
        ("sm_80", "tile m: 4, n: 8 -> block\nmove X -> shared:\n    tile m: 1 -> block"),
        ("sm_80", "tile m: 4, n: 8 -> block\ntile m: 2 -> warp\nkeep Y in register:\n    tile n: 1 -> warp"),
    ],
)
def test_a_block_has_no_other_unit_of_the_level_in_focus(device: str, lines: str) -> None:
    with pytest.raises(LevelOrder, match="no other takes part") as caught:
        program(lines, device, M=4, N=8)
    assert caught.value.span is not None
    assert caught.value.span.source.line(caught.value.span.line).strip().startswith("tile")


def test_a_tensor_without_axes_has_no_rows_to_swizzle() -> None:
    with pytest.raises(BadLayout, match="a row of 1 elements"):
        program("keep Y in l3 swizzle (1, 2)", "cpu:avx2", "total")
