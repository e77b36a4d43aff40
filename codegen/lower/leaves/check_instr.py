"""Whether an instruction can be the leaf here, and the mistakes where it cannot.

NAMED       a copy whose author names an instruction that cannot be used is refused, where the memory, the pad, the swizzle
            or the fragment is the reason. Where sizes or tiles are the reason, and for other computations, elements go one by
            one, with a note: a schedule serves many sizes and ops.
LEFT_OUT    an instruction that was chosen and cannot be used is left out: the copy is lowered, and printed, as without it.
            Otherwise the printed schedule would be refused when it is fed back.
ITS_LANES   a launch has as many lanes as the fragments of the instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.device import Instr
from ....dsl.errors.base import Label
from ....dsl.errors.schedule import InstrCannotMask, InstrMismatch
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Value
from ...plan.computations import Computation
from ...plan.derived_names import tensor_of
from ...plan.name_factors import factors, side_names
from ...schedule.synthetic_spans import is_filled_in
from ..addressing import edge_conds, zero_is_neutral
from ..lowering_context import LoweringContext
from ..spec import Focus
from ..tiling.padded_trip_counts import is_scratch_memory
from .match_instr import InstrMatch, all_matches, fragment_map

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def check_lanes(ctx: LoweringContext, m: InstrMatch, span) -> None:
    """ITS_LANES: with fewer lanes, elements would be left out. Raises InstrMismatch."""
    there = ctx.number(ctx.below(m.instr.level, ctx.innermost))[1]
    for op in m.instr.operands:
        if ctx.register(op.memory) and (lanes := fragment_map(m, op.name).lanes) > 1 and there not in (lanes, None):
            raise InstrMismatch(
                f"`{m.instr.name}` takes {lanes} units of `{ctx.innermost}`, and this launch has {there}",
                span,
                help=f"let the other lines use {lanes} of them, or leave the instruction out",
            )


def check_executing_units(ctx: LoweringContext, instr: Instr, focus: Focus, computation: Computation, span) -> None:
    """An instruction is executed by all units below one of its level, so none of them may have been told apart; what it
    accumulates in registers must be held there."""
    target, name = instr.operand(instr.statement.target), computation.result
    if instr.accumulate and ctx.register(target.memory) and focus.views[computation.name].form != "path":
        raise InstrMismatch(
            f"`{instr.name}` accumulates in registers, and `{name}` is kept elsewhere",
            span,
            help=f"`keep {name} in {target.memory}`",
        )
    if (
        focus.views[computation.name].form == "path"
        and ctx.register(target.memory)
        and ctx.dtypes[computation.name] != target.dtype
    ):
        raise InstrMismatch(
            f"`{instr.name}` leaves {target.dtype} in registers, and `{name}` is kept there as {ctx.dtypes[computation.name]}",
            span,
            help=f"leave the line that keeps `{name}` out, or `with {instr.name}`",
        )
    if ctx.device.depth(focus.level) > ctx.device.depth(instr.level):
        raise InstrMismatch(
            f"`{instr.name}` is executed by a whole {instr.level}, and the focus is one {focus.level} of it",
            span,
            help=f"leave the tiles `-> {focus.level}` out: the instruction says which {focus.level} holds what",
        )


class UnusableInstr(Exception):
    """The instruction of a copy cannot be used: raised where that is found, handled where the leaf begins (`leave_out`)."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why


def leave_out(ctx: LoweringContext, unusable: UnusableInstr, at: Span | None, chosen: bool) -> None:
    """LEFT_OUT where completion chose the instruction of the line `at`. Raises InstrMismatch where the author did (NAMED)."""
    if not chosen:
        help = "leave `with` out, and elements go one by one; or change the tile or its layout"
        raise InstrMismatch(f"`{unusable.name}` cannot be used here: {unusable.why}", at, help=help) from None
    if at is not None:
        ctx.without_instr.add(at)


