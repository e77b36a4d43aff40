"""`raster`: tiles are numbered band by band, however many there are; the results stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Let
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.paths import DEVICES

SIMT = (DEVICES / "simt.sched").read_text(encoding="utf-8")
TEXT = """
op batched[B, M, N, K](X: f32[B, M, K], Y: f32[B, K, N]) -> (Z: f32[B, M, N]):
    Z[b, m, n] = sum(k) X[b, m, k] * Y[b, k, n]
schedule s for batched:
    tile b: 1, m: 4, n: 4 -> block {modifiers}
    keep Z in register
    tile m: 1, n: 1 -> thread
    tile k: 1
    compute
"""
SIZES = [(2, 17, 30, 5), (1, 12, 8, 3), (3, 4, 9, 2), (1, 33, 4, 1), (2, 1, 1, 0), (1, 0, 5, 2)]


def program_of(modifiers: str, fixed: dict[str, int] | None = None) -> Program:
    mod = loads(SIMT + TEXT.format(modifiers=modifiers))
    op = specialise(mod.ops["batched"], fixed or {})
    return compile_program(mod, op, mod.schedules["s"], mod.devices["simt"]).program


def tiles(program: Program, dims: dict[str, int]) -> list[tuple[int, int, int]]:
    """Which tile (b, m, n) each block takes, in the order of their numbers."""
    (launch,) = program.launches
    count = next(u.count for u in launch.units if u.level == "block").evaluate(dims)
    lets = [s for s in statements(launch.body) if isinstance(s, Let) and s.extent is not None][:7]
    out = []
    for number in range(count):
        at = {**dims, "block": number}
        for s in lets:
            if {v.name for v in s.value.variables()} <= set(at):
                at[s.var.name] = s.value.evaluate(at)
        out.append(tuple(at[x] for x in ("b1", "m1", "n1")))
    return out


@pytest.mark.parametrize("width", [2, 3, 100])
def test_bands(width: int) -> None:
    """Rows of a band are walked together, column by column; the last band has the rows that are left."""
    dims = dict(zip("BMNK", SIZES[0], strict=True))
    rows, columns = -(-dims["M"] // 4), -(-dims["N"] // 4)
    want = [
        (b, m, n)
        for b in range(dims["B"])
        for band in range(0, rows, width)
        for n in range(columns)
        for m in range(band, min(band + width, rows))
    ]
    assert tiles(program_of(f"raster {width}"), dims) == want


@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
@pytest.mark.parametrize("modifiers", ["raster 2", "raster 3", "raster 8", "order n, b, m raster 2"])
def test_right(modifiers: str, fixed: bool) -> None:
    for n, sizes in enumerate(SIZES):
        dims = dict(zip("BMNK", sizes, strict=True))
        program = program_of(modifiers, dims if fixed else None)
        rng = np.random.default_rng(n)
        x, y = (rng.integers(-3, 4, [dims[d] for d in shape]).astype("f4") for shape in ("BMK", "BKN"))
        got = interpret(program, {"X": x, "Y": y}, {} if fixed else dims)
        np.testing.assert_array_equal(got["Z"], x @ y)
