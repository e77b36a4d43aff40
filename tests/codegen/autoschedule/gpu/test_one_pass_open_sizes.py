"""Attention of open sizes on matrix instructions: one launch, right at all sizes, masks and values that are no numbers."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule import default_schedules as every
from andiron.codegen.autoschedule.default_schedules import default_schedules
from andiron.codegen.autoschedule.gpu.passes import pass_model
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import pass_nests
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.dsl.text.format import format_node
from andiron.runtime.compile import compile

OPS = """import std.ops.attention
op masked[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D], seen: bool[Q, T]) -> (o: f16[H, Q, D], y: f32[H, Q]):
    s[h, i, t] = where(seen[i, t], (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * rsqrt(D), -inf)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    y[h, i] = m[h, i] + log(l[h, i])
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
"""


def schedules(name: str, device: str, sizes: dict[str, int]) -> list[str]:
    module = loads(OPS)
    found = default_schedules(specialise(module.ops[name], sizes), module.device(device))
    return ["" if s is None else format_node(s).partition("\n")[0] for s in found]


def test_features_are_bounded() -> None:
    """Each bound has a schedule; what is known needs none."""
    head, both = "schedule attention_auto for attention where", {"D": 64, "Q": 512}
    assert schedules("attention", "sm_80", {}) == [
        f"{head} Q > 16, D <= 64:", f"{head.replace('auto', 'auto_128')} Q > 16, D <= 128:",
        f"{head.replace('auto', 'auto_few')} Q <= 16, D <= 64:",
        f"{head.replace('auto', 'auto_few_128')} Q <= 16, D <= 128:", "",
    ]  # fmt: skip
    assert schedules("attention", "gfx942", {"D": 64}) == [
        f"{head} Q > 32:",
        f"{head.replace('auto', 'auto_few')} Q <= 32:",
        "",
    ]
    assert schedules("attention", "sm_80", {"Q": 512})[0] == f"{head} D <= 64:"
    assert schedules("attention", "sm_80", both) == [""]
    for name, device in (("attention", "gfx1100"), ("attention_f32", "sm_80")):  # by lanes
        bounds = [s.partition(" where ")[2] for s in schedules(name, device, {})]
        assert bounds[:2] == ["Q > 16, D <= 64:", "Q > 16, D <= 128:"]
        assert bounds[2:] == ["Q <= 16, D <= 64:", "Q <= 16, D <= 128:", ""]


def test_passes_for_other_sizes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of sizes excludes them before anything is laid out."""
    module, asked = loads(OPS), []
    lay_out = every.pass_nests
    monkeypatch.setattr(every, "pass_nests", lambda *args: asked.append(args) or lay_out(*args))
    op, machine = module.ops["attention"], module.device("sm_80")
    assert [*default_schedules(op, machine, {"D": 1024})] == [None]
    assert not asked
    found = [*default_schedules(op, machine, {"D": 96})]
    assert [s and s.name for s in found] == ["attention_auto_128", "attention_auto_few_128", None]
    assert len(asked) == 2
    assert [s for s in default_schedules(op, machine) if s is None or s.name.endswith("128")] == found
    asked.clear()
    first = next(default_schedules(op, machine, {"D": 64, "Q": 512}))
    assert first is not None
    assert first.name == "attention_auto"
    assert len(asked) == 1


def program(device: str, sizes: dict[str, int], first: bool = True) -> CompiledProgram:
    """By the first of the compiler's own schedules, or by the last, which has no condition."""
    module = loads(OPS)
    op, machine = specialise(module.ops["attention"], sizes), module.device(device)
    return compile_program(module, op, [*default_schedules(op, machine)][0 if first else -1], machine)


@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_open_sizes_have_one_launch(device: str) -> None:
    for sizes in ({}, {"D": 64}, {"H": 16, "Q": 256, "D": 128}):
        made = program(device, sizes)
        assert len(made.program.launches) == 1
        (together,) = made.report["alternatives"]
        nests = [x.nest for x in together.candidates]
        assert nests[0] == "one pass: 1 launch"
        assert nests[-1] == "apart: 4 launches"
        assert together.candidates[0].seconds < together.candidates[-1].seconds
    assert len(together.sizes) == 3


@pytest.mark.parametrize(("name", "device"), [("attention", "sm_80"), ("attention", "gfx942"), ("attention_f32", "sm_80")])
def test_few_rows_have_parts(name: str, device: str) -> None:
    """MANY_ROWS. What has more features than any bound is the last, which takes all sizes: launches apart."""
    module = loads(OPS)
    op, machine = module.ops[name], module.device(device)
    *_, few, last = default_schedules(op, machine)
    made = compile_program(module, op, few, machine)
    assert len(made.program.launches) == 2
    assert f"tile t: {pass_model.OPEN_PART} -> block online by workspace\n" in made.schedule
    assert "online" not in compile_program(module, op, last, machine).schedule


def test_an_open_number_of_rows_is_bounded_below() -> None:
    module = loads(OPS)
    op, device = specialise(module.ops["attention"], {"D": 64}), module.device("sm_80")
    computations = pass_in_one_launch(op)
    assert computations is not None
    found = pass_nests(context_of(op, device), computations)[0]
    assert found.few_rows == 16


SIZES = ((2, 33, 70, 24), (1, 20, 129, 64), (1, 17, 1, 1), (1, 40, 0, 9), (0, 20, 20, 8), (1, 18, 65, 65))
FEW = ((2, 9, 1100, 24), (1, 1, 513, 65), (3, 16, 5, 8), (1, 8, 512, 64), (2, 1, 1, 1), (1, 4, 0, 3), (0, 5, 20, 8))


def arrays(h: int, n: int, t: int, d: int) -> tuple[np.ndarray, ...]:
    """Some rows see no key, some none of the first tiles; one value is no number, and some scores are infinite."""
    rng = np.random.default_rng(n + t)
    q, k, v = (rng.standard_normal(s).astype(np.float16) for s in [(h, n, d), (h, t, d), (h, t, d)])
    seen = rng.random((n, t)) < 0.7
    seen[1::5], seen[2::5, :64] = False, False
    if h and n > 6 and t > 3:
        v[0, 3, 0], q[0, 3], q[0, 6, 0] = np.nan, -8, np.inf
    return q, k, v, seen


@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_results(device: str) -> None:
    """Edges, rows without keys, sizes of 0 and 1, results that held something else; the last sizes have the wider schedule."""
    kernel, op = compile(OPS, op="masked", target=f"emulate:{device}"), loads(OPS).ops["masked"]
    for h, n, t, d in (*SIZES, *FEW):
        n += 16 if device == "gfx942" and n > 16 else 0  # more than an instruction has
        inputs = arrays(h, n, t, d)
        out = np.full((h, n, d), np.nan, np.float16), np.full((h, n), np.nan, np.float32)
        got = kernel(*inputs, out=out)
        for result, (value, bound) in zip(got, reference(op, exact=True)(*inputs), strict=True):
            np.testing.assert_array_equal(np.isnan(result), np.isnan(value))
            some = np.isfinite(value)
            assert (np.abs(np.asarray(result, float)[some] - value[some]) <= bound[some]).all()
            assert (result[~some & ~np.isnan(value)] == value[~some & ~np.isnan(value)]).all()
