"""Blocks of launches: each that an author writes is printed as one, and the printed schedule gives the same launches."""

from __future__ import annotations

import pytest
from andiron.codegen.ir.printer import show
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import loads

from ...support.interpreted import Formula, agrees, program_of

ATTENTION = (
    "op t[H, Q, T, D](q: f32[H, Q, D], k: f32[H, T, D], v: f32[H, T, D]) -> (o: f32[H, Q, D]):\n"
    "    s[h, i, t] = (sum(d) q[h, i, d] * k[h, t, d]) * 0.5\n    m[h, i] = max(t) s[h, i, t]\n"
    "    p[h, i, t] = exp(s[h, i, t] - m[h, i])\n    l[h, i] = sum(t) p[h, i, t]\n"
    "    o[h, i, d] = (sum(t) p[h, i, t] * v[h, t, d]) / l[h, i]\n"
)
WITH_LSE = (
    "op t[Q, T, D](q: f16[Q, D], k: f16[T, D], v: f16[T, D]) -> (o: f32[Q, D], lse: f32[Q]):\n"
    "    s[i, t] = (sum(d) f32(q[i, d]) * f32(k[t, d])) * 0.5\n    m[i] = max(t) s[i, t]\n"
    "    p[i, t] = exp(s[i, t] - m[i])\n    l[i] = sum(t) p[i, t]\n"
    "    o[i, d] = (sum(t) f32(f16(p[i, t])) * f32(v[t, d])) / l[i]\n    lse[i] = m[i] + log(l[i])\n"
)
TWO_LAYERS = (
    "op t[M, N, K](X: f32[M, K], U: f32[K, N], V: f32[N, K]) -> (Y: f32[M, K], R: f32[M]):\n"
    "    h[m, n] = sum(k) X[m, k] * U[k, n]\n    g[m, n] = max(h[m, n], 0.0)\n"
    "    Y[m, k2] = sum(n) g[m, n] * V[n, k2]\n    R[m] = sum(n) g[m, n]\n"
)
SOFTMAX = (
    "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    top[i] = max(j) X[i, j]\n    e[i, j] = exp(X[i, j] - top[i])\n"
    "    total[i] = sum(j) e[i, j]\n    Y[i, j] = e[i, j] / total[i]\n"
)
ONE_REDUCTION = (
    "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N], Z: f32[M, N]):\n    top[i] = max(j) X[i, j]\n    a[i] = top[i] * 2.0\n"
    "    b[i] = top[i] + 1.0\n    Y[i, j] = X[i, j] * a[i]\n    Z[i, j] = X[i, j] * b[i]\n"
)

PRINTED = {
    "a pointwise tensor that a product's launch stores": (ATTENTION, "cpu:avx2", "keep s in dram:\n compute"),
    "the same beside other outputs": (WITH_LSE, "cpu:avx512", "keep s in dram:\n compute"),
    "a block of each kind, and lines of the main launch": (
        TWO_LAYERS,
        "cpu:avx2",
        "keep g in dram:\n tile n: 1\n compute\nkeep Y in dram:\n auto\ntile n: 16, m: 32\ncompute",
    ),
    "a statistic and what depends on it": (ATTENTION, "cpu:avx2", "keep m in dram:\n compute\nkeep p in dram:\n compute"),
    "a reduction without lines": (SOFTMAX, "cpu:avx2", "keep top in dram:\n compute"),
    "the only launch": ("op t[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] * 2.0\n", "sm_80", "keep Y in global:\n compute"),
    "two tensors that one launch stores": (ONE_REDUCTION, "cpu:avx2", "keep a, b in dram:\n tile j: 8\n compute"),
}


def compiled(op: str, device: str, lines: str) -> CompiledProgram:
    """Of lines without their first indent, or of a whole schedule."""
    if not lines.startswith("schedule"):
        lines = "schedule s for t:\n" + "".join(
            f"    {x.replace(' ', '    ', len(x) - len(x.lstrip()))}\n" for x in lines.split("\n")
        )
    module = loads(op + lines)
    return compile_program(module, module.ops["t"], module.schedules["s"], module.device(device))


