"""On CPUs, too: what an author wrote stays, and the rest is a candidate's that has a place for it."""

from __future__ import annotations

from itertools import islice

import andiron
import pytest
from andiron.codegen.autoschedule.cpu import constraints
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.text.format import format_node

from ....support.library.cases import check_right
from ....support.library.unscheduled import IMPORTS

# name -> op, the author's lines, lines that must be there in this order
CASES = {
    "a core's rows": (
        "gemm", "tile m: 48 -> core\nauto",
        ["tile m: 48 -> core", "tile n:", "-> core", "keep C in register", "compute with fma"],
    ),
    "a size left open": ("gemm", "tile m: auto, n: 64 -> core\nauto", ["n: 64 -> core", "tile n:", "compute with fma"]),
    "lines about auto": (
        "gemm", "tile m: 96 -> core\ntile k: 256\nauto\ncompute with fma",
        ["tile m: 96 -> core", "tile k: 256", "keep C in register", "tile k: 1 unroll", "compute with fma"],
    ),
    "a register tile of two indices": (
        "gemm", "auto\ntile m: 8, n: 16\nauto",
        ["-> core", "tile m: 8, n: 16", "keep C in register", "compute with"],
    ),
    "a register tile that fixes its panels": (
        "gemm", "auto\nmove B -> l2\nauto\ntile n: 8\nauto",
        ["-> core", "move B -> l2 layout panels(n: 8)", "tile n: 8", "compute"],
    ),
    "an operand in a cache": (
        "gemm", "tile m: auto, n: auto -> core\ntile k: 256\nmove B -> l2\nauto",
        ["-> core", "tile k: 256", "move B -> l2 layout panels", "keep C in register", "compute with fma"],
    ),
    "no instruction": ("gemm", "tile m: 4 -> core\nauto\ncompute", ["tile m: 4 -> core", "-> lane", "compute"]),
    "any instruction": ("gemm", "tile m: 32 -> core\nauto\ncompute with auto", ["tile m: 32 -> core", "compute with fma"]),
    "broken off": ("gemm", "tile m: 48, n: 64 -> core\ntile k: 128", ["tile k: 128", "keep C in register", "compute with fma"]),
    "rows of a softmax": ("softmax", "tile i: 8 -> core\nauto", ["tile i: 8 -> core", "keep top", "tile j: 1 -> lane"]),
    "vectors of a map": ("add", "auto\ntile i: 128\nauto", ["-> core", "tile i: 128", "tile i: 1 -> lane", "compute"]),
    "columns": ("col_sum", "tile j: 64 -> core\nauto", ["tile j: 64 -> core", "keep Y in register", "tile j: 1 -> lane"]),
    "a window": ("conv2d", "tile o: 12 -> core\nauto", ["tile o: 12 -> core", "keep Y in register", "compute"]),
}  # fmt: skip

FIXED = {
    "gemm": {"M": 53, "N": 70, "K": 131},
    "softmax": {"M": 19, "N": 77},
    "add": {"N": 1003},
    "col_sum": {"M": 37, "N": 150},
    "conv2d": {"N": 2, "C": 3, "H": 9, "W": 7, "O": 17, "R": 3, "S": 2},
}


def compiled(op: str, lines: str, target: str = "cpu:avx2", sizes: dict[str, int] | None = None) -> andiron.Kernel:
    body = "".join(f"    {x}\n" for x in lines.split("\n"))
    text = lines if lines.startswith("schedule") else f"schedule s for {op}:\n{body}"
    return andiron.compile(IMPORTS + text, op=op, schedule=text.split()[1], target=target, **(sizes or {}))


@pytest.mark.every_second
@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
@pytest.mark.parametrize("case", CASES)
def test_lines_stay(case: str, fixed: bool) -> None:
    op, lines, wanted = CASES[case]
    sizes = FIXED[op] if fixed else {}
    kernel = compiled(op, lines, sizes=sizes)
    text = kernel.schedule
    at = 0
    for w in wanted:
        assert w in text[at:], f"{w!r} is not, or not in order, in\n{text}"
        at = text.index(w, at)
    assert "auto" not in text
    assert not [n for n in kernel.report.notes if "rTile" in n]
    again = compiled(op, text, sizes=sizes)
    assert (again.schedule, again.source) == (text, kernel.source)


