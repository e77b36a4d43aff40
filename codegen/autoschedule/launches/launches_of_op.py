"""The launches of an op: the computations that share one, and the lines of a schedule for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.errors import Diagnostics, UserError
from ....dsl.errors.schedule import NotComputed
from ....dsl.op import Op
from ....dsl.syntax import all_lines, tensors_of
from ...lower.lowering_context import LoweringContext
from ...plan.check_blocks import check_blocks, check_inlined, inlined_tensors, joined_outputs, shared_by_blocks, sums_apart
from ...plan.computations import Computation, accumulating
from ...plan.group_launches import CircularLaunches, elementwise_outputs, group_launches
from ...plan.name_factors import without_second_names
from ...schedule.build_tree import modifier
from ...schedule.elaborate import RoleNames
from ...schedule.explicit_lines import explicit_lines
from ...schedule.roles import roles_of
from ...schedule.size_bounds import with_size_bounds
from ..candidates import can_complete_apart, is_part_of_pass
from ..cpu.one_pass import one_pass_lines, pass_together
from ..cpu.precompute_operands import precomputed_operands
from ..gpu.passes.one_pass_choice import BEFORE, apart_launches, compared, rank_pass
from ..gpu.resident_rows import repeated_values
from ..line_builders import is_all_open, without_auto
from ..machine_model import block_machine
from ..made_in_tile.choose import made_in_tile
from ..made_in_tile.find_pairs import factors_of_products, read_beyond
from ..one_pass.chains import ends_of_chains, together_in_launch
from ..one_pass.converted_operands import parts_of_passes
from ..one_pass.kept_intermediates import kept_intermediates
from ..op_context import context_of
from ..rank import sample_sizes
from ..row_parts.find_chain import joined_statistics
from ..siblings.choice import siblings_joined
from .named_factors import (
    factors_apart,
    finished_factors,
    intermediates,
    materialise_operands,
    materialised,
    with_named_factors,
)
from .own_blocks import has_own_launch, is_filled_in, keeps_for_completion, launch_blocks, moved_tensors


@dataclass(frozen=True)
class ScheduleLaunches:
    """An op by a schedule, as far as its lines say.

    op      with named factors                                 context   of its tensors
    parts   each launch with the schedule's lines for it       apart     `apart_tensors`
    lines   of the schedule
    """

    op: Op
    context: LoweringContext
    parts: list[tuple[tuple[Computation, ...], tuple]]
    apart: frozenset[str]
    lines: tuple


def launches_of_schedule(
    op: Op, device: Device, schedule: syntax.ScheduleDecl | None, module: Any = None, params: Mapping[str, int] | None = None
) -> ScheduleLaunches:
    """Raises the diagnostics of the schedule."""
    op = with_size_bounds(op, schedule)
    roles = roles_of(module, op, schedule) if schedule is not None else RoleNames()
    diagnostics = Diagnostics()
    lines = explicit_lines(module, op, schedule, device, roles, params, diagnostics)
    diagnostics.raise_if_any()
    op = with_named_factors(op, device, lines)
    joined = joined_intermediates(op, device, lines)
    parts = launches_of(op, device, lines, joined)
    return ScheduleLaunches(op, context_of(op, device), parts, apart_tensors(op, device, lines, joined), lines)


def joined_intermediates(op: Op, device: Device, lines: tuple, ctx: LoweringContext | None = None) -> frozenset[str]:
    """Intermediates that completion keeps in the launch of their readers, where the lines are open and keep none themselves.

    `ctx`: of the op; gets a report where one pass is an alternative.
    """
    inlined = inlined_tensors(lines)
    lines = tuple(x for x in lines if not isinstance(x, syntax.Inline))
    passes: frozenset[str] = frozenset()
    elsewhere = {s.target for s in op.statements}
    before = inlined.union(launch_blocks(device, lines))
    for part, whole, made in parts_of_passes(op, device, before) if is_all_open(lines) or is_filled_in(lines) else ():
        kept = kept_intermediates(part) - inlined
        ctx = ctx or (context_of(op, device) if kept else None)
        if ctx is None or not kept <= elsewhere:
            continue
        if is_all_open(lines):
            made = _made_by_pass(ctx, whole, kept, made)
        elif not _has_lines_of_pass(ctx, whole, lines, kept | made):
            made = frozenset() if _has_lines_of_pass(ctx, part, lines, kept) else None
        if made is not None:
            passes |= kept | made
            elsewhere -= {s.target for s in (whole if made else part).statements}
    joined = _joined_apart(op, device, lines) if elsewhere and keeps_for_completion(device, lines) else frozenset()
    joined = joined & elsewhere - ends_of_chains(op, passes) | passes
    if not elsewhere:
        return joined
    faster = is_all_open(lines) and block_machine(device) is not None and bool(intermediates(op))
    if faster and ctx is not None:
        ctx.alternatives += [x.report for x in materialised(op, device)[1]]
    return joined | _faster_joined(op, device, joined, inlined, ctx) if faster else joined


def _faster_joined(
    op: Op, device: Device, joined: frozenset[str], inlined: frozenset[str], ctx: LoweringContext | None
) -> frozenset[str]:
    """What siblings leave to one of them, and what is made in the tiles of its readers, where that is predicted to be faster,
    beside what is `joined` anyway."""

    def launches(kept: frozenset[str]) -> list[tuple[Computation, ...]]:
        return [g for g, _ in launches_of(op, device, (), joined | kept)]

    ctx = ctx or context_of(op, device)
    found = siblings_joined(ctx, op, launches)
    joined |= found
    _, apart = _kept_and_apart(op, device, (), joined)
    tensors = (intermediates(op) & read_beyond(op)) - apart | (intermediates(op) & factors_of_products(op))
    tensors -= joined | inlined
    pairs = made_in_tile(device, tensors, launches, lambda: context_of(op, device))
    ctx.alternatives += [x.report for x in pairs]
    return found.union(x.pair.tensor for x in pairs if x.is_faster)


def _joined_apart(op: Op, device: Device, lines: tuple) -> frozenset[str]:
    own = launch_blocks(device, lines)
    rest = tuple(x for x in lines if not has_own_launch(device, x))
    joined = joined_statistics(op, device, rest)
    machine = block_machine(device)
    if joined and machine is not None:
        joined |= repeated_values(op, machine, joined)
    if not joined:
        joined = materialise_operands(op, device) - factors_apart(op, device, lines) | elementwise_outputs(op)
    return joined - own.keys()


def _made_by_pass(ctx: LoweringContext, op: Op, kept: frozenset[str], made: frozenset[str]) -> frozenset[str] | None:
    """What a pass makes of its operands `made`, where it computes the op's reductions and these are kept: all or none. None: on
    devices with blocks it must be predicted to be faster than the launches apart."""
    device = ctx.device
    if block_machine(device) is None:
        together = pass_together(op, device, kept)
        return made if together is not None and one_pass_lines(device, together) is not None else None
    together = together_in_launch(op, kept | made, frozenset())
    if together is None or not (ranked := rank_pass(ctx, together)):
        return None
    ways = (_joined_apart(op, device, ()), *((kept,) if made else ()))
    launches = ([g for g, _ in launches_of(op, device, (), joined)] for joined in ways)
    judged = [sizes for sizes, _ in sample_sizes(ctx, together)]
    apart = [x for some in launches if (x := apart_launches(some, lambda: context_of(op, device), judged)) is not None]
    if not apart:
        return None
    ctx.alternatives.append(report := compared(ranked, together[-1].targets[0], apart))
    best = report.candidates[0].nest
    return made if best.startswith("one pass") else frozenset() if best.startswith(BEFORE) else None


def _has_lines_of_pass(ctx: LoweringContext, op: Op, lines: tuple, kept: frozenset[str]) -> bool:
    """Whether the author's lines are some of one pass, and not of a launch apart."""
    device, together = ctx.device, together_in_launch(op, kept, frozenset())
    if together is None or not is_part_of_pass(ctx, together, tuple(x for x in lines if not has_own_launch(device, x))):
        return False
    if any(isinstance(x, syntax.Tile) and modifier(x, "online") is not None for x in all_lines(lines)):
        return True
    joined = _joined_apart(op, device, lines) if keeps_for_completion(device, lines) else frozenset()
    try:
        apart = launches_of(op, device, lines, joined)
    except UserError:
        return True
    return not any(
        own and not is_part_of_pass(ctx, computations, own) and can_complete_apart(ctx, computations, own)
        for computations, own in apart
    )


