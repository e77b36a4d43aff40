"""A reduction over several indices as one: copied by vectors where its last component has the neighbours, and right anyway."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.access_model import AccessProblem
from andiron.codegen.autoschedule.gpu.contraction import ContractionTemplate
from andiron.codegen.autoschedule.gpu.register_sets import tile_registers
from andiron.codegen.autoschedule.instr_mappings import mappings
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.dsl.module import loads
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.library.unscheduled import IMPORTS, chosen, compiled, library, op_of

RESNET = dict(N=32, C=256, H=14, W=14, O=256, R=3, S=3, pad=1)
WIDE = dict(N=32, C=64, H=56, W=56, O=64, R=3, S=3, pad=1)


def runs(name: str, device: str, sizes: dict[str, int]) -> dict[str, tuple[str, int] | None]:
    """Of each operand, in the mapping that fuses the whole reduction."""
    d, op = library().device(device), op_of(name, sizes)
    ctx, (work, *_) = context_of(op, d), launches_of(op, d, ())[0][0]
    m = next(m for m in mappings(ctx, work) if m.instr is not None and not m.refused and len(m.k) > 1)
    return {a.tensor: a.fused_run for a in AccessProblem.of(m.computation, ctx.dtypes).reads}


def test_runs_are_as_long_as_the_last_component() -> None:
    assert runs("conv2d_nhwc_f16", "sm_80", RESNET) == {"I": ("rsc", 256), "F": ("rsc", 256)}


def test_what_other_indices_move_has_no_runs() -> None:
    """The last component is only a part of `q*stride + s - pad`."""
    assert runs("conv2d", "gfx90a", RESNET) == {"I": None, "F": ("crs", 3)}


def test_open_extents_have_no_runs() -> None:
    assert runs("conv2d_nhwc_f16", "sm_80", {}) == {"I": None, "F": None}


@pytest.mark.parametrize("sizes", [RESNET, WIDE], ids=["14x14", "56x56"])
def test_one_pipeline_over_positions_and_channels(sizes: dict[str, int]) -> None:
    """Loops over the positions would begin a pipeline anew for each."""
    result = compiled("conv2d_nhwc_f16", "sm_80", sizes)
    assert "fuse r, s, c as rsc" in result.schedule
    assert result.schedule.count("compute with cp_async_f16x8") == 2
    assert "pipeline 2 through" in result.schedule
    assert not result.report["notes"]


def test_each_iteration_around_a_pipeline_waits_for_its_first_loads() -> None:
    nests = {}
    op, d = op_of("conv2d_nhwc_f16", RESNET), library().device("sm_80")
    ctx, (work, *_) = context_of(op, d), launches_of(op, d, ())[0][0]
    for m in mappings(ctx, work):
        if m.instr is not None and m.instr.name == "mma_m16n8k16_f16" and not m.refused and m.m == "npq":
            nests[m.k] = m
    r, i = chosen("conv2d_nhwc_f16", "sm_80", RESNET)
    assert isinstance(r.nest, ContractionTemplate)
    tile = {name: np.array([float(x)]) for name, x in r.tile(i).items()} | {"sets": np.array([1.0])}
    found = {}
    for k, m in nests.items():
        nest = ContractionTemplate(r.nest.ctx, r.nest.machine, m, r.nest.original_problem)
        sizes = {**r.sizes[-1], **nest.problem.sizes({})}
        found[k] = float(np.max(nest.demand(tile, sizes).rounds))
    assert found["rsc"] == 2
    assert found["c"] == 10


def test_registers_of_addresses_that_are_computed_at_length() -> None:
    """Each lane copies 8 times from I, whose pixels are digits of the tile's rows. From F it copies at constant distances."""
    r, _ = chosen("conv2d_nhwc_f16", "sm_80", RESNET)
    assert isinstance(r.nest, ContractionTemplate)
    calc = {s.access.tensor: s.calc for s in r.nest.staged(64)}
    assert calc["F"] < calc["I"]
    t = dict(wm=64, wn=64, bm=128, bn=128, gm=2, gn=2, bk=64, stages=3, sets=1, split=0, inner=16)
    arrays = {name: np.array([float(x)]) for name, x in t.items()}
    demand = r.nest.demand(arrays, r.sizes[-1])
    assert demand.registers[0] == tile_registers(r.nest, arrays)[0] + r.nest.machine.reserved + 2 * 8


FUSED = """
schedule fused for conv2d_nhwc_f16 on {device}:
    fuse n, p, q as m
    fuse r, s, c as k
    auto
    compute with {instr}
"""
INSTRS = {"sm_80": "mma_m16n8k16_f16", "gfx90a": "mfma_32x32x8_f16"}
# images, channels, height, width, output channels, filter; pad, stride
SHAPES = [
    (2, 8, 7, 6, 9, 3, 2, 1, 1),
    (1, 16, 5, 9, 70, 3, 3, 1, 2),
    (1, 40, 9, 3, 17, 3, 3, 0, 1),
    (1, 72, 4, 5, 24, 1, 1, 0, 3),
    (3, 4, 6, 5, 5, 2, 2, 2, 1),
    (1, 12, 5, 5, 33, 2, 3, 1, 2),
    (1, 3, 11, 9, 6, 7, 7, 3, 2),
    (1, 64, 3, 3, 64, 3, 3, 2, 1),
    (1, 1, 1, 1, 1, 1, 1, 0, 1),
    (1, 8, 1, 1, 1, 1, 1, 1, 1),
    (0, 8, 4, 4, 8, 3, 3, 1, 1),
]


@pytest.mark.every_second
@pytest.mark.parametrize("device", INSTRS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_fused_reductions_are_right(shape: tuple[int, ...], device: str) -> None:
    sizes, params = dict(zip("NCHWORS", shape, strict=False)), {"pad": shape[7], "stride": shape[8]}
    module = loads(IMPORTS + FUSED.format(device=device, instr=INSTRS[device]))
    kernel = compile(module, "conv2d_nhwc_f16", "fused", f"emulate:{device}", None, sizes=sizes, params=params)
    op = op_of("conv2d_nhwc_f16", sizes | params)
    if device == "sm_80" and shape[0]:
        wide = next((n for n in (8, 4, 2) if sizes["C"] % n == 0), None)
        assert (f"cp_async_f16x{wide}" if wide else "tile k") in kernel.schedule, kernel.schedule
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 4, [int(e.evaluate({})) for e in t.shape]).astype("f2") for t in op.inputs]
    (result,) = op.outputs
    out = kernel(*arrays, out=np.full([int(e.evaluate({})) for e in result.shape], np.nan, "f2"))
    verdict = check(op, arrays, (out,))
    assert verdict.ok, verdict
