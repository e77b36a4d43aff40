"""`explain` says why: the candidates with what bounds them, and what instructions could stand for."""

from __future__ import annotations

import json

import pytest
from andiron.codegen.rtile.explain import Choice, mapping_verdicts, show_choice, show_verdicts
from andiron.tools.cli import main

from .common import compiled, library, op_of

GEMM = dict(M=1024, N=512, K=256)


def choices(name: str, device: str, sizes: dict[str, int] | None = None) -> tuple[Choice, ...]:
    return compiled(name, device, sizes).report["choices"]


def test_the_first_candidate_is_the_one_that_was_taken() -> None:
    (c,) = choices("gemm_f16", "sm_80", GEMM)
    first = c.candidates[0].tile
    assert f"tile m: {first['bm']}, n: {first['bn']} -> block" in compiled("gemm_f16", "sm_80", GEMM).schedule
    assert c.count > 1000
    assert c.least == 2 * (1024 * 256 + 256 * 512 + 1024 * 512)
    assert [x.slower for x in c.candidates] == pytest.approx(sorted(x.slower for x in c.candidates), rel=0.011)


@pytest.mark.parametrize("name", ["softmax", "attention", "full_sum"])
def test_each_launch_has_a_choice(name: str) -> None:
    assert len(choices(name, "gfx90a")) == len(compiled(name, "gfx90a").program.launches)


def test_the_table_names_what_bounds() -> None:
    (c,) = choices("copy", "sm_80", dict(N=1 << 24))
    text = show_choice(c, 2)
    assert "launch Y: " in text
    assert "at least 128 MiB must be moved" in text
    assert " far " in text
    assert "map: lanes along i" in text


def test_verdicts_list_legal_mappings_first_and_reasons_for_the_others() -> None:
    found = mapping_verdicts(op_of("gemm_f16", GEMM), library().device("sm_80"))
    text = show_verdicts(found).splitlines()
    assert text[0] == "reduction C"
    assert text[1].startswith("  mma_m16n8k16_f16(m = m, n = n, k = k): ")
    assert any(x.startswith("  scalars(m = m, n = n, k = k): ") for x in text)
    assert any("it accumulates in f16, and this sum is f32" in x for x in text)


def test_on_the_command_line(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gemm.sched"
    path.write_text("import std.ops.gemm\n")
    asked = ["explain", str(path), "--op", "gemm_f16", "--target", "hip:gfx90a", "--size", "M=64,N=64,K=64"]
    assert main([*asked, "--mappings"]) == 0
    assert "mfma_32x32x8_f16(m = m, n = n, k = k): " in capsys.readouterr().out
    assert main([*asked, "--mappings", "--json"]) == 0
    assert any(v["refused"] for v in json.loads(capsys.readouterr().out)["C"])
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["choices"][0]["candidates"][0]["bound"]
    assert main([*asked, "--candidates", "1"]) == 0
    assert "launch C: " in capsys.readouterr().out
