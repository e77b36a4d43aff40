"""Blocks of launches: each that an author writes is printed as one, and the printed schedule gives the same launches."""

from __future__ import annotations

import pytest
from andiron.codegen.ir.printer import show
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import loads

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
    op, device, lines = PRINTED[title]
    first = compiled(op, device, lines)
    printed = [x.strip() for x in first.schedule.split("\n")]
    assert [x for x in without_open_lines(lines) if x not in printed] == [], first.schedule
    again = compiled(op, device, first.schedule)
    assert again.schedule == first.schedule
    assert show(again.program) == show(first.program), first.schedule
