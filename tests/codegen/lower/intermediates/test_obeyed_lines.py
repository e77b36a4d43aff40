"""A line that nothing in its launch obeys is refused: what it is about is computed by the block of a line above."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

CHAIN = """op f[M, N, K](A: f32[M, K], B: f32[K, N], V: f32[N, 32]) -> (Y: f32[M, 32]):
    s[m, n] = sum(k) A[m, k] * B[k, n]
    Y[m, d] = sum(n) s[m, n] * V[n, d]
schedule s for f:
    tile m: 8 -> core
    keep Y in l2
    tile n: 16
    keep s in l1:
        tile m: 1
        keep s in register
        tile k: 4
{line}    tile m: 1
    keep Y in register
    tile n: 1
    compute
"""


def lowered(line: str) -> None:
    module = loads(CHAIN.format(line=f"    {line}\n" if line else ""))
    compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))


def test_each_line_has_an_effect() -> None:
    lowered("")
    lowered("move V -> l1")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tile k: 4", "no statement has `k` here"),
        ("tile k: 4, d: 8", "no statement has `k` here"),
        ("move A -> l1", "no statement reads `A` here"),
        ("keep s in register", "no statement computes `s` here"),
    ],
)
def test_a_line_about_what_a_block_above_computes(line: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        lowered(line)
    assert raised.value.span is not None
    assert raised.value.span.text == line
    assert raised.value.help == "the block of `keep s` computes what has it: write this line there, or leave it out"


READ_IN_A_BLOCK = """op f[M](A: f32[M, 64], B: f32[64, 64]) -> (Y: f32[M, 64]):
    s[i, k] = {s}
    t[i, k] = s[i, k] * s[i, k]
    Y[i, n] = sum(k) t[i, k] * B[k, n]
schedule s for f:
    tile i: 8 -> core
{above}    keep t in l2:
{inside}        tile i: 1
    tile i: 1
    tile n: 8
    keep Y in register
    tile k: 1
    compute
"""


@pytest.mark.parametrize(
    ("s", "then"),
    [
        ("A[i, k] * 2.0", "`s` then is recomputed where it is read"),
        ("sum(q) A[i, q] * B[q, k]", "`s` then has a launch of its own"),
    ],
)
def test_a_block_keeps_nothing_of_what_it_reads(s: str, then: str) -> None:
    def compiled(above: str, inside: str) -> None:
        module = loads(READ_IN_A_BLOCK.format(s=s, above=above, inside=inside))
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))

    with pytest.raises(UserError, match="the block of `keep t` computes `t` alone") as raised:
        compiled("", "        keep s in l1\n")
    assert raised.value.span is not None
    assert raised.value.span.text == "keep s in l1"
    assert then in (raised.value.help or "")
    with pytest.raises(UserError, match="`t` is made here, and `s`, which it reads, by the lines below") as raised:
        compiled("    keep s in l1\n", "")
    assert raised.value.help == "give the line above that keeps `s` a block: `keep s in l1:`"
    compiled("    keep s in l1:\n        tile i: 1\n", "")
    compiled("", "")


ATTENTION = """op f[M, N, D](Q: f32[M, D], K: f32[N, D], V: f32[N, D]) -> (o: f32[M, D]):
    s[i, j] = sum(d) Q[i, d] * K[j, d]
    top[i] = max(j) s[i, j]
    p[i, j] = exp(s[i, j] - top[i])
    l[i] = sum(j) p[i, j]
    o[i, d] = (sum(j) p[i, j] * V[j, d]) / l[i]
