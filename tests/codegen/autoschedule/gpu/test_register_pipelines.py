"""Two sets of registers for operands: which products are chosen with them, what they cost, and what an author's lines leave."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.contraction import ContractionTemplate
from andiron.codegen.autoschedule.gpu.cost import cost
from andiron.codegen.autoschedule.gpu.register_sets import operand_registers, take_turns, tile_registers

from ....support.library.unscheduled import chosen, compiled

LARGE = dict(M=4096, N=4096, K=4096)
AHEAD = "pipeline 2 through"


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("op", ["gemm_f16", "gemm_f16_nt", "gemm_bf16", "linear_f16"])
def test_large_products_load_the_next_fragments_ahead(op: str, device: str) -> None:
    result = compiled(op, device, LARGE)
    assert AHEAD in result.schedule
    assert not result.report["notes"]


@pytest.mark.parametrize(("op", "device"), [("grouped_conv2d", "gfx942"), ("conv2d_nhwc_f16", "sm_80")])
def test_what_cannot_be_in_two_sets_is_not(op: str, device: str) -> None:
    """A window's tile has neighbours beyond its end, not zeros. And loops over windows begin a pipeline anew each time."""
    assert not compiled(op, device).report["notes"]


@pytest.mark.parametrize("k", [1, 16, 32, 48, 80, 100, None])
def test_iterations_of_a_tile_take_the_sets_in_turn(k: int | None) -> None:
    """Of a short reduction there may be an odd number, and a pipeline would begin anew with a note."""
    sizes = dict(M=512, N=512) | ({} if k is None else {"K": k})
    for op, device in (("gemm_f16", "sm_80"), ("gemm_f16", "gfx942"), ("gemm", "sm_86")):
        assert not [n for n in compiled(op, device, sizes).report["notes"] if "through" in n]


def test_two_sets_take_registers_twice_and_wait_for_no_loads() -> None:
    r, i = chosen("gemm_f16", "sm_80", LARGE)
    assert isinstance(r.nest, ContractionTemplate)
    tile = {name: np.array([float(x)]) for name, x in r.tile(i).items()}
    demand = r.nest.demand(tile | {"sets": np.array([[1.0], [2.0]])}, r.sizes[-1])
    one, two = demand.registers.ravel()
    assert two - one == operand_registers(r.nest, tile) > 0
    assert demand.stall[0] > 0 == demand.stall[1]
    assert demand.exposed[0] > demand.exposed[1]  # barriers are left


@pytest.mark.parametrize(("tile", "fits"), [((256, 128), True), ((256, 160), False)])
def test_only_where_registers_allow(tile: tuple[int, int], fits: bool) -> None:
    """64 x 80 sums of a warp and one set of fragments are 236 of 255 registers, with two sets 272."""
    m, n = tile
    r, _ = chosen("gemm_f16", "sm_80", LARGE)
    assert isinstance(r.nest, ContractionTemplate)
    t = dict(wm=64, wn=n // 2, bm=m, bn=n, gm=4, gn=2, bk=32, stages=3, sets=2, split=0, inner=16)
    demand = r.nest.demand({name: np.array([float(x)]) for name, x in t.items()}, r.sizes[-1])
    assert (cost(r.nest.machine, demand).resident[0] > 0) == fits


def test_results_leave_room_for_one_more_fragment_in_one_file() -> None:
    """gfx950 has 256 registers that all instructions name of 512; fragments of 32 x 32 results take 16."""
    r, _ = chosen("gemm_f16", "gfx950", LARGE)
    assert isinstance(r.nest, ContractionTemplate)
    machine, t = r.nest.machine, {"wm": np.array([128.0, 96.0]), "wn": np.array([128.0, 128.0])}
    assert (machine.vector_registers, machine.max_registers, r.nest.result_registers) == (256, 512, 16)
    assert tile_registers(r.nest, t).tolist() == [513, 192 + 12 + 16]
    other = chosen("gemm_f16", "sm_80", LARGE)[0].nest.machine
    assert other.vector_registers == other.max_registers


def test_open_sizes_have_one_set() -> None:
    """Their guards and addresses take the registers of a second one."""
    assert AHEAD not in compiled("gemm_f16", "sm_80").schedule


def test_scalars_only_in_loops_that_are_unrolled_wholly() -> None:
    """Compilers hoist the loads of longer ones until registers spill."""
    r, _ = chosen("gemm", "sm_80", LARGE)
    assert isinstance(r.nest, ContractionTemplate)
    assert not r.nest.by_group
    t = {name: np.array([float(n)]) for name, n in dict(bk=8, inner=1, sets=2, tm=4, tn=4).items()}
    assert take_turns(r.nest, t).all()
    assert not take_turns(r.nest, t | {"tm": np.array([8.0])}).any()
    assert not take_turns(r.nest, t | {"bk": np.array([16.0])}).any()
