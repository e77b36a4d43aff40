"""Mutations of the library's schedules are schedules: they parse, differ, and are the same for a seed. Many of them compile."""

from __future__ import annotations

from random import Random

import andiron
import pytest
from andiron.dsl import syntax
from andiron.dsl.errors import UserError
from andiron.dsl.module import std_module
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from andiron.dsl.text.print_node import format_node
from andiron.runtime.tuning.evolution.crossover import crossover
from andiron.runtime.tuning.evolution.mutation_space import MutationSpace
from andiron.runtime.tuning.evolution.mutations import mutate

COUNT = 24


def parsed(text: str) -> syntax.ScheduleDecl:
    (found,) = parse(Source("<test>", text)).declarations
    assert isinstance(found, syntax.ScheduleDecl)
    return found


def mutations(decl, space, seed):
    rng = Random(seed)
    return [mutate(decl, space, rng) for _ in range(COUNT)]


@pytest.mark.parametrize("target", ["cpu:avx2", "cuda:sm_80"])
@pytest.mark.parametrize(("op", "sizes"), [("transpose", {"M": 128, "N": 96}), ("row_sum", {"M": 64, "N": 768})])
def test_mutations_of_a_schedule(op, sizes, target):
    k = andiron.compile(std_module(f"ops.{'tensor' if op == 'transpose' else 'reduce'}"), op=op, target=target, tune=0, **sizes)
    request, decl = k.request, parsed(k.schedule)
    assert request is not None
    space = MutationSpace.of(request.special, request.device)
    found = mutations(decl, space, 0)
    assert found == mutations(decl, space, 0) != mutations(decl, space, 1)
    legal = 0
    for made in found:
        assert made is not None
        tree, about = made
        assert about
        assert tree != decl
        assert parsed(format_node(tree)) == tree
        try:
            request.variant(tree)
            legal += 1
        except UserError:
            pass  # the compiler says what is legal, in its words
    assert legal > COUNT // 3


TWO_LAUNCHES = """
schedule {name} for pair:
    keep T in dram:
        tile i: {t} -> core
        compute
    tile i: {s} -> core
    compute
"""


def test_a_crossing_has_the_block_of_one_and_the_lines_of_the_other():
    a, b = (parsed(TWO_LAUNCHES.format(name="s", t=t, s=s)) for t, s in ((1, 2), (8, 4)))
    rng = Random(0)
    found = {format_node(x) for x in (crossover(a, b, rng) for _ in range(30)) if x is not None}
    assert format_node(parsed(TWO_LAUNCHES.format(name="s", t=8, s=2))) in found
    assert format_node(parsed(TWO_LAUNCHES.format(name="s", t=1, s=4))) in found
    assert crossover(a, a, rng) is None
