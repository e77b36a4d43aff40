"""Scores of several products in a pass: each has a block in registers, and all of them lie alike."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.lower.leaves import owner_tree
from andiron.codegen.lower.shared_loops import siblings
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors.schedule import RegisterMismatch
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import right_and_once, within_bounds

OP = """
op f[H, Q, T, D, R](q: f16[H, Q, D], k: f16[H, T, D], a: f16[H, Q, R], b: f16[T, R], v: f16[H, T, D]) -> (o: f32[H, Q, D]):
    s[h, i, t] = (sum(d) f32(q[h, i, d]) * f32(k[h, t, d]) + sum(r) f32(a[h, i, r]) * f32(b[t, r])) * 0.25
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
"""
LINES = """
schedule s for f where D <= 32, R <= 32:
    tile h: 1, i: 32 -> block
    keep m, l, o in register
    move q -> shared
    move a -> shared
    tile t: 32 online{pipeline}
    move k -> shared
    move b -> shared
    move v -> shared
    tile i: {rows} -> {group}
    keep s.sum1 in register:
        tile d: {deep}
        compute with {instr}
    keep s in register:
        tile r: {deep}
        compute with {other}
    tile t: {keys} unroll
    keep p{more}
    compute with {instr}
"""
DEVICES = {
    "sm_80": {"pipeline": " pipeline 2", "rows": 16, "group": "warp", "deep": 16, "instr": "mma_m16n8k16_f16", "keys": 16},
    "gfx942": {"pipeline": "", "rows": 32, "group": "wave", "deep": 8, "instr": "mfma_32x32x8_f16", "keys": 32},  # transposed
    "gfx1100": {"pipeline": "", "rows": 16, "group": "wave", "deep": 16, "instr": "wmma_16x16x16_f16", "keys": 16},
}
SIZES = ((2, 33, 70, 24, 9), (1, 1, 1, 1, 1), (1, 3, 40, 32, 17), (2, 5, 0, 3, 3))


def text_of(device: str, other: str = "") -> str:
    facts = DEVICES[device]
    more = " in register\n    keep o.left1 in shared" if device == "gfx1100" else " in register"
    return OP + LINES.format(**facts, other=other or facts["instr"], more=more)


def lowered(device: str, text: str, **sizes: int) -> Program:
    module = loads(text)
    op = specialise(module.ops["f"], sizes)
    return compile_program(module, op, module.schedules["s"], module.device(device)).program


def arrays(h: int, n: int, t: int, d: int, r: int) -> list[np.ndarray]:
    rng = np.random.default_rng(t)
    return [rng.standard_normal(x).astype(np.float16) for x in ((h, n, d), (h, t, d), (h, n, r), (t, r), (h, t, d))]


@pytest.mark.parametrize("device", DEVICES)
def test_right(device: str) -> None:
    kernel = compile(text_of(device), op="f", schedule="s", target=f"emulate:{device}")
    for sizes in SIZES:
        within_bounds(loads(OP).ops["f"], (kernel(*arrays(*sizes)),), arrays(*sizes))


@pytest.mark.parametrize("device", DEVICES)
def test_in_the_interpreter_and_once(device: str) -> None:
    program = lowered(device, text_of(device))
    assert len(program.launches) == 1
    sizes = dict(zip("HQTDR", (2, 5, 40, 3, 2), strict=True))
    inputs = arrays(*sizes.values())
    names = [b.name for b in program.buffers if b.kind == "input"]
    within_bounds(loads(OP).ops["f"], interpret(program, dict(zip(names, inputs, strict=True)), sizes).values(), inputs)
    check_once(program, loads(OP).ops["f"], sizes)


def test_both_are_computed_the_same_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """ALIKE: MFMA computes scores transposed, so that they are an operand as they lie."""
    monkeypatch.setattr(owner_tree, "_alike", lambda *_: {})
    with pytest.raises(RegisterMismatch, match=r"`s.sum1` is held in registers as"):
        lowered("gfx942", text_of("gfx942"))


def test_results_that_lie_otherwise_are_refused() -> None:
    with pytest.raises(RegisterMismatch, match=r"`s.sum1` is held in registers as"):
        lowered("gfx942", text_of("gfx942", other="mfma_16x16x16_f16").replace("tile r: 8", "tile r: 16"))


TWICE = OP.replace("* 0.25\n", "* 0.25\n    c[h, i, t] = tanh(s[h, i, t])\n").replace("max(t) s[", "max(t) c[")
TWICE = TWICE.replace("exp(s[h, i, t] - m[h, i])", "exp(c[h, i, t] - m[h, i]) * s[h, i, t]")
TWICE += text_of("sm_80")[len(OP) :].replace("keep p in", "keep c, p in").replace(" where D <= 32, R <= 32", "")
FEW = {"H": 1, "Q": 17, "T": 70, "D": 5, "R": 3}


def test_a_statistic_waits_for_its_value_before() -> None:
    """What is computed of the scores is in the loop of a call, where both the statistic and the products read it."""
    program = lowered("sm_80", TWICE, **FEW)
    assert not [b for b in program.buffers if b.kind == "workspace"]
    right_and_once(program, specialise(loads(TWICE).ops["f"], FEW))


def test_a_statistic_would_be_joined_to_what_is_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "_sets_or_reads", lambda *_: False)
    with pytest.raises(AssertionError):
        right_and_once(lowered("sm_80", TWICE, **FEW), specialise(loads(TWICE).ops["f"], FEW))
