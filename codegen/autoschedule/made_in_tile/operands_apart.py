"""Operands of products: computed in the tiles of their readers, or once, by launches of their own.

A product whose operands are computed where they are staged loads them to registers, and its units store them between barriers.
If launches have computed them before, they are copied as any tensor is. That takes memory of their size, and time to write it.

IN_TURN   the product that computes its operands counts what its blocks wait for after barriers. Its own candidates have that in
          common, so they do not count it (`cost.in_turn`).
APART     launches of their own are taken where they are clearly faster, for sizes that are fixed: for all operands that the
          product would compute, since one is enough for the waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....dsl.op import Op
from ....dsl.support.fast_replace import replace
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...plan.group_launches import CircularLaunches, group_launches, group_launches_keeping
from ..gpu.computed_operands import operand_computations
from ..gpu.cost import in_turn
from ..gpu.passes.one_pass_choice import ChosenLaunch, apart_launches, chosen_launch, side_by_side
from ..rank import RankedCandidates, best_candidates, rank_candidates, sample_sizes
from ..report import LaunchReport

# times: as long as the product that computes its operands, that launches apart are predicted to take at most [measured:
# triton-2026-11; test_large_products_of_rounded_operands]
CLEARLY = 0.95


@dataclass(frozen=True)
class OperandsApart:
    """Operands of a product, computed in its tiles beside launches of their own; and whether these are taken."""

    tensors: frozenset[str]
    is_faster: bool
    report: LaunchReport


def operands_apart(op: Op, made: frozenset[str], new: Callable[[], LoweringContext]) -> tuple[OperandsApart, ...]:
    """For each product of an op that computes operands in its tiles, of the pointwise intermediates `made`. `new`: a context
    for trying."""
    if not made or any(e.constant is None for s in op.statements for _, e in s.ranges):
        return ()
    out = []
    for together in group_launches_keeping(op, made):
        factors = frozenset(name for name, _ in operand_computations(together, new().device.computes)) & made
        found = _compared(op, together, factors, made, new) if factors else None
        if found is not None:
            out.append(found)
    return tuple(out)


def _compared(
    op: Op, together: tuple[Computation, ...], factors: frozenset[str], made: frozenset[str], new: Callable[[], LoweringContext]
) -> OperandsApart | None:
    """None where there is no candidate for a launch, or no such launches."""
    own = new()
    ranked, name = rank_candidates(own, together), together[-1].name
    try:
        every = group_launches(op, made - factors, factors)
    except CircularLaunches:
        return None
    launches = [g for g in every if g[-1].name == name or any(t in factors for w in g for t in w.targets)]
    apart = apart_launches(launches, new, [sizes for sizes, _ in sample_sizes(own, together)]) if ranked else None
    if apart is None:
        return None
    way = f"{', '.join(sorted(factors))} computed in each tile: 1 launch"
    report = side_by_side({way: _with_waits(name, ranked)}, {f"apart: {len(apart)} launches": apart}, 1 / CLEARLY)
    return OperandsApart(factors, report.candidates[0].nest != way, report)


def _with_waits(launch: str, ranked: list[RankedCandidates]) -> ChosenLaunch:
    """IN_TURN, of the candidate that is chosen."""
    r, i, _ = best_candidates(ranked)[0]
    one, bound = chosen_launch(launch, ranked), max(r.costs([i])[i][1].parts.values())
    waits = max(0.0, float(in_turn(r.nest.machine, r.demands([i]), r.table([i], r.cost.resident)[0])[0]) - bound)
    x = one.candidate
    candidate = replace(x, seconds=x.seconds + waits, parts={**x.parts, "waits": waits})
    return ChosenLaunch(replace(one.report, candidates=(candidate, *one.report.candidates[1:])), one.seconds + waits)
