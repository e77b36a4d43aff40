"""Attentions whose two products are of different types: one pass by two instructions, right.

Operands are converted before, or where they are staged."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.cost import cost
from andiron.codegen.autoschedule.gpu.passes.one_pass import fragment_passes
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import BEFORE
from andiron.codegen.autoschedule.launches.named_factors import with_named_factors
from andiron.codegen.autoschedule.one_pass.chains import together_in_launch
from andiron.codegen.autoschedule.one_pass.converted_operands import parts_of_passes
from andiron.codegen.autoschedule.one_pass.kept_intermediates import kept_intermediates
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node
from andiron.dsl.types import TYPES
from andiron.runtime.check_results import check

from ....support.programs.attention_of_types import attention

Types = tuple[str, str, str, str]  # of queries, keys, values and probabilities
LARGE = {"H": 16, "Q": 2048, "T": 2048, "D": 128}


def compiled(types: Types, device: str, sizes: dict[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(attention(*types) + schedule)
    chosen = next(iter(module.schedules.values())) if schedule else None
    return compile_program(module, specialise(module.ops["f"], sizes), chosen, module.device(device))


PAIRS = {
    (("f8e4m3", "f8e4m3", "f16", "f16"), "sm_89"): ("mma_m16n8k32_f8e4m3", "mma_m16n8k16_f16"),
    (("bf16", "f16", "f16", "f16"), "sm_80"): ("mma_m16n8k8_tf32", "mma_m16n8k16_f16"),
    (("f16", "bf16", "bf16", "bf16"), "sm_90a"): ("mma_m16n8k8_tf32", "mma_m16n8k16_bf16"),
    (("bf16", "f16", "f16", "f16"), "gfx942"): ("mfma_16x16x16_tf32", "mfma_16x16x16_f16"),
}

OF_20_FEATURES = {(("bf16", "f16", "f16", "f16"), "gfx942"): ("mfma_16x16x8_tf32", "mfma_16x16x32_f16")}  # 24 terms, not 32


@pytest.mark.parametrize(("types", "device"), PAIRS)
def test_each_product_has_an_instruction(types: Types, device: str) -> None:
    made = compiled(types, device, LARGE)
    named = [x.split()[-1] for x in made.schedule.splitlines() if "compute with m" in x]
    assert tuple(named) == PAIRS[types, device]
    assert "online" in made.schedule
    own = {b.name: b for b in made.program.buffers if b.kind == "workspace"}
    assert all(b.dtype is TYPES["tf32"] for b in own.values())  # no scores
    assert compiled(types, device, LARGE, made.schedule).program == made.program


SIZES = ((2, 70, 67), (1, 65, 1), (1, 66, 0), (0, 65, 20), (1, 130, 131))


@pytest.mark.parametrize(("types", "device"), PAIRS)
def test_results(types: Types, device: str) -> None:
    """Of odd sizes, 0 and 1. Results held something else, one value is no number, and some scores are far below others."""
    made = compiled(types, device, LARGE | {"D": 20})
    named = [x.split()[-1] for x in made.schedule.splitlines() if "compute with m" in x]
    assert tuple(named) == OF_20_FEATURES.get((types, device), PAIRS[types, device])
    kernel = andiron.compile(attention(*types) + made.schedule, target=f"emulate:{device}", D=20)
    for h, n, t in SIZES:
        rng = np.random.default_rng(n + t)
        q, k, v = (rng.standard_normal((h, x, 20), dtype=np.float32) for x in (n, t, t))
        if h and t > 3:
            v[0, 3, 0], q[0, 3] = np.nan, -8
        arrays = [x.astype(TYPES[dtype].numpy) for x, dtype in zip((q, k, v), types[:3], strict=True)]
        out = np.full((h, n, 20), 7, np.float16)
        kernel(*arrays, out=out)
        assert check(kernel.op, arrays, (out,)).ok


F8 = ("f8e4m3", "f8e4m3", "f8e4m3", "f16")
CONVERTED = {  # types, device, rows: of them few have parts of the keys
    (F8, "sm_80", 512): "mma_m16n8k16_f16",
    (F8, "sm_86", 9): "mma_m16n8k16_f16",
    (F8, "gfx1100", 9): "wmma_16x16x16_f16",
    (F8, "gfx90a", 300): "mfma_16x16x32_f16",
    (F8, "sm_89", 1): "mma_m16n8k32_f8e4m3",
    (("bf16", "f16", "f16", "f16"), "sm_80", 9): "mma_m16n8k8_tf32",
    (("f16", "i8", "i8", "f16"), "gfx942", 300): "mfma_16x16x32_f16",
    (("bf16", "f16", "f8e5m2", "bf16"), "sm_90a", 20): "mma_m16n8k8_tf32",
}


@pytest.mark.parametrize(("types", "device", "rows"), CONVERTED)
def test_operands_are_converted_by_the_pass(types: Types, device: str, rows: int) -> None:
    """In one launch, whose blocks convert what they stage. Results are right, also where parts are combined: a query has no
    keys, so it is converted for each part."""
    sizes = {"H": 4, "Q": rows, "T": 4096 if rows < 64 else 512, "D": 24}
    made = compiled(types, device, sizes)
    assert len(made.program.launches) == 1 + (" by workspace" in made.schedule)
    assert f"compute with {CONVERTED[types, device, rows]}" in made.schedule
    assert ".right1 -> shared" in made.schedule
    assert " in global" not in made.schedule
    assert compiled(types, device, sizes, made.schedule).program == made.program
    kernel = andiron.compile(attention(*types) + made.schedule, target=f"emulate:{device}", D=24)
    for h, n, t in ((2, 70, 67), (1, 17, 515), (2, 3, 130), (1, 1, 1), (1, 5, 0), (0, 5, 20)):
        rng = np.random.default_rng(n + t)
        q, k, v = (rng.standard_normal((h, x, 24), dtype=np.float32) * (1 + 2 * (x is t)) for x in (n, t, t))
        arrays = [x.astype(TYPES[dtype].numpy) for x, dtype in zip((q, k, v), types[:3], strict=True)]
        out = np.full((h, n, 24), 7, np.float16)
        kernel(*arrays, out=out)
        assert check(kernel.op, arrays, (out,)).ok


def test_converting_before_is_an_alternative() -> None:
    for rows, first in ((512, "one pass"), (4096, BEFORE)):
        made = compiled(F8, "sm_80", {"H": 16, "Q": rows, "T": rows, "D": 64})
        nests = [x.nest for x in made.report["alternatives"][0].candidates]
        assert nests[0].startswith(first)
        assert f"{BEFORE}: 4 launches" in nests
        assert nests[-1] == "apart: 4 launches"


@pytest.mark.parametrize(("types", "device"), [(F8, "sm_80"), (("bf16", "f16", "f8e4m3", "bf16"), "sm_89"), (F8, "gfx90a")])
def test_registers(types: Types, device: str) -> None:
    """The model counts no fewer than lowering does, what is converted in the next iteration among them."""
    module = loads(attention(*types))
    op, machine = specialise(module.ops["f"], LARGE | {"D": 64}), module.device(device)
    named = with_named_factors(op, machine, ())
    part, whole, made = next(x for x in parts_of_passes(named, machine, frozenset()) if x[2])
    together = together_in_launch(whole, kept_intermediates(part) | made, frozenset())
    assert together is not None
    found = fragment_passes(context_of(named, machine), together)[0]
    t = found.candidates([], {})
    demand = found.demand(t, {i: e.constant or 0 for i, e in found.found.extents.items()})
    fits = np.flatnonzero(np.isfinite(cost(found.machine, demand).seconds))
    assert any(t["stages"][fits] == 2)
    for n in (fits[0], fits[len(fits) // 2], fits[-1]):
        lines = found.lines({name: int(v[n]) for name, v in t.items()}, LARGE)["pass"]
        text = "".join("".join(f"    {row}\n" for row in format_node(x).rstrip().splitlines()) for x in lines)
        done = compiled(types, device, LARGE | {"D": 64}, f"schedule s for f on {device}:\n{text}")
        assert memory_peaks(done.program)["register"].bytes / found.machine.register_bytes <= demand.registers[n]


def test_an_authors_line_for_a_converted_operand() -> None:
    """A line says where keys are converted: the rest is completed around it."""
    sizes, text = (
        {"H": 16, "Q": 512, "T": 512, "D": 64},
        "schedule s for f:\n    keep s.right1 in global:\n        auto\n    auto\n",
    )
    assert len(compiled(F8, "sm_80", sizes).program.launches) == 1
    made = compiled(F8, "sm_80", sizes, text)
    assert "keep s.right1 in global" in made.schedule
    assert "online" in made.schedule


MIXED = """op f[I, E, H, T, D](X: f16[I, E], W: f16[E, H, D], k: f8e4m3[H, T, D], v: f8e4m3[H, T, D]) -> (o: f16[H, I, D]):
    q[h, i, d] = f16(sum(e) f32(X[i, e]) * f32(W[e, h, d]))
    s[h, i, t] = (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * 0.125
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
"""


@pytest.mark.parametrize("device", ["sm_80", "gfx1100"])
def test_a_chain_of_an_op_converts_its_operands(device: str) -> None:
    """The query is computed by a launch before, and is of the type already."""
    module = loads(MIXED)
    op = specialise(module.ops["f"], {"I": 512, "E": 256, "H": 4, "T": 512, "D": 64})
    made = compile_program(module, op, None, module.device(device))
    assert len(made.program.launches) == 2 + (" by workspace" in made.schedule)
    assert "move s.right1 -> shared" in made.schedule
    kernel = andiron.compile(MIXED, target=f"emulate:{device}", D=64)
    rng = np.random.default_rng(1)
    for n, e, h, t in ((19, 20, 2, 37), (1, 3, 1, 1), (20, 4, 1, 0)):
        shapes = (n, e), (e, h, 64), (h, t, 64), (h, t, 64)
        arrays = [rng.standard_normal(s).astype(x.dtype.numpy) for s, x in zip(shapes, kernel.op.inputs, strict=True)]
        out = np.full((h, n, 64), 7, np.float16)
        kernel(*arrays, out=out)
        assert check(kernel.op, arrays, (out,)).ok