def explain_other_result(low: Lowering, focus: Focus, computation: Computation, name: str, error: InstrMismatch) -> None:
    """Where the instruction is that of another result of the lines, says why this one needs it: it reads a memory, and not what
    units have as an instruction laid it out."""
    others = (w for w in reversed(low.computations) if w is not computation and w.reduction is not None)
    theirs = next((w.targets[0] for w in others if low.find_instr(name, w, error.span, must=False) is not None), None)
    views = ((t, focus.views[t]) for t in computation.reads if t in focus.views)
    read = next((tensor_of(t) for t, view in views if view.form in ("box", "indices") and view.computed), None)
    if theirs is not None and read is not None:
        error.message = f"`{name}` computes `{theirs}`; for `{computation.result}` no line says which units have which elements"
        register = low.ctx.device.memories[-1].name
        error.help = f"`keep {read} in {register}`: then they have those of `{read}`; or end the schedule with `compute`"


def note_unused(ctx: LoweringContext, name: str, why: str, span: Span | None) -> None:
    """A note where the author's line names an instruction that is not used (NAMED)."""
    if not is_filled_in(span):
        ctx.note(f"`with {name}`: {why}; elements go one by one")


def way_to_share(ctx: LoweringContext, focus: Focus, computation: Computation, operand: Value) -> str | None:
    """What to write where no unit has the elements of an operand that an instruction takes; None without a memory for it."""
    memory = next((m.name for m in reversed(ctx.device.memories) if is_scratch_memory(ctx, m.name)), None)
    sides = zip(side_names(computation.result), factors(computation), strict=False)
    name = operand.tensor if isinstance(operand, Load) else next((side for side, x in sides if x == operand), None)
    if memory is None or name is None:
        return None
    kept = name in focus.views and focus.views[name].form == "path"
    where = "in place of the line that keeps it in registers" if kept else "above the instruction's line"
    return f"write `keep {tensor_of(name)} in {memory}` {where}, so that units read there what others made"


def cannot_mask(focus: Focus, computation: Computation, m: InstrMatch, over: tuple[str, ...], span) -> InstrCannotMask:
    """The refusal. Where it would be none if the kept factors were zero past their edges, `move` makes them so."""
    index = next((i for i in over if edge_conds(focus, (i,)) and not zero_is_neutral(computation.value, (i,), focus)), over[0])
    message = f"`{m.instr.name}` cannot skip the part of `{index}` that runs over"
    kept = {t: v for t, v in focus.views.items() if t in computation.reads and v.keep is not None}
    filled = replace(focus, views={**focus.views, **{t: replace(v, zero_padded=True) for t, v in kept.items()}})
    if not kept or not zero_is_neutral(computation.value, over, filled):
        help = f"end the schedule with `compute`, or give `{index}` a size that the tiles divide"
        if (other := _instead(focus, computation, m, index)) is not None:
            help = f"write `tile {index}: 1`, so that it takes `{other}` instead, or end the schedule with `compute`"
        return InstrCannotMask(message, span, help=help)
    keeps = {tensor_of(t): v.keep for t, v in kept.items() if v.keep is not None}
    moves = " and ".join(f"`move {t} -> {k.memory}`" for t, k in keeps.items())
    labels = [Label(k.span, "computed by the lines below, up to the edge") for k in keeps.values() if k.span is not None]
    help = f"write {moves} in place of the `keep`: a `move` computes it here, and fills what is past the edge with zeros"
    return InstrCannotMask(message, span, labels=labels, help=help)


def _instead(focus: Focus, computation: Computation, m: InstrMatch, index: str) -> str | None:
    """The reduced index of which the instruction can take several elements instead of `index`, and need not skip any."""
    for way in all_matches(m.instr, computation):
        several = tuple(i for i in computation.reduced if way.extent(i) > 1)
        extents = dict(computation.extents)
        open_ = tuple(i for i in several if (size := extents[i].constant) is None or size % way.extent(i))
        if several and index not in several and (not open_ or zero_is_neutral(computation.value, open_, focus)):
            return several[0]
    return None
