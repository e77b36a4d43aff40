"""`within`: units that one slice of a memory serves have neighbouring tiles, however many there are; results stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.algebra.slice_order import slice_order
from andiron.codegen.coverage.check_contributions import check_contributions
from andiron.codegen.coverage.check_coverage import check_coverage
from andiron.codegen.coverage.symbolic_domain import DigitTable
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import MisplacedModifier, ModifierArgument, UnknownMemoryInSchedule
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.paths import DEVICES

SIMT = (DEVICES / "simt.sched").read_text(encoding="utf-8")
SLICED = "\ndevice sliced extends simt:\n    memory l2 of grid: 1 MiB, slices 3, in global\n"
TEXT = """
op batched[B, M, N, K](X: f32[B, M, K], Y: f32[B, K, N]) -> (Z: f32[B, M, N]):
    Z[b, m, n] = sum(k) X[b, m, k] * Y[b, k, n]
schedule s for batched:
    {lines}
    keep Z in register
    tile m: 1, n: 1 -> thread
    tile k: 1
    compute
"""
SIZES = [(2, 17, 30, 5), (1, 12, 8, 3), (3, 4, 9, 2), (1, 33, 4, 1), (2, 1, 1, 0), (1, 0, 5, 2), (1, 1, 1, 1), (1, 9, 3, 4)]
LINES = {
    "plain": "tile b: 1, m: 4, n: 8 -> block within l2",
    "bands": "tile b: 1, m: 4, n: 8 -> block raster 2 within l2",
    "order": "tile b: 1, m: 4, n: 8 -> block within l2 order n, b, m",
    "two lines": "tile b: 1, m: 8 -> block within l2\n    tile m: 4, n: 8 -> block",
    "one index": "tile m: 4 -> block within l2\n    tile b: 1\n    tile n: 8",
}


def program_of(lines: str, fixed: dict[str, int] | None = None) -> Program:
    mod = loads(SIMT + SLICED + TEXT.format(lines=lines))
    op = specialise(mod.ops["batched"], fixed or {})
    return compile_program(mod, op, mod.schedules["s"], mod.devices["sliced"]).program


@pytest.mark.parametrize("slices", [1, 2, 3, 8])
def test_places(slices: int) -> None:
    """Each place has one unit, and those of a slice are consecutive."""
    block, blocks = Var("block", 0), Var("blocks", 0)
    place = slice_order(as_expr(block), as_expr(blocks), slices)
    for n in range(5 * slices + 2):
        at = [place.evaluate({"block": b, "blocks": n}) for b in range(n)]
        assert sorted(at) == list(range(n))
        assert [b % slices for b in sorted(range(n), key=at.__getitem__)] == sorted(b % slices for b in range(n))


def remarks(lines: str) -> tuple[str, str]:
    """What the checks of elements and of terms do not prove for all sizes."""
    mod = loads(SIMT + SLICED + TEXT.format(lines=lines))
    op = mod.ops["batched"]
    program = compile_program(mod, op, mod.schedules["s"], mod.devices["sliced"]).program
    return check_coverage(program, op, None), check_contributions(program, op, None)


@pytest.mark.parametrize("name", LINES)
def test_proven(name: str) -> None:
    """As much is proven for all sizes as without the word (SLICES); of one line, that each element is stored once."""
    found = remarks(LINES[name])
    assert found == remarks(LINES[name].replace(" within l2", ""))
    assert not found[0] or name == "two lines"


def test_other_orders_are_no_proof() -> None:
    block, blocks = Var("block", 0), Var("blocks", 0)
    table = DigitTable({block: as_expr(blocks)})
    assert table.in_slice_order(slice_order(as_expr(block), blocks + 1, 3)) is None
    assert table.in_slice_order(slice_order(as_expr(block), as_expr(blocks), 3) + 1) is None
    assert table.in_slice_order(slice_order(as_expr(block), as_expr(blocks), 3)) is not None


@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
@pytest.mark.parametrize("name", LINES)
def test_right(name: str, fixed: bool) -> None:
    for n, sizes in enumerate(SIZES):
        dims = dict(zip("BMNK", sizes, strict=True))
        program = program_of(LINES[name], dims if fixed else None)
        rng = np.random.default_rng(n)
        x, y = (rng.integers(-3, 4, [dims[d] for d in shape]).astype("f4") for shape in ("BMK", "BKN"))
        got = interpret(program, {"X": x, "Y": y}, {} if fixed else dims)
        np.testing.assert_array_equal(got["Z"], x @ y)


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ("tile b: 1, m: 4, n: 8 -> block within shared", ModifierArgument, "`shared` has no slices on `sliced`"),
        ("tile b: 1, m: 4, n: 8 -> block within l3", UnknownMemoryInSchedule, "`sliced` has no memory `l3`"),
        ("tile b: 1, m: 4, n: 8 -> warp within l2", MisplacedModifier, "`within` does not apply to `warp`"),
        ("tile b: 1, m: 4, n: 8 within l2", MisplacedModifier, "`within` is for tiles that go to units"),
        ("tile b: 1 -> block\n    tile m: 4, n: 8 -> block within l2", MisplacedModifier, "`within` orders all units"),
    ],
)
def test_refused(lines: str, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        program_of(lines)
