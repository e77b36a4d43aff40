"""An instruction runs over the end of a reduced index where all factors are zero there.

A `move` fills them with zeros. What a `keep` computes up to its edge is masked where it is loaded to registers; an instruction
that reads it from memory cannot do that.
"""

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import InstrCannotMask
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

OP = """
device direct extends sm_80:
    instr from_memory on warp in product:
        op (A: f16[16, 16], B: f16[16, 8], C: f32[16, 8]):
            C[m, n] += sum(k) f32(A[m, k]) * f32(B[k, n])
        A in shared at (r): m = r / 16, k = r % 16
        B in shared at (r): k = r / 8, n = r % 8
        C in register at (lane, r): m = lane/4 + 8*(r/2), n = 2*(lane % 4) + r % 2

op two[M, K, N](X: f32[M, K], W: f16[K, N]) -> (Y: f32[M, N]):
    Y[m, n] = sum(k) f32(f16(exp(X[m, k]))) * f32({right})
"""
SCHEDULE = """
schedule s for two on direct where N <= 64:
    tile m: 16 -> block
    keep Y in register
    tile k: 32
    {lines}
    tile k: 16
    compute with {instr}
"""


def text_of(lines: list[str], right: str = "f16(abs(W[k, n]))", instr: str = "mma_m16n8k16_f16") -> str:
    module = loads(OP.format(right=right) + SCHEDULE.format(lines="\n    ".join(lines), instr=instr))
    compiled = compile_program(module, module.ops["two"], module.schedules["s"], module.device("direct"))
    return str(compiled.program)


def refusal(lines: list[str], right: str = "f16(abs(W[k, n]))", instr: str = "from_memory") -> InstrCannotMask:
    with pytest.raises(InstrCannotMask, match="cannot skip the part of `k` that runs over") as caught:
        text_of(lines, right, instr)
    return caught.value


def test_the_refusal_of_a_kept_factor_names_the_move() -> None:
    error = refusal(["keep Y.left in shared", "move W -> shared"], "W[k, n]")
    assert "write `move Y.left -> shared` in place of the `keep`" in (error.help or "")
    assert [label.note for label in error.labels] == ["computed by the lines below, up to the edge"]
    assert "from_memory" in text_of(["move Y.left -> shared", "move W -> shared"], "W[k, n]", "from_memory")


@pytest.mark.parametrize(
    "lines", [["keep Y.left in shared", "move W -> shared"], ["keep Y.left in shared", "keep Y.right in shared"]]
)
def test_what_is_kept_is_masked_where_it_is_loaded_to_registers(lines: list[str]) -> None:
    right = "W[k, n]" if "W" in lines[1] else "f16(abs(W[k, n]))"
    text = OP.format(right=right) + SCHEDULE.format(lines="\n    ".join(lines), instr="mma_m16n8k16_f16")
    kernel = compile(text.replace("on direct", "on sm_80"), op="two", schedule="s", target="emulate:sm_80")
    assert "i__mma_m16n8k16_f16" in kernel.source
    rng = np.random.default_rng(2)
    for m, k, n in ((17, 37, 9), (16, 32, 64), (1, 1, 1), (3, 0, 5), (0, 3, 2)):
        x, w = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float16)
        factor = w if right == "W[k, n]" else abs(w)
        want = np.exp(x).astype(np.float16).astype(float) @ factor.astype(float)
        np.testing.assert_allclose(kernel(x, w), want, rtol=2e-3, atol=2e-3)


def test_it_names_each_of_two() -> None:
    error = refusal(["keep Y.left in shared", "keep Y.right in shared"])
    assert "`move Y.left -> shared` and `move Y.right -> shared`" in (error.help or "")
    assert len(error.labels) == 2
    assert "from_memory" in text_of(["move Y.left -> shared", "move Y.right -> shared"], instr="from_memory")


def test_it_names_none_where_another_factor_is_not_zero() -> None:
    error = refusal(["keep Y.left in shared"], instr="mma_m16n8k16_f16")
    assert "move" not in (error.help or "")


def test_a_block_of_its_own_fills_as_a_move_does() -> None:
    assert "mma_m16n8k16_f16" in text_of(["keep Y.left in shared:", "    compute", "move W -> shared"], "W[k, n]")


SHIFTED = """
op shifted[H, K, N, S](X: f16[H, K], W: f16[S, K, N]) -> (Y: f32[M, N]) where M = H - S + 1:
    Y[m, n] = sum(k, s) f32(X[m + s, k]) * f32(W[s, k, n])
"""


def shifted(*tiles: str):
    text = OP.partition("op two")[0] + SHIFTED
    text += "schedule s for shifted on direct where S <= 16:\n    tile m: 16, n: 8 -> block\n    keep Y in register\n"
    text += "".join(f"    {line}\n" for line in tiles) + "    move X -> shared\n    move W -> shared\n"
    module = loads(text + "    compute with from_memory\n")
    op = module.ops["shifted"]
    return op, compile_program(module, op, module.schedules["s"], module.device("direct")).program


@pytest.mark.parametrize("tiles", [["tile k: 16"], ["tile k: 16", "tile s: 16"]])
def test_the_refusal_names_the_index_that_it_can_take_instead(tiles: list[str]) -> None:
    """A window's rows past the end of `s` are neighbours, no zeros."""
    with pytest.raises(InstrCannotMask, match="cannot skip the part of `s` that runs over") as caught:
        shifted(*tiles)
    assert "write `tile s: 1`, so that it takes `k` instead" in (caught.value.help or "")
    op, program = shifted("tile k: 16", "tile s: 1")
    assert "from_memory" in str(program)
    rng = np.random.default_rng(3)
    for m, k, n, s in ((17, 37, 9, 5), (16, 16, 8, 6), (1, 1, 1, 1), (3, 0, 5, 2), (3, 4, 2, 0), (0, 3, 2, 1)):
        x = rng.integers(-3, 4, (m + s - 1, k)).astype(np.float16)
        w = rng.integers(-3, 4, (s, k, n)).astype(np.float16)
        (got,) = interpret(program, {"X": x, "W": w}, sizes=dict(H=m + s - 1, K=k, N=n, S=s)).values()
        np.testing.assert_array_equal(got, reference(op)(x, w))
