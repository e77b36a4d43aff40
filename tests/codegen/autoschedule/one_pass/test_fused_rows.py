"""Queries of several heads that share their keys are rows of one tile where each head has few of them."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import pass_nests
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.one_pass.fused_rows import with_fused_rows
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import right_in_three_parts
from ....support.rotation import rotated

SOFTMAX = """
    m[{rows}] = max(t) s[{rows}, t]
    p[{rows}, t] = exp(s[{rows}, t] - m[{rows}])
    l[{rows}] = sum(t) p[{rows}, t]
"""
OPS = (
    """import std.ops.attention
op masked[H, G, Q, T, D](q: f16[H, G, Q, D], k: f16[H, T, D], v: f16[H, T, D], seen: bool[G, Q, T]) -> (o: f16[H, G, Q, D]):
    s[h, g, i, t] = where(seen[g, i, t], (sum(d) f32(q[h, g, i, d]) * f32(k[h, t, d])) * rsqrt(D), -inf)"""
    + SOFTMAX.format(rows="h, g, i")
    + """    o[h, g, i, d] = (sum(t) f32(f16(p[h, g, i, t])) * f32(v[h, t, d])) / l[h, g, i]
op causal[H, G, Q, T, D](q: f32[H, G, Q, D], k: f32[H, T, D], v: f32[H, T, D]) -> (o: f32[H, G, Q, D]) where Q <= T:
    s[h, g, i, t] where t <= i + T - Q = (sum(d) q[h, g, i, d] * k[h, t, d]) * rsqrt(D)"""
    + SOFTMAX.format(rows="h, g, i")
    + """    o[h, g, i, d] = (sum(t) p[h, g, i, t] * v[h, t, d]) / l[h, g, i]
op one_key_head[H, Q, T, D](q: f16[H, Q, D], k: f16[T, D], v: f16[T, D]) -> (o: f16[H, Q, D]):
    s[h, i, t] = (sum(d) f32(q[h, i, d]) * f32(k[t, d])) * rsqrt(D)"""
    + SOFTMAX.format(rows="h, i")
    + """    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[t, d])) / l[h, i]
