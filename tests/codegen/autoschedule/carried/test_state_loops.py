"""Defaults of linear attention on GPUs: tiles hand on a state, lanes have its channels."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.carried.state_loops import StateLoop
from andiron.codegen.autoschedule.launches import launches_of_schedule
from andiron.codegen.autoschedule.rank import every_candidate, rank_candidates
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.dsl.text.print_node import format_node
from andiron.runtime.compile import compile

HEADS = """op f[H, T, E](Q: f32[H, T, 40], K: f32[H, T, 40], V: f32[H, T, E]) -> (O: f32[H, T, E]):
    O[h, t, e] = sum(s, d where s <= t) Q[h, t, d] * K[h, s, d] * V[h, s, e]
"""
OPS = {
    "heads": HEADS,
    "one head": HEADS.replace("H, ", "").replace("h, ", ""),
    "few channels": HEADS.replace("40", "5"),
    "without the own row": HEADS.replace("s <= t", "s < t"),
    "ahead": HEADS.replace("s <= t", "s <= t + 2"),
    "a factor of the row": HEADS.replace("V: f32[H, T, E]", "V: f32[H, T, E], a: f32[T]").replace(" Q[h", " a[t] * Q[h"),
    "one column": HEADS.replace("E]", "1]").replace("[H, T, 1](", "[H, T](").replace("T, 1](", "T]("),
    "some channels": HEADS.replace("s <= t", "s <= t, d >= 3"),
    "halves": HEADS.replace("f32", "f16").replace("sum(s", "f16(sum(s").replace(
        "Q[h, t, d] * K[h, s, d] * V[h, s, e]", "f32(Q[h, t, d]) * f32(K[h, s, d]) * f32(V[h, s, e]))"
    ),
    "integers": HEADS.replace("f32", "i32"),
}  # fmt: skip
SIZES = ((0, 3), (3, 0), (1, 1), (21, 5), (37, 9))


def arrays_of(text: str, t: int, e: int) -> list[np.ndarray]:
    rng = np.random.default_rng(t)
    sizes = {"H": 2, "T": t, "E": e}
    inputs = loads(text).ops["f"].inputs
    return [rng.integers(-2, 3, [x.evaluate(sizes) for x in a.shape]).astype(a.dtype.numpy) for a in inputs]


@pytest.mark.parametrize(("name", "device"), [(name, ("sm_80", "gfx942", "gfx1100")[n % 3]) for n, name in enumerate(OPS)])
def test_states_are_carried(name: str, device: str) -> None:
    """With outputs that hold no number before."""
    kernel = compile(OPS[name], op="f", target=f"emulate:{device}")
    assert "carry" in kernel.schedule
    assert "-> thread" in kernel.schedule
    for t, e in SIZES:
        arrays = arrays_of(OPS[name], t, e)
        want = np.asarray(reference(loads(OPS[name]).ops["f"])(*arrays))
        out = np.full_like(want, 77 if want.dtype.kind == "i" else np.nan)
        kernel(*arrays, out=out)
        np.testing.assert_array_equal(out, want)


def test_each_candidate_is_right() -> None:
    module = loads(HEADS)
    op, device = module.ops["f"], module.device("sm_80")
    made = launches_of_schedule(op, device, None, module)
    (nest,) = (r for r in rank_candidates(made.context, made.parts[0][0]) if isinstance(r.nest, StateLoop))
    for candidate in every_candidate(nest, "O"):
        text = "\n".join(f"    {row}" for line in candidate.lines for row in format_node(line).splitlines())
        own = loads(f"{HEADS}schedule s for f:\n{text}\n")
        program = compile_program(own, own.ops["f"], own.schedules["s"], device).program
        for t, e in ((1, 1), (11, 5)):
            arrays = arrays_of(HEADS, t, e)
            got = interpret(program, dict(zip("QKV", arrays, strict=True)), {"H": 2, "T": t, "E": e})["O"]
            np.testing.assert_array_equal(got, np.asarray(reference(op)(*arrays)))


@pytest.mark.parametrize(
    ("old", "new"),
    [("40", "D"), ("40", "4000"), ("Q[h, t, d] *", "pow(0.5, t - s) * Q[h, t, d] *"), ("s <= t", "s <= t, s > t - 9")],
    ids=["open channels", "many channels", "a correction", "a window"],
)
def test_others_are_computed_apart(old: str, new: str) -> None:
    text = HEADS.replace(old, new).replace("[H, T, E](", "[H, T, D, E](" if new == "D" else "[H, T, E](")
    module = loads(f"{text}schedule s for f:\n    auto\n")
    compiled = compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_80"))
    assert "carry" not in compiled.schedule
