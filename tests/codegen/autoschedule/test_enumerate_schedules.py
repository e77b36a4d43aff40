"""Candidates as schedules: in order, all different, and each of them compiles to the kernel that is meant."""

from __future__ import annotations

from itertools import islice

import pytest
from andiron.codegen.autoschedule.neighbourhood import neighbouring_schedules
from andiron.codegen.enumerate_schedules import candidate_schedules, is_open
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from andiron.dsl.text.print_node import format_node
from andiron.runtime.check_results import check
from andiron.runtime.random_inputs import random_inputs

from ...support.library.unscheduled import IMPORTS, compiled, library, op_of

SIZES = {
    "gemm": {"M": 70, "N": 66, "K": 40},
    "gemm_f16": {"M": 70, "N": 66, "K": 40},
    "softmax": {"M": 33, "N": 70},
    "batchnorm": {},
    "conv2d": {"N": 1, "C": 5, "H": 3, "W": 80, "O": 6, "R": 3, "S": 3},
}


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
@pytest.mark.parametrize("name", SIZES)
def test_the_first_is_what_completion_gives(name, device):
    sizes = SIZES[name]
    found = list(islice(candidate_schedules(op_of(name, sizes), library().device(device)), 6))
    assert len({format_node(p.schedule) for p in found}) == len(found) > 1
    first = compile_program(library(), op_of(name, sizes), found[0].schedule, library().device(device))
    assert first.schedule == compiled(name, device, sizes).schedule
    for p in found:
        assert p.seconds > 0
        assert p.bound
        compile_program(library(), op_of(name, sizes), p.schedule, library().device(device))


@pytest.mark.parametrize("name", ["gemm", "softmax", "conv2d"])
def test_all_are_right(name):
    op, device = op_of(name, SIZES[name]), library().device("sm_80")
    inputs = random_inputs(op, {})
    for p in islice(candidate_schedules(op, device), 3):
        program = compile_program(library(), op, p.schedule, device).program
        found = interpret(program, {t.name: a for t, a in zip(op.inputs, inputs, strict=True)})
        assert check(op, inputs, [found[t.name] for t in op.outputs]).ok


def test_an_authors_lines_stay():
    text = "schedule s for gemm on sm_80:\n    tile m: 64, n: auto -> block\n    auto\n"
    module = loads(IMPORTS + text)
    (mine,) = module.schedules.values()
    assert is_open(mine, library().device("sm_80"))
    found = list(islice(candidate_schedules(bind_params(module.ops["gemm"]), module.device("sm_80"), mine, module), 5))
    assert len(found) == 5
    for p in found:
        said = format_node(p.schedule)
        assert said.startswith("schedule s for gemm on sm_80:\n    tile m: 64, n: ")
        assert "auto" not in said


def test_a_schedule_with_nothing_open_has_no_others():
    text = compiled("gemm", "sm_80", SIZES["gemm"]).schedule
    (mine,) = parse(Source("s", text)).declarations
    assert not is_open(mine, library().device("sm_80"))
    assert len(list(candidate_schedules(op_of("gemm", SIZES["gemm"]), library().device("sm_80"), mine, library()))) == 1
    text = compiled("gemm", "cpu:avx2", SIZES["gemm"]).schedule
    (mine,) = parse(Source("s", text)).declarations
    assert len(list(candidate_schedules(op_of("gemm", SIZES["gemm"]), library().device("cpu:avx2"), mine, library()))) == 1


# ---------------------------------------------------------------- variations


def near(text: str, extents: dict[str, int] | None = None) -> list[tuple[str, str]]:
    (decl,) = parse(Source("s", text)).declarations
    return [(format_node(d), about) for d, about in neighbouring_schedules(decl, library().device("cpu:avx2"), extents or {})]


PACKED = """\
schedule s for gemm:
    tile n: 64
    move B -> l2 layout panels(n: 16):
        tile n: 16 -> core
    tile n: 16
    tile k: 1
    compute
"""


def test_what_belongs_together_changes_together():
    found = dict((about, text) for text, about in near(PACKED))
    said = found["n: 32 for 16"]
    assert said.count("n: 32") == 3
    assert "n: 16" not in said
    assert "tile n: 64\n" in said


def test_a_size_that_held_whole_ones_still_does():
    for text, about in near(PACKED.replace("64", "48")):
        sizes = [int(x.split()[0]) for x in text.split("tile n: ")[1:]]
        assert sizes[0] % sizes[-1] == 0, about


def test_all_are_different_and_none_is_the_same():
    texts = [text for text, _ in near(PACKED)]
    assert len(set(texts)) == len(texts) > 3
    (decl,) = parse(Source("s", PACKED)).declarations
    assert format_node(decl) not in texts


def test_what_is_larger_than_all_there_is_is_no_change():
    assert "n: 128 for 64" in [about for _, about in near(PACKED)]
    assert "n: 128 for 64" not in [about for _, about in near(PACKED, {"n": 64})]
    assert [about for _, about in near(PACKED, {"n": 10})] == ["n: 8 for 16"]


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("tile n: 1 -> core", [4, 2, 8]),
        ("tile n: 64", [128, 32, 72, 56]),
        ("tile n: 72", [144]),  # large sizes change by a factor, and 36 is no multiple of a vector
        ("tile n: 6", [12, 3, 8, 4]),
    ],
)
def test_sizes_beside_one(line, others):
    said = [about for _, about in near(f"schedule s for gemm:\n    {line}\n    compute\n")]
    assert [int(about.split()[1]) for about in said] == others


@pytest.mark.parametrize("name", SIZES)
def test_processors(name):
    """The first is what completion gives; products have predicted times, others have neighbours."""
    sizes, device = SIZES[name], library().device("cpu:avx2")
    found = list(islice(candidate_schedules(op_of(name, sizes), device), 6))
    assert len({format_node(p.schedule) for p in found}) == len(found) > 1
    first = compile_program(library(), op_of(name, sizes), found[0].schedule, device)
    assert first.schedule == compiled(name, "cpu:avx2", sizes).schedule
    for p in found:
        compile_program(library(), op_of(name, sizes), p.schedule, device)
    if name == "gemm":
        assert [p.seconds for p in found] == sorted(p.seconds for p in found)
