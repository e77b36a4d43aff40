"""`tile i: ... carry` where the correction overflows and no term of the op does: a total of 0 stays 0."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.lower.reductions import carried_totals
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.interpreted import written
from ....support.rotation import rotated

Arrays = dict[str, np.ndarray]
LATER, SHIFTED = "j <= i, j >= 11*r", "j <= i - 9"  # rows that have no terms yet; rows that have zeros, but for the last ones
STATEMENTS = {
    "gates": (LATER, "exp(g[i] - g[j]) * X[r, j]"),
    "gates, later": (SHIFTED, "exp(g[i] - g[j]) * X[r, j]"),
    "a factor of the row": (LATER, "a[i] * X[r, j]"),
    "a factor of the row, and gates": (SHIFTED, "a[i] * exp(g[i] - g[j]) * X[r, j]"),
    "a state": (LATER, "Q[i, d] * K[j, d] * X[r, j]"),
    "a state with gates": (SHIFTED, "Q[i, d] * exp(g[i] - g[j]) * K[j, d] * X[r, j]"),
    "a state with gates of channels": (LATER, "Q[i, d] * exp(h[i, d] - h[j, d]) * K[j, d] * X[r, j]"),
}
INPUTS = {"g": "f32[24]", "a": "f32[24]", "h": "f32[24, 2]", "Q": "f32[24, 2]", "K": "f32[24, 2]"}
CPU = {
    "lanes have rows": "tile r: 8 -> core / tile i: 8 carry / tile r: 1 -> lane",
    "lanes have elements": "tile r: 2 -> core / tile i: 8 carry / tile i: 1 -> lane",
    "a row": "tile r: 8 -> core / tile i: 1 carry / tile r: 1 -> lane",
}
GPU = {"threads": "tile r: 32 -> block / tile i: 8 carry / tile r: 1 -> thread"}


def text_of(name: str, lines: str) -> str:
    domain, term = STATEMENTS[name]
    inputs = "".join(f", {t}: {shape}" for t, shape in INPUTS.items() if f"{t}[" in term)
    over = "j, d" if "d]" in term else "j"
    domain += ", d >= 1" if "Q[" in term else ""
    head = f"op f[M](X: f32[M, 24]{inputs}) -> (P: f32[M, 24]):\n    P[r, i] = sum({over} where {domain}) {term}\n"
    return f"{head}schedule s for f:\n{written(lines)}"


def arrays_of(name: str) -> tuple[Arrays, np.ndarray]:
    """The inputs, and the result for r > 0. Gates grow by 120 where a tile ends; factors of rows without terms are infinite."""
    rng = np.random.default_rng(0)
    later = STATEMENTS[name][0] == LATER
    v = {t: rng.uniform(0.5, 2, (24, 2) if t in "hQK" else (24,)).astype(np.float32) for t in INPUTS}
    v["X"] = rng.uniform(0.5, 2, (3, 24)).astype(np.float32)
    grows, unused = (slice(0, 8), slice(8, 11)) if later else (slice(15, 16), slice(0, 9))
    v["g"][grows], v["h"][grows] = -120, -120
    v["a"][unused], v["Q"][unused], v["Q"][:, 0] = np.inf, np.inf, np.inf
    if not later:
        v["X"][:, :7] = 0
    want = np.zeros((3, 24))
    for r in (1, 2):
        for i in range(24):
            for j in range(11 * r, i + 1) if later else range(i - 8):
                want[r, i] += term_of(name, v, r, i, j)
    used = {t: v[t] for t in ("X", *INPUTS) if f"{t}[" in STATEMENTS[name][1]}
    return used, want


def term_of(name: str, v: Arrays, r: int, i: int, j: int) -> float:
    term, x = STATEMENTS[name][1], {t: a.astype(np.float64) for t, a in v.items()}
    out = x["X"][r, j]
    out *= np.exp(x["g"][i] - x["g"][j]) if "g[" in term else 1
    out *= np.exp(x["h"][i, 1] - x["h"][j, 1]) if "h[" in term else 1
    out *= x["Q"][i, 1] * x["K"][j, 1] if "Q[" in term else 1
    return out * (x["a"][i] if "a[" in term else 1)


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got[1:], want[1:], rtol=1e-4)


def interpreted(name: str, lines: str, device: str) -> None:
    module = loads(text_of(name, lines))
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    inputs, want = arrays_of(name)
    close(interpret(program, inputs, {"M": 3}, {"core": 2})["P"], want)
    check_once(program, module.ops["f"], {"M": 3}, {"core": 2})


@pytest.mark.parametrize(("name", "lines"), rotated(STATEMENTS, [*CPU, *GPU]))
def test_right(name: str, lines: str) -> None:
    interpreted(name, {**CPU, **GPU}[lines], "cpu:avx2" if lines in CPU else "sm_80")


@pytest.mark.parametrize("name", STATEMENTS)
def test_on_cpus_and_under_the_emulator(name: str) -> None:
    """With outputs that hold no number before."""
    skip_unless_run_here("cpu:avx2")
    inputs, want = arrays_of(name)
    for lines, target in ((CPU["lanes have rows"], "cpu:avx2"), (GPU["threads"], "emulate:sm_80")):
        kernel = compile(text_of(name, lines), op="f", schedule="s", target=target)
        out = np.full((3, 24), np.nan, np.float32)
        kernel(*inputs.values(), out=out)
        close(out, want)


@pytest.mark.parametrize("name", STATEMENTS)
def test_without_the_guards_there_is_no_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = carried_totals.Factor
    monkeypatch.setattr(carried_totals, "Factor", lambda fn, value: plain("mul", value))
    monkeypatch.setattr(carried_totals, "has_terms", lambda *_: None)
    with pytest.raises(AssertionError):
        interpreted(name, CPU["lanes have rows"], "cpu:avx2")


def test_what_the_op_multiplies_itself_is_not_guarded() -> None:
    """Row i - 1 is among the terms of row i: where the correction overflows, so does its term."""
    text = "op f[N](X: f32[N], g: f32[N]) -> (P: f32[N]):\n    P[i] = sum(j where j < i) exp(g[i] - g[j]) * X[j]\n"
    for t, guarded in ((text, False), (text.replace("j < i", "j < i - 1"), True)):
        kernel = compile(f"{t}schedule s for f:\n{written('tile i: 8 carry')}", op="f", schedule="s", target="cpu:avx2")
        assert ("m_scaled(" in kernel.source) == guarded
