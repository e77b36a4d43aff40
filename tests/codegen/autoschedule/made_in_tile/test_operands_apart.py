"""Operands of a product that launches of their own compute, where they would be computed in its tiles otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.cost import ResourceUse, in_turn
from andiron.codegen.autoschedule.machine_model import block_machine
from andiron.codegen.autoschedule.made_in_tile import operands_apart
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

TEXT = """
import std.ops.gemm
schedule some for gemm_tf32:
    tile m: 128, n: 128 -> block
    auto
schedule apart for gemm_tf32:
    keep C.left in global:
        auto
    keep C.right in global:
        auto
    auto
"""
LARGE = {"M": 4096, "N": 4096, "K": 4096}


def compiled(sizes: dict[str, int], device: str = "sm_80", schedule: str | None = None) -> CompiledProgram:
    module = loads(TEXT)
    written = module.schedules[schedule] if schedule is not None else None
    return compile_program(module, specialise(module.ops["gemm_tf32"], sizes), written, module.device(device))


def test_large_products_of_rounded_operands() -> None:
    """Both are rounded before. What was compared is in the report, the faster way first."""
    made = compiled(LARGE)
    assert len(made.program.launches) == 3
    assert "keep C.left in global:" in made.schedule
    assert "keep C.right in global:" in made.schedule
    (report,) = made.report["alternatives"]
    first, second = report.candidates
    assert first.nest == "apart: 3 launches"
    assert second.nest == "C.left, C.right computed in each tile: 1 launch"
    assert second.parts["waits"] > 0
    assert first.seconds < operands_apart.CLEARLY * second.seconds
    again = loads(f"import std.ops.gemm\n{made.schedule}")
    (name,) = (n for n in again.schedules if n.startswith("gemm_tf32"))
    op = specialise(again.ops["gemm_tf32"], LARGE)
    assert compile_program(again, op, again.schedules[name], again.device("sm_80")).program.launches == made.program.launches


@pytest.mark.parametrize(
    ("sizes", "device", "schedule"),
    [
        ({"M": 1024, "N": 1024, "K": 1024}, "sm_80", None),  # it takes longer to write them
        ({}, "sm_80", None),  # for few rows it would
        (LARGE, "sm_80", "some"),  # an author began a launch
        (LARGE, "gfx942", None),  # other blocks hide what one waits for
        (LARGE, "sm_86", None),
    ],
)
def test_else_they_are_rounded_in_its_tiles(sizes: dict[str, int], device: str, schedule: str | None) -> None:
    assert "in global:" not in compiled(sizes, device, schedule).schedule


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("sizes", [(35, 41, 13), (1, 1, 1), (130, 66, 72), (3, 5, 0), (0, 4, 9)])
def test_results(sizes: tuple[int, int, int], fixed: bool) -> None:
    """Of every size, and in memory that something else was in before."""
    m, n, k = sizes
    op = loads(TEXT).ops["gemm_tf32"]
    kernel = compile(TEXT, op="gemm_tf32", schedule="apart", target="emulate:sm_80", sizes=dict(M=m, N=n, K=k) if fixed else {})
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=x).astype(np.float32) for x in ((m, k), (k, n)))
    out = np.full((m, n), np.nan, np.float32)
    kernel(a, b, out=out)
    assert check(op, [a, b], [out]).ok


def test_blocks_in_turn() -> None:
    """One block computes or waits. More of them hide that the less, the longer each waits, and compute no faster together."""
    machine = block_machine(loads("import std.devices.nvidia").device("sm_80"))
    assert machine is not None

    def cycles(wait: float, blocks: int) -> float:
        d = ResourceUse(machine.units * 8.0, machine.schedulers, 0, 0, 1000.0, *[0] * 7, waits=np.array(wait))
        return float(in_turn(machine, d, np.array(blocks))) * machine.clock / 8

    assert cycles(300, 1) == pytest.approx(1300)
    assert cycles(0, 4) == pytest.approx(1000)
    assert 1300 > cycles(300, 2) > cycles(300, 4) > 1000
    assert cycles(1000, 2) == pytest.approx(1500)
    assert cycles(100, 2) < cycles(300, 2) < cycles(900, 2)
