"""Launches: the lines of each become a tree without open parts, and the trees statements."""

from __future__ import annotations

from collections.abc import Sequence

from ..dsl.errors import UserError
from ..dsl.index.expr import Expr, as_expr
from ..dsl.op import Op
from ..dsl.support.fast_replace import replace
from .autoschedule.complete import complete
from .ir.program import Program
from .ir.schedule_tree import Leaf, Node, Tile, all_nodes
from .ir.tile_ir import Buffer, Launch, Units
from .ir.tile_visitors import buffers_used
from .lower.copies.pipeline_depth import idle_pipelines
from .lower.copies.unaligned_copies import unaligned_variant
from .lower.intermediates.obeyed_lines import check_obeyed
from .lower.leaves.match_instr import fragment_map
from .lower.lower_schedule import Lowering
from .lower.lowering_context import LoweringContext
from .lower.reductions.lower_carry import check_carry_tile
from .lower.shared_loops.lower_online import check_online_tile
from .lower.spec import ZERO, Focus, Range, View
from .lower.tiling.count_units import combining_levels, count_units, round_to_groups
from .lower.workspace import workspace
from .plan.authors_names import in_authors_names
from .plan.computations import Computation
from .schedule.build_tree import schedule_tree
from .schedule.check_names import check_levels
from .schedule.synthetic_spans import is_filled_in, with_spans

Part = tuple[tuple[Computation, ...], tuple]  # the computations of a launch, and its lines
CompletePart = tuple[tuple[Computation, ...], Node]  # and the tree of its explicit lines


class UnkeptIntermediate(Exception):
    """Completion found no nest that keeps an intermediate which only it would have in the launch of its readers."""


def complete_schedules(
    context: LoweringContext,
    parts: Sequence[Part],
    joined: frozenset[str] = frozenset(),
    known: Sequence[tuple[Part, CompletePart]] = (),
) -> list[CompletePart]:
    """The tree of each launch. `known`: of parts that were completed before, whose lines have numbers of the same count.

    Raises UnkeptIntermediate if a tree does not keep one of `joined`, which completion would have in the launch of its readers:
    such lines mean a launch of its own.
    """
    context.planned = tuple(computations for computations, _ in parts)
    context.read_by_launches = frozenset(t for x in context.planned for t in _read_from_others(x))
    trees = [
        next((tree for before, tree in known if before == part), None) or (part[0], _complete(context, *part)) for part in parts
    ]
    for computations, tree in trees:
        if not joined & shared_intermediates(computations) <= {t for x in all_nodes(tree) for t in x.tensors}:
            raise UnkeptIntermediate
    return trees


def _read_from_others(computations: tuple[Computation, ...]) -> frozenset[str]:
    """What a launch reads and does not compute itself."""
    made = {t for w in computations for t in w.targets}
    return frozenset(t for w in computations for t in w.reads if t not in made)


def _complete(context: LoweringContext, computations: tuple[Computation, ...], lines: tuple) -> Node:
    """The tree of the lines, whose open parts are chosen."""
    context.attempts.lowered = computations[-1].name
    whole = with_spans(complete(context, computations, lines), context.synthetic_line_numbers)
    check_levels(context.device, whole)
    return schedule_tree(whole)


def lower_launches(context: LoweringContext, op: Op, parts: Sequence[CompletePart]) -> Program:
    """The program as the trees say it.

    FOLLOWS   a reduction that is split over units that cannot synchronise is finished by a launch of its own, which follows
              from the split, and may be begun by another before it. Nobody wrote lines for these: they are chosen here.
    """
    queue: list[tuple[tuple[Computation, ...], Node | None]] = list(parts)
    while queue:
        computations, tree = queue.pop(0)
        body = _lowered(context, computations, tree)
        for first in context.preceding_launches:
            context.launches.append(_lowered(context, first, None))
        context.preceding_launches.clear()
        context.launches.append(body)
        queue = [*((following, None) for following in context.following_launches), *queue]
        context.following_launches.clear()
    context.attempts.lowered = ""
    return make_program(op, context, context.launches)


def _lowered(context: LoweringContext, computations: tuple[Computation, ...], tree: Node | None) -> Launch:
    tree = tree or _complete(context, computations, ())
    context.attempts.lowered = computations[-1].name
    launch = lower_launch(context, computations, tree)
    context.attempts.names[launch.name] = computations[-1].name
    return launch


