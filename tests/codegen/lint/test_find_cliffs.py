"""Warnings of performance cliffs: each where there is one, at its line, and none where there is none."""

from __future__ import annotations

from dataclasses import replace

import andiron
import pytest
from andiron.codegen.lint.find_cliffs import lint
from andiron.codegen.lint.typical_block import typical_sizes
from andiron.codegen.pipeline import compile_program
from andiron.dsl.ops.specialise import bind_params
from andiron.tools.checks.compile_schedules import compile_all_schedules, devices_of

from ...support.paths import ROOT

LIBRARIES = "import std.ops.gemm\nimport std.ops.tensor\nimport std.ops.reduce\nimport std.ops.elementwise\n"


def warnings(schedule: str) -> list:
    """Of a schedule below the library's ops."""
    module = andiron.loads(LIBRARIES + schedule)
    (decl,) = module.schedules.values()
    (device,) = devices_of(module, decl)
    return lint(compile_program(module, module.ops[decl.op], decl, device).program, decl)


ONE_STORES = """\
schedule s for gemm on sm_80:
    tile m: 128, n: 128 -> block
    keep C in register:
        move C -> shared pad 8
        tile m: 1, n: 1
        compute
    tile k: 8
    move A -> shared
    move B -> shared
    tile m: 8, n: 8 -> thread
"""
ONE_COPIES = """\
schedule s for gemm on sm_80:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 16
    move A -> shared:
        tile m: 1
        compute
    move B -> shared
    tile m: 4, n: 4 -> thread
"""
ONE_THREAD = "schedule s for row_sum on gfx90a:\n    tile i: 1 -> block\n    keep Y in register\n    tile j: 1\n    compute\n"
NO_BLOCK = "schedule s for row_sum on sm_80:\n    tile i: 1\n    compute\n"
ROW_A_THREAD = """\
schedule s for row_sum on sm_80:
    tile i: 128 -> block
    tile i: 1 -> thread
    keep Y in register
    tile j: 1
    compute
"""
DOWN = "schedule s for transpose on sm_80:\n    tile i: 32, j: 32 -> block\n    tile j: 1, i: 1 -> thread\n    compute\n"
ROW_A_LANE = """\
schedule s for row_sum on cpu:avx2:
    tile i: 64 -> core
    tile i: 1 -> lane
    keep Y in register
    tile j: 1
    compute
"""
MANY = "schedule s for gemm on cpu:avx2:\n    tile m: 8, n: 8\n    keep C in register\n    tile k: 1\n    compute\n"


@pytest.mark.parametrize(
    ("text", "id", "line", "message"),
    [
        (ONE_STORES, "one-unit-for-all", "tile m: 1, n: 1", "1 of 256 threads stores 16,384 elements of `C`"),
        (ONE_COPIES, "one-unit-for-all", "move A -> shared:", "1 of 256 threads executes `load_global_f32x4` 256 times"),
        (ONE_THREAD, "idle-units", "tile i: 1 -> block", "a block has 1 thread; a wave of gfx90a drives 64 at once"),
        (NO_BLOCK, "idle-units", "schedule s", "a block has 1 thread; a warp of sm_80 drives 32 at once"),
        (
            ROW_A_THREAD,
            "strided-access",
            "tile j: 1",
            "threads read `X` 16,384 bytes apart: 32 transactions of 32 bytes where 4",
        ),
        (DOWN, "strided-access", "tile j: 1, i: 1 -> thread", "adjacent threads read `X` 16,384 bytes apart"),
        (ROW_A_LANE, "strided-access", "tile j: 1", "adjacent lanes read `X` 16,384 bytes apart"),
        (MANY, "too-many-registers", "keep C in register", "need 64 of them; a lane of cpu:avx2 has 16"),
    ],
    ids=lambda x: x if isinstance(x, str) and "\n" not in x and len(x) < 24 else "",
)
def test_a_cliff_is_told_at_its_line(text, id, line, message):
    (found,) = warnings(text)
    assert found.id == id
    assert message in found.message
    assert found.span.text == line.removesuffix(":") or found.span.text == line
    assert found.help
    assert str(found).startswith(f"warning[{id}]: ")


@pytest.mark.parametrize(
    "text",
    [
        ONE_STORES.replace("        tile m: 1, n: 1\n        compute\n", ""),  # the compiler deals the write-back out
        ONE_STORES.replace("tile m: 1, n: 1", "tile m: 1, n: 4 -> thread"),
        ONE_COPIES.replace("tile m: 1\n", "tile m: 1, k: 4 -> thread\n"),
        ONE_THREAD.replace("tile j: 1", "tile j: 64\n    tile j: 1 -> thread"),
        DOWN.replace("    tile j: 1, i", "    move X -> shared pad 1\n    tile j: 1, i"),
        ROW_A_LANE.replace("tile i: 1 -> lane", "tile i: 1"),
        MANY.replace("compute", "compute with fma"),
        MANY.replace("m: 8, n: 8", "m: 4, n: 4"),
        # One store a row by the first lane, in a loop over rows whose sums all lanes make, is no cliff.
        "schedule s for row_sum on sm_80:\n    tile i: 64 -> block\n    tile i: 1\n    keep Y in register\n"
        "    tile j: 128\n    tile j: 1 -> thread\n    compute\n",
        # A bias is the same for all rows: one transaction for all who read it.
        "schedule s for add_row on sm_80:\n    tile i: 8, j: 32 -> block\n    tile i: 1, j: 1 -> thread\n    compute\n",
    ],
)  # fmt: skip
def test_what_is_no_cliff_is_not_told(text):
    assert [str(w) for w in warnings(text)] == []


