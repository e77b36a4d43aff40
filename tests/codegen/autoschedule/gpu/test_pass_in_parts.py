"""Few rows of an attention and many keys: blocks have parts of the keys, and one more launch combines them, by default."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.passes import one_pass_choice, pass_model
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import pass_nests
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import right_in_three_parts
from ....support.rotation import rotated

OPS = "import std.ops.attention\n"
DECODE = {
    "grouped_decode_f16": {"B": 1, "H": 8, "G": 4, "T": 8192, "D": 128},
    "attention": {"H": 32, "Q": 1, "T": 8192, "D": 128},
    "attention_lse": {"H": 32, "Q": 1, "T": 8192, "D": 64},
    "attention_bf16": {"H": 16, "Q": 2, "T": 8192, "D": 64},
    "causal_attention_f16": {"H": 32, "Q": 1, "T": 8192, "D": 128},
}
SMALL = {
    "grouped_decode_f16": {"B": 1, "H": 2, "G": 4, "T": 1037, "D": 40},
    "attention": {"H": 2, "Q": 1, "T": 1037, "D": 64},
    "attention_lse": {"H": 1, "Q": 3, "T": 1037, "D": 24},
    "attention_f32": {"H": 2, "Q": 1, "T": 700, "D": 64},
    "causal_attention_f16": {"H": 2, "Q": 5, "T": 700, "D": 33},
}


def compiled(name: str, device: str, sizes: dict[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(OPS + schedule)
    chosen = next(iter(module.schedules.values())) if schedule else None
    return compile_program(module, specialise(module.ops[name], sizes), chosen, module.device(device))


@pytest.mark.parametrize(("name", "device"), rotated(DECODE, ("sm_80", "sm_90a", "gfx942")))
def test_decoding_takes_two_launches(name: str, device: str) -> None:
    made = compiled(name, device, DECODE[name])
    assert len(made.program.launches) == 2
    assert "-> block online by workspace\n" in made.schedule
    (together,) = made.report["alternatives"]
    nests = [x.nest for x in together.candidates]
    assert nests[0] == "one pass in parts of the keys: 2 launches"
    assert any(x.startswith("apart") for x in nests[1:])


def test_alike_the_pass_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """On gfx90a what is predicted is 1.01 times that of the launches apart."""
    sizes = {"H": 32, "Q": 1, "T": 8192, "D": 128}
    made = compiled("attention_f32", "gfx90a", sizes)
    first, second, *_ = made.report["alternatives"][0].candidates
    assert second.slower < first.slower < one_pass_choice.ALIKE
    assert len(made.program.launches) == 2
    monkeypatch.setattr(one_pass_choice, "ALIKE", 1.0)
    assert len(compiled("attention_f32", "gfx90a", sizes).program.launches) > 2


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "sm_80"])
@pytest.mark.parametrize("name", ["attention", "attention_f32", "causal_attention"])
def test_one_query_takes_two_launches_at_most(name: str, device: str) -> None:
    """By an instruction with few rows, or by lanes where it has more than there are."""
    made = compiled(name, device, {"H": 32, "Q": 1, "T": 8192, "D": 128})
    assert len(made.program.launches) <= 2


@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_many_rows_have_one_launch(device: str) -> None:
    assert len(compiled("attention", device, {"H": 64, "Q": 2048, "T": 2048, "D": 64}).program.launches) == 1


def test_sizes_tried_for_parts() -> None:
    """Whole iterations of the loop, and two parts at least; none where there are blocks enough, or where their number is not
    known."""
    module = loads(OPS)
    device = module.device("sm_80")
    found = {}
    for q in (1, 2048, None):
        sizes = {"H": 32, "Q": q, "T": 1024, "D": 64}
        op = specialise(module.ops["attention"], {n: x for n, x in sizes.items() if x is not None})
        computations = pass_in_one_launch(op)
        assert computations is not None
        nest = pass_nests(context_of(op, device), computations)[0]
        t = nest.candidates([{"h": 32, "i": q or 1, "t": 1024}], {})
        found[q] = {int(x) for x in t["part"]}
        assert ((t["part"] % t["bt"] == 0) | (t["part"] == 0)).all()
    assert found[1] == {0, *(p for p in pass_model.PARTS if p <= 512)}
    assert found[2048] == found[None] == {0}


def test_parts_are_combined_in_one_launch() -> None:
    """Of rows that blocks have; lanes have features, and all parts of these."""
    made = compiled("attention", "sm_80", SMALL["attention"])
    _, second = made.program.launches
    assert {u.level: u.count.constant for u in second.units} == {"block": 2, "warp": 2, "thread": 32}
    assert {b.name for b in made.program.buffers if b.kind == "workspace"} == {"m_parts", "l_parts", "o_sum1_parts"}


@pytest.mark.parametrize(("name", "device"), rotated(SMALL, ("sm_80", "gfx942", "sm_75")))
def test_each_element_once(name: str, device: str) -> None:
    made = compiled(name, device, SMALL[name])
    assert len(made.program.launches) == 2 or device == "gfx942"
    right_in_three_parts(OPS, name, device, made, SMALL[name])


@pytest.mark.parametrize("part", [32, 64, 512])
def test_powers_of_two_are_exact(part: int) -> None:
    """Small integers, and powers of 2 of them: sums are exact, for each number of parts."""
    text = """op f[H, G, T, D](q: f16[H, G, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f32[H, G, D]):
    s[h, g, t] = sum(d) f32(q[h, g, d]) * f32(k[h, t, d])
    m[h, g] = max(t) s[h, g, t]
    p[h, g, t] = exp2(s[h, g, t] - m[h, g])
    l[h, g] = sum(t) p[h, g, t]
    o[h, g, d] = (sum(t) f32(f16(p[h, g, t])) * f32(v[h, t, d])) / l[h, g]
"""
    lines = f"""schedule s for f on sm_80 where D <= 16:
    tile h: 1, g: 16 -> block
    tile t: {part} -> block online by workspace
    keep m, l, o in register
    move q -> shared
    tile t: 32 online
    move k -> shared
    move v -> shared
    tile g: 16 -> warp
    keep s in register:
        tile d: 16
        compute with mma_m16n8k16_f16
    tile t: 16
    keep p in register
    compute with mma_m16n8k16_f16
"""
    kernel, op = compile(text + lines, schedule="s", target="emulate:sm_80"), loads(text).ops["f"]
    rng = np.random.default_rng(part)
    for h, g, t, d in ((2, 3, 131, 16), (1, 17, 33, 5), (1, 1, 1, 1), (1, 4, 64, 2)):
        q, k, v = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((h, g, d), (h, t, d), (h, t, d)))
        q[:, :, 3:] = 0  # scores stay small
        out = np.full((h, g, d), np.nan, np.float32)
        kernel(q, k, v, out=out)
        np.testing.assert_array_equal(out, reference(op)(q, k, v))


def test_bytes() -> None:
    """Keys and values are asked for once, rows by each block; parts are written, and each lane of the second launch reads those
    of its feature: by the emulator's count. Scores and exponentials are in no memory."""
    sizes = SMALL["attention"]
    kernel = compile(OPS, op="attention", target="emulate:sm_80", sizes=sizes)
    kernel.counting = True
    rng = np.random.default_rng(0)
    kernel(*(rng.standard_normal((2, n, 64)).astype(np.float16) for n in (1, 1037, 1037)))
    counts = kernel.report.counts
    assert counts is not None
    blocks = counts.launches[0]["blocks"]
    of_lanes = 2 * 64 * (blocks // 2) * 5 * 4  # each statistic of a part is read for itself, and for what it corrects
    moved = counts.moved["global"]
    assert moved["read"] == 2 * 2 * 1037 * 64 * 2 + blocks * 64 * 2 + of_lanes
    assert moved["written"] == blocks * (64 + 2) * 4 + 2 * 64 * 2
