"""What the emulator counts: bytes as the tiles say, transactions, conflicts of banks with and without a swizzle, by line."""

from __future__ import annotations

import json
from pathlib import Path

import andiron
import numpy as np
import pytest
from andiron.runtime.emulator.report import AccessSite, EmulationReport
from andiron.tools import cli

TEXT = """
import std.devices.nvidia

op hgemm[M, N, K](A: f16[M, K], B: f16[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])

schedule staged for hgemm on sm_80:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 32
    move A -> shared SWIZZLE with cp_async
    move B -> shared SWIZZLE with cp_async
    tile m: 32, n: 32 -> warp
    tile k: 16
    move A -> register with ldmatrix
    move B -> register with ldmatrix
    compute with mma_m16n8k16_f16
"""
SIZES = dict(M=128, N=192, K=96)


def counted(swizzle: str) -> EmulationReport:
    k = andiron.compile(TEXT.replace("SWIZZLE ", swizzle), target="emulate:sm_80")
    k.counting = True
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (SIZES[n], SIZES["K"])).astype("f2") for n in "MN")
    np.testing.assert_array_equal(k(a, b), a.astype("f4") @ b.astype("f4").T)
    counts = k.report.counts
    assert counts is not None
    return counts


@pytest.fixture(scope="module")
def swizzled() -> EmulationReport:
    return counted("swizzle ")


def of(report: EmulationReport, memory: str, buffer: str, access: str) -> list[AccessSite]:
    found = [s for s in report.sites if (s.memory, s.access) == (memory, access) and s.buffer.startswith(buffer)]
    assert found
    return found


EPILOGUE = """
op linear[M, N, K](A: f32[M, K], B: f32[N, K], v: f32[N]) -> (C: f32[M, N]):
    H[m, n] = sum(k) A[m, k] * B[n, k]
    C[m, n] = max(H[m, n] + v[n], 0)

schedule s for linear:
    tile m: 8, n: 8 -> block
    SPLIT
    tile m: 1 -> thread
"""


@pytest.mark.parametrize(
    "split", ["tile k: 4", "keep H in register", "tile k: 4 -> block by atomic", "tile k: 4 -> block by workspace"]
)
def test_an_epilogue_has_its_own_line(split: str) -> None:
    kernel = andiron.compile(EPILOGUE.replace("SPLIT", split), target="emulate:sm_80")
    kernel.counting = True
    kernel(np.ones((9, 9), "f4"), np.ones((9, 9), "f4"), np.zeros(9, "f4"))
    assert kernel.report.counts is not None
    lines = {s.buffer: {x.line for x in kernel.report.counts.sites if x.buffer == s.buffer} for s in kernel.report.counts.sites}
    assert lines["C"] == {4}
    assert lines["v"] == {4}


def test_bytes_are_those_of_the_tiles(swizzled: EmulationReport) -> None:
    """Each block reads its rows of A and its rows of B once, and writes its tile of C."""
    m, n, k = SIZES.values()
    assert sum(s.bytes for s in of(swizzled, "global", "A", "read")) == 2 * m * k * (n // 64)
    assert sum(s.bytes for s in of(swizzled, "global", "B", "read")) == 2 * n * k * (m // 64)
    assert swizzled.moved["global"]["written"] == 4 * m * n
    assert swizzled.moved["shared"]["written"] == swizzled.moved["global"]["read"]
    # four warps, in pairs: each half of a tile in shared memory is read twice
    assert swizzled.moved["shared"]["read"] == 2 * swizzled.moved["shared"]["written"]


def test_copies_are_coalesced(swizzled: EmulationReport) -> None:
    for s in of(swizzled, "global", "A", "read") + of(swizzled, "global", "B", "read"):
        assert (s.transactions, s.requests) == (s.least, s.bytes // (32 * 16))
    assert swizzled.carried["global"] == swizzled.moved["global"]["read"] + swizzled.moved["global"]["written"]


def test_a_swizzle_has_no_conflicts(swizzled: EmulationReport) -> None:
    """Rows of 64 bytes: without a swizzle, rows 0, 2, 4 and 6 of an 8 x 8 matrix are in the same banks."""
    plain = counted("")
    assert swizzled.conflicts == {"shared": 0}
    for buffer in ("a_shared", "b_shared"):
        assert {s.ways for s in of(swizzled, "shared", buffer, "read")} == {1.0}
        assert {s.ways for s in of(plain, "shared", buffer, "read")} == {4.0}
    assert plain.conflicts["shared"] == sum(s.transactions - s.least for s in plain.sites if s.memory == "shared")
    assert plain.moved == swizzled.moved


def test_instructions_and_barriers(swizzled: EmulationReport) -> None:
    m, n, k = SIZES.values()
    blocks = (m // 64) * (n // 64)
    assert swizzled.instrs["mma_m16n8k16_f16"] == (m // 16) * (n // 8) * (k // 16)
    copies = sum(count for name, count in swizzled.instrs.items() if name.startswith("cp_async"))
    assert copies == swizzled.moved["global"]["read"] // 16
    (launch,) = swizzled.launches
    assert (launch["blocks"], launch["threads"]) == (blocks, 128)
    assert launch["barriers"] == blocks * 2 * (k // 32)  # before a copy overwrites, and after it has arrived


def test_rows_of_the_table_are_lines_of_the_schedule(swizzled: EmulationReport) -> None:
    text = str(swizzled)
    lines = TEXT.splitlines()
    move, load = (
        lines.index("    move A -> shared SWIZZLE with cp_async") + 1,
        lines.index("    move A -> register with ldmatrix") + 1,
    )
    rows = {tuple(row.split()[:2]): row for row in text.splitlines() if row.startswith("<string>")}
    assert (f"<string>:{move}", "A") in rows
    assert (f"<string>:{load}", "a_shared") in rows
    assert rows[f"<string>:{load}", "a_shared"].split()[-1] == "1.00"


def test_counting_is_on_request() -> None:
    k = andiron.compile(
        "import std.devices.nvidia\nop id[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n", target="emulate:sm_80"
    )
    assert not k.counting
    k(np.ones(5, "f4"))
    assert k.report.counts is None
    k.counting = True
    k(np.ones(5, "f4"))
    assert k.report.counts is not None
    assert k.report.counts.moved["global"] == {"read": 20, "written": 20}
    assert "20 bytes read" in str(k.report)


def test_atomics_are_counted_apart() -> None:
    text = """
import std.devices.nvidia
op total[N](X: i32[N]) -> (y: i32[]):
    y[] = sum(i) X[i]
schedule s for total on nvidia:
    tile i: 64 -> block by atomic
    tile i: 1 -> thread
    compute
"""
    k = andiron.compile(text, target="emulate:sm_80")
    k.counting = True
    x = np.arange(1000, dtype="i4")
    assert k(x) == x.sum()
    counts = k.report.counts
    assert counts is not None
    assert "combined" in counts.moved["global"]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.sched"
    file.write_text(TEXT.replace("SWIZZLE ", "swizzle "))
    words = ["run", str(file), "--target", "emulate:sm_80", "--size", "M=64,N=64,K=64", "--count", "--repeat", "1"]
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert "OK" in shown
    assert "0 conflicts of banks" in shown
    assert "g.sched:" in shown
    assert cli.main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["counts"]["conflicts"] == {"shared": 0}
    assert {s["source"] for s in said["counts"]["sites"]} <= {"g.sched", None}
    assert cli.main(["run", str(file), "--size", "M=8,N=8,K=8", "--schedule", "staged", "--count"]) == 1