"""
)
DECODE = {
    "grouped_attention": {"H": 8, "G": 4, "Q": 1, "T": 8192, "D": 128},
    "grouped_attention_f16": {"H": 8, "G": 4, "Q": 1, "T": 8192, "D": 128},
    "causal": {"H": 8, "G": 8, "Q": 2, "T": 8192, "D": 64},
    "one_key_head": {"H": 32, "Q": 1, "T": 8192, "D": 64},
}
SMALL = {
    "grouped_attention": {"H": 2, "G": 3, "Q": 1, "T": 1037, "D": 24},
    "grouped_attention_f16": {"H": 1, "G": 5, "Q": 3, "T": 1037, "D": 40},
    "masked": {"H": 1, "G": 3, "Q": 2, "T": 1030, "D": 16},
    "causal": {"H": 1, "G": 4, "Q": 3, "T": 700, "D": 33},
    "one_key_head": {"H": 5, "Q": 1, "T": 1037, "D": 24},
}
GPUS = ("sm_80", "gfx942", "gfx1100", "sm_75", "gfx90a")


def op_of(name: str, sizes: dict[str, int]) -> Op:
    return specialise(loads(OPS).ops[name], sizes)


def compiled(name: str, device: str, sizes: dict[str, int]) -> CompiledProgram:
    module = loads(OPS)
    return compile_program(module, op_of(name, sizes), None, module.device(device))


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["sm_75", "sm_80", "sm_90a", "sm_100a", "gfx908", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("name", ["grouped_attention", "grouped_attention_f16"])
def test_one_query_of_each_head_takes_two_launches(name: str, device: str) -> None:
    """The launches apart were predicted to be faster than a pass with one row of a block: it asks for the keys G times."""
    made = compiled(name, device, DECODE[name])
    assert len(made.program.launches) == 2
    assert "    fuse g, i as gi\n    tile h: 1, gi: " in made.schedule


@pytest.mark.parametrize(("name", "row"), [("causal", "gi"), ("one_key_head", "hi")])
def test_any_indices_that_no_key_has(name: str, row: str) -> None:
    made = compiled(name, "sm_80", DECODE[name])
    assert f" as {row}\n" in made.schedule
    assert "-> block online by workspace\n" in made.schedule


def test_products_of_fused_rows_are_on_instructions() -> None:
    for device, instr in (("sm_80", "mma_m16n8k16_f16"), ("gfx942", "mfma_16x16x32_f16"), ("gfx1100", "wmma_16x16x16_f16")):
        made = compiled("grouped_attention_f16", device, DECODE["grouped_attention_f16"])
        assert made.schedule.count(f"compute with {instr}") == 2


def test_where_rows_are_many_each_head_has_its_own() -> None:
    """Their blocks are as full, and a domain leaves fewer keys for each."""
    made = compiled("grouped_attention_f16", "sm_80", {"H": 8, "G": 4, "Q": 64, "T": 1024, "D": 64})
    assert "fuse g, i" not in made.schedule.partition("keep m, l, o")[0]


def test_few_of_an_open_number_of_rows_are_fused() -> None:
    kernel = compile(OPS, op="grouped_attention_f16", target="cuda:sm_80", D=64)
    for v in kernel.variants[:-1]:
        assert (":\n    fuse g, i as gi\n    tile h: 1, gi: " in v.schedule) == ("where Q <= 16" in v.schedule)


def test_rows_that_have_keys_of_their_own_are_apart() -> None:
    module = loads(OPS)
    for name in ("attention", "grouped_decode_f16"):
        op, device = module.ops[name], module.device("sm_80")
        computations = pass_in_one_launch(op)
        assert computations is not None
        assert with_fused_rows(context_of(op, device), computations) is None


def test_the_row_has_a_free_name() -> None:
    module = loads(
        OPS.replace("one_key_head[H, Q, T, D](q:", "one_key_head[H, Q, T, D](hi:").replace(
            "(sum(d) f32(q[h, i, d])", "(sum(d) f32(hi[h, i, d])"
        )
    )
    op, device = specialise(module.ops["one_key_head"], {"H": 4, "Q": 1, "T": 64, "D": 16}), module.device("sm_80")
    computations = pass_in_one_launch(op)
    assert computations is not None
    assert list(dict.fromkeys(x.row for x in pass_nests(context_of(op, device), computations))) == ["i", "hi_"]


@pytest.mark.parametrize(("name", "device"), rotated(SMALL, GPUS))
def test_each_element_once(name: str, device: str) -> None:
    made = compiled(name, device, SMALL[name])
    assert "tile h: 1, gi: " in made.schedule or "tile hi: " in made.schedule
    assert {b.name for b in made.program.buffers if b.kind == "workspace"} <= {"m_parts", "l_parts", "o_sum1_parts"}
    right_in_three_parts(OPS, name, device, made, SMALL[name])


def softmax_product(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """An independent formula: [h, g, i, d] of [h, t, d], each row for itself, in f64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    out = np.full(q.shape, np.nan)
    for h, g, i in np.ndindex(q.shape[:3]):
        scores = (k[h] @ q[h, g, i] / np.sqrt(q.shape[3]))[seen[g, i]]
        if len(scores):
            p = np.exp(scores - scores.max())
            out[h, g, i] = (p / p.sum()) @ v[h][seen[g, i]]
    return out


@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1100"])
def test_open_sizes_and_masked_rows(device: str) -> None:
    """One kernel for all sizes; rows that see no key are no numbers, as are those without keys; there is no other."""
    kernel = compile(OPS, op="masked", target=f"emulate:{device}", D=16)
    rng = np.random.default_rng(3)
    for h, g, n, t in ((2, 3, 1, 1030), (1, 4, 5, 37), (1, 1, 1, 1), (2, 17, 1, 9), (1, 2, 1, 0), (0, 2, 1, 4), (1, 0, 1, 4)):
        q, k, v = (rng.standard_normal(s).astype(np.float16) for s in ((h, g, n, 16), (h, t, 16), (h, t, 16)))
        seen = rng.random((g, n, t)) < 0.7
        seen[1::3], seen[2::3, :, :600] = False, False
        out = np.full(q.shape, 7, np.float16)
        kernel(q, k, v, seen, out=out)
        np.testing.assert_allclose(out, softmax_product(q, k, v, seen), atol=3e-3, equal_nan=True)


@pytest.mark.parametrize(("name", "device"), [("grouped_attention", "sm_80"), ("causal", "gfx942"), ("causal", "sm_80")])
def test_f32_is_as_exact_as_before(name: str, device: str) -> None:
    kernel = compile(OPS, op=name, target=f"emulate:{device}", D=24)
    rng = np.random.default_rng(4)
    for h, g, n, t in ((1, 3, 1, 1037), (2, 2, 3, 65), (1, 5, 1, 1)):
        q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((h, g, n, 24), (h, t, 24), (h, t, 24)))
        seen = np.ones((g, n, t), bool)
        if name == "causal":
            seen &= np.arange(t) <= np.arange(n)[:, None] + t - n
        out = np.full(q.shape, np.nan, np.float32)
        kernel(q, k, v, out=out)
        np.testing.assert_allclose(out, softmax_product(q, k, v, seen), atol=2e-6)
