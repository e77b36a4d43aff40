"""Statements of loops that are written out: printed once, filled in for each turn, and the same as if printed anew."""

from __future__ import annotations

import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.emit.statements import StatementPrinter
from andiron.codegen.emit.unroll_replay import UnrollReplay
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

TEXT = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
op hinge[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = where(i < 5, 2 * X[i], X[i])
op attend[T, D](Q: f16[T, D], K: f16[T, D]) -> (m: f32[T]):
    s[i, j] = sum(d) f32(Q[i, d]) * f32(K[j, d])
    m[i] = max(j) s[i, j]
"""
DIALECTS = {"sm_80": "cuda", "gfx1100": "hip"}


def printed(op: str, device: str) -> str:
    module = loads(TEXT)
    program = compile_program(module, module.ops[op], None, module.device(device)).program
    return emit(program, DIALECTS[device])


def test_it_is_printed_once(monkeypatch):
    stores = []
    store = StatementPrinter._store
    monkeypatch.setattr(StatementPrinter, "_store", lambda self, s: (stores.append(id(s)), store(self, s)))
    lines = [x for x in printed("gemm", "sm_80").splitlines() if "] = " in x or " = fma(" in x]
    assert len(lines) > 3 * len(stores)


@pytest.mark.parametrize("device", DIALECTS)
@pytest.mark.parametrize("op", ["gemm", "hinge", "attend"])
def test_it_reads_as_if_printed_anew(op, device, monkeypatch):
    text = printed(op, device)
    monkeypatch.setattr(UnrollReplay, "replay", lambda self, s, show: show(s))
    monkeypatch.setattr(UnrollReplay, "declares_nothing", lambda self, body: False)
    assert printed(op, device) == text