def test_small_sizes_ask_for_few_units():
    """Blocks of five threads for five elements are all there can be."""
    schedule = "schedule s for few on sm_80:\n    tile m: 1 -> block\n    tile n: 1 -> thread\n"
    module = andiron.loads("op few[M](X: f32[M, 5]) -> (Y: f32[M, 5]):\n    Y[m, n] = X[m, n] + 1.0\n" + schedule)
    decl = module.schedules["s"]
    assert lint(compile_program(module, module.ops["few"], decl, module.device("sm_80")).program, decl) == []


FILES = sorted([*(ROOT / "examples").glob("*.sched"), *(ROOT / "stdlib" / "schedules").glob("*.sched")])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_librarys_own_schedules_have_none(path, monkeypatch):
    """For machines with AVX2 as for others: what is warned of here would be false, or the schedule is to be mended."""
    module = andiron.load(path)
    monkeypatch.setattr("andiron.tools.checks.compile_schedules.native_device", lambda: module.device("cpu:avx2"))
    cases = [c for found in compile_all_schedules(module) if isinstance(found, list) for c in found if c.compiled is not None]
    assert cases or not module.schedules
    found = [
        w
        for c in cases
        if c.schedule and c.schedule.span.source is module.file.source
        for w in lint(c.compiled.program, c.schedule)
    ]
    assert [str(w) for w in found] == []


def test_windows_are_small():
    """Else the results of convolutions would be of one pixel, and most units idle."""
    module = andiron.loads("import std.ops.conv\nschedule s for depthwise_conv2d on sm_80:\n    auto\n")
    decl = module.schedules["s"]
    program = compile_program(module, bind_params(module.ops["depthwise_conv2d"]), decl, module.device("sm_80")).program
    sizes = typical_sizes(program)
    assert (sizes["R"], sizes["S"]) == (3, 3)
    assert sizes["H"] == sizes["W"] > 1000
    assert lint(program, replace(decl, lines=())) == []


# ---------------------------------------------------------------- thresholds

OPS = """\
op across[M, N](X: f32[M, N]) -> (Y: f32[N, M]):
    Y[j, i] = X[i, j]
op across_f64[M, N](X: f64[M, N]) -> (Y: f64[N, M]):
    Y[j, i] = X[i, j]
op beside[M, N](W: f32[M, 64], Z: f32[N, M]) -> (Y: f32[N, M]):
    Y[j, i] = Z[j, i] * W[i, 0]
"""


def copied_by(m: int, lines: str, owned: int) -> str:
    """A copy of m rows of 16 elements in a block whose threads have `owned` rows of the result each."""
    return (
        f"schedule s for gemm on sm_80:\n    tile m: {m}, n: 64 -> block\n    keep C in register\n    tile k: 16\n"
        f"    move A -> shared:\n        {lines}\n        compute\n    move B -> shared\n"
        f"    tile m: {owned}, n: {2 * owned} -> thread\n"
    )


def threads(op: str, i: int, j: int) -> str:
    return f"schedule s for {op} on sm_80:\n    tile i: {i}, j: {j} -> block\n    tile i: 1, j: 1 -> thread\n    compute\n"


def lanes(i: int) -> str:
    return ROW_A_LANE.replace("tile i: 64", f"tile i: {i}")


def one_load_of(n: int) -> str:
    return (
        f"schedule s for beside on sm_80:\n    tile i: 32, j: {n} -> block\n    tile i: 1 -> thread\n    move W -> register\n"
        "    tile j: 1\n    compute\n"
    )


# Two schedules on both sides of a threshold: the first is warned of.
THRESHOLDS = {
    "of 32 threads 4 are few, 8 are not": (copied_by(64, "tile m: 16 -> thread", 8), copied_by(64, "tile m: 8 -> thread", 8)),
    "16 vectors are many, 12 are not": (copied_by(4, "tile m: 1", 1), copied_by(3, "tile m: 1", 1)),
    "8 lanes touch much, 4 do not": (lanes(8), lanes(4)),
    "of 32 lanes each alone, or in pairs": (threads("across", 32, 1), threads("across", 16, 2)),
    "8 bytes of 32 are wasteful, 16 are not": (
        threads("across_f64", 32, 1),
        "schedule s for row_sum on sm_80:\n    tile i: 32 -> block\n    keep Y in register\n    tile j: 4\n"
        "    move X -> shared:\n        tile i: 1 -> thread\n        compute\n    tile i: 1 -> thread\n    compute\n",
    ),
    "a load for 20 others moves much, one for 40 does not": (one_load_of(20), one_load_of(40)),
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_cliffs_have_thresholds(name):
    beyond, below = THRESHOLDS[name]
    assert [w.id for w in warnings(OPS + beyond)] in (["one-unit-for-all"], ["strided-access"])
    assert warnings(OPS + below) == []
