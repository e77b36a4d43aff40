"""The pipeline: from an op, a schedule and a device to a tile program. It reads from top to bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.errors import Diagnostics, UserError
from ..dsl.errors.schedule import DeviceMismatch
from ..dsl.index.expr import Expr, as_expr
from ..dsl.op import Op
from ..dsl.ops.specialise import bind_params
from ..dsl.support.cached import cached_property
from ..dsl.support.fast_replace import replace
from .autoschedule.complete import complete
from .ir.program import Program
from .ir.tile_ir import Buffer, Launch, Units
from .lower.capacity import check_capacity
from .lower.copies.pipeline_depth import idle_pipelines
from .lower.copies.unaligned_copies import unaligned
from .lower.lower_schedule import Lowering
from .lower.lowering_context import Context
from .lower.schedule_trace import Trace, Traced
from .lower.spec import ZERO, Focus, Range, View
from .lower.tiling.count_units import combining_levels, count_units, whole_groups
from .lower.workspace import workspace
from .plan.computations import Work
from .plan.launches import context_of, launches_of, with_factors
from .schedule.check_names import check_names
from .schedule.elaborate import Roles, elaborate
from .schedule.implicit_auto import continued
from .schedule.print_schedule import schedule_text
from .schedule.roles import roles_of
from .schedule.schedule_fallback import Attempts
from .schedule.synthetic_spans import placed
from .transforms.barriers.place_barriers import place_barriers
from .transforms.licm import hoist_invariants
from .transforms.multiversion import variants
from .transforms.pipelining.stage_copies import stage_copies
from .transforms.prove_guards import prove_guards
from .transforms.version_guards import version_guards


@dataclass(frozen=True)
class Compiled:
    """A tile program, the explicit schedule it follows (as text), and what is known of it without running."""

    program: Program
    schedule: str
    report: Mapping[str, Any] = field(default_factory=dict)
    steps: Trace = field(default_factory=Trace)

    @cached_property
    def trace(self) -> tuple[Traced, ...]:
        """Each line of the schedule, with the spec that it left."""
        return self.steps.result()


def compile_program(
    module: Any,
    op: Op,
    schedule: syntax.ScheduleDecl | None,
    device: Device,
    params: Mapping[str, int] | None = None,
) -> Compiled:
    """`params`: numbers for parameters of the schedule; those of the op are its defaults, where `bind_params` gave no others.

    Raises UserErrors for what cannot be compiled correctly, with the line that asks for it; MissingParameter.
    """
    # A size's bound is a fact about its variable, so it must be known before any expression is simplified.
    if schedule is not None:
        check_device(module, schedule, device)
    op = bounded(op, schedule)
    roles = roles_of(module, op, schedule) if schedule is not None else Roles()
    diagnostics = Diagnostics()
    lines = explicit_lines(module, op, schedule, device, roles, params, diagnostics)
    # Programs have no parameters: one that was given no number has its default, or is missed here.
    op = bind_params(op)
    # Factors that are computed have names where lines, or rTile, make them somewhere; elsewhere they stay what they are.
    op = with_factors(op, device, lines)
    # Names are checked all at once, before lowering stops at the first that it cannot use.
    check_names(op, device, lines, diagnostics)
    # What is chosen where lines are open can be compiled; where it cannot after all, another choice is better than an error.
    attempts = Attempts()
    while True:
        try:
            return compiled(op, schedule, device, lines, attempts)
        except UserError as error:
            attempts.pass_over(error)


def compiled(op: Op, schedule: syntax.ScheduleDecl | None, device: Device, lines: tuple, attempts: Attempts) -> Compiled:
    """The program by these lines, and by what is chosen where they are open."""
    context = replace(context_of(op, device), attempts=attempts)
    program, written = lowered(context, op, launches_of(op, device, lines))
    # Capacities are those of what is alive together, which only the whole program tells.
    again = (lambda x: None) if attempts.notes else (lambda x: tried(op, device, x))
    check_capacity(program, lines, schedule and schedule.span, context.notes, again)
    done = synchronised(program)
    # Vectors come after barriers, which ask what is accessed and not how much at a time; what only a call tells makes variants.
    # Two versions last: they copy code, and keep away from statements in which a barrier stands.
    # Sizes that vectors cannot be had for may want copies dealt in another way: these are lowered by themselves.
    program, notes = variants(done, version_guards, lambda: for_unaligned(op, context, program, done))
    text = schedule_text(op, schedule, device, written, context)
    notes = tuple(dict.fromkeys((*attempts.notes, *context.notes, *notes)))
    return Compiled(replace(program, head=text), text, {"notes": notes, "choices": tuple(context.choices)}, context.trace)


def synchronised(program: Program) -> Program:
    """The program with its barriers."""
    # Guards go first: a barrier may stand only where control flow is uniform, and fewer guards are more uniform.
    program = prove_guards(program)
    # Barriers are derived from the accesses that are left, while each is still written once.
    # Units that an instruction drives together may be apart for the compiler of the text: they meet explicitly.
    program = place_barriers(program, lockstep=any(level.width for level in program.device.levels))
    # What a loop does not change leaves it while there is one version of the loop.
    return hoist_invariants(program)


Part = tuple[tuple[Work, ...], tuple]  # the works of a launch, and its lines


def lowered(context: Context, op: Op, parts: Sequence[Part]) -> tuple[Program, list[Part]]:
    """The program as the lines say it, and the works and explicit lines of each launch."""
    attempts = context.attempts
    written: list[Part] = []
    queue = [(works, todo, True) for works, todo in parts]
    while queue:
        works, todo, own = queue.pop(0)
        attempts.lowered = works[-1].name
        todo = placed(complete(context, works, todo), context.places)
        body = lower_launch(context, works, todo)
        for first, _ in context.before:
            attempts.lowered = first[-1].name
            context.launches.append(lower_launch(context, first, placed(complete(context, first, ()), context.places)))
        context.before.clear()
        context.launches.append(body)
        if own:
            written.append((works, todo))
        # A reduction split over units that cannot meet is finished by a launch of its own, which follows from the split.
        queue = [*((works, todo, False) for works, todo in context.extra), *queue]
        context.extra.clear()
    attempts.lowered = ""
    # Rotating buffers are in memory at once: capacities count them all, and barriers are placed around what they order.
    return stage_copies(assemble(op, context, context.launches), context.note), written


def for_unaligned(op: Op, context: Context, plain: Program, done: Program) -> Program:
    """The program for sizes that runs of copies are not aligned for; `plain`, `done`: the one for the other sizes, before and
    after it got its barriers."""
    apart = context.apart
    if apart is None:
        return done
    launches = tuple(replace(x, body=unaligned(x.body, apart)) for x in context.launches)
    again = stage_copies(assemble(op, context, launches), lambda text: None)
    known = list(zip(plain.launches, done.launches, strict=True))
    kept = [next((y for x, y in known if x == mine), None) for mine in again.launches]
    others = tuple(x for x, y in zip(again.launches, kept, strict=True) if y is None)
    new = iter(synchronised(replace(again, launches=others)).launches)
    return replace(again, launches=tuple(y or next(new) for y in kept))


def tried(op: Op, device: Device, lines: tuple) -> Program | None:
    """The program of other lines, when they can be lowered."""
    try:
        return lowered(context_of(op, device), op, launches_of(op, device, lines))[0]
    except UserError:
        return None


def check_device(module: Any, schedule: syntax.ScheduleDecl, device: Device) -> None:
    """`on D` fits D and the devices that extend it. Raises DeviceMismatch."""
    names, decl = [device.name], device.decl
    while decl is not None and decl.extends is not None:
        names.append(decl.extends)
        decl = module.device(decl.extends).decl
    if schedule.device is not None and schedule.device not in names:
        raise DeviceMismatch(
            f"schedule `{schedule.name}` is for {schedule.device}, not for {device.name}",
            schedule.span,
            help=f"compile for {schedule.device}, or leave `on {schedule.device}` out",
        )


def explicit_lines(
    module: Any, op: Op, schedule: syntax.ScheduleDecl | None, device: Device, roles: Roles, params, diagnostics: Diagnostics
) -> tuple:
    """The lines as written, strategies, parameters and roles resolved; `auto` stands where they break off."""
    if schedule is None:
        return ()
    sizes = {name: value for name, value in op.params if value is not None}
    taken = {x.name: "a level" for x in device.levels} | {x.name: "a memory" for x in device.memories}
    taken |= {i: "an index" for s in op.statements for i, _ in s.ranges} | {t.name: "a tensor" for t in op.tensors}
    taken |= {n: "a size of the op" for n in (*(v.name for v in op.dims), *(v.name for v, _ in op.derived), *dict(op.params))}
    strategies = getattr(module, "strategies", {}) or {}
    lines = elaborate(schedule, strategies, roles, params, sizes, taken, diagnostics)
    return continued(lines, device.memories[0].name)


def bounded(op: Op, schedule: syntax.ScheduleDecl | None) -> Op:
    """The op with the sizes' bounds of `schedule ... where N <= 4096` as intervals of their variables."""
    from .schedule.size_bounds import with_bounds

    return op if schedule is None or not schedule.where else with_bounds(op, schedule.where)


