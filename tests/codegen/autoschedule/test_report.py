"""`explain` says why: the candidates with what bounds them, and what instructions could stand for."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from andiron.codegen.autoschedule.mapping_verdicts import mapping_verdicts, show_verdicts
from andiron.codegen.autoschedule.report import LaunchReport, show_launch_report
from andiron.tools.cli import main
from andiron.tools.pictures.svg import stacked, table

from ...support.library.unscheduled import compiled, library, op_of

GEMM = dict(M=1024, N=512, K=256)


def choices(name: str, device: str, sizes: dict[str, int] | None = None) -> tuple[LaunchReport, ...]:
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
    text = show_launch_report(c, 2)
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


def drawn(tmp_path: Path, *asked: str) -> tuple[str, set[str]]:
    """The title and the words of the picture that the command writes."""
    path = tmp_path / "why.svg"
    assert main(["explain", *asked, "-o", str(path)]) == 0
    root = ET.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    size = [float(root.attrib[x]) for x in ("width", "height")]
    for inner in root.iter(root.tag):
        assert float(inner.attrib["width"]) <= size[0]
        assert float(inner.attrib["height"]) <= size[1]
    words = {"".join(x.itertext()) for x in root.iter("{http://www.w3.org/2000/svg}text")}
    return root.findtext("{http://www.w3.org/2000/svg}title") or "", words


def test_the_picture_has_the_numbers_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gemm.sched"
    path.write_text("import std.ops.gemm\n")
    asked = [str(path), "--op", "gemm_f16", "--schedule", "auto", "--target", "cuda:sm_80", "--size", "M=1024,N=512,K=256"]
    title, words = drawn(tmp_path, *asked)
    assert title == "gemm_f16 on sm_80"
    (c,) = choices("gemm_f16", "sm_80", GEMM)
    first = c.candidates[0]
    assert f"Launch C: the best of {c.count} candidates" in words
    for said in (first.bound, f"{first.blocks:.0f}", f"{first.waves:.2f}", f"{first.occupancy:.0%}", f"{first.registers:.0f}"):
        assert said in words
    assert {"1024 x 512", f"{first.tile['bm']} x {first.tile['bn']}", "at least", "global", "shared"} <= words
    assert any("arithmetic 312 TFLOP/s" in x for x in words)  # the roof, of matrices
    assert any(x.split(", ")[0] == "1" for x in words)  # the candidates below it


def test_pictures_of_several_launches_of_open_sizes_and_of_a_processor(tmp_path: Path) -> None:
    path = tmp_path / "ops.sched"
    path.write_text("import std.ops.gemm\nimport std.ops.attention\n")
    known = dict(H=2, Q=64, T=64, D=32)
    sizes = ["--size", "H=2,Q=64,T=64,D=32"]
    _, words = drawn(tmp_path, str(path), "--op", "attention_backward", "--schedule", "auto", "--target", "hip:gfx1100", *sizes)
    assert sum(x.endswith(" candidates") for x in words) == len(choices("attention_backward", "gfx1100", known))
    assert "all launches" in words
    _, words = drawn(tmp_path, str(path), "--op", "gemm", "--schedule", "auto", "--target", "cuda:sm_80")
    assert "FLOP/s" not in words  # no roofline
    assert "bound by" in words
    _, words = drawn(
        tmp_path, str(path), "--op", "gemm", "--schedule", "auto", "--target", "cpu:avx2", "--size", "M=64,N=64,K=64"
    )
    assert {"FLOP/s", "64 x 64"} <= words


def test_the_table_says_bytes_beside_the_least() -> None:
    (c,) = choices("copy", "sm_80", dict(N=1 << 24))
    lines = [x.split() for x in show_launch_report(c, 1).splitlines()]
    assert ["memory", "asked", "moved", "at", "least", "times"] in lines
    assert ["global", "128", "MiB", "128", "MiB", "128", "MiB", "1.00"] in lines


def test_pictures_are_stacked() -> None:
    both = stacked([table([["a"], ["1"]], "one"), table([["bb", "c"], ["22", "<"]], "two")], 10, "both")
    root = ET.fromstring(both)
    heights = [float(x.attrib["height"]) for x in root.iter(root.tag)]
    assert heights[0] == heights[1] + heights[2] + 10
