"""What an author wrote stays; sizes left `auto` are chosen; the rest goes where `auto` stands."""

from __future__ import annotations

import pytest
from andiron.dsl.errors.schedule import UnboundedTile

from ...support.library.unscheduled import scheduled

# name -> op, device, the author's lines, lines that must be there in this order
CASES = {
    "a split reduction": (
        "gemm", "sm_80",
        "tile m: 64, n: 16 -> block\ntile k: 4096 -> block by workspace\nauto",
        ["tile m: 64, n: 16 -> block", "tile k: 4096 -> block by workspace", "keep C in register", "compute"],
    ),
    "one axis of a tile": (
        "gemm", "sm_80", "tile m: 48 -> block\nauto", ["tile m: 48 -> block", "tile n:", "keep C in register", "tile k:"],
    ),
    "sizes left open": (
        "gemm_f16", "sm_80",
        "tile m: 64, n: auto -> block\nkeep C in register\ntile k: auto\nmove A -> shared swizzle pipeline 3\n"
        "move B -> shared swizzle pipeline 3\nauto",
        ["tile m: 64, n:", "move A -> shared swizzle pipeline 3", "-> warp", "compute with mma_m16n8k16_f16"],
    ),
    "an instruction": (
        "gemm_f16", "sm_80", "tile m: 64, n: 64 -> block\nauto\ncompute with mma_m16n8k8_f16",
        ["tile m: 64, n: 64 -> block", "keep C", "-> warp", "tile k: 8", "compute with mma_m16n8k8_f16"],
    ),
    "no instruction": (
        "gemm_f16", "sm_80", "tile m: 64, n: 64 -> block\nauto\ncompute",
        ["-> block", "-> warp", "-> thread", "move B -> register", "compute"],
    ),
    "any instruction": (
        "gemm_f16", "gfx90a", "tile m: 64, n: 64 -> block\nauto\ncompute with auto",
        ["-> block", "-> wave", "compute with mfma"],
    ),
    "broken off": (
        "gemm_f16", "sm_80", "tile m: 128, n: 128 -> block\ntile k: 32\nmove A -> shared\nmove B -> shared",
        ["tile m: 128, n: 128 -> block", "tile k: 32", "move B -> shared", "-> warp", "compute with mma"],
    ),
    "three lines": (
        "gemm_f16", "gfx90a", "tile m: 128, n: 64 -> block\nkeep C in register\ntile k: 32 pipeline 2\nauto",
        ["tile k: 32 pipeline 2", "move A -> shared", "move B -> shared", "-> wave", "compute with mfma"],
    ),
    "lines below auto": (
        "gemm_f16", "sm_80",
        "tile m: 128, n: 64 -> block\nkeep C in register\ntile k: 32 pipeline 2\nauto\ntile m: 32, n: 32 -> warp\nauto",
        ["move A -> shared", "move B -> shared", "tile m: 32, n: 32 -> warp", "with ldmatrix", "compute with mma"],
    ),
    "one of two moves": (
        "gemm_f16", "sm_80", "tile m: 128, n: 64 -> block\nkeep C in register\ntile k: 32\nmove B -> shared pad 8\nauto",
        ["move B -> shared pad 8", "move A -> shared", "-> warp"],
    ),
    "a fused convolution": (
        "conv2d_nhwc_f16", "sm_80", "fuse n, p, q as m\nfuse r, s, c as k\ntile m: 128, o: 64 -> block\nauto",
        ["fuse r, s, c as k", "tile m: 128, o: 64 -> block", "keep Y in register", "compute with mma"],
    ),
    "rows of a softmax": (
        "softmax", "sm_80", "tile i: 4 -> block\nauto", ["tile i: 4 -> block", "keep top", "keep total", "-> thread"],
    ),
    "a pointwise tile": ("add_row", "sm_80", "tile i: 4, j: 300 -> block\nauto", ["tile i: 4, j: 300 -> block", "-> thread"]),
    "registers that are loaded ahead": (
        "gemm_f16", "sm_80",
        "tile m: 64, n: 32 -> block\nkeep C in register\ntile k: 64 pipeline 3\nauto\ntile k: 16 pipeline 2 through\nauto",
        ["tile k: 64 pipeline 3", "-> warp", "tile k: 16 pipeline 2 through", "move B -> register with ldmatrix", "compute"],
    ),
    "one set of registers": (
        "gemm_f16", "sm_80",
        "tile m: 256, n: 128 -> block\nkeep C in register\ntile k: 64 pipeline 3\nauto\ntile k: 16\nauto",
        ["tile k: 64 pipeline 3", "-> warp", "tile k: 16\n", "move B -> register with ldmatrix", "compute with mma"],
    ),
    "a depth that all candidates have": (
        "gemm_f16", "sm_80",
        "tile m: 64, n: 32 -> block\nkeep C in register\ntile k: 32\nauto\ntile k: auto\nauto",
        ["tile k: 32", "-> warp", "tile k: 16", "compute with mma"],
    ),
    "an axis that is one at a time": (
        "batched_gemm", "sm_80", "tile b: auto, m: 64, n: 64 -> block\nauto", ["tile b: 1, m: 64, n: 64 -> block", "keep Z"],
    ),
    "a split that is asked for": (
        "gemm", "sm_80", "tile m: 64, n: 64 -> block\ntile k: auto -> block by workspace\nauto",
        ["tile m: 64, n: 64 -> block", "-> block by workspace", "keep C in register"],
    ),
    "no room for a tile of groups": (  # which the candidates' registers are counted with
        "gemm_i8", "gfx908", "auto\nmove A -> shared\ncompute with auto", ["move A -> shared", "compute"],
    ),
    "a tile of a group that no lanes make": (
        "gemm", "sm_80", "tile m: 10, n: 8 -> block\nkeep C in register\ntile k: 32\nauto\ntile m: 5, n: 8 -> warp\nauto",
        ["tile m: 5, n: 8 -> warp", "compute"],
    ),
    "no tile of blocks": ("gemm", "sm_80", "tile k: 32\nauto", ["tile k: 32", "compute"]),
    "an axis that one warp has all of": (
        "add_row", "sm_80", "tile i: 1, j: 64 -> block\ntile i: auto, j: 32 -> warp\nauto",
        ["tile i: 1, j: 64 -> block", "tile i: 1, j: 32 -> warp", "-> thread"],
    ),
    "columns": ("col_sum", "gfx942", "tile j: 64 -> block\nauto", ["tile j: 64 -> block", "keep Y in register", "-> thread"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_lines_stay(case: str) -> None:
    op, device, lines, wanted = CASES[case]
    text = scheduled(op, device, lines).schedule
    at = 0
    for w in wanted:
        assert w in text[at:], f"{w!r} is not, or not in order, in\n{text}"
        at = text.index(w, at)
    for line in lines.split("\n"):
        if "auto" not in line:
            assert line in text
    assert "auto" not in text
    assert scheduled(op, device, text).schedule == text


# name -> op, the author's lines, lines that must be there in this order
PLACED = {
    "a tile in two lines": (
        "gemm", "tile m: 64 -> block\ntile n: 32 -> block\nauto",
        ["tile m: 64 -> block", "tile n: 32 -> block", "keep C in register", "-> thread"],
    ),
    "the rest of a tile below the second of three autos": (
        "gemm", "auto\ntile m: 64 -> block\nauto\ntile k: 16\nauto",
        ["    tile m: 64 -> block", "    tile n:", "-> block", "tile k: 16", "-> thread"],
    ),
    "moves in another order": (
        "gemm_f16", "tile m: 128, n: 64 -> block\ntile k: 32\nmove B -> shared\nmove A -> shared\nauto",
        ["move B -> shared", "move A -> shared", "-> warp", "compute with mma"],
    ),
    "an axis of which a warp has all": (
        "add_row", "tile j: 512 -> block\nauto\ntile j: 128 -> warp\ntile i: 1\nauto", ["tile j: 128 -> warp", "-> thread"],
    ),
    "a second place for a line": ("row_mean", "auto\ntile j: auto\ncompute", ["-> block", "tile j: 1\n"]),
}  # fmt: skip


@pytest.mark.parametrize("case", PLACED)
def test_lines_have_a_place(case: str) -> None:
    """These had none, and what was open was filled in plainly."""
    op, lines, wanted = PLACED[case]
    made = scheduled(op, "sm_80", lines)
    at = 0
    for w in wanted:
        assert w in made.schedule[at:], f"{w!r} is not, or not in order, in\n{made.schedule}"
        at = made.schedule.index(w, at)
    assert not [n for n in made.report["notes"] if "rTile" in n]


def test_two_autos_do_not_lose_what_a_tile_leaves_out() -> None:
    """Blocks had all of `n`, since the rest of the first line was dropped where a later line had none."""
    text = scheduled("gemm", "sm_80", "tile m: 64 -> block\nauto\ntile k: 16\nauto").schedule
    above = text[: text.index("tile k: 16")]
    assert "tile n: " in above
    assert above.count("-> block") == 2


def test_a_line_above_auto_that_has_no_bound_is_named() -> None:
    """What was filled in cannot be what is wrong: the author's line above it is."""
    with pytest.raises(UnboundedTile) as error:
        scheduled("gemm", "sm_80", "keep C in register\ntile k: 32\nauto")
    assert error.value.span is not None
    assert error.value.span.source.text[error.value.span.start : error.value.span.end] == "keep C in register"


def test_without_auto_nothing_is_inserted() -> None:
    text = scheduled("gemm", "sm_80", "tile m: 64, n: 64 -> block\ntile m: 4, n: 8 -> thread\nkeep C in register").schedule
    assert [x.strip() for x in text.splitlines()[1:]] == [
        "tile m: 64, n: 64 -> block", "tile m: 4, n: 8 -> thread", "keep C in register", "compute",
    ]  # fmt: skip
