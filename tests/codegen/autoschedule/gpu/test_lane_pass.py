"""Attention without a matrix instruction on GPUs: one launch where that is predicted to be faster, lanes with rows, right."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.default_schedules import default_schedules
from andiron.codegen.autoschedule.gpu.cost import cost
from andiron.codegen.autoschedule.gpu.passes.lane_pass import LanePass, lane_passes
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.one_pass.find_pass import one_pass_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.dsl.text.format import format_node
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import right_and_once
from ....support.rotation import rotated

OPS = """import std.ops.attention
op with_lse[H, G, Q, T, D, E](q: f32[H, G, Q, D], k: f32[H, D, T], v: f32[H, T, E], bias: f32[Q, T])
        -> (o: f32[H, G, Q, E], y: f32[H, G, Q]):
    s[h, g, i, t] = (sum(c) q[h, g, i, c] * k[h, c, t]) * 0.25 + bias[i, t]
    m[h, g, i] = max(t) s[h, g, i, t]
    p[h, g, i, t] = exp(s[h, g, i, t] - m[h, g, i])
    l[h, g, i] = sum(t) p[h, g, i, t]
    o[h, g, i, e] = (sum(t) p[h, g, i, t] * v[h, t, e]) / l[h, g, i]
    y[h, g, i] = m[h, g, i] + log(l[h, g, i])