schedule s for f:
    tile i: 8 -> block
    tile j: 8 online
    tile j: 4
    keep s in {memory}:
{inside}    tile i: 1 -> thread
"""


@pytest.mark.parametrize(
    ("memory", "inside"),
    [("register", ("tile i: 1 -> thread", "move Q -> register")), ("shared", ("tile d: 4", "move K -> shared"))],
)
def test_a_line_of_a_block_has_an_effect_in_one_of_its_nests(memory: str, inside: tuple[str, ...]) -> None:
    """Each reduction below the inner tile has a nest, and the block serves all of them."""
    text = ATTENTION.format(memory=memory, inside="".join(f"        {x}\n" for x in inside))
    kernel = compile(loads(text), op="f", schedule="s", target="emulate:sm_80", sizes={"M": 16, "N": 32, "D": 16})
    q, k, v = np.random.default_rng(0).standard_normal((3, 32, 16), dtype=np.float32)
    q = q[:16]
    p = np.exp(q.astype(float) @ k.T - (q @ k.T).max(1, keepdims=True))
    out = kernel(q, k, v, out=np.full((16, 16), np.nan, np.float32))
    np.testing.assert_allclose(out, p @ v / p.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


HEAD = CHAIN[: CHAIN.index("schedule")]


@pytest.mark.parametrize(
    ("lines", "device", "line"),
    [
        (("tile d: 8", "auto"), "cpu:avx2", "line 5, `tile d: 8`"),
        (("tile d: 8", "auto"), "sm_80", "line 5, `tile d: 8`"),
        (("keep s in dram:", "    tile d: 8 -> core", "    auto"), "cpu:avx2", "line 6, `tile d: 8 -> core`"),
        (("tile m: 8, d: 8 -> block", "auto"), "sm_80", "line 5, `tile m: 8, d: 8 -> block`"),
    ],
)
def test_a_tile_of_an_index_that_another_launch_has(lines: tuple[str, ...], device: str, line: str) -> None:
    """It is about `Y`, and stands in the launch of `s`, to which completion may have given it: a note says so."""
    module = loads(f"{HEAD}schedule s for f:\n" + "".join(f"    {x}\n" for x in lines))
    made = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device))
    (note,) = (x for x in made.report["notes"] if "no statement of its launch" in x)
    assert note.startswith(f"{line}: no statement of its launch has `d`, which is ignored; `Y` has it, in a launch of its own:")
    assert f"the block of `keep Y in {module.device(device).memories[0].name}:`" in note


def test_a_tile_that_has_an_effect_in_some_nest_has_no_note() -> None:
    """`d` is tiled for the product with `V` alone, and `k` for the scores alone."""
    lines = (
        "tile m: 8, d: 32 -> block / keep Y in register / tile n: 16 / keep s in shared / tile k: 4 / tile m: 1, d: 4 -> thread"
    )
    text = "".join(f"    {x}\n" for x in lines.split(" / "))
    module = loads(f"{HEAD}schedule s for f:\n{text}")
    made = compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_80"))
    assert not any("no statement of its launch" in x for x in made.report["notes"])


STORED = """op f[M, K, N](A: f32[M, K], B: f32[K, N]) -> (s: f32[M, N], top: f32[M]):
    s[i, j] = sum(k) A[i, k] * B[k, j]
    top[i] = max(j) s[i, j]
schedule s for f:
    tile i: 8 -> core
    tile j: 8
    keep s in l1:
        tile k: 4
    tile i: 1
    compute
"""
ROWS = """op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    mu[i] = (sum(j) X[i, j]) / N
    v[i] = (sum(j) (X[i, j] - mu[i]) * (X[i, j] - mu[i])) / N
    Y[i, j] = (X[i, j] - mu[i]) * rsqrt(v[i] + 1e-5)
schedule s for f:
    tile i: 1 -> block
    keep mu in shared:
        tile j: 2
    move X -> shared
    keep mu, v in register
    tile j: 64
    tile j: 1 -> thread
    compute
"""


@pytest.mark.parametrize(
    ("text", "device", "line", "way"),
    [
        (STORED, "cpu:avx2", "tile k: 4", "leave the line out"),
        (ROWS, "sm_80", "keep mu, v in register", "leave `mu` out of this line"),
    ],
)
def test_the_way_out(text: str, device: str, line: str, way: str) -> None:
    module = loads(text)
    op = specialise(module.ops["f"], {v.name: 16 for v in module.ops["f"].dims})
    with pytest.raises(UserError) as raised:
        compile_program(module, op, module.schedules["s"], module.device(device))
    assert raised.value.span is not None
    assert (raised.value.span.text, raised.value.help) == (line, way)
