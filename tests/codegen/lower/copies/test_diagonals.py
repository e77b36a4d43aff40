"""Reads of a diagonal, one index for several axes, from what is staged: each element is copied once, by one unit."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.tile_ir import Alloc
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.verify.verify_program import verify
from andiron.dsl.module import loads

from ....support.interpreted import Formula, agrees, program_of

ALONE = Formula(
    "op f[K, N, M](E: f32[M], T: f32[N, N, K]) -> (Y: f32[K, M]):\n    Y[k, m] = sum(n) (E[m] - T[n, n, k])\n",
    lambda e, t: t.shape[0] * e[None, :] - np.trace(t)[:, None],
)
BESIDE = Formula(
    "op f[N, K](T: f32[N, N, K]) -> (Y: f32[N, K]):\n    Y[n, k] = T[n, n, k] + T[n, n, k + 1 else 0]\n",
    lambda t: sum(np.pad(np.diagonal(t).T[:, k:], ((0, 0), (0, k))) for k in (0, 1)),
)
SIZES = ({"K": 3, "N": 5, "M": 7}, {"K": 1, "N": 1, "M": 1}, {"K": 0, "N": 3, "M": 2}, {"K": 33, "N": 35, "M": 9})


@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "gfx90a", "gfx1100", "cpu:avx2"])
def test_what_the_compiler_chooses(device: str) -> None:
    program = program_of(ALONE, "auto", device)
    for sizes in SIZES:
        agrees(ALONE, program, sizes)
    assert verify(program, loads(ALONE.text).ops["f"], work=2_000_000).checked


MOVED = [
    ("gfx1100", "tile k: 8, m: 8 -> block / tile n: 4 / move T -> shared / tile k: 1, m: 1 -> thread"),
    ("sm_80", "tile k: 8, m: 8 -> block / tile n: 4 / move T -> shared pad 1 / tile k: 1, m: 1 -> thread"),
    ("cpu:avx2", "tile k: 6, m: 8, n: 4 / move T -> l3 / tile k: 2 -> core / tile m: 1 -> lane"),
    ("cpu:generic", "tile k: 4, n: 2 / move T -> l3 layout (k, n) / tile k: 2"),
]


@pytest.mark.parametrize(("device", "lines"), MOVED)
def test_a_move(device: str, lines: str) -> None:
    program = program_of(ALONE, f"{lines} / compute", device)
    for sizes in SIZES:
        agrees(ALONE, program, sizes)
    copies = [
        s.buffer for x in program.launches for s in statements(x.body) if isinstance(s, Alloc) and s.buffer.name[:2] == "t_"
    ]
    assert copies
    assert all(len(b.shape) == 2 for b in copies), "the diagonal, not the box around it"


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_different_reads_on_a_diagonal(device: str) -> None:
    """No one set of indices says what is read; the copy is the box around it."""
    program = program_of(BESIDE, "tile n: 4, k: 4 -> block / move T -> shared / tile n: 1, k: 1 -> thread / compute", device)
    for n, k in ((5, 3), (1, 1), (9, 6), (0, 2)):
        agrees(BESIDE, program, {"N": n, "K": k})
