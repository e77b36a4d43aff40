"""The generators reach the whole grammar, the formula is what the reference says, and the shrinker shrinks."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from andiron.codegen.targets import has_blocks
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference

from .case import Case, device_of, inputs, random_sizes
from .drawn import KINDS, WIDE, drawn, valid_op
from .execute import Outcome
from .formula import evaluate
from .model import Op
from .runner import Summary
from .shrink import shrunk

SEEDS = range(300)
SAID = {
    "several indices a line": r"tile \w+: \d+, \w+: \d+",
    "onto a level": r"tile .* -> \w+",
    "by atomic": r"by atomic",
    "by workspace": r"by workspace",
    "by shuffle": r"by shuffle",
    "parts of a pass": r"-> \w+ online by workspace",
    "a prefix reduction": r"tile row: \d+.* carry",
    "every": r" every \d",
    "peel": r" peel",
    "unroll": r" unroll",
    "pipeline": r" pipeline \d",
    "through": r" through",
    "order": r" order ",
    "arrange": r" arrange ",
    "raster": r" raster \d",
    "within": r" within l2",
    "fuse": r"^    fuse ",
    "swizzle": r" swizzle",
    "pad": r" pad \d",
    "layout": r" layout \(",
    "panels": r" layout panels",
    "vector": r" vector \d",
    "keep": r"^    keep ",
    "a block of a keep": r"keep .*:$",
    "a block of a move": r"move .*:$",
    "inline": r"^    inline ",
    "auto": r"^    auto",
    "compute with": r"compute with",
    "strategies": r"^strategy ",
    "apply": r"apply ",
    "params": r"param R0",
    "bounds": r"^schedule .* where ",
    "roles": r"for contraction",
    "for a device": r"^schedule .* on ",
    "the same level twice": r"-> (\w+).*\n(.*\n)*.*-> \1",
    "a factor or an anonymous reduction": r"(move|keep) \w+\.\w+",
}
OPS = {
    **{f"reduces by {k}": rf"= .*\b{k}\(\w" for k in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")},
    **{
        t: rf": {t}\[" for t in ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u8", "i4", "bool")
    },
    "a tensor twice in a product": r"sum\(.*\) \(?(?:\w+\()?([A-J])\[.*\* (?:\w+\()?\1\[",
    "a diagonal": r"\[(\w), \1[\],]",
    "a fill": r"^    t\d+\[\w+(, \w+)*\] = [^\[\]]*$",
    "an axis that may be left": r" else ",
    "a prefix that decays": r"sum\(\w+(, \w+)? where .*row.*\) exp2\(\w+\[row\] - ",
    "a quotient": r"\[.*\w / \d.*\] ?",
    "a remainder": r"\[.*\w % \d.*\]",
    "where": r"where\(",
    "a derived size": r" where P2 = ",
    "eight axes": r"\[(\w+, ){7}\w+\]",
    "thirty statements": r"(\n    t\d+.*){30}",
}


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [drawn(seed) for seed in SEEDS]


def test_schedules_reach_the_grammar(cases):
    texts = [c.schedule for c in cases]
    missing = [name for name, pattern in SAID.items() if not any(re.search(pattern, t, re.MULTILINE) for t in texts)]
    assert not missing


def test_ops_reach_the_language(cases):
    texts = [drawn(seed, "op").op.text for seed in SEEDS] + [c.op.text for c in cases]
    missing = [name for name, pattern in OPS.items() if not any(re.search(pattern, t, re.MULTILINE) for t in texts)]
    assert not missing


def test_cases_are_the_same_again(cases):
    assert [drawn(seed) for seed in SEEDS[:20]] == cases[:20]


@pytest.mark.parametrize("kind", [*KINDS, *WIDE])
def test_what_the_emulator_runs_has_blocks(kind):
    cases = (drawn(seed, kind, "emulate") for seed in range(20))
    assert all(has_blocks(device_of(x.device, x.device_text)) for x in cases)


@pytest.mark.parametrize("seed", range(80))
def test_the_formula_is_what_the_reference_says(seed):
    rng = Random(seed)
    op = valid_op(rng, "op", 0.3)
    case = Case(seed, op, "", "", "", tuple(random_sizes(rng, op, 2000).items()), ())
    want = evaluate(op, dict(case.sizes), inputs(case))
    with np.errstate(all="ignore"):
        got = reference(loads(op.text).ops["op"])(*inputs(case).values())
    for t, array in zip(op.outputs, got if isinstance(got, tuple) else (got,), strict=True):
        a, b, bound = array.astype(np.float64), want[t.name].data.astype(np.float64), want[t.name].bound
        with np.errstate(invalid="ignore"):
            near = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound) | np.isinf(bound)
        assert near.all(), f"{t.name}\n{case}"


def test_few_results_are_beyond_a_bound(cases):
    loose, inexact, whole = 0, 0, 0
    for case in cases[:150]:
        for v in evaluate(case.op, dict(case.sizes), inputs(case)).values():
            whole, inexact, loose = whole + 1, inexact + (not v.exact), loose + bool(np.isinf(v.bound).any())
    assert inexact < whole / 8
    assert loose < whole / 40


def test_a_failure_is_shrunk(cases):
    """To the one line that is wrong and to a small op, by a runner for which that line is."""

    def run(case: Case) -> Outcome:
        try:
            loads(case.text)
        except Exception:
            return Outcome("invalid")
        wrong = re.search(r"tile .* every \d+.* -> ", case.schedule) and re.search(r"sum\(|max\(", case.op.text)
        return Outcome("wrong" if wrong else "right")

    found = [c for c in cases if run(c).failed]
    assert len(found) > 5
    for case in found[:3]:
        small, outcome = shrunk(case, run, 3000)
        assert outcome.failed
        body = small.schedule.split(":\n", 1)[1]
        *around, line = body.splitlines()  # of its block, if it is in one
        assert len(around) <= 1, small
        assert " every " in line
        assert len(small.op.statements) <= 2, small
        assert sum(x for _, x in small.sizes) <= 3 * len(small.sizes), small


def test_a_case_without_failure_is_none_to_shrink(cases):
    with pytest.raises(AssertionError):
        shrunk(cases[0], lambda case: Outcome("right"))


def test_the_share_counts_valid_ops():
    s = Summary()
    for kind in ("right", "wrong", "refused", "refused", "invalid"):
        s.add(0, Outcome(kind, "x"), "")
    assert s.share == 0.5
    assert len(s.failures) == 1


def test_shrinking_keeps_the_op_valid():
    case = drawn(18, "op")
    assert len(case.op.statements) > 5
    last = case.op.outputs[-1:]
    from .shrink import pruned

    op: Op = pruned(replace(case.op, outputs=last))
    loads(op.text)
    assert len(op.statements) < len(case.op.statements)
