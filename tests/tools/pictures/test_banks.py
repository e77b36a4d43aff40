"""Who puts which element where in a memory of banks: pictures of what the tile program says, and what the emulator counts."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import andiron
import numpy as np
import pytest
from andiron.tools.pictures.bank_accesses import staged_buffers
from andiron.tools.pictures.banks import banks
from andiron.tools.repl.view import draft_report
from andiron.tools.view.page import page

TURN = """\
op turn[M, N](X: f32[M, N]) -> (Y: f32[N, M]):
    Y[j, i] = X[i, j]

schedule plain for turn on sm_80:
    tile i: 32, j: 32 -> block
    move X -> shared
    tile j: 1, i: 1 -> thread
    compute
schedule padded for turn on sm_80:
    tile i: 32, j: 32 -> block
    move X -> shared pad 1
    tile j: 1, i: 1 -> thread
    compute
"""
HALF = """\
op hgemm[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])

schedule ampere for hgemm on sm_80:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 32 pipeline 3
    move A -> shared swizzle with cp_async
    move B -> shared swizzle with cp_async
    tile m: 32, n: 32 -> warp
    tile k: 16
    move A -> register with ldmatrix
    move B -> register with ldmatrix
    compute with mma
schedule panels for hgemm on sm_80:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 32
    move A -> shared layout panels(k: 8)
    move B -> shared layout (n, k) pad 8
    tile m: 4, n: 4 -> thread
    compute
"""
BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


def looked(text: str, schedule: str, target: str = "cuda:sm_80"):
    kernel = andiron.compile(text, schedule=schedule, target=target)
    return {s.buffer.name: s for s in staged_buffers(kernel.program, draft_report(kernel).sizes)}


@pytest.mark.parametrize(("schedule", "ways"), [("plain", 32), ("padded", 1)])
def test_ways_are_those_that_the_emulator_counts(schedule, ways):
    (found,) = looked(TURN, schedule).values()
    assert [r.ways for r in found.reads] == [ways]
    kernel = andiron.compile(TURN, schedule=schedule, target="emulate:sm_80")
    kernel.counting = True
    kernel(np.ones((32, 32), np.float32))
    assert kernel.report.counts.conflicts == {"shared": (ways - 1) * 32}  # 32 columns, each read by a warp at once


def test_padding_moves_rows_on():
    (found,) = looked(TURN, "padded").values()
    assert len(found.held) == 32 * 32
    for address, ((row, column), _) in found.held.items():
        assert address == 33 * row + column
        assert found.bank(address) == (row + column) % 32
    (plain,) = looked(TURN, "plain").values()
    assert {plain.bank(a) for a, (at, _) in plain.held.items() if at[1] == 5} == {5}


def test_a_swizzle_keeps_every_element_and_spreads_columns():
    found = looked(HALF, "ampere")
    a = found["a_shared"]
    assert a.slot == 0  # of a pipeline's buffers, the first
    assert sorted(at for at, _ in a.held.values()) == [(m, k) for m in range(64) for k in range(32)]
    assert sorted(a.held) == list(range(64 * 32))
    chunks = {(at[0], at[1] // 8): address // 8 for address, (at, _) in a.held.items() if at[1] % 8 == 0}
    eight = [chunks[m, 0] * 4 % 32 for m in range(8)]  # a column of 8 chunks of 16 bytes, which a phase of ldmatrix reads
    assert len(set(eight)) == 8
    assert all(r.ways == 1 for s in found.values() for r in s.reads)
    assert {unit for _, unit in a.held.values()} == set(range(128))


def test_any_layout_and_any_device():
    found = looked(HALF, "panels")
    a = {at: address for address, (at, _) in found["a_shared"].held.items()}
    assert a[3, 9] == 64 * 8 + 3 * 8 + 1
    b = {at: address for address, (at, _) in found["b_shared"].held.items()}
    assert b[3, 9] == 3 * (32 + 8) + 9  # turned on its way: by its own rows and columns
    amd = andiron.compile(HALF.split("schedule")[0], target="hip:gfx90a")
    for s in staged_buffers(amd.program, draft_report(amd).sizes):
        assert s.lanes == 64
        assert s.held


def test_a_copy_through_registers_in_two_loops_keeps_its_elements():
    """`pipeline` loads a tile ahead in one loop, and stores it in another."""
    text = f"""{HALF.split("schedule")[0].replace("f16", "f32")}schedule s for hgemm on sm_80:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: 16 pipeline 2
    move A -> shared
    move B -> shared:
        tile k: 4, n: 4 -> thread
        move B -> register
        compute
    tile m: 2, n: 2 -> thread
    compute
