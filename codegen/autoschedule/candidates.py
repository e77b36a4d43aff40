"""The candidates for a launch, of all templates that are for the device: what completion and tuning choose from.

WITH_LINES  An author's lines may be some of a pass over the keys: each line of a candidate is a slot. Candidates with the
            author's sizes come first; if none has them, the author's numbers stand in the lines of the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dsl.support.fast_replace import replace
from ..lower.lowering_context import LoweringContext
from ..plan.computations import Computation
from ..schedule.candidate import Candidate, Lines
from .constraints import merged_lines, parse_constraints, slots_of_lines
from .cpu.constraints import can_be_constrained, constrained_candidates
from .cpu.matmul import matmul_candidates
from .cpu.nest_space import nest_candidates
from .cpu.one_pass import one_pass_candidates
from .gpu.one_pass_choice import every_pass_candidate, pass_candidates
from .line_builders import is_all_open
from .one_pass.combined_parts import combining_candidates
from .rank import block_candidates
from .rule_lines import rule_lines


def candidate_groups(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Iterator[list[Candidate]]:
    """Candidates with the author's lines, the best first. Models of different groups are not compared; no group is empty."""
    yield from filter(None, _groups(ctx, computations, lines))


def _groups(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Iterator[list[Candidate]]:
    yield combining_candidates(ctx, computations) if is_all_open(lines) else []
    yield pass_candidates(ctx, computations) if is_all_open(lines) else completed_pass(ctx, computations, lines)
    yield block_candidates(ctx, computations, lines)
    rule = rule_lines(ctx, computations)
    if not is_all_open(lines):
        yield constrained_candidates(ctx, computations, lines, rule)
        return
    yield one_pass_candidates(ctx, computations)
    yield matmul_candidates(ctx, computations)
    yield nest_candidates(ctx, computations, rule)


def completed_pass(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> list[Candidate]:
    """WITH_LINES: of the pass, where each of the author's lines is one of its; none where the computations are no pass."""
    found = list(_completions_of_pass(ctx, computations, lines))
    return [c for c, has_sizes in found if has_sizes] or [c for c, _ in found]


def is_part_of_pass(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether there is a `completed_pass`."""
    return any(True for _ in _completions_of_pass(ctx, computations, lines))


def _completions_of_pass(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines
) -> Iterator[tuple[Candidate, bool]]:
    """Each with whether it has the author's sizes."""
    for candidate in every_pass_candidate(ctx, computations) or one_pass_candidates(ctx, computations):
        slots, chosen, at = slots_of_lines(candidate.lines)
        written = parse_constraints(ctx.device, slots, lines)
        if written is not None:
            merged = tuple(line for _, line in merged_lines(written.placement, chosen, at))
            has_sizes = all(at[name] == size for name, size in written.fixed.items())
            yield replace(candidate, make=lambda merged=merged: merged), has_sizes


def can_complete(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether some candidate has a place for each of these lines."""
    return is_part_of_pass(ctx, computations, lines) or can_complete_apart(ctx, computations, lines)


def can_complete_apart(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """The same of nests that are no pass."""
    found = block_candidates(ctx, computations, lines)
    return bool(found) or can_be_constrained(ctx, computations, lines, rule_lines(ctx, computations))