def shared_intermediates(computations: tuple[Computation, ...]) -> set[str]:
    """What computations of a launch read of each other's results."""
    read = {t for w in computations for t in w.reads}
    return {t for w in computations for t in w.targets if t in read}


def lower_unaligned(context: LoweringContext, op: Op) -> Program | None:
    """The program for sizes that runs of copies are not aligned for; None where it is the same."""
    if context.unaligned_variant is None:
        return None
    return make_program(
        op, context, [replace(x, body=unaligned_variant(x.body, context.unaligned_variant)) for x in context.launches]
    )


def lower_launch(ctx: LoweringContext, computations: tuple[Computation, ...], tree: Node) -> Launch:
    """One launch: unit counts, then the recursion."""
    ctx.units.clear()
    ranges = {i: Range(ZERO, e) for w in computations for i, e in w.extents}
    low = Lowering(ctx, computations, tree)
    ctx.trace.launch(computations, tree)
    for w in computations:
        if w.name not in ctx.dtypes:
            ctx.dtypes[w.name] = w.value.dtype
        for t in w.targets:
            _reachable(ctx, t, w)

    def lanes(leaf: Leaf) -> tuple[str, int] | None:
        if leaf.instr is None:
            return None
        for w in computations:
            m = low.find_instr(leaf.instr, w, leaf.span, must=False)
            if m is not None:
                n = max((fragment_map(m, o.name).lanes for o in m.instr.operands if ctx.register(o.memory)), default=1)
                return (m.instr.level, n) if n > 1 or m.instr.level != ctx.innermost else None
        return None

    ctx.combining = combining_levels(ctx, {i for w in computations for i in w.reduced}, tree)
    for level, n in count_units(ctx, ranges, tree, lanes).items():
        ctx.units[level] = as_expr(round_to_groups(ctx.device.level(level), n) or ctx.finite_count(level))
    views = {b.name: View(b.name, "global") for b in ctx.buffers if b.kind != "local"}
    views |= {name: views[tensor] for name, tensor in ctx.second_names.items() if tensor in views}
    outer = ctx.outermost
    focus = Focus(computations, ranges, outer, outer, views)
    try:
        body = low.lower(focus, tree)
    except UserError as error:
        written = {t for x in all_nodes(tree) if not is_filled_in(x.span) for t in x.tensors}
        in_authors_names(error, [w for launch in (computations, *ctx.planned) for w in launch], written)
        raise
    idle_pipelines(low, tree)
    if not any(extent.constant == 0 for w in low.computations for _, extent in w.extents):  # else lines may not be lowered
        for tile in (x for x in all_nodes(tree) if isinstance(x, Tile)):
            check_online_tile(low, tile)
            check_carry_tile(low, tile)
        check_obeyed(low, tree)
    units = []
    for level in ctx.device.levels:
        if level.name in ctx.units:
            units.append(Units(level.name, ctx.unit_var(level.name), ctx.units[level.name]))
    name = ctx.fresh(f"{ctx.op_name}_{computations[-1].targets[0]}")
    return Launch(name, tuple(units), tuple(body))


def _reachable(ctx: LoweringContext, tensor: str, w: Computation) -> None:
    """An intermediate that leaves its launch lives in a workspace."""
    if any(b.name == tensor for b in ctx.buffers):
        return
    extents: dict[str, Expr] = dict(w.extents)
    shape = ctx.shapes.get(tensor) or tuple(extents[i] for i in w.subscripts_of(tensor))
    ctx.buffers.append(workspace(ctx, tensor, ctx.dtypes[tensor], shape))


def make_program(op: Op, ctx: LoweringContext, launches: Sequence[Launch]) -> Program:
    """The program of these launches; buffers of the outermost memory that nothing touches are dropped."""
    buffers: list[Buffer] = [b for b in ctx.buffers if b.kind in ("input", "output")]
    used = {b.name for b in buffers}
    touched = {name for launch in launches for name in buffers_used(launch.body)}
    buffers += [b for b in ctx.buffers if b.kind == "workspace" and b.name in touched and b.name not in used]
    finite = []
    for level in ctx.device.levels:
        if level.units == "finite":
            finite.append((level.name, ctx.finite_count(level.name)))
    return Program(
        op.name, ctx.device, op.dims, op.derived, tuple(finite), tuple(buffers), tuple(launches),
        tuple(ctx.instrs[n] for n in sorted(ctx.instrs)), op.conditions,
    )  # fmt: skip
