"""Completion in the shell."""

from __future__ import annotations

import pytest
from andiron.tools.repl.completion import completions

from ...support.gemm_file import GEMM_OP as GEMM


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ti", ["tile"]),
        ("und", ["undo"]),
        ("tile ", ["k", "m", "n"]),
        ("tile m: 4 -> ", ["core", "lane"]),
        ("move ", ["A", "B", "C"]),
        ("move A -> l", ["l1", "l2", "l3"]),
        ("keep C in reg", ["register"]),
        ("compute with fma", ["fma_f32x8"]),
        ("tile m: 4 pip", ["pipeline"]),
        ("schedule t for g", ["gemm"]),
        ("schedule t for gemm on cpu:avx", ["cpu:avx2", "cpu:avx512"]),
        ("import std.ops.ge", ["std.ops.gemm"]),
        ("schedule t for gemm:\n    ti", ["tile"]),
        ("try tile m: 4 | mo", ["move"]),
        ("op f[N, H](X: f1", ["f16"]),
        ("op f[N, H](X: f32[N, H], step: int = 1) -> (Y: f32[N, H]):\n    D[n, p: ", ["H", "N", "step"]),
    ],
)
def test_completion(talk, typed, expected):
    assert completions(talk.session, typed) == expected


def test_completion_of_files_and_targets(talk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sched").write_text(GEMM)
    assert completions(talk.session, "load ") == ["a.sched"]
    assert completions(talk.session, "code cuda:sm_8") == ["cuda:sm_80", "cuda:sm_86", "cuda:sm_89"]
    assert completions(talk.session, "size ") == ["K=", "M=", "N="]


def test_completion_follows_the_focus(talk):
    talk("tile m: 16 -> core")
    assert completions(talk.session, "tile m: 4 -> ") == ["lane"]
