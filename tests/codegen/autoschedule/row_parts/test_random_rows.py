"""Random statistics of few long rows, by the compiler's own schedule: right, and fed back the same.

`FUZZ=1000 pytest -n 2 tests/codegen/autoschedule/row_parts/test_random_rows.py` looks further.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import within_bounds
from ....support.random.counts import case_count, first_seed
from ....support.random.unscheduled import Text, row_statistics

CASES = case_count(12)
FIRST = first_seed()
TARGETS = ("emulate:sm_80", "cpu", "emulate:gfx942", "emulate:sm_90a", "emulate:gfx1100")
LENGTHS = (1, 17, 20_000, 33_001, 131_072, 150_001)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_random_rows(seed: int) -> None:
    rng = Random(seed)
    t = Text(rng, rng.choice(("f32", "f32", "f16", "bf16", "f64", "i32")), "f")
    row_statistics(t)
    op = loads(t.text).ops["f"]
    sizes = {v.name: rng.choice(LENGTHS) if v.name == "J" else rng.choice((1, 1, 2, 3)) for v in op.dims}
    target = TARGETS[seed % len(TARGETS)]
    kernel = compile(t.text, target=target, sizes=sizes)
    special = specialise(op, sizes)
    values = np.random.default_rng(seed)
    shape = [e.constant or 0 for e in special.inputs[0].shape]
    x = values.integers(-3, 4, shape).astype(op.inputs[0].dtype.numpy)
    if op.inputs[0].dtype.kind == "float" and rng.random() < 0.5:
        x[..., : x.shape[-1] // 2] = rng.choice((-np.inf, np.inf, -60))
    out = [np.full([e.constant or 0 for e in o.shape], 7, o.dtype.numpy) for o in special.outputs]
    kernel(x, out=out[0] if len(out) == 1 else tuple(out))
    within_bounds(special, out, [x])
    again = compile(t.text + kernel.schedule, schedule="f_auto", target=target, sizes=sizes)
    assert again.schedule == kernel.schedule
