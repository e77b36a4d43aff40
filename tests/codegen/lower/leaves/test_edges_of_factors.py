"""An instruction runs over the end of a reduced index where all factors are zero there. A `move` fills them with zeros."""

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import InstrCannotMask
from andiron.dsl.module import loads

OP = """
op two[M, K, N](X: f32[M, K], W: f16[K, N]) -> (Y: f32[M, N]):
    Y[m, n] = sum(k) f32(f16(exp(X[m, k]))) * f32({right})
"""
SCHEDULE = """
schedule s for two on sm_80 where N <= 64:
    tile m: 16 -> block
    keep Y in register
    tile k: 32
    {lines}
    tile k: 16
    compute with mma_m16n8k16_f16
"""


def text_of(lines: list[str], right: str = "f16(abs(W[k, n]))") -> str:
    module = loads(OP.format(right=right) + SCHEDULE.format(lines="\n    ".join(lines)))
    compiled = compile_program(module, module.ops["two"], module.schedules["s"], module.device("sm_80"))
    return str(compiled.program)


def refusal(lines: list[str], right: str = "f16(abs(W[k, n]))") -> InstrCannotMask:
    with pytest.raises(InstrCannotMask, match="cannot skip the part of `k` that runs over") as caught:
        text_of(lines, right)
    return caught.value


def test_the_refusal_of_a_kept_factor_names_the_move() -> None:
    error = refusal(["keep Y.left in shared", "move W -> shared"], "W[k, n]")
    assert "write `move Y.left -> shared` in place of the `keep`" in (error.help or "")
    assert [label.note for label in error.labels] == ["computed by the lines below, up to the edge"]
    assert "mma_m16n8k16_f16" in text_of(["move Y.left -> shared", "move W -> shared"], "W[k, n]")


def test_it_names_each_of_two() -> None:
    error = refusal(["keep Y.left in shared", "keep Y.right in shared"])
    assert "`move Y.left -> shared` and `move Y.right -> shared`" in (error.help or "")
    assert len(error.labels) == 2
    assert "mma_m16n8k16_f16" in text_of(["move Y.left -> shared", "move Y.right -> shared"])


def test_it_names_none_where_another_factor_is_not_zero() -> None:
    error = refusal(["keep Y.left in shared"])
    assert "move" not in (error.help or "")


def test_a_block_of_its_own_fills_as_a_move_does() -> None:
    assert "mma_m16n8k16_f16" in text_of(["keep Y.left in shared:", "    compute", "move W -> shared"], "W[k, n]")