def without_open_lines(lines: str) -> list[str]:
    return [x.strip() for x in lines.split("\n") if x.strip() != "auto"]


@pytest.mark.parametrize("title", PRINTED)
def test_blocks_of_an_author_are_printed_as_blocks(title: str) -> None:
    check_printed(*PRINTED[title])


def check_printed(op: str, device: str, lines: str) -> None:
    """Each line is in the printed schedule, which gives the same program."""
    first = compiled(op, device, lines)
    printed = [x.strip() for x in first.schedule.split("\n")]
    assert [x for x in without_open_lines(lines) if x not in printed] == [], first.schedule
    again = compiled(op, device, first.schedule)
    assert again.schedule == first.schedule
    assert show(again.program) == show(first.program), first.schedule


STENCIL = (
    "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    a[i, j] = X[i, j] + X[i - 1, j else 0]\n"
    "    Y[i, j] = a[i, j] * 2.0 + a[i, j + 1 else 0]\n"
)
NORM = "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    mean[i] = (sum(j) X[i, j]) / N\n    Y[i, j] = X[i, j] - mean[i]\n"
SQUARE = "op t[M, K](A: f32[M, K]) -> (C: f32[M, M]):\n    C[i, j] = sum(k) A[i, k] * A[j, k]\n"
INLINED = (
    "op t[M, N](X: f32[M, N], Z: f32[N]) -> (Y: f32[M, N]):\n    e[i, j] = exp(X[i, j] * 2.0)\n"
    "    Y[i, j] = e[i, j] + e[i, j] * Z[j]\n"
)

OBEYED = {
    "the sum in an output's statement": (ATTENTION, "cpu:avx2", "keep o.sum1 in dram:\n tile d: 8, i: 16 -> core\n compute"),
    "the sum, and what is computed of it": (
        NORM,
        "sm_80",
        "keep mean in global:\n auto\nkeep mean.sum1 in global:\n tile i: 16 -> block\n tile j: 32\n compute",
    ),
    "a pointwise tensor that its readers compute": (INLINED, "cpu:avx2", "inline e\ntile i: 8 -> core\ncompute"),
    "probabilities, which a pass would keep": (ATTENTION, "cpu:avx2", "inline p\nauto"),
    "the same on a GPU": (ATTENTION, "sm_80", "inline p, s\nauto"),
    "blocks, and open lines that would keep what both read": (
        SOFTMAX,
        "cpu:avx2",
        "keep total in dram:\n auto\nkeep Y in dram:\n auto\nauto",
    ),
}


@pytest.mark.parametrize("title", OBEYED)
def test_a_line_that_was_lost_is_obeyed(title: str) -> None:
    check_printed(*OBEYED[title])


