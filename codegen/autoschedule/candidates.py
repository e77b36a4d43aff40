"""The candidates for a launch, of all templates that are for the device: what completion and tuning choose from."""

from __future__ import annotations

from collections.abc import Iterator

from ..lower.lowering_context import LoweringContext
from ..plan.computations import Computation
from ..schedule.candidate import Candidate, Lines
from .cpu.constraints import can_be_constrained, constrained_candidates
from .cpu.matmul import matmul_candidates
from .cpu.nest_space import nest_candidates
from .cpu.one_pass import one_pass_candidates
from .gpu.one_pass_choice import pass_candidates
from .line_builders import is_all_open
from .rank import block_candidates
from .rule_lines import rule_lines


def candidate_groups(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Iterator[list[Candidate]]:
    """Candidates with the author's lines, the best first. Models of different groups are not compared; no group is empty."""
    yield from filter(None, _groups(ctx, computations, lines))


def _groups(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Iterator[list[Candidate]]:
    if is_all_open(lines):
        yield pass_candidates(ctx, computations)
    yield block_candidates(ctx, computations, lines)
    rule = rule_lines(ctx, computations)
    if not is_all_open(lines):
        yield constrained_candidates(ctx, computations, lines, rule)
        return
    yield one_pass_candidates(ctx, computations)
    yield matmul_candidates(ctx, computations)
    yield nest_candidates(ctx, computations, rule)


def can_complete(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether some candidate has a place for each of these lines."""
    found = block_candidates(ctx, computations, lines)
    return bool(found) or can_be_constrained(ctx, computations, lines, rule_lines(ctx, computations))