def launches_of(
    op: Op, device: Device, lines: tuple, joined: frozenset[str] | None = None
) -> list[tuple[tuple[Computation, ...], tuple]]:
    """The computations of each launch with the lines that are for it.

    `keep T in <outermost memory>:` at the top gives T a launch of its own, scheduled by the block.

    joined   what completion keeps in the launch of its readers; None: what it likes best
    """
    own = launch_blocks(device, lines)
    rest = tuple(x for x in lines if not has_own_launch(device, x) and not isinstance(x, syntax.Inline))
    said = frozenset(t for x in all_lines(rest) if isinstance(x, syntax.Keep) for t in x.tensors)
    moved = moved_tensors(lines)
    kept, apart = _kept_and_apart(op, device, lines, joined)
    staged = frozenset(s.target for s in op.statements if s.reduction is None and s.target in moved) - apart - kept
    inner, alone = intermediates(op), [x for x in lines if has_own_launch(device, x)]
    kept = kept & (inner | joined_outputs(op, alone)) - sums_apart(op, alone)
    groups = _planned(without_second_names(op), kept, apart & inner, staged & inner, lines, device)
    check_blocks(op, alone, every := tuple(all_lines(lines)), groups, device.memories[0].name)
    check_inlined(op, every, groups)
    groups = tuple(tuple(accumulating(w) for w in g) for g in groups)
    blocks = [next((own[t] for w in g for t in w.targets if t in own), None) for g in groups]
    main = _main([g for g, block in zip(groups, blocks, strict=True) if block is None], said, moved)
    if main is None and (rest_of := without_auto(rest)):
        raise NotComputed(
            "this line belongs to no launch: all launches have a block of their own",
            rest_of[0].span,
            help=_own_launch(device, rest_of[0]),
        )
    return [(g, block if block is not None else rest if g is main else ()) for g, block in zip(groups, blocks, strict=True)]