REFUSED = {
    "what the sum of a block does not read": (
        ATTENTION,
        "cpu:avx2",
        "keep o.sum1 in dram:\n tile d: 8, i: 16 -> core\n move k -> l1\n compute",
        "nothing in focus reads `k`",
        "move k -> l1",
    ),
    "lanes of a block for rows without a bound": (
        ATTENTION,
        "cpu:avx2",
        "keep o.sum1 in dram:\n tile d: 8, i: 16 -> lane\n move k -> l1\n keep m in l3\n compute\nkeep m in dram:\n auto",
        "`lane` has a fixed number of units",
        "tile d: 8, i: 16 -> lane",
    ),
    "what the sum of a statistic does not read": (
        NORM,
        "sm_80",
        "keep mean in global:\n auto\nkeep mean.sum1 in global:\n tile i: 16 -> block\n move mean -> shared\n compute",
        "nothing in focus reads `mean`",
        "move mean -> shared",
    ),
    "a tensor in one launch with readers that have blocks": (
        ATTENTION,
        "cpu:avx2",
        "keep m in dram:\n compute\nkeep p in dram:\n keep s in l2",
        "has `s` in one launch with all its readers, and `m` and `p` have blocks of their own",
        "keep s in l2",
    ),
    "the same in the outermost memory": (
        ATTENTION,
        "cpu:avx2",
        "keep m in dram:\n compute\nkeep p in dram:\n keep s in dram\n compute",
        "has `s` in one launch with all its readers",
        "keep s in dram",
    ),
    "the same outside of blocks": (
        SOFTMAX,
        "sm_80",
        "keep top in global\nkeep total in global:\n auto\nkeep Y in global:\n auto",
        "has `top` in one launch with all its readers, and `total` and `Y` have blocks of their own",
        "keep top in global",
    ),
    "a sum with its block, and a tensor of its own in that of another": (
        ATTENTION,
        "sm_80",
        "keep o.sum1 in global:\n keep s.sum1, s, p in register\n tile t: 2\n"
        "keep s.sum1 in global:\n tile h: 1, d: 4\n tile i: 16\n compute\ntile t: 2",
        "nothing in focus computes `s.sum1`",
        "keep s.sum1, s, p in register",
    ),
    "two blocks for one launch": (
        ONE_REDUCTION,
        "cpu:avx2",
        "keep a in dram:\n compute\nkeep b in dram:\n tile j: 8\n compute",
        "`b` is computed in the launch of `a`, which has a block already",
        "keep b in dram:",
    ),
    "an input": (INLINED, "cpu:avx2", "keep Z in dram:\n compute", "no launch computes `Z`: it is an input", "keep Z in dram:"),
    "another name of an input": (
        SQUARE,
        "cpu:avx2",
        "keep C.left in dram:\n compute",
        "no launch computes `C.left`: it is another name of a tensor",
        "keep C.left in dram:",
    ),
    "a tensor that is read past its edges": (
        STENCIL,
        "cpu:avx2",
        "keep Y in dram:\n compute\ntile i: 32, j: 64 -> core\ninline a\ncompute",
        "`a` cannot be inlined: it is read as `a[i, j + 1 else ...]`",
        "inline a",
    ),
    "a tensor that is kept": (
        INLINED,
        "cpu:avx2",
        "inline e\ntile i: 8, j: 8 -> core\nkeep e in l1\ncompute",
        "the readers of `e` compute it, and another line holds it",
        "inline e",
    ),
    "a tensor that is moved": (
        INLINED,
        "sm_80",
        "inline e\ntile i: 8, j: 8 -> block\nmove e -> shared\ncompute",
        "the readers of `e` compute it, and another line holds it",
        "inline e",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_a_line_that_cannot_be_obeyed_is_refused(title: str) -> None:
    op, device, lines, message, at = REFUSED[title]
    with pytest.raises((UserError, UserErrors)) as caught:
        compiled(op, device, lines)
    said = str(caught.value).split("\n")
    assert message in said[0]
    assert said[2].endswith(f" {at}"), caught.value


MEANS = Formula(
    "op f[M, K](X: f32[M, K]) -> (Y: f32[M, K]):\n    t[m] = (sum(k) X[m, k]) * 2.0\n    Y[m, k] = X[m, k] - t[m]\n",
    lambda x: x - 2 * x.sum(1, keepdims=True),
)


@pytest.mark.parametrize(("m", "k"), [(7, 5), (1, 9), (0, 3), (3, 0)])
@pytest.mark.parametrize(
    ("launches", "lines"),
    [
        (2, "keep t.sum1 in dram: / > tile m: 3 -> core / > tile k: 2 / > compute / compute"),
        (3, "keep t.sum1 in dram: / > compute / keep t in dram: / > tile m: 2 / > compute / tile k: 4 / compute"),
    ],
)
def test_the_sum_of_a_block_and_what_is_computed_of_it(launches: int, lines: str, m: int, k: int) -> None:
    program = program_of(MEANS, lines, "cpu:avx2")
    assert len(program.launches) == launches
    agrees(MEANS, program, {"M": m, "K": k})
