"""Instructions on a fused index: what is stored has the subscripts that were fused, not the index that they became."""

from __future__ import annotations

import pytest
from andiron.codegen.verify.verify_program import verify
from andiron.dsl.module import loads

from ....support.interpreted import Formula, agrees, program_of

COPY = Formula("op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[m, n] = X[m, n]\n", lambda x: x)
SIZES = ({"M": 3, "N": 5}, {"M": 1, "N": 1}, {"M": 9, "N": 16}, {"M": 0, "N": 4})
LINES = (
    "fuse {} as f",
    "fuse {} as f / tile f: 4 vector 4",
    "fuse {} as f / tile f: 128 -> block / tile f: 4 -> thread",
)


@pytest.mark.every_second
@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("indices", ["m, n", "n, m"])
@pytest.mark.parametrize(
    ("device", "instr"),
    [("sm_80", "load_shared"), ("sm_80", "load_global"), ("sm_80", "store_global"), ("gfx90a", "store_global")],
)
def test_copies(device: str, instr: str, indices: str, lines: str) -> None:
    program = program_of(COPY, f"{lines.format(indices)} / compute with {instr}", device)
    for sizes in SIZES:
        agrees(COPY, program, sizes)
    assert verify(program, loads(COPY.text).ops["f"], work=500_000).checked
