"""Attentions with a second result of rows and keys: scores, which a pass has in its tiles, or what has running values there."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.online import OnlineMismatch
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check

from ....support.rotation import ALL_OPS, LONG, fewest

TEXT = """op f[Q, T, D](q: {x}[Q, D], k: {x}[T, D], v: {x}[T, D]) -> (o: f32[Q, D], w: f32[{at}]):
    s[i, t] = (sum(d) f32(q[i, d]) * f32(k[t, d])) * 0.25
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, d] = (sum(t) f32({x}(p[i, t])) * f32(v[t, d])) / l[i]
    {w}
"""
OF_SCORES = {"scores": "w[i, t] = s[i, t]", "scaled": "w[i, t] = s[i, t] * 2.0"}
RUNNING = {"weights": "w[i, t] = p[i, t] / l[i]", "numerators": "w[i, t] = p[i, t]", "shifted": "w[i, t] = s[i, t] - m[i]"}
OTHERS = {"columns": "w[t] = sum(i) s[i, t]", "column of weights": "w[t] = max(i) p[i, t]", "rows": "w[i] = sum(t) s[i, t]"}
RESULTS = OF_SCORES | RUNNING | OTHERS


def text_of(name: str, dtype: str) -> str:
    w = RESULTS[name]
    return TEXT.format(x=dtype, w=w, at=w.partition("[")[2].partition("]")[0].upper().replace("I", "Q"))


TARGETS = ("emulate:sm_80", "emulate:gfx942", "emulate:gfx1100", "cpu")


SIZES = {"both": {"Q": 64, "T": 128, "D": 64}, "one row": {"Q": 1, "T": 600, "D": 64}, "open": {"D": 64}}
EVERY = [
    (n, x, dtype, sizes)
    for n in RESULTS
    for x in TARGETS
    if n in OF_SCORES or x in TARGETS[::3]
    for dtype in ("f16", "f32")
    for sizes in SIZES
]


@pytest.mark.parametrize(
    ("name", "target", "dtype", "known"), [c for c, taken in zip(EVERY, fewest(EVERY), strict=True) if taken or ALL_OPS or LONG]
)
def test_they_are_right(name: str, target: str, dtype: str, known: str) -> None:
    sizes = SIZES[known]
    kernel = andiron.compile(text_of(name, dtype), target=target, sizes=sizes)
    rows, keys = sizes.get("Q", 70), sizes.get("T", 530)
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal((n, 64), dtype=np.float32).astype(dtype.replace("f", "float")) for n in (rows, keys, keys)]
    every = {"Q": rows, "T": keys, "D": 64}
    shapes = [[every.get(str(e)) or e.constant or 0 for e in t.shape] for t in kernel.op.outputs]
    out = tuple(np.full(x, 7, np.float32) for x in shapes)
    kernel(*arrays, out=out)
    assert check(kernel.op, arrays, out).ok


@pytest.mark.parametrize("name", OF_SCORES)
def test_scores_are_stored_by_the_pass(name: str) -> None:
    """Without a workspace for them. They were read before they were there, from one that nothing wrote."""
    module = loads(text_of(name, "f32"))
    op = specialise(module.ops["f"], {"Q": 64, "T": 128, "D": 64})
    made = compile_program(module, op, None, module.device("sm_80"))
    assert "online" in made.schedule
    assert len(made.program.launches) == 1
    assert [x.name for x in made.program.buffers if x.kind == "workspace"] == []


@pytest.mark.parametrize("device", ["sm_80", "cpu:avx2"])
def test_sums_of_columns_are_no_part_of_a_pass(device: str) -> None:
    """They read scores of all rows, and each tile of the pass has its own."""
    lines = """schedule x for f:
    keep m, l, o in register
    tile t: 32 online
    keep s in register
    keep p in register
    auto
"""
    module = loads(text_of("columns", "f32") + lines)
    op = specialise(module.ops["f"], {"Q": 64, "T": 128, "D": 64})
    with pytest.raises(OnlineMismatch, match=r"`w` reads `s`, of which the pass has a tile at a time"):
        compile_program(module, op, module.schedules["x"], module.device(device))