@pytest.mark.parametrize("case", CASES)
def test_results_are_right(case: str) -> None:
    op, lines, _ = CASES[case]
    kernel = compiled(op, lines, target="cpu")
    check_right(kernel.op, lambda c: kernel(*c.arrays, out=tuple(c.out) if len(c.out) > 1 else c.out[0]))


def test_what_no_candidate_has_a_place_for_is_told() -> None:
    kernel = compiled("gemm", "tile m: 48, n: 64 -> core\nkeep C in l2\nauto")
    (note,) = [n for n in kernel.report.notes if "rTile" in n]
    assert note.startswith("line ")
    assert "`keep C in l2`: of rTile's nests none has it there" in note


def test_no_more_is_priced_than_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completions with fewer lines that the model does not know come first: where there are enough of them, no others are
    priced. Candidates that differ in sizes alone have the same places for the author's lines."""
    priced, placed = [], []
    price, place = constraints.price_lines, constraints.placements
    monkeypatch.setattr(constraints, "price_lines", lambda *x: (priced.append(x[3]), price(*x))[1])
    monkeypatch.setattr(constraints, "placements", lambda *x: (placed.append(x[1]), place(*x))[1])
    assert compiled("gemm", "auto\nmove B -> l2\nauto\ntile n: 8\nauto").schedule
    assert 0 < len(priced) < 100  # of more than a thousand
    assert len(placed) == len(set(placed))


def test_each_candidate_keeps_the_lines() -> None:
    module = andiron.loads(IMPORTS + "schedule s for gemm:\n    tile m: 48 -> core\n    auto\n")
    device, sizes = module.device("cpu:avx2"), {"M": 512, "N": 512, "K": 512}
    op = specialise(bind_params(module.ops["gemm"]), sizes)
    found = list(islice(candidate_schedules(op, device, module.schedules["s"], module), 8))
    assert len(found) == 8
    seconds = [x.seconds or 0.0 for x in found]
    assert seconds[0] > 0.0
    assert seconds == sorted(seconds)
    assert all("tile m: 48 -> core" in format_node(x.schedule) for x in found)


@pytest.mark.parametrize(
    "lines",
    [
        "tile b: 1 -> core\ntile m: 5, n: 8 -> core\ncompute",
        "tile m: 3 -> core\ntile b: 1 -> core\ntile n: 8 -> core\ncompute",
        "tile n: 8 -> core\ntile k: 4\ntile b: 1, m: 2 -> core\nkeep Z in register\ncompute",
    ],
    ids=["one and two", "three", "a loop between"],
)
def test_tiles_onto_one_level_multiply(lines: str) -> None:
    """With sizes open, what a second line deals out was refused: its digits could not be told apart from the first one's."""
    kernel = compiled("batched_gemm", lines, target="cpu")
    check_right(kernel.op, lambda c: kernel(*c.arrays, out=c.out[0], threads=3))


def test_one_tile_onto_a_level_leaves_the_number_as_it_is() -> None:
    assert compiled("gemm", "tile n: 64 -> core\ntile m: 48 -> core\ncompute", sizes={"N": 47}).schedule


@pytest.mark.parametrize(
    ("op", "lines"),
    [
        ("batched_gemm", "tile m: auto\nauto"),
        ("batched_gemm", "tile b: 8\ntile k: auto"),
        ("conv2d", "tile o: 8\ntile p: auto"),
    ],
)
def test_candidates_that_lost_what_they_need_are_none(op: str, lines: str) -> None:
    """No `auto` stands where a tile would that bounds what is held, or that is of the core whose cache it is held in."""
    assert compiled(op, lines).schedule
