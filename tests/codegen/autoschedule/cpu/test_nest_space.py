"""Nests on CPUs for what is no product: each way is legal and right, the first is what completion gives."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from andiron.codegen.autoschedule.complete import complete
from andiron.codegen.autoschedule.cpu.nest_space import nest_candidates
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.machine_model import core_machine
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rule_lines import rule_lines
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl import syntax
from andiron.dsl.text.print_node import format_node
from andiron.runtime.check_results import check
from andiron.runtime.random_inputs import random_inputs

from ....support.library.unscheduled import library, op_of

SIZES = {
    "softmax": {"M": 5, "N": 21},
    "layernorm": {"M": 3, "N": 40},
    "row_sum": {"M": 9, "N": 37},
    "row_argmax": {"M": 6, "N": 19},
    "col_sum": {"M": 17, "N": 35},
    "full_sum": {"M": 20, "N": 18},
    "vector_sum": {"N": 300},
    "transpose": {"M": 70, "N": 90},
    "permute_021": {"A": 2, "B": 70, "C": 90},
    "nchw_to_nhwc": {"N": 1, "C": 70, "H": 2, "W": 130},
    "stencil5": {"M": 11, "N": 20},
    "depthwise_conv2d": {"N": 1, "C": 3, "H": 6, "W": 14, "R": 3, "S": 3, "pad": 1},
    "max_pool2d": {"N": 1, "C": 2, "H": 9, "W": 20, "size": 3},
    "add": {"N": 100},
    "batchnorm": {"N": 1, "C": 3, "H": 6, "W": 40},
    "distances": {"M": 7, "N": 9, "D": 18},
    "mttkrp": {"I": 5, "J": 3, "K": 4, "R": 18},
}


def launch(name, sizes, device="cpu:avx2"):
    """The context, the processor and the works of an op of one launch."""
    op, target = op_of(name, sizes), library().device(device)
    ctx = context_of(op, target)
    ((works, _),) = launches_of(op, target, ())
    for w in works:
        ctx.dtypes.setdefault(w.name, w.value.dtype)
    return ctx, core_machine(target), works


@pytest.mark.parametrize("name", SIZES)
def test_the_ways_are_right(name):
    op, device = op_of(name, SIZES[name]), library().device("cpu:avx2")
    inputs = random_inputs(op, {})
    found = [p for p in islice(candidate_schedules(op, device), 200) if p.seconds is not None]
    assert len({format_node(p.schedule) for p in found}) == len(found) > 4
    assert all((p.seconds or 0) > 0 and p.bound and p.about for p in found)
    for p in [found[0], *Random(0).sample(found[1:], 4)]:
        program = compile_program(library(), op, p.schedule, device).program
        out = interpret(program, {t.name: a for t, a in zip(op.inputs, inputs, strict=True)})
        assert check(op, inputs, [out[t.name] for t in op.outputs]).ok, p.about


@pytest.mark.parametrize("name", ["softmax", "row_sum", "transpose", "depthwise_conv2d", "add"])
@pytest.mark.parametrize("open_", [True, False])
def test_the_first_is_what_completion_gives(name, open_):
    sizes = {k: n for k, n in SIZES[name].items() if not open_ or k.islower()}
    op, device = op_of(name, sizes), library().device("cpu:avx512")
    first = compile_program(library(), op, next(candidate_schedules(op, device)).schedule, device)
    assert first.schedule == compile_program(library(), op, None, device).schedule


def test_the_rule_stays_where_nothing_is_clearly_better():
    ctx, _, works = launch("row_sum", {"M": 1024, "N": 1024})
    rule = rule_lines(ctx, works)
    ways = nest_candidates(ctx, works, rule)
    assert ways[0].lines == rule == complete(ctx, works, ())
    assert min(w.cost.seconds for w in ways) < ways[0].cost.seconds  # others are better, within the precision


def test_short_windows_are_unrolled():
    """Each place of a window is then known where it is compiled: edges are masks instead of loads one by one."""
    sizes = {"N": 1, "C": 32, "H": 14, "W": 14, "R": 3, "S": 3, "pad": 1}
    ctx, _, works = launch("depthwise_conv2d", sizes, "cpu:avx512")
    lines = complete(ctx, works, ())
    unrolled = {a.index for x in lines if isinstance(x, syntax.Tile) and x.modifiers for a in x.axes}
    assert {"r", "s"} <= unrolled


def test_lanes_leave_a_window():
    ctx, _, works = launch("max_pool2d", {"N": 1, "C": 8, "H": 56, "W": 56, "size": 3, "pad": 1})
    assert [a.index for x in rule_lines(ctx, works) if isinstance(x, syntax.Tile) and x.level == "lane" for a in x.axes] == [
        "s"
    ]
    assert [a.index for x in complete(ctx, works, ()) if isinstance(x, syntax.Tile) and x.level == "lane" for a in x.axes] == [
        "q"
    ]


def test_what_is_fetched_again_costs():
    """Columns by all rows at once walk memory in short runs; strips of them in long ones. Lanes across rows gather."""
    ctx, _, works = launch("col_sum", {"M": 4096, "N": 65536})
    ways = nest_candidates(ctx, works, rule_lines(ctx, works))
    short = [w.cost.seconds for w in ways if w.about.startswith("j: 16 -> core")]
    assert short
    assert min(short) > 1.5 * ways[0].cost.seconds
    ctx, _, works = launch("row_sum", {"M": 4096, "N": 4096})
    ways = nest_candidates(ctx, works, rule_lines(ctx, works))
    across = [
        w.cost.seconds
        for w in ways
        if any(isinstance(x, syntax.Tile) and x.level == "lane" and x.axes[0].index == "i" for x in w.lines)
    ]
    assert across
    assert min(across) > ways[0].cost.seconds


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize(
    ("name", "index", "sizes"), [("add_row", "j", {"M": 512, "N": 11008}), ("col_min", "j", {"M": 64, "N": 5000})]
)
def test_parts_of_rows_begin_at_cache_lines(name, index, sizes, device):
    """11 equal parts of 11008 columns have 1001: their vectors straddle lines."""
    ctx, _, works = launch(name, sizes, device)
    ways = nest_candidates(ctx, works, rule_lines(ctx, works))
    tiles = [x for w in ways for x in w.lines if isinstance(x, syntax.Tile) and x.level == "core"]
    parts = {int(a.size.value) for x in tiles for a in x.axes if a.index == index}
    assert len(parts) > 1
    assert all(n % 16 == 0 or n >= sizes["N"] for n in parts)


def test_few_rows_are_followed_at_once():
    """32 rows of 128 bytes side by side are no streams: 8 took a third of the time."""
    ctx, _, works = launch("col_min", {"M": 1024, "N": 3000})
    ways = nest_candidates(ctx, works, rule_lines(ctx, works))

    def seconds(rows: int) -> float:
        return min(w.cost.seconds for w in ways if f"; i: {rows}; j: 32" in w.about)

    assert seconds(32) > 1.2 * seconds(8)
    assert any(isinstance(x, syntax.Tile) and x.axes[0].index == "i" and x.axes[0].size == syntax.Num(8) for x in ways[0].lines)
