"""Registers are read by the unit that holds them: a block that spreads them otherwise than the lines below is refused.

One that moves them to a memory that units share may do as it likes.
"""

from __future__ import annotations

import pytest
from andiron.dsl.errors.schedule import NotRead, RegisterMismatch, SplitReduction

from ...support.interpreted import GEMM, TURNED, Formula, agrees, program_of

LINES = "tile m: 16, n: 16 -> block / keep {0} in register: / {1} / tile m: 1 -> warp / tile n: 1 -> thread"
SIZES = {"M": 20, "N": 23, "K": 5}


@pytest.mark.parametrize(("formula", "name"), [(GEMM, "C"), (TURNED, "Y")], ids=["sum", "pointwise"])
def test_other_units(formula, name):
    with pytest.raises(RegisterMismatch, match="a unit has other elements of it here than there"):
        program_of(formula, LINES.format(name, "> tile n: 1 -> warp / > tile m: 1 -> thread"), "sm_80")


@pytest.mark.parametrize(("formula", "name"), [(GEMM, "C"), (TURNED, "Y")], ids=["sum", "pointwise"])
@pytest.mark.parametrize("block", [
    "> tile m: 1 -> warp / > tile n: 1 -> thread",
    "> move {0} -> shared",
    "> move {0} -> shared pad 1 / > tile m: 2",
    "> move {0} -> shared / > tile n: 1 -> warp / > tile m: 1 -> thread",
])  # fmt: skip
def test_the_same_or_through_a_memory(block, formula, name):
    program = program_of(formula, LINES.format(name, block.format(name)), "sm_80")
    agrees(formula, program, {n: SIZES[n] for n in ("M", "N", *("K" if formula is GEMM else ""))})


CHAIN = Formula(
    "op f[M, N, K, D](A: f32[M, K], B: f32[K, N], V: f32[N, D]) -> (Y: f32[M, D]):\n"
    "    s[m, n] = sum(k) A[m, k] * B[k, n]\n    Y[m, d] = sum(n) s[m, n] * V[n, d]\n",
    lambda a, b, v: a @ b @ v,
)
FEWER_UNITS = {
    # (lines below `keep s in register:`, the sizes that are fixed): its block has tiles for fewer units than read what it makes
    "one row, read by all lanes": ("> tile m: 1 -> thread / > tile k: 4", {"M": 1}),
    "one row and several warps": (
        "> tile m: 2 -> warp / > tile m: 1 -> thread / > tile k: 4 / tile d: 8 -> warp / tile d: 1 -> thread",
        {"M": 1},
    ),
    "lanes that another index tells apart": ("> tile m: 1 -> thread / > tile k: 4 / tile d: 8, m: 1 -> thread", {"M": 4}),
    "warps that another index tells apart": ("> tile m: 2 -> warp / > tile k: 4 / tile d: 8, m: 2 -> warp", {"M": 4}),
    "lanes that have parts of its sum, and one row": ("> tile m: 1, k: 1 -> thread / tile d: 1 -> thread", {"M": 1, "K": 3}),
    "warps that have parts of its sum, and one row": (
        "> tile m: 1, k: 1 -> thread / tile d: 8 -> warp / tile d: 1 -> thread",
        {"M": 1, "K": 5},
    ),
    "lanes that have parts of its sum": ("> tile k: 1 -> thread / tile d: 1 -> thread", {"M": 1, "K": 5}),
    "warps that have parts of its sum": ("> tile k: 1 -> warp / tile d: 8 -> warp / tile d: 1 -> thread", {"M": 1, "K": 2}),
    "warps and lanes that have parts of its sum": (
        "> tile k: 4 -> warp / > tile k: 1 -> thread / tile d: 4 -> warp / tile d: 1 -> thread",
        {"M": 1, "K": 5},
    ),
}


@pytest.mark.fewest
@pytest.mark.parametrize("name", FEWER_UNITS)
@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_units_without_a_tile_make_one_that_others_have(device, name):
    """EACH_HAS_ONE. Without it they read registers that nothing wrote."""
    block, fixed = FEWER_UNITS[name]
    lines = f"tile m: 16, d: 32 -> block / keep Y in register / tile n: 16 / keep s in register: / {block}"
    lines = lines.replace("warp", "wave") if device == "gfx90a" else lines
    program = program_of(CHAIN, lines, device, fixed)
    for sizes in ({"N": 23, "K": 5, "D": 40}, {"N": 1, "K": 1, "D": 1}, {"N": 40, "K": 0, "D": 7}):
        agrees(CHAIN, program, sizes | fixed)


BETWEEN = Formula(
    "op f[M, N, K](A: f32[M, K], B: f32[K, N], R: f32[N]) -> (Y: f32[M, N]):\n    s[m, n] = sum(k) A[m, k] * B[k, n]\n"
    "    u[m, n] = s[m, n] + 1\n    r[n] = R[n] * 2\n    w[m, n] = s[m, n] * r[n]\n    t[n] = R[n] + 3\n"
    "    Y[m, n] = w[m, n] * t[n] + u[m, n]\n",
    lambda a, b, r: (a @ b) * (r * 2) * (r + 3) + (a @ b) + 1,
)