def lower_launch(ctx: Context, works: tuple[Work, ...], lines: tuple) -> Launch:
    """One launch: unit counts, then the recursion."""
    ctx.units.clear()
    ranges = {i: Range(ZERO, e) for w in works for i, e in w.extents}
    low = Lowering(ctx, works, lines)
    ctx.trace.launch(works, lines)
    for w in works:
        if w.name not in ctx.dtypes:
            ctx.dtypes[w.name] = w.value.dtype
        for t in w.targets:
            _reachable(ctx, t, w)

    def lanes(line):
        if not isinstance(line.instr, str):
            return None
        for w in works:
            m = low.find(line.instr, w, line, must=False)
            if m is not None:
                from .lower.leaves.match_instr import fragment

                n = max((fragment(m, o.name).lanes for o in m.instr.operands if ctx.register(o.memory)), default=1)
                return (m.instr.level, n) if n > 1 or m.instr.level != ctx.innermost else None
        return None

    ctx.combining = combining_levels(ctx, {i for w in works for i in w.reduced}, lines)
    for level, n in count_units(ctx, ranges, lines, lanes).items():
        ctx.units[level] = as_expr(whole_groups(ctx.device.level(level), n) or ctx.finite_count(level))
    views = {b.name: View(b.name, "global") for b in ctx.buffers if b.kind != "local"}
    views |= {name: views[tensor] for name, tensor in ctx.second_names.items() if tensor in views}
    outer = ctx.outermost
    focus = Focus(works, ranges, outer, outer, views)
    body = low.lower(focus, lines)
    idle_pipelines(low, lines)
    units = []
    for level in ctx.device.levels:
        if level.name in ctx.units:
            units.append(Units(level.name, ctx.unit_var(level.name), ctx.units[level.name]))
    name = ctx.fresh(f"{ctx.op_name}_{works[-1].targets[0]}")
    return Launch(name, tuple(units), tuple(body))


def _reachable(ctx: Context, tensor: str, w: Work) -> None:
    """An intermediate that leaves its launch lives in a workspace."""
    if any(b.name == tensor for b in ctx.buffers):
        return
    extents: dict[str, Expr] = dict(w.extents)
    out = next((o.indices for o in w.outputs if o.tensor == tensor), w.indices)
    shape = ctx.shapes.get(tensor) or tuple(extents[i] for i in out)
    ctx.buffers.append(workspace(ctx, tensor, ctx.dtypes[tensor], shape))


def assemble(op: Op, ctx: Context, launches: Sequence[Launch]) -> Program:
    """The program of these launches; buffers of the outermost memory that nothing touches are dropped."""
    buffers: list[Buffer] = [b for b in ctx.buffers if b.kind in ("input", "output")]
    used = {b.name for b in buffers}
    from .ir.tile_visitors import buffers_used

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