"""
    found = looked(text, "s")
    for name, source, rows, columns in (("a_shared", "A", 32, 16), ("b_shared", "B", 16, 32)):
        assert found[name].source == source
        held = {address: at for address, (at, _) in found[name].held.items()}
        assert held == {columns * i + j: (i, j) for i in range(rows) for j in range(columns)}


def test_a_guard_of_lanes_and_of_all():
    """One condition has a value for each unit, the other one for all."""
    text = """op g[M, N, K, B0](A: bf16[K, M], B: bf16[B0, N, K]) -> (C: f32[B0, M, N]):
    C[b, m, n] = sum(k) f32(A[k, m]) * f32(B[b, n, k])
schedule s for g on gfx1100:
    tile b: 1 -> block
    tile m: 48, n: 40 -> block
    tile k: 5 -> block by atomic
    move A -> shared swizzle:
        move A -> register
    tile m: 24 -> wave
    tile m: 4 every 8, n: 2 every 8 -> thread
    compute
"""
    found = looked(text, "s", "hip:gfx1100")["a_shared"]
    assert {at for at, _ in found.held.values()} >= {(k, m) for k in range(5) for m in range(48)}


def test_pictures_say_the_bank_of_each_word():
    (found,) = looked(TURN, "padded").values()
    root = ET.fromstring(banks(found) or "")
    said = [e.text or "" for e in root.iter() if e.tag.endswith("title") and "bank" in (e.text or "")]
    assert "row 2, column 31: byte 388, bank 1, written by lane 31 of group 2" in said
    assert len(said) == 16 * 32  # the first rows
    assert "no conflict" in "".join(root.itertext())
    halves = ET.fromstring(banks(looked(HALF, "ampere")["a_shared"]) or "")
    assert any("columns" not in t and "column 2 to 3: byte 4" in t for t in halves.itertext())  # two to a word


@pytest.mark.parametrize(
    ("file", "schedule", "buffer", "source"),
    [
        ("gemm_nvidia", "hgemm_ampere", "a_shared", "A"),
        ("gemm_nvidia", "hgemm_ampere", "c_shared", ""),  # results on their way out: a unit's registers name no element
        ("conv_gpu", "conv_igemm_ampere", "i_shared", "I"),
        ("gemm_amd", "hgemm_mfma", "a_shared", ""),  # copied through registers
    ],
)
def test_elements_that_have_no_place_of_their_own_go_by_the_buffers_coordinates(file, schedule, buffer, source):
    text = f"import std.ops.gemm\nimport std.ops.conv\nimport std.schedules.{file}\n"
    target = "hip:gfx90a" if "amd" in file else "cuda:sm_80"
    op = {"hgemm_ampere": "gemm_f16", "conv_igemm_ampere": "conv2d_nhwc_f16", "hgemm_mfma": "gemm_f16_nt"}[schedule]
    kernel = andiron.compile(text, op=op, schedule=schedule, target=target)
    found = {s.buffer.name: s for s in staged_buffers(kernel.program, draft_report(kernel).sizes)}
    assert found[buffer].source == source
    for s in found.values():
        assert len({at for at, _ in s.held.values()}) == len(s.held)
        assert banks(s)


def test_memories_without_banks_have_no_picture():
    text = "op neg[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = -X[i]\n"
    kernel = andiron.compile(text, target="cpu:avx2")
    assert staged_buffers(kernel.program, draft_report(kernel).sizes) == []
    assert "<h2>Banks</h2>" not in page(kernel)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_in_a_browser(tmp_path):
    (tmp_path / "k.html").write_text(page(andiron.compile(TURN, schedule="padded", target="cuda:sm_80")))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run([*command, (tmp_path / "k.html").as_uri()], capture_output=True, text=True, timeout=120, check=True)
    figure = done.stdout.split('<figure id="banks-x_shared">')[1].split("</figure>")[0]
    assert len(re.findall(r"<rect", figure)) == 16 * 32 + 16  # words, and frames around what is read at once
    assert "of X in shared; 16 of 32 rows shown" in figure
