"""Reports: of a loop by hand, and of kernels of the library where a compiler and nvdisasm are installed."""

from __future__ import annotations

import json

import andiron
import pytest
from andiron.codegen.analysis.occupancy import Occupancy
from andiron.codegen.emit.emitted_lines import EmittedLines
from andiron.dsl.source import Source, Span
from andiron.runtime.gpu.resource_usage import ResourceUsage
from andiron.runtime.machine_code.main_loop_report import main_loop_report, main_loop_reports
from andiron.runtime.machine_code.nvdisasm import find_nvdisasm
from andiron.runtime.machine_code.parse_sass import parse_sass
from andiron.runtime.machine_code.read_machine_code import read_machine_code
from andiron.runtime.machine_code.sass_classes import sass_class
from andiron.runtime.machine_code.sm_figures import SmFigures
from andiron.runtime.report import report_table

from ...support.gpu.compilers import needs
from ...support.gpu.sass_text import sass_text

LIBRARY = andiron.loads("import std.ops.gemm\nimport std.ops.norm\ndevice plain extends nvidia:\n    clock 1 GHz\n")
LOOP = """
    MOV R1, R2
    L_x_0:
    LDG.E R4, [R2] | write 0 lines 2,4
    HMMA.16816.F32 R8, R12, R14, R8 | stall 2 waits 0 lines 6
    @P0 BRA L_x_0 | stall 5 lines 7
    EXIT"""
# The text that it was made from: a function, and lines of a kernel for two lines of a schedule.
SCHEDULE = Source("s.sched", "move X -> register\ncompute\n")
TEXT = EmittedLines(
    "inline load() {\n    load\n}\n    load();\n    }\n    mma();\n}\n", {4: Span(SCHEDULE, 0, 18), 6: Span(SCHEDULE, 19, 26)}
)
USAGE = ResourceUsage(
    "kernel", threads=128, counted=8, registers=40, spills=0, shared=512, occupancy=Occupancy(2, 256, 2048, "x")
)


def report(rows=LOOP, device="sm_80"):
    return main_loop_report(
        parse_sass(sass_text(rows))["kernel"], USAGE, 1, sass_class, SmFigures(LIBRARY.device(device)), TEXT
    )


def test_a_loop_by_hand():
    found = report()
    assert found.loop == (0x10, 0x30)
    assert (found.instructions, found.counts) == (3, {"mma": 1, "global load": 1, "branch": 1})
    assert (found.per_mma, found.outer, found.read) == (3, 0, 512)
    assert found.from_dram == pytest.approx(512 / 10.2, rel=0.01)
    model = found.model
    assert model is not None
    # Four warps, one a scheduler. The last one's load is done three cycles after the first one's.
    assert model.warps == 4
    assert 1 + 500 + 2 + 5 <= model.cycles <= 1 + 503 + 2 + 5
    assert model.busy["tensor"] == pytest.approx(8 / model.cycles)
    assert model.worst == "long scoreboard"
    assert model.lines[0].instruction == "0x0020 HMMA.16816.F32 R8, R12, R14, R8"
    assert model.lines[0].waits_for == ("0x0010 LDG.E R4, [R2]",)
    assert sum(model.stalls.values()) == pytest.approx(model.cycles, rel=0.02)


def test_lines_of_the_schedule():
    compute, *others = report().by_line
    move, unknown = sorted(others, key=lambda c: c.line)
    assert (compute.line, compute.place, compute.instructions) == ("compute", "s.sched:2", 1)
    assert (move.line, move.place, move.instructions) == ("move X -> register", "s.sched:1", 1)
    assert (unknown.line, unknown.instructions) == ("no line of the schedule", 1)
    assert compute.cycles is not None
    assert compute.cycles > 490  # it waits for the load
    model = report().model
    assert model is not None
    assert sum(c.cycles or 0 for c in report().by_line) == pytest.approx(model.cycles, rel=0.02)
    assert [c.cycles for c in report(device="plain").by_line] == [None] * 3
    text = report_table(report().rows())
    assert "of the cycles, 1 instruction: compute  (s.sched:2)" in text
    assert "33%, 1 instruction: move X -> register  (s.sched:1)" in report_table(report(device="plain").rows())


def test_an_instruction_that_is_issued_is_no_stall():
    model = report("L_x_0:\n" + "UIADD3 UR1\n" * 10 + "@P0 BRA L_x_0 | stall 5\nEXIT").model
    assert model is not None
    assert model.stalls == {"selected": 11, "wait": 4}
    assert model.worst == "wait"


def test_a_loop_inside_is_counted_as_often_as_it_turns():
    """Three turns of the load and the product in each step, and an addition for each of these."""
    inner = (
        LOOP.replace("EXIT", "")
        .replace("MOV R1, R2", "MOV R1, 0x3")
        .replace("@P0", "IADD3 R1, R1, -0x1, RZ | stall 4\nISETP.NE.AND P0, PT, R1, RZ, PT | stall 4\n@P0")
    )
    found = report(f"L_x_1:\nBAR.SYNC 0x0 | stall 5\n{inner}\n@P1 BRA L_x_1 | stall 5\nEXIT")
    assert found.counts == {"integer": 7, "mma": 3, "global load": 3, "branch": 4, "barrier": 1}
    assert (found.instructions, found.outer, found.per_mma, found.read) == (18, 0, 6, 3 * 512)
    assert [(x.first, x.last, x.turns) for x in found.inner] == [(0x20, 0x60, 3)]
    assert "0x0000 to 0x0070; 3 turns of 0x0020 to 0x0060 inside\n" in report_table(found.rows())
    assert json.loads(json.dumps(found.as_dict()))["inner"] == [{"first": 0x20, "last": 0x60, "turns": 3}]
    model = found.model
    assert model is not None
    assert model.cycles > 3 * 500
    assert model.busy["tensor"] == pytest.approx(3 * 8 / model.cycles)
    # Three waits, one a turn, are one line.
    assert [line.instruction for line in model.lines] == ["0x0030 HMMA.16816.F32 R8, R12, R14, R8"]
    assert sum(model.stalls.values()) == pytest.approx(model.cycles, rel=0.02)


