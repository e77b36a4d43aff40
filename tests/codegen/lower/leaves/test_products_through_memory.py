"""What a product makes is no operand of the next one as it lies (RDNA3: lanes read all of an operand, and have half of a
result): it goes through a memory. Which lines say so, and what the others are told."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import within_bounds

OP = """
op f[G, Q, T, D](q: f16[G, Q, D], k: f16[T, D], v: f16[T, D]) -> (o: f32[G, Q, D]):
    s[g, i, t] = sum(d) f32(q[g, i, d]) * f32(k[t, d])
    m[g, i] = max(t) s[g, i, t]
    p[g, i, t] = exp(s[g, i, t] - m[g, i])
    l[g, i] = sum(t) p[g, i, t]
    o[g, i, d] = (sum(t) f32(f16(p[g, i, t])) * f32(v[t, d])) / l[g, i]
"""
HEAD = """schedule s for f on gfx1100:
    tile g: {g}, i: {i} -> block
    keep m, l, o in register
    move q -> shared
    tile t: 32 online
    move k -> shared
    move v -> shared
    tile {rows}: 16 -> wave
    keep s in register:
        tile d: 16 unroll
        compute with wmma_16x16x16_f16
    tile t: 16 unroll
"""
RIGHT = {
    "the operand alone": ["keep o.left1 in shared"],
    "the operand, of what lies in registers": ["keep p in register", "keep o.left1 in shared"],
    "all that is computed": ["keep p in shared"],
    "both": ["keep p in shared", "keep o.left1 in shared"],
}
SIZES = ((3, 35, 41), (1, 32, 64), (1, 1, 1), (17, 3, 70))


def text_of(lines: list[str], rows: str = "i") -> str:
    head = HEAD.format(g=1, i=32, rows="i") if rows == "i" else HEAD.format(g=16, i=1, rows="g")
    return OP + head + "".join(f"    {x}\n" for x in (*lines, "compute with wmma_16x16x16_f16"))


def program_of(lines: list[str], rows: str = "i") -> Program:
    module = loads(text_of(lines, rows))
    op = specialise(module.ops["f"], {"D": 32})
    return compile_program(module, op, module.schedules["s"], module.device("gfx1100")).program


@pytest.mark.fewest
@pytest.mark.parametrize("rows", ["i", "g"])
@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, rows: str) -> None:
    text = text_of(RIGHT[name], rows)
    kernel = compile(text, op="f", schedule="s", target="emulate:gfx1100", sizes={"D": 32})
    assert kernel.source.count("i__wmma_16x16x16_f16(") > 2
    rng, op = np.random.default_rng(4), specialise(loads(text).ops["f"], {"D": 32})
    for g, q, t in SIZES:
        inputs = [rng.standard_normal(shape).astype(np.float16) for shape in ((g, q, 32), (t, 32), (t, 32))]
        within_bounds(op, (kernel(*inputs),), inputs)


@pytest.mark.parametrize("lines", [[], ["keep p in register"], ["keep o.left1 in register"]], ids=str)
def test_what_no_unit_has_is_refused_with_the_line_that_shares_it(lines: list[str]) -> None:
    with pytest.raises(UserError, match=r"is held in registers as `i = 2\*r \+ lane/16, t = lane % 16`") as caught:
        program_of(lines)
    assert caught.value.help is not None
    assert "write `keep o.left1 in shared`" in caught.value.help
    assert program_of([*(x for x in lines if "left1" not in x), "keep o.left1 in shared"])


@pytest.mark.parametrize(
    "lines",
    [
        ["move o.left1 -> shared"],
        ["keep p in register", "move o.left1 -> shared"],
        ["keep p in register", "keep o.left1 in shared:\n        compute"],
        ["move p -> shared"],
    ],
    ids=" ".join,
)
def test_a_pass_computes_what_follows_a_running_value(lines: list[str]) -> None:
    with pytest.raises(UserError, match="is made here, and") as caught:
        program_of(lines)
    name = lines[-1].split()[1]
    assert f"write `keep {name} in shared`, without a block" in (caught.value.help or "")


def test_a_move_to_registers_of_what_is_computed_is_a_keep() -> None:
    with pytest.raises(UserError, match="as the lines below spread it") as caught:
        program_of(["move o.left1 -> register"])
    assert "write `keep o.left1 in register` without a block" in (caught.value.help or "")


def test_what_is_in_a_memory_is_not_to_be_moved_there() -> None:
    module = loads(text_of(["keep p in shared"]).replace("keep m, l, o in register", "keep m, l, o in shared"))
    with pytest.raises(UserError, match="`l` has two register layouts") as caught:
        compile_program(module, specialise(module.ops["f"], {"D": 32}), module.schedules["s"], module.device("gfx1100"))
    assert "or hold it in registers as well" in (caught.value.help or "")


@pytest.mark.parametrize("rows", ["i", "g"])
def test_an_instruction_takes_the_rows_that_a_tile_has(rows: str) -> None:
    """`g` and `i` are the same to it; a tile has 16 of one, and 1 of the other."""
    with pytest.raises(UserError, match=rf"`p` is held in registers as `{rows} = 2\*r"):
        program_of(["keep p in register"], rows)


def test_lanes_that_an_instruction_numbers_get_no_tiles() -> None:
    module = loads(text_of(["tile i: 1 -> thread"]).rpartition(" with ")[0] + "\n")
    op = specialise(module.ops["f"], {"D": 32})
    with pytest.raises(UserError, match="an instruction says which `thread` holds what") as caught:
        compile_program(module, op, module.schedules["s"], module.device("gfx1100"))
    assert caught.value.help == "leave the line out: what is computed of these values lies as they do"
