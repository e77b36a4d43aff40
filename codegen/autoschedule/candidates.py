"""The candidates for a launch, of all templates that are for the device: what completion and tuning choose from.

WITH_LINES  An author's lines may be some of a pass over the keys: each line of a candidate is a slot. Candidates with the
            author's sizes come first; if none has all, the author's numbers stand in the lines of those that fit the device
            with them, as the model has it, and have most.
TIGHT       Where no nest with an author's lines has registers enough by the model, the best is taken that has all else:
            without a nest, nothing would be distributed.
LESS_COPIED Copies may have no room then. Another way is the best one without those that would be filled in: the first where
            none fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...dsl import syntax
from ...dsl.support.fast_replace import replace
from ..lower.lowering_context import LoweringContext
from ..plan.computations import Computation
from ..schedule.candidate import Candidate, Description, Lines
from .constraints import PlacedLine, merged_lines, parse_constraints, slots_of_lines
from .cpu.constraints import can_be_constrained, constrained_candidates
from .cpu.convolutions.depthwise import depthwise_candidates
from .cpu.matmul import matmul_candidates
from .cpu.nest_space import nest_candidates
from .cpu.one_pass import one_pass_candidates
from .cpu.prefix_loop import prefix_candidates
from .gpu.passes.one_pass_choice import every_pass_candidate, pass_candidates
from .gpu.passes.pass_model import PassModel
from .line_builders import is_all_open
from .one_pass.combined_parts import combining_candidates
from .rank import block_candidates, sample_sizes, tight_candidates
from .rule_lines import rule_lines


def candidate_groups(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, most: int | None = None
) -> Iterator[list[Candidate]]:
    """Candidates with the author's lines, the best first. Models of different groups are not compared; no group is empty.

    most   how many without a template are enough: others may be left out
    """
    yield from filter(None, _groups(ctx, computations, lines, most))


def _groups(
    ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines, most: int | None
) -> Iterator[list[Candidate]]:
    yield combining_candidates(ctx, computations) if is_all_open(lines) else []
    yield pass_candidates(ctx, computations) if is_all_open(lines) else completed_pass(ctx, computations, lines)
    blocks = block_candidates(ctx, computations, lines)
    yield blocks or ([] if is_all_open(lines) else tight_candidates(ctx, computations, lines))
    rule = rule_lines(ctx, computations)
    if not is_all_open(lines):
        yield constrained_candidates(ctx, computations, lines, rule, most)
        return
    yield one_pass_candidates(ctx, computations)
    yield prefix_candidates(ctx, computations)
    yield matmul_candidates(ctx, computations)
    yield depthwise_candidates(ctx, computations)
    yield nest_candidates(ctx, computations, rule)


def completed_pass(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> list[Candidate]:
    """WITH_LINES: of the pass, where each of the author's lines is one of its; none where the computations are no pass."""
    found = list(_completions_of_pass(ctx, computations, lines))
    best = [x for x in found if x.foreign == 0]
    fit = [True] * len(best)
    if not best:
        fit = _fit(ctx, computations, found)
        order = sorted(range(len(found)), key=lambda n: (not fit[n], found[n].foreign))
        best, fit = [found[n] for n in order], [fit[n] for n in order]
    less = [_less_copied(x) for x in best[:1] if x.has_copies]
    candidates = [x.candidate for x in best]
    return [*candidates, *less] if any(fit) else [*less, *candidates]


def is_part_of_pass(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether there is a `completed_pass`."""
    return any(True for _ in _completions_of_pass(ctx, computations, lines))


@dataclass(frozen=True)
class _CompletedPass:
    """A candidate with the author's lines among its own. `foreign`: how many of the author's sizes are not its own."""

    candidate: Candidate
    merged: tuple[tuple[PlacedLine, syntax.Line], ...]
    foreign: int

    @property
    def has_copies(self) -> bool:
        return any(isinstance(line, syntax.Move) and place.line is None for place, line in self.merged)


def _completions_of_pass(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> Iterator[_CompletedPass]:
    for candidate in every_pass_candidate(ctx, computations) or one_pass_candidates(ctx, computations):
        slots, chosen, at = slots_of_lines(candidate.lines)
        written = parse_constraints(ctx.device, slots, lines)
        if written is not None:
            merged = tuple(merged_lines(ctx.device, written.placement, chosen, at))
            own = tuple(line for _, line in merged)
            foreign = sum(at[name] != size for name, size in written.fixed.items())
            yield _CompletedPass(replace(candidate, make=lambda own=own: own), merged, foreign)


def _fit(ctx: LoweringContext, computations: tuple[Computation, ...], found: list[_CompletedPass]) -> list[bool]:
    """Which of them fit the device with the author's sizes, as the model has it; all where there is no model."""
    own, extents = sample_sizes(ctx, computations)[-1]
    out = [True] * len(found)
    for nest in {id(n): n for x in found if isinstance(n := x.candidate.template, PassModel)}.values():
        some = [n for n, x in enumerate(found) if x.candidate.template is nest]
        tiles = [nest.with_sizes_of([line for _, line in found[n].merged], found[n].candidate.tile) for n in some]
        for n, fits in zip(some, nest.fit(tiles, own | extents | nest.problem.sizes(own)).tolist(), strict=True):
            out[n] = fits
    return out


def _less_copied(x: _CompletedPass) -> Candidate:
    """LESS_COPIED: instructions read where the tensors are, and those that load from copies go with these."""
    out = []
    for place, line in x.merged:
        if place.line is None and isinstance(line, syntax.Move):
            continue
        if isinstance(line, syntax.Keep) and line.block:
            own = syntax.block_of(place.line) if place.line is not None else ()
            line = replace(line, block=_without_moves(line.block, own))
        out.append(line)
    return replace(x.candidate, make=lambda: tuple(out), describe=lambda: _without_copies(x.candidate), template=_less_copied)


def _without_copies(x: Candidate) -> Description:
    return x.description._replace(about=f"{x.about} without copies")


def _without_moves(lines: Lines, own: Lines) -> Lines:
    """Without those that are not the author's own."""
    moved = {x.tensor for x in own if isinstance(x, syntax.Move)}
    return tuple(x for x in lines if not isinstance(x, syntax.Move) or x.tensor in moved)


def can_complete(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """Whether some candidate has a place for each of these lines."""
    return is_part_of_pass(ctx, computations, lines) or can_complete_apart(ctx, computations, lines)


def can_complete_apart(ctx: LoweringContext, computations: tuple[Computation, ...], lines: Lines) -> bool:
    """The same of nests that are no pass."""
    found = block_candidates(ctx, computations, lines)
    return bool(found) or can_be_constrained(ctx, computations, lines, rule_lines(ctx, computations))
