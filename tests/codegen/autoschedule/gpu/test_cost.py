"""The cost model: closed forms against what is known otherwise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from andiron.codegen.analysis.occupancy import occupancy
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.autoschedule.gpu.cost import GpuCost, ResourceUse, cost, resident_blocks
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.machine_model import MachineModel, block_machine
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import applicable_nests, best_candidates, rank_candidates, sample_sizes
from andiron.runtime.compile import compile

from ....support.library.unscheduled import GPUS, chosen, compiled, library, op_of

GEMM = dict(M=2048, N=1024, K=512)


def machine_of(name: str) -> MachineModel:
    machine = block_machine(library().device(name))
    assert machine is not None
    return machine


@pytest.mark.parametrize("name", GPUS)
def test_residency_is_occupancy(name: str) -> None:
    machine = machine_of(name)
    for groups, registers, staged in product((1, 3, 8, 16), (32, 90, 128, 255), (0, 1000, 20000, 60000)):
        said = occupancy(machine.device, groups * machine.lanes, registers, staged)
        fits = groups <= machine.max_groups and registers <= machine.max_registers and staged <= (machine.staging.capacity or 0)
        assert said is not None
        assert resident_blocks(machine, np.array(groups), np.array(registers), np.array(staged)) == (said.blocks if fits else 0)


def test_what_is_far_off_at_the_largest_sizes_is_out() -> None:
    d, op = library().device("sm_80"), op_of("gemm")
    largest = (r.seconds[-1] for r in rank_candidates(context_of(op, d), launches_of(op, d, ())[0][0]))
    assert 2.9 < max(x[np.isfinite(x)].max() / x.min() for x in largest) <= 3.0


@pytest.mark.parametrize("name", ["cpu:avx2", "cpu:generic"])
def test_processors_are_another_build(name: str) -> None:
    assert block_machine(library().device(name)) is None


@pytest.mark.parametrize(("op", "device"), [("gemm_f16", "sm_80"), ("gemm", "sm_86"), ("gemm", "gfx90a"), ("gemm_i8", "sm_80")])
def test_bytes_asked_of_memory_are_those_of_the_program(op: str, device: str) -> None:
    """What the model says is asked of the outermost memory is what the program asks; but for long loops (`static_traffic`)."""
    sizes = GEMM | {"N": 2048}  # tiles divide them; at edges, not all that is counted is asked
    r, i = chosen(op, device, sizes)
    known = static_traffic(compiled(op, device, sizes).program, sizes)
    assert r.traffic(np.array([i])).requested == pytest.approx(known.moved("global"), rel=0.02)


IMAGE = dict(N=1, C=16, H=18, W=18, O=32, R=3, S=3)
COUNTED = [
    ("gemm", "sm_80", dict(M=128, N=256, K=128)),
    ("gemm", "gfx90a", dict(M=128, N=128, K=128)),
    ("gemm", "gfx90a", dict(M=128, N=128, K=99)),
    ("gemm_i8", "sm_80", dict(M=128, N=128, K=208)),
    ("gemm_tt", "sm_86", dict(M=128, N=128, K=64)),
    ("gemm_i8", "sm_80", dict(M=128, N=128, K=128)),
    ("gemm_f16", "sm_80", dict(M=256, N=256, K=128)),
    ("gemm_f16", "sm_80", dict(M=100, N=72, K=96)),
    ("gemm_f16", "sm_80", dict(M=16, N=64, K=8192)),
    ("gemm_f16", "gfx1100", dict(M=128, N=128, K=128)),
    ("gemm_f16_nt", "sm_80", dict(M=128, N=128, K=256)),
    ("gemm_f16_f32", "gfx942", dict(M=128, N=256, K=128)),
    ("gemm_tf32", "sm_80", dict(M=128, N=128, K=128)),
    ("gemm_f16_i4", "sm_80", dict(M=128, N=128, K=128, G=4)),
    ("gemm_f16_i4", "gfx90a", dict(M=128, N=64, K=128, G=4)),
    ("batched_gemm_f16", "sm_80", dict(B=4, M=64, N=64, K=64)),
    ("conv2d_nhwc_f16", "sm_80", IMAGE),
    ("conv2d", "sm_80", IMAGE),
    ("depthwise_conv2d", "sm_80", dict(N=1, C=16, H=18, W=34, R=3, S=3)),
    ("softmax", "sm_80", dict(M=64, N=1024)),
    ("layernorm", "sm_80", dict(M=64, N=1024)),
    ("row_sum", "sm_80", dict(M=64, N=2048)),
    ("row_sum", "gfx90a", dict(M=64, N=2048)),
    ("col_sum", "sm_80", dict(M=256, N=1024)),
    ("gemv", "sm_80", dict(M=256, K=1024)),
    ("transpose", "gfx90a", dict(M=256, N=256)),
    ("add_row", "sm_80", dict(M=64, N=1024)),
    ("copy", "sm_80", dict(N=65536)),
]


@pytest.mark.parametrize(("op", "device", "sizes"), [pytest.param(*x, id=f"{n}-{x[0]}-{x[1]}") for n, x in enumerate(COUNTED)])
def test_bytes_asked_of_each_memory_are_what_the_emulator_counts(op: str, device: str, sizes: dict[str, int]) -> None:
    kernel = compile(library(), op, None, f"emulate:{device}", None, **sizes)
    kernel.counting = True
    env = kernel.op.all_sizes(sizes)
    kernel(*(np.ones([int(e.evaluate(env)) for e in t.shape], t.dtype.numpy) for t in kernel.op.inputs))
    counts = kernel.report.counts
    assert counts is not None
    first = compiled(op, device, sizes).report["choices"][0].candidates[0]  # of a split reduction it speaks for both launches
    shared = sum(counts.moved.get("shared", {}).values())
    assert (first.asked, first.served) == pytest.approx((sum(counts.moved["global"].values()), shared), rel=1e-9)


@pytest.mark.parametrize("device", GPUS)
def test_no_candidate_is_faster_than_the_device(device: str) -> None:
    """Neither than its arithmetic, nor than the bytes that must be moved."""
    for op, sizes in (
        ("gemm_f16", GEMM),
        ("gemm", GEMM),
        ("softmax", dict(M=4096, N=4096)),
        ("transpose", dict(M=4096, N=4096)),
    ):
        machine = machine_of(device)
        r, i = chosen(op, device, sizes)
        far, least = r.table([i], r.demand.dram_bytes)[0, 0], r.traffic(np.array([i])).least
        assert far >= least
        assert r.seconds[-1, i] >= least / (machine.home.bandwidth or 1)
        if op.startswith("gemm"):
            rates = [machine.device.limit(x) or 0 for x in ("matrix f16", "matrix f32", "f32", "f16")]
            assert r.seconds[-1, i] >= 2 * GEMM["M"] * GEMM["N"] * GEMM["K"] / (max(rates) * machine.units)


def test_few_tiles_split_the_reduction() -> None:
    r, i = chosen("gemm_f16", "sm_80", dict(M=64, N=64, K=65536))
    assert r.tile(i)["split"] > 0
    r, i = chosen("gemm_f16", "sm_80", dict(M=4096, N=4096, K=4096))
    assert r.tile(i)["split"] == 0


def test_large_products_are_bound_by_arithmetic_and_copies_by_memory() -> None:
    r, i = chosen("gemm_f16", "sm_80", dict(M=4096, N=4096, K=4096))
    assert r.costs([i])[i][1].bound == "pipe"
    assert r.seconds[-1, i] < 1.5 * 2 * 4096**3 / 312e12
    r, i = chosen("copy", "sm_80", dict(N=1 << 24))
    assert r.costs([i])[i][1].bound == "far"
    assert r.seconds[-1, i] < 1.4 * 2 * 4 * (1 << 24) / 1555e9


def test_instructions_are_taken_where_types_match() -> None:
    for op, device, instr in (
        ("gemm_f16", "sm_80", "mma_m16n8k16_f16"),
        ("gemm_f16", "sm_75", "mma_m16n8k8_f16"),
        ("gemm_i8", "sm_90a", "mma_m16n8k32_i8"),
        ("gemm", "gfx90a", "mfma_"),
        ("gemm_f16", "gfx1100", "wmma_16x16x16_f16"),
        ("conv2d_nhwc_f16", "sm_80", "mma_m16n8k16_f16"),
    ):
        assert f"compute with {instr}" in compiled(op, device).schedule
    assert "compute with mma" not in compiled("gemm", "sm_80").schedule  # f32 is no type of that tensor unit


def test_what_lies_along_another_axis_is_turned_in_the_memory_of_a_unit() -> None:
    for device in ("sm_80", "gfx942", "gfx1100"):
        assert "move X -> shared pad 1" in compiled("transpose", device).schedule
        assert "move X" not in compiled("add_row", device).schedule


def seconds(**asked) -> GpuCost:
    """Of blocks of two groups that do arithmetic only, and of what is asked besides."""
    plain = dict(
        blocks=108.0, groups=2, registers=64, staged=0, pipe=1e6, issue=0, staging=0,
        l2_bytes=0, dram_bytes=0, bytes_in_flight=1e9, rounds=0,
        launches=0,
    )  # fmt: skip
    return cost(machine_of("sm_80"), ResourceUse(**{name: np.array([x]) for name, x in (plain | asked).items()}))


def test_waits_are_hidden_by_other_groups_of_a_scheduler() -> None:
    """What a group waits between turns counts in full where it has a scheduler to itself, and not where two share it."""
    alone, shared = (seconds(groups=4 * n, pipe=1e6 / n, stall=2e5 / n) for n in (1, 2))
    assert alone.seconds[0] == pytest.approx(1.2e6 / 1.41e9)
    assert shared.seconds[0] == pytest.approx(1e6 / 1.41e9)
    assert [max(c.parts, key=lambda name: c.parts[name][0]) for c in (alone, shared)] == ["group", "pipe"]


def test_phases_of_one_group_are_hidden_by_others_but_for_one() -> None:
    """What a group computes after its `pipe` is beside that of the other groups of its scheduler."""
    one, two, four = (seconds(groups=4 * n, pipe=1e6 / n, issue=8e5 / n, phase=8e5 / n).parts["group"][0] for n in (1, 2, 4))
    assert one == pytest.approx(1.8e6 / 1.41e9)
    assert two == pytest.approx(1.4e6 / 1.41e9)
    assert four == pytest.approx(1.2e6 / 1.41e9)


def test_the_last_round_takes_as_long_as_its_busiest_scheduler() -> None:
    """Four blocks of two groups fit: three that are left over leave two schedulers with one group, and two with two."""
    took = {n: seconds(blocks=108.0 * n, registers=255, pipe=1e6).seconds[0] * 1.41e9 for n in (4, 5, 7, 8)}
    assert took == pytest.approx({4: 2e6, 5: 3e6, 7: 4e6, 8: 4e6})


def test_waits_after_barriers_are_hidden_by_other_blocks() -> None:
    """All groups of a block wait at once, so its own hide nothing."""
    alone, shared = (seconds(groups=8, pipe=1e6 / n, exposed=2e5 / n, blocks=108.0 * n) for n in (1, 2))
    assert alone.seconds[0] == pytest.approx(2.2e6 / 1.41e9)
    assert shared.seconds[0] == pytest.approx(2e6 / 1.41e9)
    assert [max(c.parts, key=lambda name: c.parts[name][0]) for c in (alone, shared)] == ["block", "pipe"]


def test_round_trips_are_hidden_by_blocks_on_the_same_scheduler() -> None:
    """Two blocks of two groups have a scheduler for each group: while a block waits, its schedulers have nothing to do."""
    few, many = (seconds(groups=n, pipe=1e6 / n, blocks=216.0, rounds=100) for n in (2, 4))
    idle = [c.seconds[0] - seconds(groups=n, pipe=1e6 / n, blocks=216.0).seconds[0] for n, c in ((2, few), (4, many))]
    assert idle[0] == pytest.approx(2 * idle[1])


def test_loads_are_waited_for_and_stores_are_not() -> None:
    """Twice as many bytes in flight load in half the time; what is stored takes the bandwidth of the cache alone."""
    cache = library().device("sm_80").memory("l2").bandwidth
    few, more = (seconds(pipe=0, l2_bytes=1e9, bytes_in_flight=n).parts["loads"][0] for n in (100, 200))
    assert few == pytest.approx(2 * more)
    loads, stores = (seconds(pipe=0, l2_bytes=1e9, bytes_in_flight=100, stored=n).seconds[0] for n in (0, 1e9))
    assert loads == pytest.approx(few)
    assert stores == pytest.approx(1e9 / cache)


def test_rows_of_a_map_are_loaded_one_after_the_other() -> None:
    """So more of them take no more registers: three vectors of four elements besides 16. ptxas takes 16 to 36 of such maps."""
    r, _ = chosen("add_row", "sm_80", dict(M=4096, N=4096))
    found = r.table(np.arange(r.count), r.tiles["v"], r.tiles["ws"], r.demand.registers).T.tolist()
    assert {registers for v, _, registers in found if v == 4} == {16 + 3 * 4}
    assert {rows for v, rows, _ in found if v == 4} == {1, 2, 4, 8}


@pytest.mark.parametrize(("rows", "loads"), [(2, 2), (16, 16), (64, 64), (4096, 64)])
def test_what_a_lane_adds_up_is_loaded_together(rows: int, loads: int) -> None:
    """Of a maximum of so many rows as many loads as are unrolled: machine code has 16, 64 and 64 to 80 of them at a time, and
    takes 31, 72 and 72 to 88 registers."""
    r, _ = chosen("col_max", "sm_80", dict(M=rows, N=1 << 18))
    demand = r.demand
    found = r.table(np.arange(r.count), r.tiles["v"], r.tiles["gk"], demand.groups, demand.bytes_in_flight, demand.registers).T
    lanes = {(flight / groups / 32, registers) for v, gk, groups, flight, registers in found.tolist() if v == gk == 1}
    assert lanes == {(4 * loads, 16 + 1 + loads)}


def test_loads_of_open_loops_are_few() -> None:
    """Compilers unroll them four times."""
    r, _ = chosen("col_max", "sm_80", {})
    found = r.table(
        np.arange(r.count), r.tiles["v"], r.tiles["gk"], r.tiles["part"], r.demand.groups, r.demand.bytes_in_flight
    ).T
    assert {flight / groups / 32 for v, gk, part, groups, flight in found.tolist() if v == gk == 1 and not part} == {4 * 4}


@pytest.mark.parametrize(("op", "sizes"), [("gemm", dict(M=256, N=256, K=8192)), ("col_sum", dict(M=1 << 16, N=64))])
def test_parts_that_are_in_flight_together_take_one_latency(op: str, sizes: dict[str, int]) -> None:
    """Each lane loads its parts of a split reduction at once: beside those of other lanes, or a row apart, when most bytes of a
    transaction are for nobody, in flight as when they arrive."""
    parts = compiled(op, "sm_80", sizes).report["choices"][1].candidates[0].parts["loads"]
    assert 1 <= parts / machine_of("sm_80").latency < 3


def test_adding_up_the_parts_comes_after() -> None:
    """As long as its bytes take: of the cache where they fit, else of the outermost memory; the arithmetic hides nothing."""
    device = library().device("sm_80")
    home, cache = device.memory("global"), device.memory("l2")
    fits, large = cache.capacity / 2, 4.0 * cache.capacity
    plain = seconds().seconds[0]
    assert seconds(second_launch_bytes=fits).seconds[0] - plain == pytest.approx(fits / cache.bandwidth)
    assert seconds(second_launch_bytes=large).seconds[0] - plain == pytest.approx(large / home.bandwidth)


@pytest.mark.parametrize(("op", "device"), [("gemm_f16", "gfx942"), ("gemm_f64", "gfx90a")])
def test_of_mirror_images_that_with_longer_rows_is_first(op: str, device: str) -> None:
    """Candidates that cost the same to the digit are in an order that does not depend on how they were made."""
    d, sizes = library().device(device), dict(M=2048, N=2048, K=2048)
    works = launches_of(op_of(op, sizes), d, ())[0][0]
    order = best_candidates(rank_candidates(context_of(op_of(op, sizes), d), works))
    place = {(id(r), *sorted(r.tile(i).items())): n for n, (r, i, _) in enumerate(order)}
    mirrored = {"tm": "tn", "wm": "wn", "gm": "gn", "bm": "bn"}
    other = mirrored | {b: a for a, b in mirrored.items()}
    pairs = 0
    for n, (r, i, slower) in enumerate(order):
        if r.nest.name != "contraction":
            continue
        tile = r.tile(i)
        turned = {other.get(name, name): x for name, x in tile.items()}
        if "lm" in tile:
            turned["lm"] = r.nest.machine.lanes // tile["lm"]
        at = place.get((id(r), *sorted(turned.items())))
        if at is not None and order[at][2] == slower and tile["wn"] > tile["wm"]:
            pairs += 1
            assert n < at
    assert pairs


@pytest.mark.parametrize(("op", "device"), [("gemm", "sm_86"), ("gemm_nt", "sm_86"), ("gemm", "sm_90a")])
def test_of_groups_that_cost_the_same_that_with_fewer_operands_is_first(op: str, device: str) -> None:
    """Lanes of scalars that read the same elements are served at once: 64 x 64 results are of fewer elements than 32 x 128."""
    d, sizes = library().device(device), dict(M=4096, N=4096, K=4096)
    works = launches_of(op_of(op, sizes), d, ())[0][0]
    order = best_candidates(rank_candidates(context_of(op_of(op, sizes), d), works))
    alike = [r.tile(i) for r, i, slower in order if slower == order[0][2]]
    groups = [(t["wm"], t["wn"]) for t in alike if t["gm"] * t["gn"] == alike[0]["gm"] * alike[0]["gn"]]
    assert len(set(groups)) > 1
    assert sum(groups[0]) == min(map(sum, groups))


@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "gfx90a", "gfx1100"])
@pytest.mark.parametrize("name", ["gemm_f16", "gemm", "conv2d_nhwc_f16", "batched_gemm_f16", "softmax", "transpose"])
def test_no_candidate_takes_less_than_its_nest_says(name: str, device: str) -> None:
    """What `Nest.least` promises: whole nests are left out by it."""
    d = library().device(device)
    op = op_of(name, {})
    machine, ctx = machine_of(device), context_of(op, d)
    works = launches_of(op, d, ())[0][0]
    seen = 0
    for nest in applicable_nests(ctx, works):
        for extents in (e | nest.problem.sizes(x) for x, e in sample_sizes(ctx, works)):
            t = nest.candidates([extents], {})
            if len(next(iter(t.values()))):
                seen += 1
                assert nest.least(extents) <= cost(machine, nest.demand(t, extents)).seconds.min()
    assert seen