op of_keys[Q, T, D](q: f32[Q, D], k: f32[T, D]) -> (o: f32[Q, D]):
    s[i, t] = sum(d) q[i, d] * k[t, d]
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, d] = (sum(t) p[i, t] * k[t, d]) / l[i]
op turned[N](q: f32[N, N], k: f32[N, N]) -> (o: f32[N, N]):
    s[i, t] = sum(d) q[i, d] * k[t, d]
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, d] = (sum(t) p[i, t] * k[d, t]) / l[i]
op rounded[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D]):
    s[h, i, t] = (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * rsqrt(D)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = f16(exp(s[h, i, t] - m[h, i]))
    l[h, i] = sum(t) f32(p[h, i, t])
    o[h, i, d] = (sum(t) f32(p[h, i, t]) * f32(v[h, t, d])) / l[h, i]
"""
CASES = {
    "attention_f32": {"H": 1, "Q": 37, "T": 41, "D": 15},
    "causal_attention": {"H": 2, "Q": 17, "T": 19, "D": 17},
    "grouped_attention": {"H": 1, "G": 2, "Q": 9, "T": 18, "D": 14},
    "with_lse": {"H": 1, "G": 2, "Q": 9, "T": 18, "D": 13, "E": 17},
    "attention": {"H": 1, "Q": 9, "T": 35, "D": 30},  # no fragment of gfx1100 passes through registers
}
LARGE = {"H": 64, "Q": 2048, "T": 2048, "D": 64}


def nest(device: str, name: str, sizes: dict[str, int]) -> LanePass:
    module = loads(OPS)
    op, machine = specialise(module.ops[name], sizes), module.device(device)
    computations = pass_in_one_launch(op)
    assert computations is not None
    (found,) = lane_passes(context_of(op, machine), one_pass_of(computations))
    return found


def text_of(found: LanePass, at: dict[str, int]) -> str:
    return "".join(
        "".join(f"    {row}\n" for row in format_node(x).rstrip().splitlines())
        for lines in found.lines(at, {}).values()
        for x in lines
    )


def compiled(name: str, device: str, sizes: dict[str, int], lines: str = "") -> CompiledProgram:
    module = loads(OPS + (f"schedule s for {name} on {device}:\n{lines}" if lines else ""))
    chosen = module.schedules["s"] if lines else None
    return compile_program(module, specialise(module.ops[name], sizes), chosen, module.device(device))


def test_lines() -> None:
    found = nest("sm_80", "attention_f32", LARGE)
    at = {"rows": 4, "share": 2, "wi": 64, "bi": 128, "bt": 8, "bk": 32, "stages": 2}
    assert text_of(found, at) == (
        "    tile h: 1, i: 128 -> block\n    keep m, l, o in register\n    move q -> shared pad 8 with cp_async\n"
        "    tile t: 32 online pipeline 2\n    move k -> shared with cp_async\n    move v -> shared with cp_async\n"
        "    tile t: 8 online\n    tile i: 64 -> warp\n    keep s in register:\n"
        "        tile i: 1 every 16, d: 4 every 8 -> thread\n        tile d: 4\n        move q -> register\n        compute\n"
        "    keep p in register\n    tile i: 1 every 16, d: 4 every 8 -> thread\n    compute\n"
    )


def test_sizes_tried_for_lanes() -> None:
    t = nest("sm_80", "attention_f32", LARGE).candidates([], {})
    assert {int(x) for x in t["rows"]} == {int(x) for x in t["share"]} == {1, 2, 4, 8}
    assert {int(x) for x in t["bi"] // t["wi"]} == {1, 2, 4, 8}
    assert {int(x) for x in t["bt"]} == {8, 16, 32}
    assert {int(x) for x in t["bk"] // t["bt"]} == {1, 2, 4}
    assert {int(x) for x in t["rows"][t["share"] == 1]} == {1}  # strided rows of a lane would be added up in memory
    few = nest("sm_80", "attention_f32", LARGE | {"D": 8}).candidates([], {})
    assert {int(x) for x in few["share"]} == {1, 2}  # each lane has a vector of a row
    rows = {1: {1, 2, 4, 8, 16}, 3: {1, 2, 4, 8, 16}, 4: {1, 2, 4, 8}}  # of these a warp has as many as lanes have features
    for count, share in rows.items():
        t = nest("sm_80", "attention_f32", LARGE | {"Q": count}).candidates([], {})
        assert {int(x) for x in t["share"]} == share


@pytest.mark.parametrize(
    ("device", "name"), [("sm_80", "attention_f32"), ("gfx942", "causal_attention"), ("gfx1100", "attention")]
)
def test_registers(device: str, name: str) -> None:
    """The model counts no fewer than lowering does: what it takes to fit compiles, and nothing of an iteration is in memory."""
    found = nest(device, name, LARGE)
    t = found.candidates([], {})
    demand = found.demand(t, {i: e.constant or 0 for i, e in found.found.extents.items()} | LARGE)
    fits = np.flatnonzero(np.isfinite(cost(found.machine, demand).seconds))
    for n in (fits[0], fits[len(fits) // 2], fits[-1]):
        made = compiled(name, device, LARGE, text_of(found, {x: int(v[n]) for x, v in t.items()}))
        assert memory_peaks(made.program)["register"].bytes / found.machine.register_bytes <= demand.registers[n]
        (launch,) = made.program.launches
        assert {b.name for b in made.program.buffers} == {"q", "k", "v", "o"}, launch


@pytest.mark.parametrize("device", ["sm_75", "sm_80", "sm_90a", "gfx1100"])
def test_one_launch_where_it_is_faster(device: str) -> None:
    made = compiled("attention_f32", device, LARGE)
    (together,) = made.report["alternatives"]
    assert [x.nest for x in together.candidates] == ["one pass: 1 launch", "apart: 4 launches"]
    assert len(made.program.launches) == 1


def test_apart_where_that_is_faster() -> None:
    """By instructions whose results are no operands, whatever the order of the keys. Sums of rows read the values as well, so
    these cannot be in shared memory."""
    made = compiled("rounded", "gfx1100", LARGE | {"D": 128})
    (together,) = made.report["alternatives"]
    assert [x.nest for x in together.candidates] == ["apart: 4 launches", "one pass: 1 launch"]
    assert "wmma" in made.schedule


TILES = (
    {"rows": 1, "share": 1, "groups": 2, "bt": 8, "bk": 16, "stages": 1},
    {"rows": 4, "share": 2, "groups": 1, "bt": 8, "bk": 8, "stages": 1},
    {"rows": 2, "share": 4, "groups": 2, "bt": 16, "bk": 32, "stages": 2},
)


@pytest.mark.fewest
@pytest.mark.parametrize("tile", range(len(TILES)))
@pytest.mark.parametrize(("name", "device"), rotated(CASES, ("sm_80", "gfx942", "gfx1100")))
def test_results(name: str, device: str, tile: int) -> None:
    """Edges of rows, keys and features; each element once."""
    found, at = nest(device, name, CASES[name]), TILES[tile]
    wi = found.machine.lanes // at["share"] * at["rows"]
    stages = at["stages"] if found.machine.asynchronous else 1
    at = at | {"wi": wi, "bi": wi * at["groups"], "stages": stages}
    made = compiled(name, device, CASES[name], text_of(found, at))
    right_and_once(made.program, specialise(loads(OPS).ops[name], CASES[name]))


SIZES = (
    *((2, 33, 70, 24), (1, 20, 129, 64), (1, 17, 1, 1), (1, 40, 0, 9), (0, 20, 20, 8), (1, 18, 65, 65)),
    *((1, 3, 8, 5), (2, 5, 1030, 9), (1, 2, 0, 3), (1, 1, 1, 1)),  # few rows, whose keys are in parts
)


@pytest.mark.parametrize(("name", "device"), rotated(("attention_f32", "causal_attention"), ("sm_80", "gfx1100")))
def test_open_sizes(name: str, device: str) -> None:
    """One kernel: sizes of 0 and 1, more features than the first bound, few rows; some values are no numbers."""
    op, machine = loads(OPS).ops[name], loads(OPS).device(device)
    assert len([*default_schedules(op, machine)]) == 5
    assert len(compile_program(loads(OPS), op, next(default_schedules(op, machine)), machine).program.launches) == 1
    kernel = compile(OPS, op=name, target=f"emulate:{device}")
    for h, n, t, d in SIZES:
        n = min(n, t) if name.startswith("causal") else n
        rng = np.random.default_rng(n + t)
        q, k, v = (rng.standard_normal(s).astype(np.float32) for s in [(h, n, d), (h, t, d), (h, t, d)])
        if h and n > 6 and t > 3:
            v[0, 3, 0], q[0, 3], q[0, 6, 0] = np.nan, -8, np.inf
        got = kernel(q, k, v, out=np.full((h, n, d), np.nan, np.float32))
        value, bound = reference(op, exact=True)(q, k, v)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(value))
        some = np.isfinite(value)
        assert (np.abs(np.asarray(got, float)[some] - value[some]) <= bound[some]).all()


def test_bytes() -> None:
    """Rows are asked for once, keys and values once by each block: by the emulator's count."""
    sizes = {"H": 2, "Q": 200, "T": 96, "D": 32}
    kernel = compile(OPS, op="attention_f32", target="emulate:sm_80", sizes=sizes)
    kernel.counting = True
    rng = np.random.default_rng(0)
    kernel(*(rng.standard_normal((2, n, 32), dtype=np.float32) for n in (200, 96, 96)))
    counts = kernel.report.counts
    assert counts is not None
    (launch,) = counts.launches
    rows, keys = 2 * 200 * 32 * 4, 96 * 32 * 4
    assert sum(counts.moved["global"].values()) == 2 * rows + launch["blocks"] * 2 * keys


def test_one_copy_of_what_both_products_read() -> None:
    sizes = {"Q": 9, "T": 18, "D": 14}
    made = compiled("of_keys", "sm_80", sizes)
    assert made.schedule.count("move k -> shared") == 1
    right_and_once(made.program, specialise(loads(OPS).ops["of_keys"], sizes))
    lines = made.schedule.partition("\n")[2] + "\n"
    assert compiled("of_keys", "sm_80", sizes, lines).program.launches == made.program.launches


def test_one_copy_is_for_one_subscript() -> None:
    """What one product reads at `[t, d]` and the other at `[d, t]` is no tile of keys for both."""
    assert len(compiled("turned", "sm_80", {"N": 16}).program.launches) > 1
