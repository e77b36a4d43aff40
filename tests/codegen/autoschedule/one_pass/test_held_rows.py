"""Queries in registers from before the loop over the keys on, where the staging memory has no room for them and for keys."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.passes import one_pass
from andiron.codegen.autoschedule.gpu.passes.one_pass import FragmentPass, fragment_passes
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import right_and_once

OPS = """import std.ops.attention
op masked[H, Q, T, D](q: f32[H, Q, D], k: f32[H, T, D], v: f32[H, T, D], seen: bool[Q, T]) -> (o: f32[H, Q, D]):
    s[h, i, t] = where(seen[i, t], (sum(d) q[h, i, d] * k[h, t, d]) * rsqrt(D), -inf)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) p[h, i, t] * v[h, t, d]) / l[h, i]
"""
LARGE = {"H": 16, "Q": 2048, "T": 2048, "D": 128}
LATENT = {**LARGE, "R": 64, "E": 128}
HELD = "    move q -> register\n"


def op_of(name: str, sizes: dict[str, int]) -> Op:
    return specialise(loads(OPS).ops[name], sizes)


def compiled(name: str, device: str, sizes: dict[str, int]) -> CompiledProgram:
    return compile_program(loads(OPS), op_of(name, sizes), None, loads(OPS).device(device))


def nests(name: str, device: str, sizes: dict[str, int]) -> tuple[FragmentPass, ...]:
    op = op_of(name, sizes)
    computations = pass_in_one_launch(op)
    assert computations is not None
    return fragment_passes(context_of(op, loads(OPS).device(device)), computations)


@pytest.mark.parametrize("device", ["gfx908", "gfx90a", "gfx942"])
def test_queries_of_many_features_leave_one_launch(device: str) -> None:
    """64 rows of 192 features, and 16 keys, are 68 KiB; with 32 rows two of four schedulers had nothing to do, and the scores
    were computed apart."""
    made = compiled("latent_attention", device, LATENT)
    assert len(made.program.launches) == 1
    assert f"{HELD}    move qr -> register\n    tile t: 16 online" in made.schedule
    assert all(b.kind != "workspace" for b in made.program.buffers)


def test_rows_are_held_where_room_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks whose warps fill the schedulers have room elsewhere: there it is not tried."""
    assert all(x.may_hold_rows for x in nests("attention_f32", "gfx942", LARGE))
    for name, device in (("attention", "sm_80"), ("attention", "gfx942"), ("attention_f32", "gfx950")):
        found = nests(name, device, LARGE)[-1]
        assert not found.may_hold_rows
        assert not found.candidates([], {})["held"].any()
    monkeypatch.setattr(one_pass, "BLOCKS", 0)
    assert not any(x.may_hold_rows for x in nests("attention_f32", "gfx942", LARGE))


def test_what_holding_asks() -> None:
    """No room in the staging memory for rows, and registers for their features instead; nothing else differs."""
    (found,) = (x for x in nests("attention_f32", "gfx942", LARGE) if x.rows_of_call == 16)
    t = {"bi": np.array([64.0, 64]), "wi": np.array([16.0, 16]), "bt": np.array([16.0, 16]), "stages": np.array([1.0, 1])}
    d = found.demand({**t, "held": np.array([0.0, 1]), "part": np.zeros(2)}, {"h": 16, "i": 2048, "t": 2048, "d": 128})
    (queries,) = (s for s in found.staged if found.row in s.access.axes)
    assert d.staged[0] - d.staged[1] == 64 * (128 + queries.pad) * 4
    assert d.registers[1] - d.registers[0] == 16 * 128 / 64
    assert d.staging[1] < d.staging[0]
    assert np.ptp(d.pipe) == np.ptp(d.l2_bytes + np.zeros(2)) == 0


def test_one_launch_is_taken_where_parts_are_alike() -> None:
    """By prediction 2 launches with parts of the keys take 0.999 times as long."""
    made = compiled("attention_f32", "gfx942", LARGE)
    assert made.report["alternatives"][0].candidates[0].nest == "one pass in parts of the keys: 2 launches"
    assert len(made.program.launches) == 1


@pytest.mark.parametrize(("name", "device", "sizes"), [
    ("latent_attention", "gfx942", {"H": 1, "Q": 37, "T": 21, "D": 100, "R": 30, "E": 65}),
    ("causal_attention", "gfx90a", {"H": 1, "Q": 19, "T": 37, "D": 128}),
    ("grouped_attention", "gfx908", {"H": 1, "G": 2, "Q": 33, "T": 19, "D": 125}),
])  # fmt: skip
def test_each_element_once(name: str, device: str, sizes: dict[str, int]) -> None:
    made = compiled(name, device, sizes)
    assert HELD in made.schedule
    right_and_once(made.program, op_of(name, sizes))


@pytest.mark.parametrize("device", ["gfx942", "gfx908"])
def test_open_sizes_and_masked_rows(device: str) -> None:
    """By an independent formula; rows that see no key are no numbers, as are those without keys; there is no other."""
    kernel = compile(OPS, op="masked", target=f"emulate:{device}", D=128)
    assert HELD in kernel.variants[0].schedule
    rng = np.random.default_rng(3)
    for h, n, t in ((2, 37, 41), (1, 33, 1), (1, 70, 19), (1, 64, 0), (0, 40, 4), (1, 0, 4), (1, 1, 1)):
        q, k, v = (rng.standard_normal((h, x, 128)).astype(np.float32) for x in (n, t, t))
        seen = rng.random((n, t)) < 0.7
        seen[1::3], seen[2::3, :16] = False, False
        out = np.full(q.shape, 7, np.float32)
        kernel(q, k, v, seen, out=out)
        want = np.full(q.shape, np.nan)
        for a, i in np.ndindex(h, n):
            scores = (k[a].astype(np.float64) @ q[a, i] / np.sqrt(128))[seen[i]]
            if len(scores):
                p = np.exp(scores - scores.max())
                want[a, i] = p / p.sum() @ v[a][seen[i]]
        np.testing.assert_allclose(out, want, atol=3e-6, equal_nan=True)