def test_what_people_read():
    text = report_table(report().rows())
    assert "40 registers, none spilled, 512 B shared; 1 block of 128 threads resident" in text
    assert "main loop     0x0010 to 0x0030\n" in text
    assert "3, 3.00 for each mma: 1 mma, 1 global load, 1 branch" in text
    assert "cycles of 4 warps, by the cycle model" in text
    assert "cycles at 0x0020 HMMA.16816.F32 R8, R12, R14, R8 (waits for 0x0010 LDG.E R4, [R2])" in text
    nested = report(f"L_x_1:\n{LOOP.replace('EXIT', '')}\n@P1 BRA L_x_1\nEXIT")
    assert "inside 1 loop whose other instructions are not counted" in report_table(nested.rows())
    assert "none: the whole kernel is one iteration" in report_table(report("STG [R2], R1\nEXIT").rows())


def test_programs_read_the_same():
    found = json.loads(json.dumps(report().as_dict()))
    assert found["model"]["busy"]["tensor"] > 0
    assert found["counts"] == {"mma": 1, "global load": 1, "branch": 1}


def test_figures_that_are_lacking():
    for found in (report(LOOP.replace("HMMA.16816.F32", "QMMA.16832.F32.E4M3.E4M3")), report(device="plain")):
        assert found.model is None
        assert found.counts["mma"] == 1
        assert "no cycle model: " in report_table(found.rows())
    assert "QMMA" in report(LOOP.replace("HMMA.16816.F32", "QMMA.16832.F32.E4M3.E4M3")).note
    assert "clock" in report(device="plain").note


def of_the_library(name, target, **sizes):
    """The report of the first kernel."""
    kernel = andiron.compile(LIBRARY, name, "auto", target, sizes=sizes)
    needs(kernel.variants[0].target)
    if target.startswith("cuda") and find_nvdisasm() is None:
        pytest.skip("no nvdisasm: pip install 'andiron[cuda-tools]'")
    return main_loop_reports(kernel.variants[0], sizes)[0]


def test_a_product_of_matrices():
    found = of_the_library("gemm_f16", "cuda:sm_80", M=4096, N=4096, K=4096)
    assert found.per_mma is not None
    assert 2 < found.per_mma < 3
    assert found.counts["mma"] >= 64
    assert found.counts["async copy"] == found.read // found.blocks // 512 // (found.threads // 32)
    assert found.spills == 0
    assert found.blocks == 2
    lines = {c.line.partition(" ")[0] for c in found.by_line}
    assert {"move", "C[m,"} <= lines
    assert sum(c.instructions for c in found.by_line) == found.instructions
    assert found.model is not None
    assert next(iter(found.model.busy)) == "tensor"
    assert found.model.busy["tensor"] > 0.9


def test_vectors_are_stored_whole():
    """Of open sizes as well, where the compiler once stored each of the 4 words of a vector by itself."""
    kernel = andiron.compile(LIBRARY, "gemm_f16", "auto", "cuda:sm_80")
    needs(kernel.variants[0].target)
    if find_nvdisasm() is None:
        pytest.skip("no nvdisasm: pip install 'andiron[cuda-tools]'")
    code = next(c for name, c in read_machine_code(kernel.variants[0]).items() if not name.endswith("_any"))
    assert {i.opcode for i in code if i.base == "STG"} == {"STG.E.128"}


def test_a_product_of_multiply_adds():
    found = of_the_library("gemm", "cuda:sm_86", M=1024, N=1024, K=1024)
    assert found.per_mma is None
    assert found.counts["fma"] > 0.8 * found.instructions
    assert found.model is not None
    assert found.model.busy["fma"] > 0.7


def test_rows():
    found = of_the_library("softmax", "cuda:sm_80", M=4096, N=4096)
    assert found.counts["special function"] > 0
    assert found.counts["global load"] > 0
    assert found.from_dram is not None
    assert found.model is not None
    assert found.model.warps == found.blocks * found.threads // 32


def test_a_small_grid_leaves_room():
    """One block for each of 108 SMs, though several would be resident."""
    few = of_the_library("softmax", "cuda:sm_80", M=64, N=4096)
    assert few.blocks == 1


def test_a_product_of_matrices_on_an_amd_gpu():
    found = of_the_library("gemm_f16_nt", "hip:gfx942", M=4096, N=4096, K=4096)
    assert found.per_mma is not None
    assert 2 < found.per_mma < 5
    assert found.counts["shared load"] > 0
    assert found.counts["global load"] > 0
    assert found.model is None
    text = report_table(found.rows())
    assert " of the assembly" in text
    assert any(c.line.startswith("move A -> ") for c in found.by_line)
    assert "no cycle model" in text
