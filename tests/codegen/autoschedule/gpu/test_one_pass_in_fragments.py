"""The compiler's own schedule for attention on matrix instructions, where sizes are known: one launch, right, where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.cost import cost
from andiron.codegen.autoschedule.gpu.passes import one_pass_choice
from andiron.codegen.autoschedule.gpu.passes.one_pass import FragmentPass, calls, fragment_passes
from andiron.codegen.autoschedule.launches.launches_of_op import joined_intermediates, launches_of
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.report import show_launch_report
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.lower.lowering_context import LoweringContext
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.codegen.plan.computations import Computation
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node

from ....support.programs.attention_rows import right_and_once
from ....support.rotation import rotated

OPS = """import std.ops.attention
op causal[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D]) where Q <= T:
    s[h, i, t] = where(t <= i + T - Q, (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * rsqrt(D), -inf)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
op with_lse[H, G, Q, T, D, E](q: f16[H, G, Q, D], k: f16[H, T, D], v: f16[H, T, E], bias: f32[Q, T])
        -> (o: f32[H, G, Q, E], y: f32[H, G, Q]):
    s[h, g, i, t] = (sum(d) f32(q[h, g, i, d]) * f32(k[h, t, d])) * 0.25 + bias[i, t]
    m[h, g, i] = max(t) s[h, g, i, t]
    p[h, g, i, t] = exp(s[h, g, i, t] - m[h, g, i])
    l[h, g, i] = sum(t) p[h, g, i, t]
    o[h, g, i, e] = (sum(t) f32(f16(p[h, g, i, t])) * f32(v[h, t, e])) / l[h, g, i]
    y[h, g, i] = m[h, g, i] + log(l[h, g, i])
op of_keys[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D]) -> (o: f16[H, Q, D]):
    s[h, i, t] = sum(c) f32(q[h, i, c]) * f32(k[h, t, c])
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(k[h, t, d])) / l[h, i]
"""
CASES = {
    "attention": {"H": 1, "Q": 19, "T": 70, "D": 4},
    "causal": {"H": 2, "Q": 33, "T": 35, "D": 3},
    "causal_attention_f16": {"H": 1, "Q": 50, "T": 70, "D": 3},
    "with_lse": {"H": 1, "G": 2, "Q": 20, "T": 40, "D": 3, "E": 9},
}
LARGE = {"H": 16, "Q": 1024, "T": 1024, "D": 64}
LONG = LARGE | {"Q": 4096, "T": 4096}


def compiled(name: str, device: str, sizes: dict[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(OPS + schedule)
    chosen = module.schedules["s"] if schedule else None
    return compile_program(module, specialise(module.ops[name], sizes), chosen, module.device(device))


@pytest.mark.parametrize(("name", "device"), rotated(CASES, ("sm_80", "gfx942")))
def test_one_launch(name: str, device: str) -> None:
    made = compiled(name, device, CASES[name])
    assert len(made.program.launches) == 1
    assert "online" in made.schedule
    right_and_once(made.program, specialise(loads(OPS).ops[name], CASES[name]))


def nest(device: str, sizes: dict[str, int], name: str = "attention") -> FragmentPass:
    return nests(device, sizes, name)[0]


def nests(device: str, sizes: dict[str, int], name: str) -> tuple[FragmentPass, ...]:
    module = loads(OPS)
    op, machine = specialise(module.ops[name], sizes), module.device(device)
    joined = joined_intermediates(op, machine, ())
    return fragment_passes(context_of(op, machine), launches_of(op, machine, (), joined)[-1][0])


def test_lines() -> None:
    made = nest("sm_80", LARGE).lines({"bi": 128, "wi": 32, "bt": 64, "stages": 2}, LARGE)
    lines = [format_node(x).rstrip() for x in made["pass"]]
    assert "\n".join(lines) == (
        "tile h: 1, i: 128 -> block\nkeep m, l, o in register\nmove q -> shared swizzle with cp_async\n"
        "tile t: 64 online pipeline 2\nmove k -> shared swizzle with cp_async\nmove v -> shared swizzle with cp_async\n"
        "tile i: 32 -> warp\nkeep s in register:\n    tile d: 16 unroll\n    move q -> register with ldmatrix\n"
        "    move k -> register with ldmatrix\n    compute with mma_m16n8k16_f16\ntile t: 16 unroll\nkeep p in register\n"
        "move v -> register with ldmatrix\ncompute with mma_m16n8k16_f16"
    )


def test_sizes_tried_for_a_pass() -> None:
    t = nest("sm_80", LARGE).candidates([], {})
    assert {int(x) for x in t["bt"]} == {16, 32, 64, 128}
    assert {int(x) for x in t["stages"]} == {1, 2}
    assert {int(x) for x in t["wi"]} == {16, 32}
    assert {int(x) for x in t["bi"] // t["wi"]} == {1, 2, 4, 8}


@pytest.mark.parametrize(("name", "device"), [
    ("attention", "sm_80"), ("attention", "gfx942"), ("attention_f8", "sm_89"), ("attention_f32", "gfx942"),
])  # fmt: skip
def test_registers(name: str, device: str) -> None:
    """The model counts no fewer than lowering does: what it takes to fit compiles."""
    found = nest(device, LONG, name)
    t = found.candidates([], {})
    demand = found.demand(t, {i: e.constant or 0 for i, e in found.found.extents.items()})
    fits = np.flatnonzero(np.isfinite(cost(found.machine, demand).seconds))
    for n in (fits[0], fits[len(fits) // 2], fits[-1]):
        lines = found.lines({name: int(v[n]) for name, v in t.items()}, LONG)["pass"]
        text = "".join("".join(f"    {row}\n" for row in format_node(x).rstrip().splitlines()) for x in lines)
        made = compiled(name, device, LONG, f"schedule s for {name} on {device}:\n{text}")
        assert memory_peaks(made.program)["register"].bytes / found.machine.register_bytes <= demand.registers[n]


def test_the_report_compares() -> None:
    (together,) = compiled("attention", "sm_80", LARGE).report["alternatives"]
    nests = ["one pass: 1 launch", "one pass in parts of the keys: 2 launches", "apart: 4 launches"]
    assert [x.nest for x in together.candidates] == nests
    shown = show_launch_report(together)
    assert "apart: 4 launches" in shown
    decode = compiled("attention", "gfx942", {"H": 4, "Q": 1, "T": 4096, "D": 64})
    nests = [x.nest for x in decode.report["alternatives"][0].candidates]
    assert nests == ["one pass in parts of the keys: 2 launches", "apart: 4 launches"]  # the whole pass is far slower
    assert len(decode.program.launches) == 2


def test_a_pass_is_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare it with the launches apart, and as candidates of its launch."""
    ranked = []

    def counted(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[FragmentPass, ...]:
        ranked.append(computations)
        return fragment_passes(ctx, computations)

    monkeypatch.setattr(one_pass_choice, "fragment_passes", counted)
    compiled("attention", "sm_80", CASES["attention"])
    assert len(ranked) == 1


IN_ORDER = {
    ("attention_f8", "sm_89"): "mma_m16n8k32_f8e4m3",
    ("attention_f8", "sm_90a"): "mma_m16n8k32_f8e4m3",
    ("attention_f8", "sm_120a"): "mma_m16n8k32_f8e4m3",
    ("attention_f8", "gfx950"): "mfma_32x32x16_f8e4m3",
    ("attention_f32", "gfx90a"): "mfma_32x32x2_f32",
    ("attention_f32", "gfx942"): "mfma_32x32x2_f32",
    ("attention_bf16", "gfx908"): "mfma_32x32x4_bf16",
}


@pytest.mark.parametrize(("name", "device"), IN_ORDER)
def test_keys_in_the_order_of_a_result(name: str, device: str) -> None:
    """Where no operand is a result as it lies, the product takes the keys in the order in which one is."""
    made = compiled(name, device, LONG)
    way = "one pass in parts of the keys: 2 launches" if (name, device) == ("attention_f32", "gfx942") else "one pass: 1 launch"
    assert made.report["alternatives"][0].candidates[0].nest == way
    assert f"{len(made.program.launches)} launch" in way
    found = nests(device, LONG, name)
    assert all(x.second.order is not None and x.first.instr is x.second.instr for x in found)
    assert found[0].second.instr.name == IN_ORDER[name, device]
    assert any(f"compute with {x.second.instr.name}" in made.schedule for x in found)


def test_all_calls_of_an_order_are_counted() -> None:
    found = nest("gfx942", LONG, "attention_f32")
    assert found.second.calls == 4
    spans = {found.row: 32, found.found.key: 64}
    assert (
        calls(found.first, spans | {found.features_of(found.scores[0]): 64})
        == calls(found.second, spans | {found.feature: 64})
        == 2 * 2 * 32 / 2
    )
    (values,) = (s for s in found.staged if s.access.tensor == "v")
    assert values.reads == 1  # the keys of these calls are neighbours


@pytest.mark.parametrize("name", ["attention_f32", "causal_attention", "grouped_attention"])
@pytest.mark.parametrize("device", ["gfx908", "gfx90a", "gfx942"])
def test_fewer_rows_where_no_more_have_room(name: str, device: str) -> None:
    """FEWER_ROWS: 64 rows of 128 features are half of the staging memory, and no block of 32 rows a warp has all schedulers."""
    sizes = {"H": 16, "Q": 2048, "T": 2048, "D": 128} | ({"G": 4} if name == "grouped_attention" else {})
    made = compiled(name, device, sizes)
    assert [x.instr.name for x in (n.second for n in nests(device, sizes, name))] == ["mfma_32x32x2_f32", "mfma_16x16x4_f32"]
    assert len(made.program.launches) == 1
    assert made.schedule.count("compute with mfma_16x16x4_f32") == 2
    assert all(b.kind != "workspace" for b in made.program.buffers)


@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1201"])
def test_instructions_that_have_the_same_tiles_are_tried_once(device: str) -> None:
    tiles = [(x.rows_of_call, x.least_keys, x.first.extent("d")) for x in nests(device, LARGE, "attention")]
    assert len(tiles) == len(set(tiles))


def test_depths_are_tried() -> None:
    """DEPTHS: runs of 32 terms are quick to read, and of 72 features 24 more would be padding."""
    tried = {(x.first.instr.name, x.second.instr.name) for x in nests("gfx942", LARGE, "attention")}
    assert tried >= {("mfma_16x16x32_f16", "mfma_16x16x32_f16"), ("mfma_16x16x16_f16", "mfma_16x16x16_f16")}


def test_copies_of_whole_calls_are_counted() -> None:
    """Of 20 features: an instruction takes 16 at once, so 32 are staged."""
    sizes = LARGE | {"D": 20}
    for found in nests("gfx942", sizes, "attention_f32"):
        t = found.candidates([], {})
        wide = {i: 32 if i == found.feature else e.constant or 0 for i, e in found.found.extents.items()}
        own = {i: e.constant or 0 for i, e in found.found.extents.items()}
        assert (found.demand(t, own).staged == found.demand(t, wide).staged).all()


def test_where_no_operand_is_a_result_as_it_lies() -> None:
    """Here the sum reads the values that the product converts, so they cannot go through shared memory."""
    module = loads(OPS)
    op, device = specialise(module.ops["attention"], LARGE), module.device("gfx1100")
    computations = pass_in_one_launch(op)
    assert computations is not None
    assert fragment_passes(context_of(op, device), computations) == ()


@pytest.mark.parametrize("device", ["sm_80", "gfx1100", "gfx942"])
def test_one_copy_of_what_both_products_read(device: str) -> None:
    sizes = {"H": 1, "Q": 19, "T": 37, "D": 16}
    made = compiled("of_keys", device, sizes)
    assert made.schedule.count("move k -> shared") == 1
    right_and_once(made.program, specialise(loads(OPS).ops["of_keys"], sizes))
    again = compiled("of_keys", device, sizes, made.schedule.replace("schedule of_keys_auto", "schedule s"))
    assert again.program.launches == made.program.launches


def test_scores_in_memory_leave_statistics_without_units() -> None:
    """The product's instruction is none of the maximum's, which is not what is wrong: with scores in registers, it is right."""
    made = compiled("attention", "gfx1100", LARGE).schedule.replace("schedule attention_auto", "schedule s")
    with pytest.raises(UserError) as refused:
        compiled("attention", "gfx1100", LARGE, made.replace("keep s in register:", "keep s in shared:"))
    assert refused.value.message == "`wmma_16x16x16_f16` computes `o`; for `m` no line says which units have which elements"
    assert refused.value.help is not None
    assert "`keep s in register`" in refused.value.help
