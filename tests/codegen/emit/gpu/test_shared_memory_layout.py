"""Where buffers lie in shared memory: they share bytes only where units can wait for each other."""

from __future__ import annotations

import pytest
from andiron.codegen.emit.printers import emit
from andiron.dsl.errors.schedule import CapacityExceeded

from ....support.interpreted import Formula, program_of

WEIGHTED = Formula(
    """op f[I, T, D](X: f32[I, T], V: f32[T, D]) -> (y: f32[I, D]):
    a[i] = min(t) X[i, t]
    e[i, t] = exp(a[i] - X[i, t])
    b[i] = sum(t) e[i, t]
    o[i, d] = sum(t) e[i, t] * V[t, d]
    y[i, d] = o[i, d] / b[i]
""",
    lambda x, v: x,
)
LINES = (
    "tile i: 5 -> block / tile d: 16 / keep o, a, b in register / tile t: 32 online pipeline 2 / tile t: 1 -> wave online"
    " / tile t: 10 online unroll 3 / keep e in shared / tile t: 1 -> thread"
)


def test_what_fits_only_by_a_barrier_that_divergent_units_cannot_reach_is_refused_at_a_line() -> None:
    program = program_of(WEIGHTED, LINES, "gfx942", {"I": 13, "D": 3})
    with pytest.raises(CapacityExceeded, match="units diverge where tiles would share bytes") as caught:
        emit(program, "hip")
    assert caught.value.span is not None
    assert caught.value.help
