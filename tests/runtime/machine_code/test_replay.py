"""The cycle model, on loops whose cycles are counted by hand. Rates are those of sm_80: FFMA 2 cycles, HMMA 8, LDS 1 a word."""

from __future__ import annotations

import andiron
import pytest
from andiron.runtime.machine_code.parse_sass import parse_sass
from andiron.runtime.machine_code.replay import replay
from andiron.runtime.machine_code.sm_figures import SmFigures

from ...support.gpu.sass_text import sass_text

FIGURES = SmFigures(andiron.loads("import std.ops.gemm\n").device("sm_80"))


def cycles(rows, warps=1, blocks=1):
    """Of an iteration, and of a warp's waits by reason."""
    path = parse_sass(sass_text(rows))["kernel"]
    works = [w for i in path if (w := FIGURES.work(i))]
    found = replay(path, works, warps, blocks, FIGURES)
    assert sum(found.stalls.values()) == pytest.approx(found.cycles)
    reasons = {}
    for (_, reason), n in found.stalls.items():
        reasons[reason] = reasons.get(reason, 0) + n
    assert reasons["selected"] == pytest.approx(len(path))
    return found.cycles, reasons


def test_stall_counts_add_up():
    total, reasons = cycles("FFMA R1 | stall 4\nFFMA R1 | stall 4\nBRA L_x_0 | stall 5")
    assert total == 13
    assert reasons == {"selected": 3, "wait": 10}


def test_a_pipe_is_shared_by_the_warps_of_a_scheduler():
    total, reasons = cycles("HMMA.16816.F32 R4\nHMMA.16816.F32 R8", warps=8)
    assert total == 2 * 2 * 8
    assert reasons["math pipe throttle"] == pytest.approx(total - 2)
    assert cycles("HMMA.16816.F32 R4\nHMMA.16816.F32 R8", warps=4)[0] == 16
    assert cycles("HMMA.16816.F32 R4\nHMMA.16816.F32 R8", warps=4, blocks=2)[0] == 32


def test_warps_of_a_scheduler_with_more_of_them_take_longer():
    """Six warps on four schedulers, two of which have two each: while these make four iterations, the others make four."""
    path = parse_sass(sass_text("HMMA.16816.F32 R4\nHMMA.16816.F32 R8"))["kernel"]
    works = [w for i in path if (w := FIGURES.work(i))]
    uneven = replay(path, works, 2, 3, FIGURES)
    assert uneven.slowest == pytest.approx(2 * 2 * 8)
    assert uneven.cycles == pytest.approx((4 * 32 + 4 * 16) / 8, rel=0.05)
    even = replay(path, works, 2, 4, FIGURES)
    assert even.slowest == pytest.approx(even.cycles) == pytest.approx(32)


def test_a_long_step_takes_no_less_than_its_pipe():
    """1,000 FFMA of four warps of a scheduler. By default too few iterations are counted: some warps are ahead of these."""
    path = parse_sass(sass_text("LDG.E.128 R60\n" * 2 + "BAR.SYNC 0x0\n" + "FFMA R1\n" * 1000))["kernel"]
    works = [w for i in path if (w := FIGURES.work(i))]
    assert replay(path, works, 4, 4, FIGURES, most=300_000).cycles == pytest.approx(1000 * 2 * 4, rel=0.005)


def test_pipes_work_side_by_side():
    """Four additions of 2 cycles hide behind a matrix instruction of 8."""
    assert cycles("HMMA.16816.F32 R4\n" + "LOP3.LUT R1\n" * 4)[0] == 8
    assert cycles("HMMA.16816.F32 R4\n" + "LOP3.LUT R1\n" * 5)[0] == 10


def test_a_scheduler_issues_one_instruction_a_cycle():
    total, reasons = cycles("NOP\n" * 10, warps=12)
    assert total == 30
    assert reasons == {"selected": 10, "not selected": 20}


def test_a_result_from_shared_memory_is_waited_for():
    total, reasons = cycles("LDS R1, [R2] | write 0\nFADD R3, R1, R3 | waits 0")
    assert total == 25
    assert reasons == {"selected": 2, "short scoreboard": 23}


def test_a_result_from_global_memory_is_waited_for():
    total, reasons = cycles("LDG.E R1, [R2] | write 3\nFADD R3, R1, R3 | waits 3")
    assert total == 502
    assert reasons == {"selected": 2, "long scoreboard": 500}


def test_the_shared_memory_pipe_belongs_to_all_schedulers():
    """A warp's 16 bytes a lane take it four cycles."""
    total, reasons = cycles("LDS.128 R4, [R2]", warps=32)
    assert total == pytest.approx(32 * 4, rel=0.02)
    assert reasons["MIO throttle"] > 100


def test_a_scheduler_has_a_queue_for_shared_memory():
    """The ninth load is issued when the first one leaves, and so on each four cycles; the last one after 16."""
    assert cycles("LDS.128 R4, [R2]\n" * 12 + "MOV R1 | stall 15\n" * 3)[0] == 16 + 1 + 45


def test_the_l2_cache_has_a_bandwidth():
    """7.2 TB/s of 108 SMs at 1.41 GHz: 47.3 bytes a cycle, for the 512 bytes of a warp."""
    assert cycles("LDG.E.128 R4, [R2] | write 0 waits 0", warps=64)[0] == pytest.approx(64 * 512 / 47.3, rel=0.05)


def test_operands_are_read_before_they_are_overwritten():
    """A store's operand is read six cycles after its turn at the pipe."""
    assert cycles("STS [R2], R1 | read 1\nMOV R1, R3 | waits 1")[0] == 1 + 6 + 1


def test_warps_of_a_block_wait_for_each_other():
    total, reasons = cycles("BAR.SYNC 0x0", warps=4)
    assert total == 8
    assert reasons == {"selected": 1, "barrier": 7}
    # Two warps on a scheduler: the second one arrives a cycle later.
    assert cycles("BAR.SYNC 0x0", warps=8)[0] == 9
    assert cycles("BAR.SYNC 0x0", warps=4, blocks=2)[0] <= 9


COPY = "LDGSTS.E [R3], [R4]\nLDGDEPBAR | write 0\nDEPBAR.LE SB0, {}"


def test_groups_of_copies_are_waited_for():
    total, reasons = cycles(COPY.format("0x0"))
    assert total == 502
    assert reasons["asynchronous copy"] == 499


@pytest.mark.parametrize("ahead", [1, 3])
def test_groups_that_stay_in_flight_hide_the_latency(ahead):
    assert cycles(COPY.format(hex(ahead)))[0] == pytest.approx(502 / (ahead + 1), rel=0.02)


def test_only_the_oldest_groups_are_waited_for():
    """Beside 300 cycles of other work, 501 of latency are awaited an iteration later: P = (501 - P) + 301."""
    assert cycles(COPY.format("0x1") + "\nMOV R1 | stall 15" * 20)[0] == pytest.approx(401, rel=0.01)


def test_no_warp_is_left_behind():
    """Though the one that issued last comes first as long as it is ready."""
    total, reasons = cycles("NOP\n" * 100, warps=16)
    assert total == 400
    assert reasons["not selected"] == pytest.approx(300, rel=0.02)


def test_long_paths_are_counted_less_often():
    assert cycles("FADD R1\n" * 3000, warps=16)[0] == pytest.approx(3000 * 2 * 4, rel=0.02)
