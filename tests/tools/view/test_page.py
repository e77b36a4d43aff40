"""The page about a kernel: whole, by itself, and alive in a real browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser

import andiron
import pytest
from andiron.dsl.module import std_device
from andiron.runtime.gpu import toolchains
from andiron.runtime.machine_code.nvdisasm import find_nvdisasm
from andiron.tools import cli
from andiron.tools.pictures.footprints import footprints
from andiron.tools.pictures.fragments import fragments
from andiron.tools.pictures.roofline import roofline
from andiron.tools.pictures.tiles import tile_cuts, tiles
from andiron.tools.pictures.traffic import traffic
from andiron.tools.repl.view import draft_report
from andiron.tools.schedule_lines import launches_of
from andiron.tools.view.page import page

from ...support.gpu.compilers import needs
from ...support.paths import ROOT

TEXT = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

schedule blocked for gemm on cpu:avx2:
    tile k: 256
    tile m: 72 -> core
    move A -> l2 layout panels(m: 6)
    tile n: 16, m: 6
    keep C in register
    tile k: 1 unroll 4
    compute with fma
"""
BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


@pytest.fixture(scope="module")
def kernel():
    return andiron.compile(TEXT, target="cpu:avx2", M=500, N=300, K=200)


class Whole(HTMLParser):
    """Checks that tags are closed in order, and notes what a page would fetch."""

    VOID = ("meta", "input", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.fetched += [v for k, v in attrs if k in ("src", "href") and v]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_is_whole_and_needs_nothing(kernel):
    text = page(kernel)
    parser = Whole()
    parser.feed(text)
    assert parser.open == []
    assert parser.fetched == []
    for said in ("Tiles of gemm", "Roofline of gemm", "Bytes moved by gemm", "tile m: 72 -&gt; core", "launch__gemm_C"):
        assert said in text


def test_lines_of_the_schedule_are_linked_to_code(kernel):
    text = page(kernel)
    numbers = {int(n) for n in re.findall(r'data-n="\d+" data-step="(-?\d+)"', text)}
    lines = dict(re.findall(r'<div class="row" data-step="(\d+)"> *([^<]*)', text))
    linked = {lines[str(n)].strip() for n in numbers if n >= 0}
    assert "tile m: 72 -&gt; core" in linked
    assert "tile n: 16, m: 6" in linked or "tile n: 16" in linked


def test_machine_code_is_linked_to_the_lines_it_was_made_from():
    kernel = andiron.compile(ROOT / "examples" / "gemm.sched", schedule="auto", target="cuda:sm_80", M=256, N=256, K=256)
    needs(kernel.variants[0].target)
    if find_nvdisasm() is None:
        pytest.skip("no nvdisasm: pip install 'andiron[cuda-tools]'")
    text = page(kernel)
    shown = unescape(text)
    number = next(n for n, line in enumerate(kernel.source.splitlines(), 1) if line.lstrip().startswith("m_commit_group();"))
    step = re.search(rf'<div class="row" data-n="{number}" data-step="(\d+)">', text)
    assert step is not None
    assert kernel.trace[int(step[1])].line.startswith("tile k")
    assert re.search(rf'data-step="{step[1]}" data-line="{number}">[0-9a-f]{{4}} LDGDEPBAR', shown)


def test_no_machine_code_without_a_compiler(monkeypatch):
    kernel = andiron.compile("op scale[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2.0 * X[i]\n", target="hip:gfx942")
    monkeypatch.setattr(toolchains, "find_clangs", tuple)
    assert "No machine code: no compiler for hip:gfx942" in page(kernel)


def test_text_of_others_stays_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wicked = TEXT.replace("schedule", "# </script><script>alert(1)</script>\nschedule", 1)
    (tmp_path / "w.sched").write_text(wicked)
    assert cli.main(["view", "w.sched", "--target", "cpu:avx2", "-o", "w.html"]) == 0
    assert "<script>alert" not in (tmp_path / "w.html").read_text()


def test_pictures_are_well_formed(kernel):
    report, device = draft_report(kernel), kernel.program.device
    for picture in (roofline(report, device), tiles(kernel.op, kernel.trace, report.sizes), traffic(report, device)):
        root = ET.fromstring(picture)
        assert root.tag.endswith("svg")
        numbers = [float(x) for e in root.iter() for k, x in e.attrib.items() if k in ("x", "y", "cx", "cy", "width", "height")]
        assert all(-1 <= n <= 5000 for n in numbers)


def test_tiles_are_those_of_the_schedule(kernel):
    assert [(s.rows, s.columns) for s in tile_cuts(kernel.op, kernel.trace, draft_report(kernel).sizes)] == [
        (500, 300),
        (72, 300),
        (6, 16),
    ]


def test_a_scalar_is_one_element():
    kernel = andiron.compile("op f[A](X: f32[A]) -> (Y: f32[]):\n    Y = sum(a) X[a]\n", target="cpu:generic", A=9)
    cuts = [tile_cuts(kernel.op, launch, kernel.report.sizes) for launch in launches_of(kernel.trace)]
    assert cuts
    assert {(s.rows, s.columns) for found in cuts for s in found} == {(1, 1)}


def test_several_launches_are_drawn_apart():
    """A split reduction is finished by a second launch, whose blocks are not inside the threads of the first."""
    kernel = andiron.compile(ROOT / "examples" / "gemm.sched", schedule="auto", target="cuda:sm_80", M=64, N=64, K=65536)
    launches = list(launches_of(kernel.trace))
    assert len(launches) == 2
    cuts = [tile_cuts(kernel.op, launch, kernel.report.sizes) for launch in launches]
    for found in cuts:
        assert found[0].line == "whole"
        assert (found[0].rows, found[0].columns) == (64, 64)
        depths = [kernel.program.device.depth(s.level) for s in found]
        assert depths == sorted(depths), "no block inside a thread"
    picture = tiles(kernel.op, kernel.trace, kernel.report.sizes)
    root = ET.fromstring(picture)
    said = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    assert [x for x in said if x.startswith("launch ")] == ["launch 1 of 2: C", "launch 2 of 2: C"]
    assert sum(x == "whole" for x in said) == 2
    numbers = [float(x) for e in root.iter() for k, x in e.attrib.items() if k in ("x", "y", "width", "height")]
    assert all(-1 <= n <= 5000 for n in numbers)


def test_parts_of_tensors(kernel):
    parts = footprints(kernel.op, kernel.trace, draft_report(kernel).sizes)
    assert parts["whole"] == {"m": 500, "n": 300, "k": 200}
    assert [cut["axes"] for cut in parts["cuts"]] == [[["m", 500, 72]], [["n", 300, 16], ["m", 72, 6]], [["k", 200, 1]]]
    assert [t["name"] for t in parts["tensors"]] == ["A", "B", "C"]
    assert parts["tensors"][0]["rows"] == [500, 0, 0, {"m": 1}]
    after = next(n for n, t in enumerate(kernel.trace) if t.line.startswith("move A"))
    assert [parts["places"][n]["A"] for n in (0, after)] == ["dram", "l2"]


def test_parts_of_windows_and_of_fused_indices():
    stencil = andiron.compile(
        "op s[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i - 1 else 0] + X[i + 2 else 0]", target="cpu:avx2"
    )
    parts = footprints(stencil.op, stencil.trace, {"N": 64})
    assert parts["tensors"][0]["columns"] == [64, -1, 2, {"i": 1}]
    fused = "op t[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = 2 * X[i, j]\n"
    fused += "schedule f for t on cpu:avx2:\n    fuse i, j as f\n    tile f: 8\n    compute\n"
    kernel = andiron.compile(fused, target="cpu:avx2")
    assert footprints(kernel.op, kernel.trace, {"M": 8, "N": 8}) is None
    assert 'id="parts"' not in page(kernel)


def test_fragments_are_those_of_the_device():
    device = std_device("sm_80")
    instr = next(i for i in device.instrs if i.name == "mma_m16n8k16_f16")
    said = [e.text for e in ET.fromstring(fragments(instr)).iter() if e.tag.endswith("title") and "element" in (e.text or "")]
    assert len(said) == 16 * 16 + 16 * 8 + 16 * 8
    assert said[0] == "element 0, 0: unit 0, register 0"
    assert "element 9, 3: unit 5, register 3" in said  # of A: row 9 = 8 + 5/4..., columns 2 and 3 are lane 4 + 1


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_in_a_browser(kernel, tmp_path):
    (tmp_path / "k.html").write_text(page(kernel))
    number = next(n for n, t in enumerate(kernel.trace) if t.line.startswith("tile m: 72"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{(tmp_path / 'k.html').as_uri()}#step={number}"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "C[72, 300] += A[72, 200] * B[200, 300]  @core" in done.stdout.split('<pre id="spec">')[1].split("</pre>")[0]
    assert re.search(r"A\[500, 200\]\s\[0\.\.71, 0\.\.199\] in dram", done.stdout)  # what the tile works on
    assert "tile 0 of 7" in done.stdout
    on = re.findall(r'<div class="row on"[^>]*>', done.stdout)
    assert len(on) > 3  # the schedule's line, and code
    assert {re.search(r'data-step="(\d+)"', row)[1] for row in on} == {str(number)}
