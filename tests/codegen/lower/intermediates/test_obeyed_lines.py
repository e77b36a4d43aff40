"""A line that nothing in its launch obeys is refused: what it is about is computed by the block of a line above."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

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
