"""The instructions of groups that compute the products of a pass: the scores, and the product over the keys.

PASSES   the result of the first is an operand of the second as it lies, or in another order of the keys (`term_order`), and
         rows of both results lie alike.
CROSSES  where it is not, the values of a call go through the memory that units share.
SUMS     scores of several products lie alike.
"""

from __future__ import annotations

import itertools
from functools import partial

from ...lower.leaves.match_instr import InstrMatch, all_matches
from ...lower.leaves.owner_tree import pairs_with_rows_alike, passing_pairs, same_rows, ways_alike
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..instr_mappings import candidate_instrs
from ..machine_model import MachineModel
from .find_pass import OnePass


def instrs_of_products(
    ctx: LoweringContext, machine: MachineModel, computations: tuple[Computation, ...], found: OnePass, passes: bool
) -> list[tuple[tuple[InstrMatch, ...], InstrMatch]]:
    """The best matches of each two instructions of groups, for the scores and for the product: PASSES, else CROSSES, and SUMS;
    the fastest first."""
    *others, scores = found.scores
    product, out = found.products[0], []
    instrs = [i for i in candidate_instrs(ctx.device) if i.level == machine.group.name]
    instrs = [i for i in instrs if len(i.operands) == 3 and len(i.statement.indices) == 2]
    made, used = ({i.name: ways for i in instrs if (ways := list(all_matches(i, w)))} for w in (scores, product))
    for first, second in itertools.product(made.values(), used.values()):
        if passes:
            every = [p for p in passing_pairs(ctx.register, computations, scores, first, second) if same_rows(*p)]
        else:
            every = pairs_with_rows_alike(ctx.register, first, second)
        pairs = [(a, b) for a, b in every if a.extent(found.rows[-1]) > 1]
        if pairs:
            a, b = max(pairs, key=lambda p: p[0].score + p[1].score)
            beside = [[m for j in instrs for m in ways_alike(all_matches(j, w), a)] for w in others]
            if all(beside):
                out.append(((*(max(ways, key=partial(_liking, machine, a)) for ways in beside), a), b))
    return sorted(out, key=lambda x: cycles_of_products(machine, found, *x))


def _liking(machine: MachineModel, last: InstrMatch, m: InstrMatch) -> tuple[float, bool, int, int]:
    """Of another score, the fastest; alike: the instruction of the last, whose depth is tried with others."""
    speed, size = machine.instr_speed(m.instr)
    return speed, m.instr is last.instr, size, m.score


def cycles_of_products(
    machine: MachineModel, found: OnePass, firsts: tuple[InstrMatch, ...], second: InstrMatch
) -> tuple[float, int]:
    """For a score and all features, of the scores' last product and of the product; alike: in how few calls."""
    wide = (float(found.extents[i].interval[1] or 1) for i in (*found.scores[-1].reduced, *found.features(found.products[0])))
    speeds = [machine.instr_speed(m.instr) for m in (firsts[-1], second)]
    return sum(n / each for n, (each, _) in zip(wide, speeds, strict=True)), -sum(size for _, size in speeds)
