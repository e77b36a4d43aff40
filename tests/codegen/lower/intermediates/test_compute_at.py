"""`keep T in MEMORY:` with a block: an intermediate made by a nest of its own, in the middle of its reader's."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.errors.schedule import NotComputed
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference

from ....support.edit_programs import barriers, without_barrier

# The weights are made of two tensors, so no copy makes them.
W4 = """op w4[M, N, K, G](A: f16[M, K], Q: i4[K, N], S: f16[G, N]) -> (C: f16[M, N]):
    W[k, n] = f16(f32(Q[k, n]) * f32(S[k / 32, n else 0]))
    C[m, n] = sum(k) f32(A[m, k]) * f32(W[k, n])
"""
MAIN = """tile m: 64, n: 64 -> block
keep C in register
tile k: 32
move A -> shared swizzle with cp_async
{keep}
tile m: 32, n: 32 -> warp
tile k: 16
move A -> register with ldmatrix
move W -> register with ldmatrix
compute with mma_m16n8k16_f16"""
KEEPS = {
    "plain": "keep W in shared swizzle:\n    tile k: 1, n: 8 -> thread\n    compute",
    "through registers": "keep W in shared:\n    tile k: 1, n: 8 -> thread\n    move Q -> register\n    compute",
    "through shared": "keep W in shared:\n    move Q -> shared\n    tile k: 1, n: 8 -> thread\n    move S -> register",
    "by all at once": "keep W in shared pad 8:\n    fuse k, n as e\n    tile e: 4 -> thread",
}
ROWS = """op rows[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    s[i] = sum(j) X[i, j]
    Y[i, j] = X[i, j] * s[i]
"""
CHAIN = """op chain[M](X: f32[M]) -> (Y: f32[M]):
    a[i] = X[i] + 1
    b[i] = a[i] * a[i]
    Y[i] = b[i] - a[i] + b[i]
"""


def compiled(text: str, lines: str, sizes: dict[str, int] | None = None):
    block = "".join(f"    {x}\n" for x in lines.split("\n"))
    module = loads(f"{text}\nschedule s for {text.split('[')[0][3:]}:\n{block}")
    (op,) = module.ops.values()
    op = specialise(op, sizes or {})
    return op, compile_program(module, op, module.schedules["s"], module.device("sm_80")).program


def check(op, program, **sizes: int) -> None:
    values = inputs(op, sizes)
    (got,) = interpret(program, values, sizes=sizes).values()
    np.testing.assert_array_equal(got, reference(op)(*values.values()))  # small integers: every sum is exact


def inputs(op, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {t.name: rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}


@pytest.mark.parametrize("keep", KEEPS)
def test_operands_made_of_several_tensors_reach_a_tensor_unit(keep: str) -> None:
    op, program = compiled(W4, MAIN.format(keep=KEEPS[keep]))
    assert "mma_m16n8k16_f16" in {i.name for i in program.instrs}
    for sizes in (dict(M=70, N=45, K=99, G=4), dict(M=1, N=1, K=1, G=1), dict(M=3, N=2, K=0, G=1), dict(M=64, N=64, K=64, G=1)):
        check(op, program, **sizes)


def test_an_instruction_larger_than_a_tile_below() -> None:
    """What was made holds the next tile's elements: they are not added twice."""
    text = """op both[M, N, K](A: i8[M, K], B: i8[K, N]) -> (C: f32[M, N]):
    V[m, k] = f16(f32(A[m, k]) + 1)
    W[k, n] = f16(f32(B[k, n]) + 1)
    C[m, n] = sum(k) f32(V[m, k]) * f32(W[k, n])
"""
    lines = "tile m: 32, n: 8 -> block\nkeep C in register\ntile k: 32\nmove V -> shared\nmove W -> shared\n"
    op, program = compiled(text, lines + "tile m: 32, n: 8 -> warp\ntile k: 8\ncompute with mma_m16n8k16_f16")
    for sizes in (dict(M=32, N=8, K=64), dict(M=5, N=7, K=13)):
        check(op, program, **sizes)


@pytest.mark.parametrize("k", [0, 1, 40])
def test_with_fixed_sizes(k: int) -> None:
    sizes = dict(M=64, N=72, K=k, G=2)
    check(*compiled(W4, MAIN.format(keep=KEEPS["through registers"]), sizes), **sizes)


def test_every_barrier_is_needed() -> None:
    op, program = compiled(W4, MAIN.format(keep=KEEPS["plain"]))
    sizes = dict(M=70, N=72, K=88, G=3)  # aligned: the program that was asked for, not the one instead
    assert barriers(program)
    for n in range(barriers(program)):
        found: list = []
        interpret(without_barrier(program, n), inputs(op, sizes), sizes=sizes, on_fault=found)
        assert "race" in {f.kind for f in found}, f"barrier {n}"


def test_a_reduction_has_a_nest_of_its_own() -> None:
    own = "keep s in shared:\n    tile i: 1 -> warp\n    keep s in register\n    tile j: 64\n    tile j: 1 -> thread\n"
    main = "tile j: 64\ntile j: 32 -> warp\ntile j: 1 -> thread\ncompute"
    op, program = compiled(ROWS, "tile i: 4 -> block\n" + own + main)
    for sizes in (dict(M=9, N=77), dict(M=1, N=1), dict(M=3, N=0)):
        check(op, program, **sizes)


@pytest.mark.parametrize("names", ["a, b", "b, a"])
@pytest.mark.parametrize("m", [0, 1, 63, 130])
def test_names_of_one_line_have_no_order(names: str, m: int) -> None:
    lines = f"tile i: 64 -> block\nkeep {names} in shared:\n    tile i: 1 -> thread\n    compute\ntile i: 1 -> thread"
    op, program = compiled(CHAIN, lines)
    check(op, program, M=m)


@pytest.mark.parametrize(
    ("text", "lines", "id"),
    [
        (CHAIN, "tile i: 64 -> block\nkeep b in register:\n    compute", "schedule-layout"),
        (
            CHAIN,
            "tile i: 64 -> block\nkeep b in shared:\n    compute\nkeep a in shared\ntile i: 1 -> thread",
            "schedule-not-computed",
        ),
    ],
)
def test_refused(text: str, lines: str, id: str) -> None:
    with pytest.raises(UserError) as caught:
        compiled(text, lines)
    assert caught.value.id == id


# The first product has `d` as its reduced index and `t` as a column, the second has them the other way round.
PAIR = """op pair[Q, T, D](A: f16[Q, D], B: f16[T, D], V: f16[T, D]) -> (O: f32[Q, D]):
    S[i, t] = sum(d) f32(A[i, d]) * f32(B[t, d])
    O[i, d] = sum(t) f32(f16(S[i, t])) * f32(V[t, d])
"""
PRODUCTS = """tile i: 32 -> block
keep O in register
move A -> shared
tile t: 64
move B -> shared
move V -> shared
keep S in shared:
    keep S in register
    tile i: 16 -> warp
    tile d: 16
    move A -> register with ldmatrix
    move B -> register with ldmatrix
    compute with mma_m16n8k16_f16
move O.left -> shared
tile i: 16 -> warp
tile t: 16
move O.left -> register with ldmatrix
move V -> register with ldmatrix
compute with mma_m16n8k16_f16"""


@pytest.mark.parametrize("sizes", [(3, 5, 7), (1, 1, 1), (20, 9, 17), (33, 65, 8), (2, 0, 3), (3, 4, 0)], ids=str)
def test_copies_serve_the_instructions_of_both_nests(sizes: tuple[int, int, int]) -> None:
    """The leaf of the block takes 8 of `t` and 16 of `d`, the leaf below it 16 and 8: a copy is filled for both."""
    fixed = dict(zip("QTD", sizes, strict=True))
    op, program = compiled(PAIR, PRODUCTS, fixed)
    check(op, program, **fixed)


CHAIN_OF_PRODUCTS = """op products[M, N, K, D, E](A: f32[M, K], B: f32[K, N], V: f32[N, D], W: f32[D, E]) -> (Y: f32[M, E]):
    s[m, n] = sum(k) A[m, k] * B[k, n]
    t[m, d] = sum(n) s[m, n] * V[n, d]
    Y[m, e] = sum(d) t[m, d] * W[d, e]
"""


def test_a_block_computes_nothing_else():
    """What it reads of another reduction is computed before: a line in it that keeps that is refused."""
    inner = "    keep s in shared:\n        tile m: 1 -> warp\n        tile n: 1 -> thread\n"
    lines = (
        "tile m: 16, e: 16 -> block\nkeep Y in register\ntile d: 16\nkeep t in shared:\n    tile n: 16\n"
        f"{inner}    tile m: 1 -> warp\n    tile d: 1 -> thread\ntile m: 1 -> warp\ntile e: 1 -> thread"
    )
    with pytest.raises(NotComputed, match="the block of `keep t` computes `t` alone: what it reads of `s`") as raised:
        compiled(CHAIN_OF_PRODUCTS, lines)
    assert raised.value.span is not None
    assert raised.value.span.text == "keep s in shared"
    assert "leave this line out: `s` then has a launch of its own" in (raised.value.help or "")
    op, program = compiled(CHAIN_OF_PRODUCTS, lines.replace(inner, ""))
    for size in (1, 18):
        check(op, program, M=size, N=size, K=3, D=size, E=size)


def test_a_copy_in_the_block_is_not_to_blame():
    """A `move` of what the block reads is right there. The line below it that keeps that is not."""
    units = "    tile m: 1 -> warp\n    tile {} : 1 -> thread\n"
    lines = (
        "tile m: 16, e: 16 -> block\nkeep Y in register\ntile d: 16\nkeep t in shared:\n    tile n: 16\n    move s -> shared\n"
        f"{units.format('d')}keep s in shared:\n{units.format('n')}tile m: 1 -> warp\ntile e: 1 -> thread"
    )
    with pytest.raises(UserError) as raised:
        compiled(CHAIN_OF_PRODUCTS, lines)
    assert "alone" not in raised.value.message
    op, program = compiled(CHAIN_OF_PRODUCTS, lines.replace(f"keep s in shared:\n{units.format('n')}", ""))
    check(op, program, M=18, N=18, K=3, D=18, E=18)


WRITE_BACK = """op f[M](A: f32[M, 64], B: f32[64, 64]) -> (t: f32[M, 64]):
    s[i, k] = A[i, k] * 2.0 + 1.0
    t[i, k] = {t}
"""


@pytest.mark.parametrize("t", ["s[i, k] * s[i, k]", "sum(q) s[i, q] * B[q, k]"])
@pytest.mark.parametrize("line", ["keep s in shared", "move s -> shared", "move A -> shared"])
def test_a_write_back_is_about_its_result_alone(t: str, line: str) -> None:
    """What the result is computed from is read before: a line of the block that holds that would do nothing."""
    lines = "tile i: 8 -> block\n{}keep t in register:\n    {}tile i: 1 -> warp\n    tile k: 1 -> thread\n"
    lines += "tile i: 1 -> warp\ntile k: 1 -> thread\ncompute"
    with pytest.raises(UserError, match="the block of `keep t` is about `t` alone: write this line outside of it") as raised:
        compiled(WRITE_BACK.format(t=t), lines.format("", f"{line}\n    "))
    assert raised.value.span is not None
    assert raised.value.span.text == line
    op, program = compiled(WRITE_BACK.format(t=t), lines.format(f"{line}\n", ""))
    check(op, program, M=11)