@pytest.mark.parametrize(
    "units", ["tile m: 4 -> thread", "tile m: 4 -> warp / tile n: 4 -> thread", "tile m: 4 -> warp / tile k: 2 -> thread"]
)
def test_what_the_lines_store_besides_is_stored_once(units):
    """EACH_HAS_ONE. `r` and `t` have no rows, and stand between: `w` reads in a nest of its own what units have of `s`."""
    keeps = (f"keep {t} in {m}" for t, m in zip("surwt", ("register", "shared", "shared", "register", "shared"), strict=True))
    program = program_of(BETWEEN, f"tile m: 8, n: 16 -> block / {' / '.join(keeps)} / {units}", "sm_80", {"K": 8})
    for sizes in ({"M": 16, "N": 32}, {"M": 17, "N": 19}, {"M": 1, "N": 1}):
        agrees(BETWEEN, program, sizes | {"K": 8})


@pytest.mark.parametrize("fixed", [{"K": 3}, {"M": 1, "K": 3}, {"M": 1, "K": 3, "D": 32}])
def test_lanes_without_a_part_have_the_sum_too(fixed):
    """3 parts for groups of 4 lanes, beside an index that one tile covers: the fourth lane reads the sum, too."""
    lines = "tile m: 8, d: 32 -> block / keep Y in register / tile n: 8 / keep s in register: / > tile n: 8, k: 1 -> thread"
    program = program_of(CHAIN, f"{lines} / tile d: 1 -> thread", "sm_80", fixed)
    for sizes in ({"M": 20, "N": 23, "D": 40}, {"M": 1, "N": 1, "D": 1}):
        agrees(CHAIN, program, sizes | fixed)


def test_units_that_would_have_no_sum():
    """3 parts for 4 warps: the fourth has nobody to combine with, and all read the sum."""
    lines = "tile m: 16, d: 32 -> block / keep Y in register / tile n: 16 / keep s in register: / > tile k: 1 -> warp"
    with pytest.raises(SplitReduction, match="3 tiles with parts of `s` for 4 units of `warp`") as raised:
        program_of(CHAIN, f"{lines} / tile d: 8 -> warp / tile d: 1 -> thread", "sm_80", {"M": 1, "K": 3})
    assert raised.value.help == "`tile k: 2 -> warp` makes 2 of them; or go over the reduced index in a loop"
    two = f"{lines.replace('k: 1', 'k: 2')} / tile d: 8 -> warp / tile d: 1 -> thread"
    agrees(CHAIN, program_of(CHAIN, two, "sm_80", {"M": 1, "K": 3}), {"M": 1, "N": 23, "K": 3, "D": 40})
    with pytest.raises(SplitReduction, match="2 tiles with parts of `s` for 3 units of `warp`") as raised:
        program_of(CHAIN, f"{lines} / tile d: 12 -> warp / tile d: 1 -> thread", "sm_80", {"M": 1, "K": 2})
    assert raised.value.help == "go over the reduced index in a loop"
    program = program_of(CHAIN, f"{lines} / tile d: 16 -> warp / tile d: 1 -> thread", "sm_80", {"M": 1, "K": 3})
    agrees(CHAIN, program, {"M": 1, "N": 23, "K": 3, "D": 40})


GATED = Formula(
    "op f[M, N, K](A: f32[M, K], B: f32[K, N], D: f32[K, N]) -> (W: f32[M, N]):\n    Y[m, n] = sum(k) A[m, k] * B[k, n]\n"
    "    Z[m, n] = sum(k) A[m, k] * D[k, n]\n    W[m, n] = Y[m, n] * Z[m, n]\n",
    lambda a, b, d: (a @ b) * (a @ d),
)
UNITS = "tile m: 1 -> warp / {0}tile n: 1 -> thread"


def test_a_block_of_results_that_others_read_moves_none_of_them():
    """They are read where the line of the block has them. A line in it that moves them elsewhere would do nothing."""
    head, below, block = "tile m: 16, n: 16 -> block", UNITS.format(""), f"> {UNITS.format('> ')}"
    lines = f"keep Y in register: / {block} / > move Y -> shared / keep Z in register: / {block}"
    with pytest.raises(NotRead) as unread:
        program_of(GATED, f"{head} / {lines} / {below}", "sm_80")
    assert "is read where its own line has it: leave this line out, or write `keep Y in shared:`" in (unread.value.help or "")
    agrees(GATED, program_of(GATED, f"{head} / keep Y, Z in shared: / {block} / {below}", "sm_80"), SIZES)
    with pytest.raises(RegisterMismatch) as held:
        program_of(GATED, f"{head} / keep Y, Z in register: / {block} / > move Y -> shared / {below}", "sm_80")
    assert "`keep Y in shared` in place of registers" in (held.value.help or "")
    agrees(GATED, program_of(GATED, f"{head} / keep Y in shared / keep Z in register / {below}", "sm_80"), SIZES)


def test_each_name_of_a_line_has_its_block():
    """A line about one of them is about nothing in the others: there is a line for each."""
    head, below, block = "tile m: 16, n: 16 -> block", UNITS.format(""), f"> {UNITS.format('> ')}"
    with pytest.raises(NotRead) as unread:
        program_of(GATED, f"{head} / keep Y, Z in register: / > move Z -> shared / {below}", "sm_80")
    assert "write a line for each, `keep Z in register:` with this one" in (unread.value.help or "")
    each = f"keep Y in register: / {block} / keep Z in register: / > move Z -> shared"
    agrees(GATED, program_of(GATED, f"{head} / {each} / {below}", "sm_80"), SIZES)