def _own_launch(device: Device, line: syntax.Line) -> str:
    """Where to write a line that belongs to no launch."""
    outer = device.memories[0].name
    if isinstance(line, syntax.Keep) and line.memory == outer:
        return f"`keep {', '.join(line.tensors)} in {outer}:` with `auto` below it is a launch of its own"
    return "write it inside the block of the tensor that it is for"


def apart_tensors(op: Op, device: Device, lines: tuple, joined: frozenset[str] | None = None) -> frozenset[str]:
    """Tensors that have launches of their own because a line of the author's, or a choice of completion's, says so."""
    _, apart = _kept_and_apart(op, device, lines, joined)
    return apart


def _kept_and_apart(
    op: Op, device: Device, lines: tuple, joined: frozenset[str] | None
) -> tuple[frozenset[str], frozenset[str]]:
    """The tensors that are kept in the launch of their readers, and those with launches of their own."""
    own = frozenset(launch_blocks(device, lines))
    # A launch of its own keeps what its block says as well, but for the tensor that the block is for.
    kept = frozenset(t for x in all_lines(lines) if isinstance(x, syntax.Keep) for t in x.tensors) - own
    inlined = inlined_tensors(lines)
    kept |= (joined_intermediates(op, device, lines) if joined is None else joined) - inlined
    if not keeps_for_completion(device, lines):
        return kept, own
    moved = moved_tensors(lines)
    operands = precomputed_operands(op, device) | finished_factors(op, device) | ends_of_chains(op, kept)
    operands |= factors_apart(op, device, lines)
    return kept, own | operands & intermediates(op) - kept - moved - inlined


def _planned(op: Op, kept: frozenset[str], apart: frozenset[str], staged: frozenset[str], lines: tuple, device: Device):
    """`plan`, whose circles are the fault of a line of the author's; what only the compiler would keep is not kept then, nor
    where a launch would have two blocks."""
    own = [x for x in lines if has_own_launch(device, x)]
    said = {t for x in all_lines(lines) for t in tensors_of(x)}
    while True:
        try:
            groups = group_launches(op, kept, apart, staged, [frozenset(x.tensors) for x in own])
        except CircularLaunches as error:
            if outputs := error.tensors & kept - intermediates(op):  # they are stored in any case
                kept -= outputs
                continue
            line = next((x for x in all_lines(lines) if not error.tensors.isdisjoint(tensors_of(x))), None)
            if line is None:
                kept, staged = kept - error.tensors, staged - error.tensors
                continue
            name = min(error.tensors.intersection(tensors_of(line)))
            raise NotComputed(
                f"`{name}` cannot be computed in the launch of all its readers: one of them needs a result of another launch,"
                " which needs this one",
                line.span,
                help=f"leave the line out, or give `{name}` a launch of its own: `keep {name} in {device.memories[0].name}:`",
            ) from None
        joining = shared_by_blocks(own, groups) & (kept - said)
        if not joining:
            return groups
        kept -= joining


def _main(groups, kept: frozenset[str], moved: frozenset[str]) -> tuple[Computation, ...] | None:
    """The launch that the schedule's lines are for: the one whose tensors it keeps, else the one with most to do; of those the
    one that reads most of what it moves."""
    told = [
        (
            sum(t in kept for w in g for t in w.names),
            (max(len(w.all_indices) for w in g), len(g)),
            len({t for w in g for t in w.reads} & moved),
        )
        for g in groups
    ]
    return groups[told.index(max(told))] if groups else None
