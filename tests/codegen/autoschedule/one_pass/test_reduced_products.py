"""A product whose rows are reduced is one pass where that is predicted to be faster: its results are in no memory."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import pass_nests
from andiron.codegen.autoschedule.gpu.passes.reduced_product import ReducedProduct
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import lines_of, rank_nest, sample_sizes
from andiron.dsl import syntax
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node

from ....support.programs.made_in_tile import check_fed_back, checked, compiled
from ....support.random.counts import case_count, first_seed
from ....support.rotation import rotated

LOSS = """op f[M, N, K](X: f16[M, K], W: f16[K, N], label: i32[M]) -> (Y: f32[M]):
    z[i, j] = sum(k) f32(X[i, k]) * f32(W[k, j])
    top[i] = max(j) z[i, j]
    total[i] = sum(j) exp(z[i, j] - top[i])
    hit[i] = sum(j) where(j == label[i], z[i, j], 0)
    Y[i] = top[i] + log(total[i]) - hit[i]
"""
KEPT = """op f[H, M, N, K](X: f16[H, M, K], W: f16[H, N, K], b: f32[N]) -> (Y: f32[H, M]):
    z[h, i, j] = 5.0 * tanh((sum(k) f32(X[h, i, k]) * f32(W[h, j, k])) / 5.0) + b[j]
    low[h, i] = min(j) z[h, i, j]
    e[h, i, j] = exp(low[h, i] - z[h, i, j])
    total[h, i] = sum(j) e[h, i, j]
    Y[h, i] = log(total[h, i]) - low[h, i]
"""
SIZES = {"M": 4096, "N": 32768, "K": 1024}
DEVICES = ("sm_80", "gfx942", "sm_90a", "gfx90a", "sm_75", "gfx950")


def test_logits_are_in_no_memory() -> None:
    """Blocks have parts of the columns, and a launch combines them. What reads no running value has the same loop."""
    found = check_fed_back(LOSS, "sm_80", SIZES)
    kept = {b.name for b in found.program.buffers if b.kind == "workspace"}
    assert kept == {"top_parts", "total_parts", "hit_parts"}
    assert found.schedule.count("compute with mma") == 1
    (report,) = found.report["alternatives"]
    assert [x.nest for x in report.candidates[:2]] == ["one pass in parts of the keys: 2 launches", "apart: 2 launches"]
    assert report.candidates[0].seconds < report.candidates[1].seconds


def test_where_rows_may_be_few_it_is_apart() -> None:
    assert "online" not in compiled(LOSS, "sm_80", {"N": 32768, "K": 1024}).schedule


@pytest.mark.parametrize(("seed", "device"), rotated(range(first_seed(), first_seed() + case_count(6)), DEVICES))
def test_all_of_its_tiles_are_right(seed: int, device: str) -> None:
    """Not only those that the model likes best; also with parts of the keys."""
    rng, text = np.random.default_rng(seed), (LOSS, KEPT)[seed % 2]
    sizes = {"H": 2, "M": int(rng.integers(1, 90)), "N": int(rng.integers(128, 300)), "K": int(rng.integers(1, 70))}
    module = loads(text)
    sizes = {d.name: sizes[d.name] for d in module.ops["f"].dims}
    op, machine = specialise(module.ops["f"], sizes), module.device(device)
    computations = pass_in_one_launch(op)
    assert computations is not None
    ctx = context_of(op, machine)
    (nest,) = (x for x in pass_nests(ctx, computations) if isinstance(x, ReducedProduct))
    ranked = rank_nest(ctx, sample_sizes(ctx, computations), nest, far_off=np.inf)
    assert ranked is not None
    parts = rng.integers(2) and np.any(ranked.tiles["part"] > 0)
    which = np.isfinite(ranked.seconds[-1]) & ((ranked.tiles["part"].reshape(-1) > 0) == parts)
    lines = lines_of(ranked, int(rng.choice(np.flatnonzero(which))))
    text += format_node(syntax.ScheduleDecl("s", "f", None, (), None, (), lines))
    found = checked(text, "s", f"emulate:{device}", sizes, sizes)
    assert "online" in found.schedule
